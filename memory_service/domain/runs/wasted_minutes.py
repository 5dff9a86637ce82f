"""Minutes of a run that brought nothing, by cause.

A definition, not an estimate: each part is a sum over what the run reported, in minutes of its own time, and
each takes only from what the parts before it left, so that together they are never more than the run.

    no_submission   all of a run that ended with nothing to score
    after_best      epochs after the best one of their fold, by the metric; by validation loss where it is not
                    known which way the metric improves
    stalled         pauses between two signs of progress (a step, an epoch, a fold, a remark) of more than two
                    minutes and more than three times the usual: what is over the usual
    loader          waiting for the input pipeline, in the epochs up to the best
    slow            epochs up to the best over what was predicted at most (p90), the waiting taken off
    idle            the card had nothing to do by its own samples, waiting and slowness taken off

Not counted: a setting that was legal and slower than another (a small batch is predicted slow), and the
inference. What a run did not report counts as not wasted.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memory_service.domain.monitoring.event import loss_of
from memory_service.domain.runs.run_outcome import Epoch, Outcome, best_of

PARTS = ("no_submission", "after_best", "stalled", "loader", "slow", "idle")

BUSY_PERCENT = 90.0
"""A card whose samples say more is not called idle: drivers count whole sampling periods."""


@dataclass(frozen=True, slots=True)
class Waste:
    """Minutes by part; those of no minutes are left out."""

    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def minutes(self) -> float:
        return round(sum(self.parts.values()), 3)

    @property
    def most(self) -> str | None:
        """The part that took the most; None where nothing was wasted."""
        return max(self.parts, key=lambda name: self.parts[name], default=None)


def waste_of(
    outcome: Outcome,
    *,
    minutes: float,
    succeeded: bool | None,
    direction: str | None,
    epoch_seconds_high: float | None,
) -> Waste:
    """What of a run that has ended was wasted.

    minutes      how long it took; succeeded: whether it left something to score (None = not stated)
    direction    max or min, where the metric's is known
    epoch_seconds_high   of an epoch with validation, as predicted at most; None = not predicted
    """
    if succeeded is False:
        return _within(minutes, {"no_submission": 60.0 * minutes})
    useful, after = _up_to_the_best(outcome.epochs, direction)
    waited = sum(_waited(epoch) for epoch in useful)
    if not any(epoch.loader_wait_percent for epoch in outcome.epochs):
        share = len(useful) / len(outcome.epochs) if outcome.epochs else 1.0
        waited = share * sum(window.waited_seconds for window in outcome.step_windows)
    slow = 0.0
    if epoch_seconds_high is not None:
        slow = sum(max(0.0, _whole(e) - _waited(e) - epoch_seconds_high) for e in useful)
    idle = max(0.0, _idle_share(outcome) * sum(map(_whole, useful)) - waited - slow)
    stalled, after_best = outcome.stalled_seconds, sum(map(_whole, after))
    seconds = {"after_best": after_best, "stalled": stalled, "loader": waited, "slow": slow, "idle": idle}
    return _within(minutes, seconds)


def _up_to_the_best(epochs: Sequence[Epoch], direction: str | None) -> tuple[list[Epoch], list[Epoch]]:
    """(epochs up to the best of their fold, epochs after it)."""
    useful: list[Epoch] = []
    after: list[Epoch] = []
    folds: dict[int, list[Epoch]] = defaultdict(list)
    for epoch in epochs:
        folds[epoch.fold].append(epoch)
    for fold in folds.values():
        best = best_of((loss_of(e.reported.get("metric")) for e in fold), direction)
        best = best or best_of((loss_of(e.reported.get("valid_loss")) for e in fold), "min")
        made = len(fold) if best is None else best[1]
        useful += fold[:made]
        after += fold[made:]
    return useful, after


def _whole(epoch: Epoch) -> float:
    return (epoch.seconds or 0.0) + (epoch.valid_seconds or 0.0)


def _waited(epoch: Epoch) -> float:
    return (epoch.seconds or 0.0) * (epoch.loader_wait_percent or 0.0) / 100.0


def _idle_share(outcome: Outcome) -> float:
    busy = outcome.use.utilization_percent
    return 0.0 if busy is None or busy >= BUSY_PERCENT else 1.0 - busy / 100.0


def _within(minutes: float, seconds: Mapping[str, float]) -> Waste:
    left, parts = 60.0 * max(minutes, 0.0), {}
    for name in PARTS:
        taken = min(seconds.get(name, 0.0), left)
        left -= taken
        if taken >= 0.5:
            parts[name] = round(taken / 60.0, 3)
    return Waste(parts)
