"""The rules with severity and source, and the finding value."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

Severity = Literal["error", "warning", "note"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")  # the gravest first


@dataclass(frozen=True, slots=True)
class Rule:
    """`about`: what it looks for, in one sentence. `source`: the rule of the strategy tables behind it."""

    id: str
    severity: Severity
    source: str
    about: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to change. Lines and columns count from one; `fix` can be pasted."""

    rule: str
    severity: Severity
    line: int
    end_line: int
    column: int
    message: str
    fix: str
    source: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


_TABLE = """
syntax-error | error | R28 | The file cannot be read as Python.
batch-does-not-fit | error | R02 | The batch needs more memory than the card has.
batch-too-small | warning | R03 | The batch is far under what the card computes best.
loader-workers | warning | R08 | The loader has no or too few workers: the card waits for data.
loader-pin-memory | note | R08 | The loader does not pin memory for the copy to the card.
loader-persistent-workers | note | R08 | Workers are started anew every epoch.
no-mixed-precision | warning | R09 | Training on a card in fp32 throughout.
deprecated-amp | warning | R29 | Mixed precision by an interface that is going away.
memory-read-between-steps | warning | C01 | Fill is read as memory allocated now, which between steps leaves \
out all activations.
no-memory-at-first-batch | note | R21 | No memory reading after the first batch.
no-memory-every-epoch | note | R21 | No memory reading in every epoch.
no-early-stopping | warning | R16 | Many epochs or rounds, and nothing stops when gains end.
no-deadline | warning | R15 | The training loop does not look at the clock.
no-fold-checkpoint | warning | R19 | Folds are trained and none leaves a checkpoint of its own.
prediction-needs-all-folds | warning | R19 | Prediction fails or is wrong while a fold is missing.
cannot-end-in-budget | error | R11 | Folds x epochs cannot end in the minutes given.
fit-before-split | error | R28 | A scaler, selector or the like is fitted on rows of validation.
target-statistics-before-split | error | R28 | A feature holds target statistics of rows of validation.
target-in-features | error | R28 | The target, or a copy of it, is among the features.
shuffled-time-series | error | R28 | Rows ordered in time are split at random.
groups-across-folds | error | R28 | Rows of one group lie on both sides of the split.
labels-reencoded | error | R28 | Codes of labels or categories are made anew for other rows.
timm-trap | warning | R29 | timm used in a way that does not do what it seems to.
albumentations-trap | warning | R29 | albumentations used in a way that fails or does nothing.
wrong-parameter | warning | R28 | A parameter that the library refuses, ignores or reads otherwise.
eval-mode-missing | error | R28 | Judged with dropout and batch norm in training, or trained with them off.
no-grad-missing | warning | R28 | Validation or prediction that keeps gradients.
gradients-not-zeroed | error | R28 | Gradients of earlier batches are never zeroed.
accumulation-voided | error | R28 | Gradients are zeroed between the batches that they are accumulated over.
accumulation-unscaled | warning | R28 | Gradients are summed over batches and the loss is not divided.
model-across-folds | error | R28 | One model is trained on from fold to fold and judged on rows it has seen.
refitted-on-test | error | R28 | A scaler or the like is fitted anew on the rows to predict.
result-thrown-away | warning | R28 | What a call gives is not kept, and it changes nothing by itself.
train-not-shuffled | warning | R28 | Training rows come in one fixed order in every epoch.
loss-keeps-graph | warning | R25 | A loss is kept with its graph: memory grows with every batch.
no-seed | note | R28 | Nothing fixes the random numbers.
wrong-loss | error | R28 | The loss does not match the model's output or the metric.
"""
_ROWS = (line.split(" | ") for line in _TABLE.strip().splitlines())
RULES: Mapping[str, Rule] = {
    name: Rule(name, cast("Severity", severity), source, about) for name, severity, source, about in _ROWS
}
"""By id, in the order of the documentation."""

Place = ast.AST | int


def finding(rule: str, place: Place, message: str, fix: str, since: ast.AST | None = None) -> Finding:
    """A finding at a node of the tree, or at a line; with `since` it begins at the head of that one."""
    known = RULES[rule]
    if isinstance(place, int):
        line, end, column = place, place, 1
    else:
        line = int(getattr(place, "lineno", 1))
        column = int(getattr(place, "col_offset", 0)) + 1
        end = line if isinstance(place, _BLOCKS) else int(getattr(place, "end_lineno", None) or line)
    if since is not None:
        line, column = int(getattr(since, "lineno", line)), int(getattr(since, "col_offset", 0)) + 1
    return Finding(rule, known.severity, line, max(line, end), column, message, fix, known.source)


def wrong(place: Place, message: str, fix: str) -> Finding:
    """A parameter that the library refuses, ignores or reads otherwise."""
    return finding("wrong-parameter", place, message, fix)


def head_of(place: ast.AST) -> ast.AST:
    """A statement at the same place, without what the tree holds below."""
    head = ast.copy_location(ast.Pass(), place)
    if isinstance(place, _BLOCKS):
        head.end_lineno = head.lineno
    return head


_BLOCKS = (ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.With, ast.If)
"""Of these only the head is shown."""


def in_order(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """By line; one finding a rule and line."""
    first = {(item.rule, item.line): item for item in reversed([*found])}
    return tuple(sorted(first.values(), key=lambda f: (f.line, SEVERITIES.index(f.severity), f.rule)))
