"""Data loaders of a training and their arguments: DataLoader direct, wrapped or by subclass."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any, Literal

from memory_service.review.facts import Facts
from memory_service.review.interpretation.value import Value, flat
from memory_service.review.source.nodes import Function, all_parameters, last_name, roots, unpacked, words_in
from memory_service.review.source.script import Script

Role = Literal["train", "valid", "test", ""]

_SMALL_WORDS = {
    "train": r"train|trn|tr_|tr$|fit",
    "valid": r"val(?!ue)|dev|holdout|oof|va_|va$",
    "test": r"test|infer|pred|sub|tta",
}
_TEST_FILE = re.compile(r"(^|[/_])(test|submission|sample_sub\w*)([/_.]|$)", re.IGNORECASE)

MOST_CALLERS = 8  # callers of a function that makes loaders, each looked at by itself


@dataclass(frozen=True)
class Loader:
    """One loader. Values are lists of what is possible, None for "unknown", [] for "not given".

    place   the call that makes it, or the call of the function that makes it as this caller wants it
    """

    call: ast.Call
    place: ast.Call
    role: Role
    batch: ast.AST | None
    workers: list[Any] | None
    pinned: list[Any] | None
    persistent: list[Any] | None
    in_memory: bool
    on_card: bool
    open_ended: bool


def loaders_of(facts: Facts) -> list[Loader]:
    """Every loader that the file makes, in its order; of a function that makes them one for each caller."""
    return facts.once(_loaders)


def _loaders(facts: Facts) -> list[Loader]:
    script, values = facts.script, facts.values
    found = []
    for call in script.called("DataLoader", *(heir.name for heir in script.heirs.get("DataLoader", ()))):
        if not _of_torch(script, call):
            continue
        function = script.function(call)
        callers = values.callers(function)[0] if function is not None else []
        callers = [c for c in callers if script.function(c) is not function and script.runs(c)]
        if function is None or not 1 < len(callers) <= MOST_CALLERS or not _depends(call, function):
            found.append(_loader(facts, call, call))
            continue
        for caller in callers:
            with values.called_by(function, caller):
                found.append(_loader(facts, call, caller))
    return found


def _depends(call: ast.Call, function: Function | None) -> bool:
    """Whether what a loader gets comes from the parameters of the function around."""
    return function is not None and bool(roots(call) & {p.arg for p in all_parameters(function)})


def _of_torch(script: Script, call: ast.Call) -> bool:
    if script.qualified(call.func).startswith(("torch_geometric", "dgl", "fastai", "monai")):
        return False
    return script.uses("torch", "lightning", "pytorch_lightning", "accelerate") or "torch" in script.text


def _loader(facts: Facts, call: ast.Call, place: ast.Call) -> Loader:
    values = facts.values

    def known(name: str, position: int | None = None) -> list[Any] | None:
        node = values.argument(call, name, position)
        return [] if node is None else values.all(node)

    dataset = values.argument(call, "dataset", 0)
    data = facts.walk.loaders.get(call, [])
    return Loader(
        call, place, _role(facts, call, dataset, place),
        _as_given(facts, values.argument(call, "batch_size", 1)), known("num_workers", 5),
        known("pin_memory", 7), known("persistent_workers"),
        bool(data) and all(_in_memory(one) for one in data),
        bool(data) and all(flat(one).on_card for one in data), values.open_ended(call),
    )  # fmt: skip


def _in_memory(data: Value) -> bool:
    """Tensors that lie in memory already: workers only cost there."""
    inner = data.attrs.get("0")
    parts = inner.items if inner is not None and inner.items else [inner] if inner is not None else []
    if data.made in ("Subset", "ConcatDataset"):
        return bool(parts) and all(_in_memory(one) for one in parts)
    return data.made in ("TensorDataset", "ArrayDataset")


def _as_given(facts: Facts, node: ast.AST | None) -> ast.AST | None:
    """Where a number is written, as the one caller looked at gives it; where it is computed, the number."""
    if node is None:
        return None
    written = facts.values.origin(node)
    number = facts.values.number(written)
    if number is None or isinstance(written, ast.Constant):
        return written
    return ast.copy_location(ast.Constant(number), written)


def _role(facts: Facts, call: ast.Call, dataset: ast.AST | None, place: ast.Call) -> Role:
    script = facts.script
    names: list[str] = []
    for made in dict.fromkeys((place, call)):
        statement = script.statement(made)
        if isinstance(statement, ast.Assign):
            for target in own_targets(statement, made):
                names += [last_name(t) for t in ast.walk(target) if last_name(t) != "self"]
        given = dataset if made is call else None
        names += [*sorted(words_in(given)), *_keys_in(given)] if given is not None else []
        names += sorted(w for a in made.args for w in words_in(a)) if made is not call else []
        names.append(getattr(script.function(made), "name", ""))
    for name in names:
        for role, pattern in _SMALL_WORDS.items():
            if re.search(pattern, name.lower()):
                return role  # type: ignore[return-value]
    if facts.values.one(facts.values.argument(call, "shuffle", 2)) is True:
        return "train"
    if dataset is not None and (place is call or not _depends(call, script.function(call))):
        return "test" if _test_files(facts, dataset) else ""
    return "test" if any(_test_files(facts, a) for a in place.args) and place is not call else ""


def _keys_in(node: ast.AST) -> list[str]:
    """`transforms["train"]` -> "train"."""
    keys = [n.slice for n in ast.walk(node) if isinstance(n, ast.Subscript)]
    return [k.value for k in keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]


def own_targets(statement: ast.Assign, made: ast.Call) -> list[ast.AST]:
    """What a call is assigned to: of `train, valid = make(a), make(b)` the one at its place."""
    pairs = (pair for target in statement.targets for pair in unpacked(target, statement.value))
    return [one for one, value in pairs if value is None or made in set(ast.walk(value))]


def _test_files(facts: Facts, node: ast.AST, deep: int = 0) -> list[str]:
    """Texts of a data set that name files to predict: its own, and those that its tables were read from."""
    constants = (str(n.value) for n in ast.walk(node) if isinstance(n, ast.Constant))
    out = [text for text in constants if _TEST_FILE.search(text)]
    for n in ast.walk(node):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and deep < 2:
            sources = facts.values.assigned(n.id, n)
            if len(sources) == 1 and isinstance(sources[0], ast.Call):
                out += _test_files(facts, sources[0], deep + 1)
    return out
