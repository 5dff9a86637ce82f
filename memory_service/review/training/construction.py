"""What made an object (constructors behind names, attributes and helpers of the file), loops over folds, and
what ends a loop before its last turn: the clock, a score that gains no more, or only a NaN."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile

from memory_service.review.constants.values import Values
from memory_service.review.source.nodes import (
    calls_in,
    is_call,
    is_of_self,
    last_name,
    names_in,
    roots,
    unpacked,
    words,
    words_in,
)
from memory_service.review.source.script import Script

AnyLoop = ast.For | ast.While

_CLOCK_CALLS = words(
    "time monotonic perf_counter process_time now utcnow time_ns alarm monotonic_ns perf_counter_ns"
)
_CLOCK_WORDS = re.compile(
    r"(?i)deadline|elapsed|time_?(left|limit|out|up|over|remaining|budget|is_up|guard|s_up)|budget|"
    r"out_of_time|minutes|over_?time|start_?time|max_?(time|second|minute|hour)|remaining|seconds_left|"
    r"(^|_)late\b|clock|timer|time_to_stop|should_stop_for_time|hours|expired"
)
_OTHER_STOPS = re.compile(
    r"debug|dry_?run|smoke|isnan|isfinite|isinf|\bnan\b|max_steps|max_batches|limit_|sanity|quick|overfit",
    re.IGNORECASE,
)
_EARLY = re.compile(r"patien|early|improv|bad_|stale|best|wait|counter|since", re.IGNORECASE)
_COUNTS_GAINS = re.compile(r"patien|improv|bad_|best", re.IGNORECASE)
_STOPPER = re.compile(r"early_?stop|stopper", re.IGNORECASE)
_ENDS = ast.Break | ast.Return | ast.Raise


@dataclass
class Stopping:
    """The ends of the loops of one script."""

    script: Script
    values: Values

    def clocked(self, place: ast.AST | list[ast.stmt]) -> bool:
        """Whether something under a place (functions of the file included) stops by the clock."""
        for node in self.script.within(place):
            match node:
                case ast.If(test=test) if _changes_course(node) and self.is_clock(test):
                    return True
                case ast.While(test=test) | ast.IfExp(test=test) | ast.Return(value=ast.Compare() as test):
                    if self.is_clock(test):
                        return True
        return False

    def is_clock(self, test: ast.AST, deep: int = 0) -> bool:
        """Whether a condition asks the time: directly, by a name that says so, or by a function that does."""
        for node in ast.walk(test):
            if isinstance(node, ast.Call):
                inside = self.script.resolve(node.func) if deep < 3 else []
                called = [node, *(call for target in inside for call in calls_in(target))]
                if any(last_name(call.func) in _CLOCK_CALLS for call in called):
                    return True
            if isinstance(node, ast.Name | ast.Attribute) and _CLOCK_WORDS.search(last_name(node)):
                return True
            if isinstance(node, ast.Name) and deep < 3:
                for source in self.values.assigned(node.id, node):
                    if not isinstance(source, ast.Constant) and self.is_clock(source, deep + 1):
                        return True
        return False

    def stops_early(self, loop: AnyLoop) -> bool:
        """Whether a loop over epochs ends for another reason than the clock, a NaN or a trial run."""
        if isinstance(loop, ast.While) and not self._plain_count(loop.test, self._reset_in(loop)):
            return True
        for node in self.script.within(loop.body, follow=False):
            if isinstance(node, ast.Call) and _STOPPER.search(last_name(node.func)):
                return True
            inner = isinstance(node, ast.Break) and loop in self.script.loops(node)[1:]
            between = _between(self.script, node, loop) if isinstance(node, _ENDS) and not inner else []
            guards = [up.test for up in between if isinstance(up, ast.If)]
            caught = any(isinstance(up, ast.ExceptHandler) for up in between)
            if guards and not caught and not any(self._other_stop(test) for test in guards):
                return True
        return False

    def _plain_count(self, test: ast.AST, reset: set[str]) -> bool:
        """`while epoch < EPOCHS`, `while True`, `while time.time() < end`; not `while bad < PATIENCE`."""
        if isinstance(test, ast.Constant):
            return True
        if isinstance(test, ast.BoolOp):
            return all(self._plain_count(part, reset) for part in test.values)
        counts = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Lt | ast.LtE | ast.NotEq)
        return self.is_clock(test) or (counts and not words_in(test) & reset)

    def _reset_in(self, loop: AnyLoop) -> set[str]:
        """Names that a loop sets to a number again: a count of epochs without gain."""
        out: set[str] = set()
        for node in (n for n in self.script.within(loop.body) if isinstance(n, ast.Assign)):
            choice = node.value
            given = [choice.body, choice.orelse] if isinstance(choice, ast.IfExp) else [choice]
            for item, value in (p for target in node.targets for one in given for p in unpacked(target, one)):
                first = value.body if isinstance(value, ast.IfExp) else value
                if isinstance(item, ast.Name) and isinstance(first, ast.Constant):
                    out.add(item.id)
        return out

    def _other_stop(self, test: ast.AST) -> bool:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            return all(self._other_stop(part) for part in test.values)
        stated = words_in(test) - _CLOCK_CALLS
        if any(_EARLY.search(word) for word in stated):
            return False
        if any(_OTHER_STOPS.search(word) for word in stated) or _is_nan(test):
            return True
        inside = (target for call in calls_in(test) for target in self.script.resolve(call.func))
        counts = any(_COUNTS_GAINS.search(word) for target in inside for word in words_in(target))
        return not counts and self.is_clock(test)


def _is_nan(test: ast.AST) -> bool:
    """`loss != loss`."""
    differs = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq)
    return differs and ast.dump(test.left) == ast.dump(test.comparators[0])  # type: ignore[attr-defined]


def guards_of(script: Script, node: ast.AST, until: ast.AST) -> list[ast.AST]:
    """Conditions between a node and a loop around it."""
    return [up.test for up in _between(script, node, until) if isinstance(up, ast.If)]


def _between(script: Script, node: ast.AST, until: ast.AST) -> list[ast.AST]:
    return [*takewhile(lambda up: up is not until, script.above(node))]


def _changes_course(node: ast.If) -> bool:
    """Whether a condition leads to an end: break, return, raise, continue, or a flag set to true."""
    for inner in (n for statement in node.body for n in ast.walk(statement)):
        if isinstance(inner, _ENDS | ast.Continue):
            return True
        flag = inner.value if isinstance(inner, ast.Assign) else None
        if isinstance(flag, ast.Constant) and isinstance(flag.value, bool):
            return True
        if isinstance(inner, ast.Call) and last_name(inner.func) in words("exit _exit stop set predict"):
            return True
    return "should_training_stop" in roots(node.test)


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
