"""What ends a loop before its last turn? The clock, a score that gains no more, or only a NaN."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from memory_service.review.script import Script, last_name, roots, words, words_in
from memory_service.review.values import Values

__all__ = ["Stopping", "guards_of"]

AnyLoop = ast.For | ast.While

_CLOCK_CALLS = words(
    "time monotonic perf_counter process_time now utcnow time_ns alarm monotonic_ns perf_counter_ns"
)
_CLOCK_WORDS = re.compile(
    r"deadline|elapsed|time_?(left|limit|out|up|over|remaining|budget|is_up|guard|s_up)|budget|"
    r"out_of_time|minutes|"
    r"over_?time|start_?time|max_?(time|second|minute|hour)|remaining|seconds_left|(^|_)late\b|clock|timer|"
    r"time_to_stop|"
    r"should_stop_for_time|hours|expired",
    re.IGNORECASE,
)
_OTHER_STOPS = re.compile(
    r"debug|dry_?run|smoke|isnan|isfinite|isinf|\bnan\b|max_steps|max_batches|limit_|sanity|quick|overfit",
    re.IGNORECASE,
)


@dataclass
class Stopping:
    """The ends of the loops of one script."""

    script: Script
    values: Values

    def clocked(self, place: ast.AST | list[ast.stmt]) -> bool:
        """Whether something under a place (functions of the file included) stops by the clock."""
        for node in self.script.within(place):
            if isinstance(node, ast.If | ast.While | ast.IfExp) and self.is_clock(node.test):
                if not isinstance(node, ast.If) or _changes_course(node):
                    return True
            elif (
                isinstance(node, ast.Return)
                and node.value is not None
                and isinstance(node.value, ast.Compare)
                and self.is_clock(node.value)
            ):
                return True
        return False

    def is_clock(self, test: ast.AST, deep: int = 0) -> bool:
        """Whether a condition asks the time: directly, by a name that says so, or by a function that does."""
        for node in ast.walk(test):
            if isinstance(node, ast.Call):
                if last_name(node.func) in _CLOCK_CALLS:
                    return True
                if deep < 3:
                    for target in (
                        self.script.meant(node.func)
                        if isinstance(node.func, ast.Name | ast.Attribute)
                        else ()
                    ):
                        if any(
                            isinstance(n, ast.Call) and last_name(n.func) in _CLOCK_CALLS
                            for n in ast.walk(target)
                        ):
                            return True
            if isinstance(node, ast.Name | ast.Attribute):
                if _CLOCK_WORDS.search(last_name(node)):
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
            if isinstance(node, ast.Break | ast.Return | ast.Raise):
                inner = [up for up in self.script.loops(node) if up is not loop]
                if (
                    isinstance(node, ast.Break)
                    and inner
                    and inner[0] is not loop
                    and loop in self.script.loops(node)[1:]
                ):
                    continue
                guards = guards_of(self.script, node, loop)
                if any(isinstance(up, ast.ExceptHandler) for up in _until(self.script, node, loop)):
                    continue
                if guards and not any(self._other_stop(test) for test in guards):
                    return True
            if isinstance(node, ast.Call) and re.search(
                r"early_?stop|stopper", last_name(node.func), re.IGNORECASE
            ):
                return True
        return False

    def _plain_count(self, test: ast.AST, reset: set[str]) -> bool:
        """`while epoch < EPOCHS`, `while True`, `while time.time() < end`; not `while bad < PATIENCE`."""
        if isinstance(test, ast.Constant):
            return True
        if isinstance(test, ast.BoolOp):
            return all(self._plain_count(part, reset) for part in test.values)
        if self.is_clock(test):
            return True
        return (
            isinstance(test, ast.Compare)
            and isinstance(test.ops[0], ast.Lt | ast.LtE | ast.NotEq)
            and not words_in(test) & reset
        )

    def _reset_in(self, loop: AnyLoop) -> set[str]:
        """Names that a loop sets to a number again: a count of epochs without gain."""
        return {
            name.id
            for node in self.script.within(loop.body)
            if isinstance(node, ast.Assign)
            for name, value in _set_by(node)
            if isinstance(value, ast.Constant)
            or (isinstance(value, ast.IfExp) and isinstance(value.body, ast.Constant))
        }

    def _other_stop(self, test: ast.AST) -> bool:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            return all(self._other_stop(part) for part in test.values)
        words = words_in(test) - _CLOCK_CALLS
        early = any(
            re.search(r"patien|early|improv|bad_|stale|best|wait|counter|since", w, re.IGNORECASE)
            for w in words
        )
        if early:
            return False
        if any(_OTHER_STOPS.search(w) for w in words) or _is_nan(test):
            return True
        for node in ast.walk(test):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                for target in self.script.meant(node.func):
                    inner = words_in(target)
                    if any(re.search(r"patien|improv|bad_|best", w, re.IGNORECASE) for w in inner):
                        return False
        return self.is_clock(test)


def _is_nan(test: ast.AST) -> bool:
    """`loss != loss`."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.NotEq)
        and ast.dump(test.left) == ast.dump(test.comparators[0])
    )


def guards_of(script: Script, node: ast.AST, until: ast.AST) -> list[ast.AST]:
    """Conditions between a node and a loop around it."""
    return [up.test for up in _until(script, node, until) if isinstance(up, ast.If)]


def _until(script: Script, node: ast.AST, until: ast.AST) -> list[ast.AST]:
    out = []
    for up in script.above(node):
        if up is until:
            break
        out.append(up)
    return out


def _set_by(node: ast.Assign) -> list[tuple[ast.Name, ast.AST]]:
    """Names that an assignment sets, each with all that it may get: `best, bad = (x, 0) if gain else ...`."""
    values = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
    out: list[tuple[ast.Name, ast.AST]] = []
    for target in node.targets:
        if isinstance(target, ast.Name):
            out.append((target, node.value))
        elif isinstance(target, ast.Tuple):
            for value in values:
                if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                    pairs = zip(target.elts, value.elts, strict=True)
                    out += [(item, given) for item, given in pairs if isinstance(item, ast.Name)]
    return out


def _changes_course(node: ast.If) -> bool:
    """Whether a condition leads to an end: break, return, raise, continue, or a flag set to true."""
    for inner in (n for statement in node.body for n in ast.walk(statement)):
        if isinstance(inner, ast.Break | ast.Return | ast.Raise | ast.Continue):
            return True
        if (
            isinstance(inner, ast.Assign)
            and isinstance(inner.value, ast.Constant)
            and isinstance(inner.value.value, bool)
        ):
            return True
        if isinstance(inner, ast.Call) and last_name(inner.func) in (
            "exit",
            "_exit",
            "stop",
            "set",
            "predict",
        ):
            return True
    return bool(roots(node.test) & {"should_training_stop"})
