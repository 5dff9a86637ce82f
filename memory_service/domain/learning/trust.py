"""Whether what a run reported can be: an observation that contradicts the trace of its model or the data
sheet of its card is kept, and teaches nothing until a second reporter tells the same."""

from collections.abc import Hashable, Iterable
from typing import Any

from memory_service.domain.cost.memory import GIB, allocated_bytes
from memory_service.domain.cost.profile import Profile
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.learning.observation import BaselinePrediction, Observation

MOST_OF_CARD = 1.3
"""A batch whose traced memory is over so many times the card's cannot have run on it."""

LEAST_RATE, MOST_RATE = 0.05, 1.2
"""Of what the data sheet allows: of the predicted rate, below which something else was timed, and of the
arithmetic that the card has, above which nothing can be."""

LEAST_SHARE, LEAST_SHARE_OF_ONE = 0.15, 0.4
"""Memory does not run out in a step that is predicted to take less of the card; in that of one sample, which
nothing can make smaller, only near the card's end."""

SAME_BATCH, SAME_FIGURE = 2.0, 1.5
"""Two reports agree within these ratios."""


def doubt_of(
    o: Observation, profile: Profile, card: Gpu, sheet: BaselinePrediction, n_train: int | None
) -> str | None:
    """Why the observation cannot be, as a clause; None where it can.

    sheet     its prediction by the card's data sheet alone; n_train: rows of the run, None = not said
    """
    batch, step = o.batch_size, o.step_seconds
    if n_train is not None and batch > n_train:
        return f"its batch of {batch:,} is over the {n_train:,} rows that it trains on"
    if card.kind != "cpu":  # a processor's sheet is of no machine in particular
        needed = allocated_bytes(profile, batch, o.optimizer) / GIB
        least = LEAST_SHARE_OF_ONE if batch == 1 else LEAST_SHARE
        if o.out_of_memory and sheet.driver_gib < least * sheet.usable_gib:
            return (
                f"batch {batch:,} takes {sheet.driver_gib:.3g} of {card.memory_gib:.3g} GiB by its trace: "
                "memory ran out for another reason"
            )
        if not o.out_of_memory and needed > MOST_OF_CARD * card.memory_gib:
            has = f"{card.key} has {card.memory_gib:.3g}"
            return f"batch {batch:,} takes {needed:,.0f} GiB by its trace, and {has}"
    if step is None:
        return None
    most = (
        MOST_RATE / _least_seconds(o, profile, card)
        if card.kind == "cuda"
        else 1.0 / LEAST_RATE / sheet.step_seconds
    )
    if 1.0 / step > most:
        return f"a step of {1000.0 * step:.3g} ms is faster than the data sheet of {card.key} allows"
    if step * LEAST_RATE > sheet.step_seconds:
        return (
            f"a step of {step:,.3g} s takes over {1.0 / LEAST_RATE:.0f} times the "
            f"{sheet.step_seconds:.3g} s that {card.key} needs by its data sheet"
        )
    return None


def trusted(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Those that may teach, in their order: the ones without doubt, and those that another reporter's agrees
    with."""
    every = tuple(observations)
    cases: dict[Hashable, list[Observation]] = {}
    for o in every:
        if o.doubt is not None:
            cases.setdefault(_case(o), []).append(o)
    told_twice = {case for case, some in cases.items() if len({o.reporter for o in some}) > 1}
    return tuple(
        o for o in every
        if o.doubt is None or (_case(o) in told_twice and any(_agree(o, other) for other in cases[_case(o)]))
    )  # fmt: skip


def reporter_of(key_name: str | None, host: Any) -> str:
    """Who tells of a run: the key; without one the host, as far as it says its name."""
    if key_name is not None:
        return f"key {key_name}"
    name = host.get("hostname") if isinstance(host, dict) else None
    return f"host {name}" if isinstance(name, str) and name else ""


def _least_seconds(o: Observation, profile: Profile, card: Gpu) -> float:
    """Of a step, by arithmetic alone, with all that the precision's units can do."""
    phases = (profile.forward,) if o.mode == "infer" else (profile.forward, profile.backward)
    flops = o.batch_size * sum(work.flops_per_sample for phase in phases for work in phase.values())
    units = {"fp32": ("fp32", "tf32"), "tf32": ("fp32", "tf32")}.get(o.precision, tuple(card.tflops))
    return float(flops / (1e12 * max(card.tflops.get(name, 0.0) for name in ("fp32", *units))))


def _case(o: Observation) -> Hashable:
    return o.gpu, o.model, o.input_size, o.mode, o.out_of_memory


def _agree(one: Observation, other: Observation) -> bool:
    if one.reporter == other.reporter or not _near(one.batch_size, other.batch_size, SAME_BATCH):
        return False
    if one.out_of_memory:
        return True
    for name in ("step_seconds", "peak_allocated_gib", "peak_driver_gib"):
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine and theirs:
            return _near(mine / one.batch_size, theirs / other.batch_size, SAME_FIGURE)
    return False


def _near(one: float, other: float, ratio: float) -> bool:
    return one <= ratio * other and other <= ratio * one
