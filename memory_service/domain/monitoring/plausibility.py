"""Readings that no card gives and epochs that no such run reaches: set aside when they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from memory_service.domain.monitoring.event import MEMORY_FIELDS, number_of

SAME_CARD = 1.15
"""A printed total within 15 % of the data sheet's is the same card, as its driver counts it; GB for GiB is
7 %. A reading over that is none."""

FAR_BEYOND = 2
"""An epoch number over twice the announced count is a slip; a run that merely goes on stays below."""

SET_ASIDE = "set_aside"
"""Field of a stored event: its fields that were set aside, as they were reported."""


@dataclass(frozen=True, slots=True)
class Announced:
    """What a run said of itself; None = not known. epochs: of a fold; folds: in all, seeds included."""

    card_gib: float | None = None
    epochs: int | None = None
    folds: int | None = None

    def at_least(self, settings: Mapping[str, Any]) -> Announced:
        """With what was stated since, where that allows more."""
        total = number_of(settings.get("total_gib"), most=1e6)
        epochs, folds = (number_of(settings.get(name), most=1e9) for name in ("epochs", "folds"))
        return replace(
            self,
            card_gib=self.card_gib and max(self.card_gib, total or 0.0),
            epochs=self.epochs and max(self.epochs, int(epochs or 0)),
            folds=max(self.folds or 0, int(folds or 0)) or None,
        )


def implausible(kind: str, fields: Mapping[str, Any], announced: Announced) -> dict[str, str]:
    """Field of an event that cannot be meant -> why, in words.

    An epoch that states no fold may count on through all folds.
    """
    found = {}
    for name in MEMORY_FIELDS if announced.card_gib else ():
        gib = number_of(fields.get(name), most=1e9)
        if gib is not None and gib > SAME_CARD * (announced.card_gib or 0.0):
            found[name] = (
                f"is over the card's {announced.card_gib:.4g} GiB: no reading, and not counted; report "
                "`total_gib` first where the card is a larger one"
            )
    epoch = number_of(fields.get("epoch")) if kind == "epoch" else None
    if epoch is not None and announced.epochs:
        most = announced.epochs * (1 if fields.get("fold") else max(1, announced.folds or 1))
        if epoch > FAR_BEYOND * most:
            found["epoch"] = (
                f"is far beyond the {most} announced: not counted; report `epochs` first where there are more"
            )
    return found
