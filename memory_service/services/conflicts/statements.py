"""The statements of a conflict, and how far apart they are.

What runs showed, beside what was computed for the same thing without them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, sqrt
from operator import attrgetter
from typing import Any

import numpy as np

from memory_service.domain.common.estimate import Estimate, Grade
from memory_service.domain.cost.profile import Profile
from memory_service.domain.learning.observation import Observation, prediction_key
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_memory import largest_batch, peak_memory
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.services.knowledge.learned_corrections import observed_card, observed_profile
from memory_service.services.knowledge.snapshot import Knowledge

LEAST = 1e-9
_NUMBERS = ("low", "high", "value")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement about a quantity.

    high       None: no upper end was named
    set_aside  why it is not believed (yet) or says nothing of this; None: it counts
    """

    id: str
    grade: Grade
    low: float
    high: float | None
    unit: str | None
    source: str
    value: float | None = None
    n: int | None = None
    statement: str | None = None
    set_aside: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The wire form; what a side does not have is left out."""
        wire = {name: _short(value) if name in _NUMBERS else value for name, value in asdict(self).items()}
        return {name: value for name, value in wire.items() if value is not None or name in ("high", "unit")}


def claim_statement(row: Mapping[str, Any]) -> Statement:
    """What somebody wrote, its source beside it."""
    low, high = float(row["value_min"]), None if row.get("value_max") is None else float(row["value_max"])
    grade, source, said = row.get("grade", "claimed"), str(row["source"]), row.get("statement")
    return Statement(str(row["id"]), grade, low, high, row.get("unit"), source, statement=said)


def estimate_statement(estimate: Estimate, unit: str | None) -> Statement:
    """What is computed, with its 80 % interval."""
    return Statement(
        "estimate", estimate.grade, estimate.low, estimate.high, unit, estimate.basis, estimate.value,
        estimate.n,
    )  # fmt: skip


def divergence(statements: Sequence[Statement]) -> float:
    """The widest gap between two sides, as a ratio; 1 where all of them meet."""
    widest = 1.0
    for one in statements:
        for other in statements:
            upper = inf if other.high is None else other.high
            if one.low > upper:
                widest = max(widest, one.low / max(upper, LEAST))
    return widest


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")


NOISE, STEP_NOISE, P90 = 0.02, 0.05, 1.2816
"""Of a median: 2 % between equal hosts, 5 % of one step, which falls with how many there were
(`domain.learning.corrections`)."""

MEMORY_NOISE = 0.02
MOST_ASIDE = 5
MOST_NAMED = 3

_EXCLUDED = {
    "contended": "another process used the device: says nothing of its speed",
    "throttled": "the device was throttled: says nothing of its usual speed",
    "loader_bound": "the input pipeline was slower: says nothing of the device's speed",
}
_FAR = "too far from all that is known: not believed until three runs agree"

_READINGS = (
    ("peak_driver_gib", "gpu_memory_gib", "driver_gib"),
    ("peak_reserved_gib", "peak_reserved_gib", "reserved_gib"),
    ("peak_allocated_gib", "peak_allocated_gib", "allocated_gib"),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """One quantity of one case on one device: what runs showed, and what is computed for it.

    measured   what is believed; None where everything was set aside
    aside      observations that are not
    baseline   the estimate that no run had a part in; now: what a plan uses
    """

    quantity: str
    unit: str
    what: Observation
    measured: Statement | None
    aside: tuple[Statement, ...]
    baseline: Estimate
    now: Estimate

    @property
    def batch_size(self) -> int | None:
        return None if self.quantity == "feasible_batch" else self.what.batch_size


def shown_by_runs(knowledge: Knowledge) -> Iterator[Shown]:
    """Every quantity that runs showed, by case, in a stable order."""
    cases: dict[tuple[Any, ...], list[Observation]] = {}
    for one in (o for o in knowledge.observations if o.part == "step"):
        cases.setdefault(_CASE(one), []).append(one)
    for _, runs in sorted(cases.items(), key=lambda item: str(item[0])):
        card = observed_card(knowledge.cards, runs[0])
        profile = observed_profile(knowledge.priced, runs[0])
        if card is None or profile is None:
            continue
        yield from _of_case(runs, profile, card)


_CASE = attrgetter(
    "gpu", "device", "model", "input_size", "precision", "layout", "mode", "optimizer", "compiled",
    "checkpointing", "stack", "cores",
)  # fmt: skip


def _of_case(runs: Sequence[Observation], profile: Profile, card: TargetDevice) -> Iterator[Shown]:
    bare = replace(card, learned=None)
    batches: dict[int, list[Observation]] = {}
    for one in runs:
        batches.setdefault(one.batch_size, []).append(one)
    far = set(card.learned.set_aside) if card.learned else set()
    for batch, some in sorted(batches.items()):
        timed = [one for one in some if one.step_seconds is not None]
        if timed:
            steps = [prepare(profile, gpu, timed[0].config).step_seconds(batch) for gpu in (bare, card)]
            rates = [step.reciprocal(batch) for step in steps]
            used = [one for one in timed if one.excluded is None and one not in far]
            statements = [_rate(batch, one) for one in used]
            aside = [
                _rate(batch, o, _EXCLUDED[o.excluded] if o.excluded else _FAR)
                for o in timed
                if o.excluded is not None or o in far
            ]
            yield Shown(
                "samples_per_second", "samples/s", timed[0], _together(statements, used),
                tuple(aside[-MOST_ASIDE:]), *rates,
            )  # fmt: skip
        for field, quantity, part in _READINGS:
            read = [one for one in some if getattr(one, field) is not None and not one.out_of_memory]
            if read:
                peaks = [
                    getattr(peak_memory(profile, batch, gpu, read[0].config), part) for gpu in (bare, card)
                ]
                statements = [
                    _statement(one, float(getattr(one, field)), MEMORY_NOISE, "GiB", None) for one in read
                ]
                yield Shown(quantity, "GiB", read[0], _together(statements, read), (), *peaks)
    yield from _largest(runs, profile, card, bare)


def _rate(batch: int, o: Observation, set_aside: str | None = None) -> Statement:
    value = batch / (o.step_seconds or 1.0)
    noise = P90 * sqrt(NOISE**2 + STEP_NOISE**2 / max(o.n, 1))
    return _statement(o, value, noise, "samples/s", set_aside)


def _statement(o: Observation, value: float, noise: float, unit: str, set_aside: str | None) -> Statement:
    return Statement(
        _name(o), "measured", value * (1 - noise), value * (1 + noise), unit, _source([o]), value, o.n,
        set_aside=set_aside,
    )  # fmt: skip


def _together(statements: Sequence[Statement], runs: Sequence[Observation]) -> Statement | None:
    """Several runs as one side: their median, and where the central 80 % of them lie."""
    if not statements:
        return None
    if len(statements) == 1:
        return statements[0]
    low, value, high = (
        float(np.quantile([getattr(side, name) for side in statements], share))
        for name, share in (("low", 0.1), ("value", 0.5), ("high", 0.9))
    )
    return Statement("runs", "measured", low, high, statements[0].unit, _source(runs), value, len(statements))


def _name(o: Observation) -> str:
    return f"run:{o.run_id}" if o.run_id else f"observed:{o.source or o.gpu}"


def _source(runs: Sequence[Observation]) -> str:
    named = ", ".join(dict.fromkeys(o.run_id or o.source or "a table" for o in runs[-MOST_NAMED:]))
    more = f" and {len(runs) - MOST_NAMED} more" if len(runs) > MOST_NAMED else ""
    day = max((o.at for o in runs), default="")[:10]
    where = (runs[0].device or runs[0].gpu) + (f" ({runs[0].cores} cores)" if runs[0].cores else "")
    return f"run {named}{more} on {where}" + (f", {day}" if day else "")


def _largest(
    runs: Sequence[Observation], profile: Profile, card: TargetDevice, bare: TargetDevice
) -> Iterator[Shown]:
    """The largest batch: at least what ran, under what ran out of memory and stands."""
    o = runs[0]
    subject = prediction_key(profile, card, o.config)
    failed = [one for one in runs if one.out_of_memory]
    if card.learned is None or (not failed and not any(one.step_seconds for one in runs)):
        return
    bounds = card.learned.batch_bounds(subject, card.usable_gib)
    here = Statement(
        "runs", "measured", float(bounds.proven),
        None if bounds.refused is None else float(bounds.refused - 1), "samples",
        _source(failed or runs), n=len(runs),
    )  # fmt: skip
    lifted = tuple(
        Statement(
            _name(one), "measured", 0.0, float(one.batch_size - 1), "samples", _source([one]), n=1,
            statement=f"batch {one.batch_size} ran out of memory",
            set_aside="a later run at this batch or above finished",
        )
        for one in failed
        if bounds.refused is None or one.batch_size < bounds.proven
    )  # fmt: skip
    now, baseline = (_batches(profile, gpu, o) for gpu in (card, bare))
    yield Shown("feasible_batch", "samples", o, here, lifted[-MOST_ASIDE:], baseline, now)


def _batches(profile: Profile, gpu: TargetDevice, o: Observation) -> Estimate:
    def most(confidence: Any) -> float:
        return float(largest_batch(profile, gpu, o.config, ladder=None, confidence=confidence))

    return Estimate(most("p50"), most("p90"), most("p10"), basis="largest batch that fits: trace")
