"""Which loaders feed the training, and with what? Calls of DataLoader, direct, wrapped or by subclass."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any, Literal

from memory_service.domain.review.facts import Facts
from memory_service.domain.review.script import Script, last_name, words_in

__all__ = ["Loader", "loaders_of"]

Role = Literal["train", "valid", "test", ""]

_IN_MEMORY = ("TensorDataset", "ArrayDataset")
_SMALL_WORDS = {
    "train": r"train|trn|tr_|tr$|fit",
    "valid": r"val|dev|holdout|oof|va_|va$",
    "test": r"test|infer|pred|sub|tta",
}


@dataclass(frozen=True)
class Loader:
    """One loader. Values are lists of what is possible, None for "cannot be told", [] for "not given".

    repeated   used epoch after epoch
    """

    call: ast.Call
    role: Role
    batch: ast.AST | None
    workers: list[Any] | None
    pinned: list[Any] | None
    persistent: list[Any] | None
    in_memory: bool
    open_ended: bool


def loaders_of(facts: Facts) -> list[Loader]:
    """Every loader that the file makes, in its order."""
    script, names = facts.script, {"DataLoader"}
    names |= {c.name for c in script.classes.values() if any(last_name(b) == "DataLoader" for b in c.bases)}
    partials: dict[str, ast.Call] = {}
    for call in script.called("partial"):
        if call.args and last_name(call.args[0]) in names:
            held = script.parents.get(call)
            if isinstance(held, ast.Assign) and isinstance(held.targets[0], ast.Name):
                partials[held.targets[0].id] = call
    found = []
    for call in script.called(*sorted(names | set(partials))):
        name = last_name(call.func)
        if name in names and not _of_torch(script, call):
            continue
        found.append(_loader(facts, call, partials.get(name)))
    return found


def _of_torch(script: Script, call: ast.Call) -> bool:
    qualified = script.qualified(call.func)
    if qualified.startswith(("torch_geometric", "dgl", "fastai", "monai")):
        return False
    return script.uses("torch", "lightning", "pytorch_lightning", "accelerate") or "torch" in script.text


def _loader(facts: Facts, call: ast.Call, defaults: ast.Call | None) -> Loader:
    values = facts.values

    def given(name: str, position: int | None = None) -> ast.AST | None:
        found = values.argument(call, name, position)
        return found if found is not None or defaults is None else values.argument(defaults, name)

    def known(name: str, position: int | None = None) -> list[Any] | None:
        node = given(name, position)
        return [] if node is None else values.all(node)

    dataset = given("dataset", 0)
    return Loader(
        call,
        _role(facts, call, dataset),
        given("batch_size", 1),
        known("num_workers", 5),
        known("pin_memory", 7),
        known("persistent_workers"),
        _in_memory(facts, dataset),
        values.open_ended(call),
    )


def _role(facts: Facts, call: ast.Call, dataset: ast.AST | None) -> Role:
    script = facts.script
    names: list[str] = []
    statement = script.statement(call)
    if isinstance(statement, ast.Assign):
        names += [
            last_name(t) for target in statement.targets for t in ast.walk(target) if last_name(t) != "self"
        ]
    if dataset is not None:
        names += sorted(words_in(dataset))
    function = script.function(call)
    if function is not None:
        names.append(function.name)
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
            calls = facts.script.calls_by_name.get(function.name, [])
            position = next((i for i, a in enumerate(function.args.args) if a.arg == dataset.id), None)
            given = [facts.values.argument(c, dataset.id, position) for c in calls]
            return bool(given) and all(_in_memory(facts, g, deep + 1) for g in given)
    return False
