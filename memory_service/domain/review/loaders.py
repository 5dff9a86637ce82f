"""Which loaders feed the training, and with what? Calls of DataLoader, direct, wrapped or by subclass."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any, Literal

from memory_service.domain.review.facts import Facts
from memory_service.domain.review.script import Function, Script, last_name, roots, words_in

__all__ = ["Loader", "loaders_of"]

Role = Literal["train", "valid", "test", ""]

_IN_MEMORY = ("TensorDataset", "ArrayDataset")
_SMALL_WORDS = {
    "train": r"train|trn|tr_|tr$|fit",
    "valid": r"val|dev|holdout|oof|va_|va$",
    "test": r"test|infer|pred|sub|tta",
}


MOST_CALLERS = 8
"""Callers of a function that makes loaders, each looked at by itself."""


@dataclass(frozen=True)
class Loader:
    """One loader. Values are lists of what is possible, None for "cannot be told", [] for "not given".

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
    open_ended: bool


def loaders_of(facts: Facts) -> list[Loader]:
    """Every loader that the file makes, in its order; of a function that makes them one for each caller."""
    script, values = facts.script, facts.values
    names = {"DataLoader"}
    names |= {c.name for c in script.classes.values() if any(last_name(b) == "DataLoader" for b in c.bases)}
    found = []
    for call in script.called(*sorted(names)):
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


def _depends(call: ast.Call, function: Function) -> bool:
    """Whether what a loader gets comes from the parameters of the function around."""
    a = function.args
    rest = [p for p in (a.vararg, a.kwarg) if p is not None]
    return bool(roots(call) & {p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, *rest)})


def _of_torch(script: Script, call: ast.Call) -> bool:
    qualified = script.qualified(call.func)
    if qualified.startswith(("torch_geometric", "dgl", "fastai", "monai")):
        return False
    return script.uses("torch", "lightning", "pytorch_lightning", "accelerate") or "torch" in script.text


def _loader(facts: Facts, call: ast.Call, place: ast.Call) -> Loader:
    values = facts.values

    def known(name: str, position: int | None = None) -> list[Any] | None:
        node = values.argument(call, name, position)
        return [] if node is None else values.all(node)

    dataset = values.argument(call, "dataset", 0)
    return Loader(
        call,
        place,
        _role(facts, call, dataset, place),
        _as_given(facts, values.argument(call, "batch_size", 1)),
        known("num_workers", 5),
        known("pin_memory", 7),
        known("persistent_workers"),
        _in_memory(facts, dataset),
        values.open_ended(call),
    )


def _as_given(facts: Facts, node: ast.AST | None) -> ast.AST | None:
    """The expression that the one caller looked at gives for a parameter; others as they are."""
    function = facts.script.function(node) if isinstance(node, ast.Name) else None
    if not isinstance(node, ast.Name) or function is None or facts.values.assigned_in(function, node.id):
        return node
    names = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
    given = facts.values.handed(function, node.id) if node.id in names else []
    return given[0] if len(given) == 1 and given[0] is not None else node


def _role(facts: Facts, call: ast.Call, dataset: ast.AST | None, place: ast.Call) -> Role:
    script = facts.script
    names: list[str] = []
    for made in dict.fromkeys((place, call)):
        statement = script.statement(made)
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                names += [last_name(t) for t in ast.walk(target) if last_name(t) != "self"]
        given = dataset if made is call else None
        names += sorted(words_in(given)) if given is not None else []
        names += sorted(w for a in made.args for w in words_in(a)) if made is not call else []
        function = script.function(made)
        names += [function.name] if function is not None else []
    for name in names:
        for role, pattern in _SMALL_WORDS.items():
            if re.search(pattern, name.lower()):
                return role  # type: ignore[return-value]
    shuffled = facts.values.one(facts.values.argument(call, "shuffle", 2))
    return "train" if shuffled is True else ""


def _in_memory(facts: Facts, dataset: ast.AST | None, deep: int = 0) -> bool:
    """Tensors that lie in memory already: workers only cost there."""
    if dataset is None or deep > 4:
        return False
    if isinstance(dataset, ast.Call):
        if last_name(dataset.func) in _IN_MEMORY:
            return True
        if last_name(dataset.func) in ("Subset", "random_split") and dataset.args:
            return _in_memory(facts, dataset.args[0], deep + 1)
        return facts.training.made_by(dataset) in _IN_MEMORY
    if isinstance(dataset, ast.Name):
        function = facts.script.function(dataset)
        sources = facts.values.assigned(dataset.id, dataset)
        if sources:
            return any(_in_memory(facts, source, deep + 1) for source in sources)
        if function is not None:  # a wrapper: in memory where every caller gives such
            given = facts.values.handed(function, dataset.id)
            return bool(given) and all(_in_memory(facts, g, deep + 1) for g in given)
    return False
