"""Commutative merging of two statements about the same thing."""

from __future__ import annotations

from collections.abc import Mapping

from memory_service.domain.monitoring.summary import FoldSummary, Stamped


def latest(a: int | None, b: int | None) -> int | None:
    """The larger of two moments or numbers; None is "not reported"."""
    return b if a is None else a if b is None else max(a, b)


def earliest(a: int | None, b: int | None) -> int | None:
    """The smaller of the two."""
    return b if a is None else a if b is None else min(a, b)


def newer(known: Stamped | None, reported: Stamped) -> Stamped:
    """The later statement by (own time, seq)."""
    if known is None or reported[0] > known[0]:
        return reported
    return reported if reported[0] == known[0] and reported[1] > known[1] else known


def merge_latest(known: Mapping[str, Stamped], reported: Mapping[str, Stamped]) -> Mapping[str, Stamped]:
    """Of each name the later statement."""
    return {**known, **{name: newer(known.get(name), stated) for name, stated in reported.items()}}


def merge_folds(a: FoldSummary, b: FoldSummary) -> FoldSummary:
    """One fold from two parts of its reports."""
    losses = [x for x in (a.lowest_loss, b.lowest_loss) if x is not None]
    low = [x for x in (a.lowest_metric, b.lowest_metric) if x is not None]
    high = [x for x in (a.highest_metric, b.highest_metric) if x is not None]
    return FoldSummary(
        earliest(a.first_epoch, b.first_epoch),
        latest(a.last_epoch, b.last_epoch),
        min(losses, default=None),
        min(low, default=None),
        max(high, key=lambda score: (score[0], -score[1]), default=None),
        earliest(a.begun_us, b.begun_us),
        a.done or b.done,
    )
