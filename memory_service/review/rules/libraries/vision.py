"""Traps of timm (heads, losses, input sizes, schedules) and of albumentations (masks, order, randomness)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache, partial

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding, wrong
from memory_service.review.rules.loss import new_heads
from memory_service.review.source.script import (
    Function,
    arguments_of,
    calls_in,
    entries_of,
    is_call,
    keyword_names,
    last_name,
    name_of,
    names_in,
    receiver,
    receiver_name,
    words_in,
)
from memory_service.review.tables import words_of

_RE, _SET, _, _MAP = words_of("vision")
timm_trap = partial(finding, "timm-trap")
MOST_READ = 60  # uses of a name that are looked at


def timm_rules(facts: Facts) -> Iterator[Finding]:
    """timm-trap."""
    if facts.script.uses("timm"):
        yield from _modules(facts)
        yield from _losses(facts)
        yield from _models(facts)
        yield from _schedules(facts)


def _modules(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    for named in script.all(ast.Attribute):
        part = _RE.submodule.match(script.qualified(named))
        if part and not any(m == part[0] or m.startswith(part[0] + ".") for m in script.modules):
            yield timm_trap(named, "submodule", part=part[0], attribute=part[1])
    for node in script.all(ast.ImportFrom):
        names = [alias.name for alias in node.names]
        for name in names if node.module == "timm.loss" else ():
            if name not in _SET.losses and name.endswith(("Loss", "Entropy", "loss")):
                classes = ", ".join(sorted(n for n in _SET.losses if n[0].isupper()))
                yield timm_trap(node, "loss-unknown", name=name, classes=classes)


def _losses(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    mixers = script.called("Mixup", "FastCollateMixup", "CutMix", "MixUp")
    mixes = any(script.qualified(call.func).startswith(("timm.", "torchvision.")) for call in mixers)
    text = script.text.replace("softtargetcrossentropy", "")
    soft = mixes or re.search(r"mixup|cutmix|one_hot|soft(?!max)|distil|teacher|eye\(", text)
    losses = script.called("LabelSmoothingCrossEntropy", "SoftTargetCrossEntropy")
    for call in (one for one in losses if script.qualified(one.func).startswith("timm.")):
        name, about = last_name(call.func), " ".join(words_in(script.statement(call)))
        if name == "SoftTargetCrossEntropy" and not soft:
            yield timm_trap(call, "soft-target-loss", name=name)
        if name.startswith("Label") and mixes and not re.search(r"val|test|eval", about, re.IGNORECASE):
            yield timm_trap(call, "mixup-loss", name=name)


def _models(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    heads = script.called("reset_classifier", "forward_features", "get_classifier")
    replaced = heads or re.search(r"1000|lazylinear|adaptiveavgpool|adaptive_avg_pool", script.text)
    made = script.called("create_model")
    calls = [c for c in made if not script.qualified(c.func).startswith("segmentation_models_pytorch.")]
    names = {name for call in calls if (name := facts.text(call, "model_name", 0))}
    name = names.pop() if len(names) == 1 else ""
    right = next((head for head, pattern in _MAP.heads.items() if re.match(pattern, name)), None)
    for node, target in new_heads(script) if right else ():
        if target.attr != right and facts.values.made_by(target.value) == "create_model":
            yield timm_trap(node, "wrong-head", name=name, right=right, head=target.attr)
    plain = (call for call in calls if not facts.values.open_ended(call))
    for call in (call for call in plain if not _only_configures(facts, call)):
        yield from _wrong_size(facts, call)
        given = keyword_names(call)
        random = facts.argument(call, "pretrained", 1) is None and "checkpoint_path" not in given
        if random and not _weights_loaded(facts, call, calls):
            yield timm_trap(call, "random-weights")
        if not {"num_classes", "features_only"} & given and not (replaced or any(new_heads(script))):
            yield timm_trap(call, "no-classes")


def _weights_loaded(facts: Facts, network: ast.Call, networks: list[ast.Call]) -> bool:
    """Whether weights are loaded into the network, not only into a copy that predicts what it learned."""
    script, order = facts.script, facts.script.order
    loads = script.called("load_state_dict", "load_checkpoint")
    if loads and any(facts.argument(call, "pretrained", 1) is not None for call in networks):
        return True
    for load in loads:
        function = script.function(load)
        since = order[network] if function is script.function(network) else 0
        trained = (order[step] for step in facts.training.backwards if script.function(step) is function)
        predicts = function is not None and _RE.predicts.search(function.name)
        if since <= order[load] and not predicts and not any(since < at < order[load] for at in trained):
            return True
    return False


def _only_configures(facts: Facts, call: ast.Call) -> bool:
    """A network that only answers for its settings: `resolve_data_config({}, model=probe)`."""
    up, read = facts.script.parents.get(call), list[ast.AST]([call])
    if isinstance(up, ast.Assign):
        names = {last_name(target) for target in up.targets}
        read = [n for n in facts.script.all(ast.Name) if n.id in names and isinstance(n.ctx, ast.Load)]
    above = ([one for one in facts.script.above(n) if not isinstance(one, ast.keyword)] for n in read)
    near = {name_of(each[0]) for each in above if each}
    return 0 < len(read) <= MOST_READ and near <= _SET.configures


def _wrong_size(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    name, size = facts.text(call, "model_name", 0) or "", facts.image_size
    fixed = _RE.fixed_size.match(name)
    wanted = int(fixed.group(2)) if fixed else size
    resized = facts.script.called("Resize", "RandomResizedCrop", "CenterCrop")
    told = facts.context.image_size is None or resized
    free = keyword_names(call) & {"img_size", "dynamic_img_size"} or not told
    if size is not None and wanted is not None and size != wanted and 128 <= wanted <= 1024 and not free:
        yield timm_trap(call, "size", name=name, wanted=wanted, size=size)


def _schedules(facts: Facts) -> Iterator[Finding]:
    """`step()` without the epoch, of a schedule by its class or by `create_scheduler_v2`."""
    built: set[str] = set()
    for node in facts.script.all(ast.Assign):
        made = node.value.value if isinstance(node.value, ast.Subscript) else node.value
        name = facts.script.qualified(made.func) if isinstance(made, ast.Call) else ""
        if re.match(r"timm\.scheduler\.(\w+\.)?create_scheduler(_v2)?$", name):
            built |= {last_name(t.elts[0] if isinstance(t, ast.Tuple) else t) for t in node.targets}
    for call in facts.script.called("step"):
        schedule, given = receiver(call), arguments_of(call)
        made_by = facts.values.made_by(schedule) if not given else ""
        of_timm = made_by.endswith("LRScheduler")
        of_timm = of_timm and facts.script.imports.get(made_by, "").startswith("timm.scheduler")
        if schedule is not None and not given and (of_timm or last_name(schedule) in built):
            yield timm_trap(call, "schedule", schedule=made_by or "schedules")


albumentations_trap = partial(finding, "albumentations-trap")
_MOVES = _SET.random - _SET.colours | _SET.cuts


def albumentations_rules(facts: Facts) -> Iterator[Finding]:
    """albumentations-trap."""
    if facts.script.uses("albumentations"):
        yield from _calls(facts)
    for compose in facts.script.called("Compose"):
        yield from _steps(facts, compose)


def _calls(facts: Facts) -> Iterator[Finding]:
    """Names of former versions; transforms called with the image by position, or without its mask."""
    script = facts.script
    for node in script.all(ast.ImportFrom):
        names = {alias.name for alias in node.names}
        if (node.module or "").startswith("albumentations.pytorch") and "ToTensor" in names:
            yield albumentations_trap(node, "to-tensor")
    own = [call for call in script.calls if script.qualified(call.func).startswith("albumentations.")]
    for call in (one for one in own if is_call(one, "RandomResizedCrop")):
        sizes = [facts.values.one(a) for a in call.args[:2]]
        if len(sizes) == 2 and all(isinstance(s, int) for s in sizes):
            yield albumentations_trap(call, "crop-size", name=last_name(call.func))
    moves = any(is_call(call, *_MOVES) for call in own)
    has_mask = cache(partial(_has_mask, facts))
    for call in (call for call in script.calls if _is_transform(facts, call)):
        name, given, function = last_name(call.func), keyword_names(call), script.function(call)
        right = f'{name}(image=image)["image"]'
        by_position = call.args and not call.keywords and not isinstance(call.args[0], ast.Starred)
        if by_position and not script.uses("torchvision.transforms"):
            yield albumentations_trap(call, "positional", name=name, right=right)
        alone = "image" in given and not given & {"mask", "masks", None}
        if alone and moves and function is not None and has_mask(function):
            yield albumentations_trap(call, "mask", name=name)


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
    handed = any(keyword_names(call) & {"mask", "masks"} for call in calls_in(function))
    named = any(_RE.mask.fullmatch(name) for name in names_in(function))
    segments = facts.context.task == "image-segmentation" or facts.script.uses("segmentation_models_pytorch")
    items = facts.script.returned(function) if segments and function.name == "__getitem__" else []
    second = (part for item in items if isinstance(item, ast.Tuple) for part in item.elts[1:2])
    made = (call for part in second for call in calls_in(part))  # an array made a tensor
    return not handed and (named or any(is_call(call, "from_numpy", "as_tensor") for call in made))


def _steps(facts: Facts, compose: ast.Call) -> Iterator[Finding]:
    steps = compose.args[0] if compose.args else None
    name = facts.script.qualified(compose.func)
    of_torchvision = name.startswith("torchvision.transforms.")
    known = of_torchvision or name.startswith("albumentations.")
    if not known or not isinstance(steps, ast.List | ast.Tuple):
        return
    calls = [step for step in steps.elts if isinstance(step, ast.Call)]
    names = [last_name(call.func) for call in calls]
    parent, stated = facts.script.parents.get(compose), facts.script.statement(compose)
    called = [last_name(target) for target in stated.targets] if isinstance(stated, ast.Assign) else []
    if isinstance(parent, ast.Dict):  # a dict of transforms
        called = [key for key, value in entries_of(parent) if value is compose]
    validates = any(_RE.validation.search(name.lower()) for name in called)
    if not of_torchvision and "ToTensorV2" in names[:-1]:
        at = names.index("ToTensorV2") + 1
        yield albumentations_trap(calls[at], "behind-tensor", name=names[at])
    certain = (0,) if of_torchvision else (1, 0)
    named = [n for n in names if (_RE.torchvision.search(n) if of_torchvision else n in _SET.random)]
    random = [c for c in calls if facts.value(c, "p") not in certain and is_call(c, *named)]
    for call in random[:1] if validates and "tta" not in facts.script.text else ():
        yield (wrong if of_torchvision else albumentations_trap)(call, "random-validation")
