"""What does the review look for, and how does one finding read? Every rule once, with severity and source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["RULES", "SEVERITIES", "Finding", "Rule", "finding", "in_order"]

Severity = Literal["error", "warning", "note"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""The gravest first."""


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


_RULES = (
    Rule("syntax-error", "error", "R28", "The file cannot be read as Python."),
    Rule("batch-does-not-fit", "error", "R02", "The batch needs more memory than the card has."),
    Rule("batch-too-small", "warning", "R03", "The batch is far under what the card computes best."),
    Rule(
        "loader-workers", "warning", "R08", "The loader has no or too few workers: the card waits for data."
    ),
    Rule("loader-pin-memory", "note", "R08", "The loader does not pin memory for the copy to the card."),
    Rule("loader-persistent-workers", "note", "R08", "Workers are started anew every epoch."),
    Rule("no-mixed-precision", "warning", "R09", "Training on a card in fp32 throughout."),
    Rule("deprecated-amp", "warning", "R29", "Mixed precision by an interface that is going away."),
    Rule(
        "memory-read-between-steps",
        "warning",
        "C01",
        "Fill is read as memory allocated now, which between steps leaves out all activations.",
    ),
    Rule("no-memory-at-first-batch", "note", "R21", "No memory reading after the first batch."),
    Rule("no-memory-every-epoch", "note", "R21", "No memory reading in every epoch."),
    Rule("no-early-stopping", "warning", "R16", "Many epochs or rounds, and nothing stops when gains end."),
    Rule("no-deadline", "warning", "R15", "The training loop does not look at the clock."),
    Rule(
        "no-fold-checkpoint", "warning", "R19", "Folds are trained and none leaves a checkpoint of its own."
    ),
    Rule(
        "prediction-needs-all-folds",
        "warning",
        "R19",
        "Prediction fails or is wrong while a fold is missing.",
    ),
    Rule("cannot-end-in-budget", "error", "R11", "Folds x epochs cannot end in the minutes given."),
    Rule(
        "fit-before-split", "error", "R28", "A scaler, selector or the like is fitted on rows of validation."
    ),
    Rule(
        "target-statistics-before-split",
        "error",
        "R28",
        "A feature holds target statistics of rows of validation.",
    ),
    Rule("target-in-features", "error", "R28", "The target, or a copy of it, is among the features."),
    Rule("shuffled-time-series", "error", "R28", "Rows ordered in time are split at random."),
    Rule("groups-across-folds", "error", "R28", "Rows of one group lie on both sides of the split."),
    Rule("labels-reencoded", "error", "R28", "Codes of labels or categories are made anew for other rows."),
    Rule("timm-trap", "warning", "R29", "timm used in a way that does not do what it seems to."),
    Rule("albumentations-trap", "warning", "R29", "albumentations used in a way that fails or does nothing."),
    Rule(
        "wrong-parameter",
        "warning",
        "R28",
        "A parameter that the library refuses, ignores or reads otherwise.",
    ),
    Rule(
        "eval-mode-missing",
        "error",
        "R28",
        "Validation or prediction with dropout and batch norm in training.",
    ),
    Rule("no-grad-missing", "warning", "R28", "Validation or prediction that keeps gradients."),
    Rule("no-seed", "note", "R28", "Nothing fixes the random numbers."),
    Rule("wrong-loss", "error", "R28", "The loss does not match the model's output or the metric."),
)

RULES: Mapping[str, Rule] = {rule.id: rule for rule in _RULES}
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


_BLOCKS = (ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.With, ast.If)
"""Of these only the head is shown."""


def in_order(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """By line; one finding a rule and line."""
    seen: dict[tuple[str, int], Finding] = {}
    for item in found:
        seen.setdefault((item.rule, item.line), item)
    return tuple(sorted(seen.values(), key=lambda f: (f.line, SEVERITIES.index(f.severity), f.rule)))
