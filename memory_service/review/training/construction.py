"""What made an object: constructors behind names, attributes and helpers of the file; loops over folds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from memory_service.review.constants.values import Values
from memory_service.review.source.nodes import calls_in, is_call, is_of_self, last_name, names_in
from memory_service.review.source.script import Script
from memory_service.review.training.stopping import AnyLoop

_FOLD = re.compile(r"fold|\bkf\b|skf|gkf|splitter|\bcv\b", re.IGNORECASE)
_FOLDS_NAMED = re.compile(r"^(n|num|k|all|cv)?_?(folds?|splits|folds_list|split_list)$", re.IGNORECASE)
_DEEPEST = 5
_MOVED = ("to", "cuda", "cpu", "eval", "train")
_WRAPPERS = ("clone", "deepcopy", "compile", "prepare", "DataParallel")


@dataclass
class Objects:
    """Where the objects of one script come from."""

    script: Script
    values: Values

    def made_by(self, node: ast.AST | None) -> str:
        """The class or function whose call a name holds: `m = LGBMClassifier(...)` -> "LGBMClassifier"."""
        return next((last_name(maker.func) for maker in self.makers(node)), "")

    def makers(self, node: ast.AST | None, deep: int = 0) -> list[ast.Call]:
        """Calls of constructors that an object may come from, through names, attributes and helpers of the
        file: `m = model(); m.fit(X)` with `def model(): return LGBMRegressor(...)`."""
        if node is None or deep > _DEEPEST:
            return []
        if not isinstance(node, ast.Call):
            return [m for s in self.values.sources(node) for m in self.makers(s, deep + 1)]
        name = last_name(node.func)
        if name in _MOVED and isinstance(node.func, ast.Attribute):
            return self.makers(node.func.value, deep + 1)
        if name in _WRAPPERS and node.args:
            return self.makers(node.args[0], deep + 1)
        given = self.returned_by(node.func)[::-1] if name not in self.script.classes and name != "fit" else []
        return [m for g in given[-4:] for m in self.makers(g, deep + 1)] or [node]

    def returned_by(self, name: ast.AST) -> list[ast.expr]:
        """What a function or method of the file returns, or a lambda."""
        functions = self.script.functions.get(last_name(name), [])
        if functions and (isinstance(name, ast.Name) or is_of_self(name)):
            return self.script.returned(functions[0])
        return [s.body for s in self.values.sources(name) if isinstance(s, ast.Lambda)][:1]


@dataclass
class Folds:
    """Loops over the folds of a cross-validation."""

    script: Script
    values: Values
    objects: Objects
    _known: dict[ast.AST, bool] = field(default_factory=dict)

    def is_fold(self, loop: AnyLoop) -> bool:
        if loop not in self._known:
            self._known[loop] = isinstance(loop, ast.For) and self._goes_over_folds(loop)
        return self._known[loop]

    def _goes_over_folds(self, loop: ast.For) -> bool:
        for splitter, call in _splits(loop.iter):
            stated = bool(_FOLD.search(last_name(splitter)))
            first = call.args[0] if call.args else None
            number = first is not None and self.values.number(first) is not None
            if stated or "Fold" in self.objects.made_by(splitter) or (first is not None and not number):
                return stated or not isinstance(first, ast.Constant)
        if any(re.search(r"fold|^cv_", name, re.IGNORECASE) for name in names_in(loop.target)):
            return True
        over = names_in(loop.iter) | {n.attr for n in ast.walk(loop.iter) if isinstance(n, ast.Attribute)}
        listed = any("Fold" in self.objects.made_by(splitter) for splitter in self._splitters(loop.iter))
        return listed or any(_FOLDS_NAMED.search(name) for name in over)

    def count(self, loop: ast.For) -> int | None:
        """How many folds a loop trains, where the text says."""
        counted = (self._splits_of(splitter) for splitter in self._splitters(loop.iter))
        number = next((number for number in counted if number is not None), None)
        found = self.values.one(loop.iter) if number is None else None
        return len(found) if isinstance(found, list) else number

    def _splitters(self, node: ast.AST) -> Iterator[ast.expr]:
        """What splits under an expression, or under what its names are set to: `list(KFold(5).split(X))`."""
        names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
        sources = (source for name in names for source in self.values.assigned(name.id, name)[:4])
        return (splitter for place in (node, *sources) for splitter, _ in _splits(place))

    def _splits_of(self, splitter: ast.AST) -> int | None:
        for maker in self.objects.makers(splitter):
            if re.search(r"Fold|Split", last_name(maker.func)):
                given = self.values.argument(maker, "n_splits", 0)
                number = 5.0 if given is None else self.values.number(given)
                return int(number) if number is not None else None
        return None


def _splits(node: ast.AST) -> Iterator[tuple[ast.expr, ast.Call]]:
    """(splitter, call) of `splitter.split(...)` under a node."""
    for call in islice(calls_in(node), 200):
        if is_call(call, "split") and isinstance(call.func, ast.Attribute):
            yield call.func.value, call
