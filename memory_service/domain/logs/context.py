"""State carried between the lines of one log: fold, epoch, length of an epoch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

Body = dict[str, Any]
Events = list[tuple[str, Body]]


@dataclass(frozen=True, slots=True)
class Context:
    """What earlier lines of the same log established. JSON form by `as_dict`.

    steps         in an epoch, as Keras said; total_steps: of the run, as Hugging Face did
    longest_bar   steps of the longest bar without a name under this epoch
    evaluating    Hugging Face's header of an evaluation came last: its sizes are not the training's
    trainer       "hf" after Hugging Face's lines, "keras" after Keras', "iterations" where evaluations are
                  counted in place of epochs
    ended         the fold is over by its own word: "best" while its best round is still to be repeated
    columns       of the table whose head came last; cells: of a row of it that is being written (HTML)
    step, loss    the last training step and its loss; scored: the last epoch that was told as ended;
                  seconds: of its training
    side          "train" or "valid" where a line of its own said of what the figures under it are
    tail, cut     an unfinished line, and the bytes of an unfinished character behind it, as hex digits
    """

    fold: int = 1
    folds: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    steps: int | None = None
    total_steps: int | None = None
    longest_bar: int = 0
    evaluating: bool = False
    trainer: str = ""
    ended: str = ""
    columns: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    step: int | None = None
    loss: float | str | None = None
    scored: int | None = None
    seconds: float | None = None
    side: str = ""
    tail: str = ""
    cut: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Context:
        known = {f.name for f in fields(cls)}
        data = {name: value for name, value in raw.items() if name in known}
        return cls(**data | {name: tuple(data.get(name, ())) for name in ("columns", "cells")})


Form = Callable[[str, Context], "tuple[Events, Context] | None"]

EPOCH = re.compile(
    r"\bep(?:och)?\b(?:\((?P<side>\w{2,10})\))?[\s:\[#=]{0,6}(?P<epoch>\d{1,7})(?!\d|\.\d)"
    r"(?:\s{0,3}(?:/|of)\s{0,3}(?P<epochs>\d{1,7}))?",
    re.IGNORECASE,
)
_FOLD = re.compile(r"\bfold\b[\s:#=\[]{0,4}(\d{1,4})(?:\s{0,3}(?:/|of)\s{0,3}(\d{1,4}))?", re.IGNORECASE)


def search(pattern: re.Pattern[str], word: str, line: str) -> re.Match[str] | None:
    """A search that first looks for the word as such, which is a hundred times faster."""
    return pattern.search(line) if word in line.lower() else None


def with_fold(line: str, context: Context) -> Context | None:
    """The context in the fold that the line names; None where it names none."""
    found = search(_FOLD, "fold", line)
    if found is None:
        return None
    fold, folds = int(found[1]), int(found[2]) if found[2] else context.folds
    if fold == context.fold:
        return replace(context, folds=folds)
    return replace(context, fold=fold, folds=folds, epoch=None, ended="")


def at_epoch(context: Context, epoch: int, epochs: int | None = None) -> Context:
    """The context in this epoch; epochs that begin anew after a fold was over are the next fold's, where the
    log does not name its folds. epochs: planned, where the line says so."""
    fold, ended, of = context.fold, context.ended, epochs or context.epochs
    if context.epoch is not None and epoch < context.epoch and epoch <= 1:
        if ended or of is None or context.epoch >= of - (1 - epoch):
            fold += 1
        ended = ""
    bars = context.longest_bar if epoch == context.epoch and fold == context.fold else 0
    return replace(context, fold=fold, epoch=epoch, epochs=of, ended=ended, longest_bar=bars)


def only(scores: Body, *names: str) -> Body:
    return {name: scores[name] for name in names if name in scores}
