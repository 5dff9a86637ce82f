"""Traps of albumentations: calls, masks, order of steps, removed names and parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding, wrong
from memory_service.review.source.nodes import (
    Function,
    calls_in,
    entries_of,
    is_call,
    keyword_names,
    last_name,
    names_in,
    receiver_name,
    words,
)
from memory_service.review.tables import name_sets, patterns

_RE = patterns("albumentations")
_SET = name_sets("albumentations")
trap = partial(finding, "albumentations-trap")
_MOVES = _SET.random - _SET.colours | words("Resize CenterCrop LongestMaxSize PadIfNeeded")


def albumentations_rules(facts: Facts) -> Iterator[Finding]:
    """albumentations-trap."""
    if facts.script.uses("albumentations"):
        yield from _removed(facts)
        yield from _calls(facts)
    for compose in facts.script.called("Compose"):
        yield from _steps(facts, compose)


def _is_of_library(facts: Facts, call: ast.Call) -> bool:
    return facts.script.qualified(call.func).startswith("albumentations.")


def _removed(facts: Facts) -> Iterator[Finding]:
    for node in facts.script.all(ast.ImportFrom):
        names = {alias.name for alias in node.names}
        if (node.module or "").startswith("albumentations.pytorch") and "ToTensor" in names:
            yield trap(node, "to-tensor")
    for call in (c for c in facts.script.calls if _is_of_library(facts, c)):
        name = last_name(call.func)
        sizes = [facts.values.one(a) for a in call.args[:2]]
        if name == "RandomResizedCrop" and len(sizes) == 2 and all(isinstance(s, int) for s in sizes):
            yield trap(call, "crop-size", name=name)


def _calls(facts: Facts) -> Iterator[Finding]:
    """Calls of a transform: with the image by position, as a dict, without its mask, with a PIL image."""
    script = facts.script
    moves = any(_is_of_library(facts, c) for c in script.called(*_MOVES))
    mask_left: dict[Function | None, bool] = {}
    for call in script.calls:
        if not _is_transform(facts, call):
            continue
        name, given, function = last_name(call.func), keyword_names(call), script.function(call)
        right = f'{name}(image=image)["image"]'
        by_position = call.args and not call.keywords and not isinstance(call.args[0], ast.Starred)
        if by_position and not script.uses("torchvision.transforms"):
            yield trap(call, "positional", name=name, right=right)
        if "image" not in given:
            continue
        if given & {"mask", "masks", None} or not moves or function is None:
            continue
        if function not in mask_left:
            mask_left[function] = _has_mask(facts, function)
        if mask_left[function]:
            yield trap(call, "mask", name=name)


def _is_transform(facts: Facts, call: ast.Call) -> bool:
    """What `Compose` made is called, or `self.transform(...)` in a file that composes transforms."""
    name, function = last_name(call.func), facts.script.function(call)
    if name and facts.values.made_by(call.func) == "Compose":
        return True
    if not _RE.transform.fullmatch(name) or name in facts.script.functions or name in facts.script.imports:
        return False
    first = function.args.args[0].arg if function is not None and function.args.args else "self"
    own = isinstance(call.func, ast.Name) or receiver_name(call) in ("self", first)
    return own and bool(facts.script.called("Compose"))


def _has_mask(facts: Facts, function: Function) -> bool:
    """Whether a function has a mask in hand that no transform gets."""
    calls = list(calls_in(function))
    if any(keyword_names(call) & {"mask", "masks"} for call in calls):
        return False
    named = any(_RE.mask.fullmatch(name) for name in names_in(function))
    return named or _returns_arrays(facts, function)


def _returns_arrays(facts: Facts, function: Function) -> bool:
    """In segmentation, an item whose second part is an array made a tensor: a mask."""
    if facts.context.task != "image-segmentation" and not facts.script.uses("segmentation_models_pytorch"):
        return False
    items = facts.script.returned(function) if function.name == "__getitem__" else []
    second = (part for item in items if isinstance(item, ast.Tuple) for part in item.elts[1:2])
    return any(is_call(call, "from_numpy", "as_tensor") for part in second for call in calls_in(part))


def _steps(facts: Facts, compose: ast.Call) -> Iterator[Finding]:
    steps = compose.args[0] if compose.args else None
    of_torchvision = facts.script.qualified(compose.func).startswith("torchvision.transforms.")
    if not (of_torchvision or _is_of_library(facts, compose)) or not isinstance(steps, ast.List | ast.Tuple):
        return
    calls = [step for step in steps.elts if isinstance(step, ast.Call)]
    names = [last_name(call.func) for call in calls]
    validates = any(_RE.validation.search(name.lower()) for name in _names_of(facts, compose))
    validates = validates and "tta" not in facts.script.text
    if of_torchvision:
        random = [c for c in calls if _RE.torchvision.search(last_name(c.func)) and facts.value(c, "p") != 0]
        for call in random[:1] if validates else ():
            yield wrong(call, "random-validation")
        return
    if "ToTensorV2" in names[:-1]:
        at = names.index("ToTensorV2") + 1
        yield trap(calls[at], "behind-tensor", name=names[at])
    random = [c for c in calls if last_name(c.func) in _SET.random and facts.value(c, "p") not in (1, 0)]
    if validates and random:
        yield trap(random[0], "random-validation")


def _names_of(facts: Facts, call: ast.Call) -> list[str]:
    """The key of a transform in a dict of transforms, else the names that it is assigned to."""
    parent, statement = facts.script.parents.get(call), facts.script.statement(call)
    if isinstance(parent, ast.Dict):
        return [key for key, value in entries_of(parent) if value is call]
    return [last_name(t) for t in statement.targets] if isinstance(statement, ast.Assign) else []
