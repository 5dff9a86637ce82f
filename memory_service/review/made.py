"""What made an object, and which loops go over folds? Constructors behind names, attributes and helpers."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from itertools import islice

from memory_service.review.nodes import names_in
from memory_service.review.script import last_name
from memory_service.review.stopping import AnyLoop, Stopping

__all__ = ["Made"]

_FOLD = re.compile(r"fold|\bkf\b|skf|gkf|splitter|\bcv\b", re.IGNORECASE)
_FOLDS_NAMED = re.compile(r"^(n|num|k|all|cv)?_?(folds?|splits|folds_list|split_list)$", re.IGNORECASE)


@dataclass
class Made(Stopping):
    """Where the objects of one script come from."""

    _fold_cache: dict[ast.AST, bool] = field(default_factory=dict)

    def made_by(self, node: ast.AST, deep: int = 0) -> str:
        """The class or function whose call a name holds: `m = LGBMClassifier(...)` -> "LGBMClassifier"."""
        if deep > 5:
            return ""
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            returned = self._given_back(node.func)
            inner = self.made_by(returned, deep + 1) if returned is not None else ""
            if inner:
                return inner
            if name in ("to", "cuda", "compile", "prepare", "DataParallel", "clone", "deepcopy"):
                inner_node = (
                    node.func.value
                    if isinstance(node.func, ast.Attribute) and name in ("to", "cuda")
                    else (node.args[0] if node.args else None)
                )
                return self.made_by(inner_node, deep + 1) if inner_node is not None else name
            return name
        if isinstance(node, ast.Name):
            for source in self.values.assigned(node.id, node):
                found = self.made_by(source, deep + 1)
                if found:
                    return found
        if isinstance(node, ast.Attribute):
            for source in self.values.sources(node):
                found = self.made_by(source, deep + 1)
                if found:
                    return found
        return ""

    def _given_back(self, name: ast.AST) -> ast.AST | None:
        """What a function or method of the file returns last, or a lambda: `pack = lambda a: ...`."""
        own = isinstance(name, ast.Attribute) and last_name(name.value) == "self"
        if not own and not isinstance(name, ast.Name):
            return None
        for function in self.script.functions.get(last_name(name), [])[:1]:
            returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
            return next((value for value in reversed(returned) if value is not None), None)
        held = self.values.assigned(name.id, name) if isinstance(name, ast.Name) else []
        return next((source.body for source in held if isinstance(source, ast.Lambda)), None)

    def makers(self, node: ast.AST, deep: int = 0) -> list[ast.Call]:
        """Calls of constructors that an object may come from, through names, attributes and helpers of the
        file: `m = model(); m.fit(X)` with `def model(): return LGBMRegressor(...)`."""
        if deep > 5:
            return []
        if isinstance(node, ast.Name):
            return [m for s in self.values.assigned(node.id, node) for m in self.makers(s, deep + 1)]
        if isinstance(node, ast.Attribute):
            return [m for s in self.values.sources(node) for m in self.makers(s, deep + 1)]
        if not isinstance(node, ast.Call):
            return []
        name = last_name(node.func)
        if name in ("clone", "deepcopy") and node.args:
            return self.makers(node.args[0], deep + 1)
        if name in ("to", "cuda", "cpu", "eval", "train") and isinstance(node.func, ast.Attribute):
            return self.makers(node.func.value, deep + 1)
        if name in self.script.functions and name not in self.script.classes and name != "fit":
            given = [
                n.value for n in ast.walk(self.script.functions[name][0])
                if isinstance(n, ast.Return) and n.value is not None
            ]  # fmt: skip
            return [m for g in given[:4] for m in self.makers(g, deep + 1)]
        return [node]

    def is_fold(self, loop: AnyLoop) -> bool:
        """Whether a loop goes over folds of a cross-validation."""
        if loop not in self._fold_cache:
            self._fold_cache[loop] = isinstance(loop, ast.For) and self._goes_over_folds(loop)
        return self._fold_cache[loop]

    def _goes_over_folds(self, loop: ast.For) -> bool:
        for node in ast.walk(loop.iter):
            if (
                isinstance(node, ast.Call)
                and last_name(node.func) == "split"
                and isinstance(node.func, ast.Attribute)
            ) and (
                _FOLD.search(last_name(node.func.value))
                or "Fold" in self.made_by(node.func.value)
                or (len(node.args) >= 1 and self.values.number(node.args[0]) is None)
            ):
                return not isinstance(node.args[0] if node.args else None, ast.Constant) or bool(
                    _FOLD.search(last_name(node.func.value))
                )
        if any(re.search(r"fold|^cv_", name, re.IGNORECASE) for name in names_in(loop.target)):
            return True
        over = {n.id for n in ast.walk(loop.iter) if isinstance(n, ast.Name)}
        over |= {n.attr for n in ast.walk(loop.iter) if isinstance(n, ast.Attribute)}
        return any(_FOLDS_NAMED.search(name) or self._holds_splits(name, loop) for name in over)

    def _holds_splits(self, name: str, at: ast.AST) -> bool:
        """Whether a name is a list of splits: `parts = list(KFold(5).split(X))`."""
        return any(
            isinstance(node, ast.Call)
            and last_name(node.func) == "split"
            and isinstance(node.func, ast.Attribute)
            and "Fold" in self.made_by(node.func.value)
            for source in self.values.assigned(name, at)[:4]
            for node in islice(ast.walk(source), 200)
        )

    def fold_count(self, loop: ast.For) -> int | None:
        """How many folds a loop trains, where the text says."""
        for node in ast.walk(loop.iter):
            if (
                isinstance(node, ast.Call)
                and last_name(node.func) == "split"
                and isinstance(node.func, ast.Attribute)
            ):
                return self._splits_of(node.func.value)
        found = self.values.one(loop.iter)
        if isinstance(found, list):
            return len(found)
        for node in ast.walk(loop.iter):
            for source in self.values.assigned(node.id, loop)[:4] if isinstance(node, ast.Name) else ():
                for made in islice(ast.walk(source), 200):
                    if isinstance(made, ast.Call) and last_name(made.func) == "split":
                        counted = (
                            self._splits_of(made.func.value) if isinstance(made.func, ast.Attribute) else None
                        )
                        if counted is not None:
                            return counted
        return None

    def _splits_of(self, splitter: ast.AST) -> int | None:
        sources = [splitter] if isinstance(splitter, ast.Call) else (
            self.values.assigned(splitter.id, splitter) if isinstance(splitter, ast.Name) else []
        )  # fmt: skip
        for source in sources:
            if isinstance(source, ast.Call) and re.search(r"Fold|Split", last_name(source.func)):
                given = self.values.argument(source, "n_splits", 0)
                if given is None:
                    return 5
                number = self.values.number(given)
                return int(number) if number is not None else None
        return None
