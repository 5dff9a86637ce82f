"""What one walk through a script has found so far, and its one evaluator: what an expression gives, what a
body of statements does. Handlers register for the nodes, methods or library functions that they
interpret."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from memory_service.review.constants.values import Values
from memory_service.review.interpretation.value import UNKNOWN, Flat, Learned, Rows, Scope, Value, derived
from memory_service.review.source.nodes import last_name

MOST_STEPS = 30_000  # statements and expressions of one walk; a training script takes some thousand
MOST_FITS = 100
MOST_DIVISIONS = 200
MOST_PARTS = 2_000  # fits and statistics, divisions, and parts of rows that are distinguished


@dataclass(eq=False, slots=True)
class Division:
    """Rows divided into some to train on and some to judge by. `maker`: the splitter's own call."""

    place: ast.AST
    kind: str
    maker: ast.Call | None
    contents: Flat


@dataclass(eq=False, slots=True)
class Coding:
    """Categories numbered anew. `unconditional`: under no unknown condition, but for whether a column is
    there (`present`), which rows of one file answer alike."""

    place: ast.AST
    what: str
    rows: frozenset[Rows]
    unconditional: bool
    coder: Value | None
    columns: frozenset[str] | None
    present: bool = False


@dataclass(slots=True)
class Use:
    """One call with its values. `base`: what a method is of; `dotted`: the full name of a function."""

    node: ast.Call
    name: str
    args: list[Value]
    named: dict[str, Value]
    scope: Scope
    base: Value = field(default_factory=Value)
    dotted: str = ""

    @property
    def first(self) -> Value | None:
        return self.args[0] if self.args else self.named.get("X") or self.named.get("x")

    @property
    def given(self) -> list[Value]:
        return [*self.args, *self.named.values()]


@dataclass(frozen=True)
class Supervised:
    """Features handed on beside the answer. `final`: to a model, not to what divides them first."""

    place: ast.AST
    features: Value
    answer: Value
    final: bool


MOST_SUPERVISED = 200
_OF_NUMBERS = re.compile(
    r"Regressor$|(?<!Logistic)Regression$|mean_(squared|absolute)|r2_score|rmse|mse_?loss|l1_?loss|smooth_l1|huber|"
    r"binary_cross_?entropy|BCE",
    re.IGNORECASE,
)


class Walk:
    """The state of one walk.

    divisions   rows divided, in the order of the run
    leaks       what was learned from rows that a division sets apart -> that division
    codings     categories numbered
    supervised  features and targets that went somewhere together
    answers     values that are targets by their names or by where they are handed
    target_names   columns that constants name as targets
    loaders     call of a DataLoader -> the data sets that it got
    """

    def __init__(self, values: Values, targets: frozenset[str] = frozenset()) -> None:
        self.script = values.script
        self.values = values
        self.module = Scope({})
        self._targets, self.needs_targets = targets, False
        self.answers: list[Value] = []
        self.target_names: set[str] = set()
        self.steps = self.deep = self.unsure = self.present = 0
        self.active: list[ast.AST] = []
        self.times: Counter[ast.AST] = Counter()
        self.returned: list[list[Value]] = []
        self.yielded: list[list[Value]] = []
        self.made: list[Value] = []
        self.objects: dict[ast.ClassDef, Value] = {}
        self.loops: list[ast.AST] = []
        self.calling: list[ast.Call] = []
        self.leaks: dict[Learned, ast.AST] = {}
        self.divisions: list[Division] = []
        self.codings: list[Coding] = []
        self.fitted: list[Coding] = []
        self.adapted: list[Learned] = []
        self.supervised: list[Supervised] = []
        self.grouped: dict[ast.AST, frozenset[Rows] | set[Rows]] = {}
        self.loaders: dict[ast.AST, list[Value]] = {}
        self.shared: dict[int, set[str]] = {}
        self.files: dict[tuple[object, str], Rows] = {}
        self.parts: dict[tuple[int, int, str], Rows] = {}
        self.cuts: dict[tuple[str, ...], dict[str, Value]] = {}
        self.roles: dict[int, set[str]] = {}
        self.chosen: dict[int, Value] = {}
        self.too_much = Learned(self.script.tree, "", "", frozenset())
        self.known: dict[tuple[int, frozenset[Rows]], Learned] = {}

    @cached_property
    def predicts_numbers(self) -> bool:
        """Whether a loss, a metric or a model says that the target is a number."""
        return any(_OF_NUMBERS.search(last_name(call.func)) for call in self.script.calls)

    @property
    def targets(self) -> frozenset[str]:
        """Columns that are to be predicted, as a walk before has found them."""
        self.needs_targets = True
        return self._targets


Handler = Callable[..., Any]  # (walk, node, scope) of a node of the tree, (walk, use) of a call
EXPRESSIONS: dict[type[ast.AST], Handler] = {}
STATEMENTS: dict[type[ast.AST], Handler] = {}
METHODS: dict[str, Handler] = {}
LIBRARY: dict[str, Handler] = {}
Registered = TypeVar("Registered", bound=Handler)


def _in(table: dict[Any, Handler]) -> Callable[..., Callable[[Registered], Registered]]:
    def of(*keys: Any) -> Callable[[Registered], Registered]:
        def register(handler: Registered) -> Registered:
            table.update(dict.fromkeys(keys, handler))
            return handler

        return register

    return of


evaluates, runs, method, library = _in(EXPRESSIONS), _in(STATEMENTS), _in(METHODS), _in(LIBRARY)

MOST_DEEP = 120


def evaluate(walk: Walk, node: ast.AST | None, scope: Scope) -> Value:
    walk.steps += 1
    if node is None or walk.steps > MOST_STEPS or walk.deep > MOST_DEEP:
        return Value()
    walk.deep += 1
    try:
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            parts = [evaluate(walk, c, scope) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
            return derived(*parts)
        found = handler(walk, node, scope)
        return found if isinstance(found, Value) else Value()
    finally:
        walk.deep -= 1


def constant(walk: Walk, node: ast.AST | None, scope: Scope) -> Any:
    """The constant that an expression is in this run, else None."""
    if node is None:
        return None
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        found = scope.find(node.id)
        if found is not None and found.const is not UNKNOWN:
            return found.const
    if isinstance(node, ast.Slice | ast.Compare) or last_name(node) == "columns":
        return None
    return walk.values.one(node)


LEVELS_OF_A_BODY = 4
"""What a body counts for among expressions within one another: a call takes so many more frames."""


def run_body(walk: Walk, body: Sequence[ast.stmt], scope: Scope) -> bool:
    """Whether it ends what is around it: `return`, `raise`, `continue`, `break`."""
    if walk.deep > MOST_DEEP:
        return False
    walk.deep += LEVELS_OF_A_BODY
    ended = False
    for statement in body:
        walk.steps += 1
        handler = STATEMENTS.get(type(statement))
        if walk.steps > MOST_STEPS or (handler is not None and handler(walk, statement, scope)):
            ended = True
            break
    walk.deep -= LEVELS_OF_A_BODY
    return ended
