"""Whether what was reported can be: a run that contradicts the trace of its model or the data sheet of its
card, or a calibration that contradicts the sheet or itself, is kept, and teaches nothing until another
reporter tells the same."""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import exp, log
from operator import attrgetter
from statistics import median
from types import MappingProxyType
from typing import Any, TypeVar

from memory_service.domain.calibration.calibration import MOST_LOG, TIMES, Calibration, Measurement
from memory_service.domain.cost.memory import GIB, allocated_bytes
from memory_service.domain.cost.profile import Profile
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.learning.observation import BaselinePrediction, Observation
from memory_service.domain.learning.shrinkage import ENOUGH_RUNS, SAME_FIGURE

Row = TypeVar("Row")

MOST_OF_CARD = 1.3
"""A batch whose traced memory is over so many times the card's cannot have run on it."""

LEAST_RATE, MOST_RATE = 0.05, 1.2
"""Of what the data sheet allows: of the predicted rate, below which something else was timed, and of the
arithmetic and bandwidth that the card has, above which nothing can be."""

LEAST_SHARE, LEAST_SHARE_OF_ONE, LEAST_SHARE_BY_KEY = 0.1, 0.4, 0.5
"""Memory does not run out in a step that is predicted to take less of the card; in that of one sample, which
nothing can make smaller, only near the card's end; by one of several reporters near it, too. Without keys all
runs are the user's own, and another process may take the rest."""

LEAST_PEAK = 0.2
"""Of what the trace holds at once; a smaller peak was read at another moment, or of another process."""

MOST_ERROR_PERCENT = 50.0
"""Of a calibration's self-check."""

MOST_COMPARED = 64
"""Reports of one reporter on one case that those of others are held against, and of a key that teach, the
latest: each of many against each of many would take minutes."""

MOST_OF_KEY = 2_048
"""Observations of one key that teach, the latest: whatever it tells, what others ask costs no more."""

SAME_SIZE = 1.15
"""Of the power limits and memories of two devices of a kind."""

SAME_RATES, SAME_PATTERN, LEAST_COMMON = 1.25, 1.1, 3
"""Calibrations agree within this ratio, in the median of as many common sections at least; a section does
within the second one of what its two calibrations differ by otherwise."""

SAME_MEMORY, SAME_GIB = 1.06, 0.1
"""Two peaks of a setting, or two sections in GiB, lie as near: allocators differ by no more."""


def run_doubt(
    o: Observation, profile: Profile, card: Gpu, sheet: BaselinePrediction, n_train: int | None
) -> str | None:
    """Why the observation cannot be, as a clause; None where it can.

    sheet     its prediction by the card's data sheet alone; n_train: rows of the run, None = not said
    """
    batch, step, usual = o.batch_size, o.step_seconds, sheet.step_seconds
    if n_train is not None and batch > n_train:
        return f"its batch of {batch:,} is over the {n_train:,} rows that it trains on"
    if o.out_of_memory:
        least = LEAST_SHARE_OF_ONE if batch == 1 else LEAST_SHARE
        if is_key(o.reporter):
            least = LEAST_SHARE_BY_KEY
        if sheet.driver_gib < least * sheet.usable_gib:
            takes = f"batch {batch:,} takes {sheet.driver_gib:.3g} of {card.memory_gib:.3g} GiB by its trace"
            return f"{takes}: memory ran out for another reason"
    elif card.kind != "cpu":
        needed = allocated_bytes(profile, batch, o.optimizer) / GIB
        if needed > MOST_OF_CARD * card.memory_gib:
            takes = f"batch {batch:,} takes {needed:,.0f} GiB by its trace"
            return f"{takes}, and {card.key} has {card.memory_gib:.3g}"
        peaks = (o.peak_allocated_gib, o.peak_reserved_gib, o.peak_driver_gib)
        peak = max((gib for gib in peaks if gib is not None), default=needed)
        if o.mode == "train" and peak < LEAST_PEAK * needed:
            takes = f"the {needed:.3g} GiB that batch {batch:,} takes by its trace"
            return f"its peak of {peak:.3g} GiB is far below {takes}"
    if step is None:
        return None
    if step < (_least_seconds(o, profile, card) / MOST_RATE if card.kind == "cuda" else usual * LEAST_RATE):
        return f"a step of {1000.0 * step:.3g} ms is faster than the data sheet of {card.key} allows"
    if step * LEAST_RATE > usual:
        slow = f"a step of {step:,.3g} s takes over {1.0 / LEAST_RATE:.0f} times the {usual:.3g} s"
        return f"{slow} that {card.key} needs by its data sheet"
    return None


def host_doubt(o: Observation, law: BaselinePrediction) -> str | None:
    """The same of a fit or of an input pipeline, by its law alone."""
    for seconds in (o.step_seconds, o.at_most_seconds):
        ratio = 1.0 if seconds is None else seconds / law.step_seconds
        if ratio < LEAST_RATE or (ratio * LEAST_RATE > 1.0 and seconds is o.step_seconds):
            what = (
                f"a round of {o.model} on {o.batch_size:,} rows" if o.part == "fit" else "feeding one sample"
            )
            return f"{what} in {seconds:.3g} s is {ratio:.2g} times what its law says"
    return None


def calibration_doubt(calibration: Calibration, sheet: Gpu | None, error_percent: float | None) -> str | None:
    """The same of a calibration. error_percent: of its self-check."""
    if doubt := (calibration.self_check or {}).get("doubt"):
        return str(doubt)
    if error_percent is not None and error_percent > MOST_ERROR_PERCENT:
        return f"its reference networks ran {error_percent:,.0f} % away from what its own sections say"
    if sheet is None or sheet.kind != "cuda" or calibration.fingerprint.mig:
        return None
    stated = {f"matmul.{name}.": peak for name, peak in sheet.tflops.items()}
    for start, peak in {**stated, "bandwidth.": sheet.bandwidth_gb_s}.items():
        found = [
            one.value for name, one in calibration.sections.items()
            if name.startswith(start) and one.unit in ("TFLOP/s", "GB/s") and not name.endswith("mib")
        ]  # fmt: skip
        if found and not LEAST_RATE <= max(found) / peak <= MOST_RATE:
            what = start.strip(".").replace("matmul.", "products in ")
            return f"its {what} reach {max(found):.4g}, and the data sheet of {sheet.slug} says {peak:g}"
    return None


KindOf = Callable[[Observation], Hashable]
"""What kind of device of its GPU model ran it: figures of another kind (a slice, a lower power limit, another
processor) confirm nothing."""


def trusted(observations: Iterable[Observation], kind_of: KindOf) -> tuple[Observation, ...]:
    """What may teach, in its order: the observations without doubt, and of the others those figures that
    another reporter told alike; of what keys told never that memory ran out where the trace leaves room, for
    whatever took the rest may have done so twice."""
    every = tuple(observations)
    confirmed = _confirmed((o for o in every if o.doubt is not None), kind_of)
    kept = (
        (o, confirmed(o).keys() - ({"out_of_memory"} if is_key(o.reporter) else set()))
        if o.doubt is not None and not o.confirmed
        else (o, None)
        for o in every
    )
    return tuple(o if names is None else _only(o, names) for o, names in kept if names is None or names)


def limits_of(o: Observation) -> tuple[tuple[Hashable, int], ...]:
    """(what it is one of, how many of that teach, the latest): of one case of a key, and of the key."""
    if not is_key(o.reporter) or o.confirmed:
        return ()
    return ((o.reporter, _case(o)), MOST_COMPARED), (o.reporter, MOST_OF_KEY)


def _confirmed(
    observations: Iterable[Observation], kind_of: KindOf
) -> Callable[[Observation], dict[str, Any]]:
    """The figures of one of these that another reporter told alike, of the same setting and batch, as
    `_agreed` on; that memory ran out, at this batch or a smaller one and not on the same device: whoever
    shares one takes the other's memory."""
    told: dict[Hashable, dict[tuple[str, str], list[float]]] = {}
    for o in observations:
        for what, name, value in _what(o, kind_of) if o.reporter != SEVERAL else ():
            who = o.reporter, o.device if name == "out_of_memory" else ""
            told.setdefault(what, {}).setdefault(who, []).append(value)
    latest = {
        what: {who: sorted(some[-MOST_COMPARED:]) for who, some in by.items()} for what, by in told.items()
    }

    def confirmed(o: Observation) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for what, name, value in _what(o, kind_of) if o.reporter != SEVERAL else ():
            if told := {
                who: alike
                for (who, device), some in latest[what].items()
                if who != o.reporter
                and (not device or device != o.device)
                and (alike := _alike(some, name, value))
            }:
                found[name] = True if name == "out_of_memory" else _agreed(value, told)
        return found

    return confirmed


def _agreed(value: float, told: Mapping[str, Sequence[float]]) -> float:
    """The value, no further than others told it alike where two keys, or whoever is no key, did: within what
    agrees, too, one key moves no figure that others confirm. told: by reporter, not the value's own."""
    if len(told) == 1 and is_key(*told):
        return value
    every = [each for some in told.values() for each in some]
    return min(max(value, min(every)), max(every))


def _what(o: Observation, kind_of: KindOf) -> Iterable[tuple[Hashable, str, float]]:
    """(what it is a figure of, its name, value) of each; of memory that ran out the batch is the value."""
    setting = _SETTING(o), kind_of(o)
    for name in _figures_of(o):
        if name == "out_of_memory":
            yield (setting, name), name, o.batch_size
        else:
            yield (setting, name, o.batch_size), name, getattr(o, name)


def _alike(values: Sequence[float], name: str, value: float) -> Sequence[float]:
    """Those of these, in order, that confirm the value."""
    if name == "out_of_memory":
        return values[: bisect_right(values, value)]
    if name in _MEMORY:
        return [each for each in values if same_memory(each, value)]
    return values[bisect_left(values, value / SAME_FIGURE) : bisect_right(values, value * SAME_FIGURE)]


def confirmed_figures(observations: Iterable[Observation], kind_of: KindOf) -> tuple[dict[str, Any], ...]:
    """Of each that a key told, and no person confirmed, its figures that others may hear: those that a second
    reporter told alike, of the same setting. It does not depend on who asks."""
    every = tuple(observations)
    confirmed = _confirmed(every, kind_of)
    return tuple(confirmed(o) if is_key(o.reporter) and not o.confirmed else {} for o in every)


def heard(
    observations: Sequence[Observation], confirmed: Sequence[Mapping[str, Any]], asker: str
) -> tuple[tuple[Observation, ...], tuple[Observation, ...]]:
    """(what teaches a key's questions, what only one other key told), in their order, each with those figures
    alone. Times and peaks of what a key measured three times itself no other key changes for it; nor, of what
    it measured at all, one that tells much the same. confirmed: as `confirmed_figures` gives it."""
    own: dict[Hashable, set[str]] = {}
    mine: dict[Hashable, list[float]] = {}
    for o in observations if is_key(asker) else ():
        if o.reporter == asker:
            for figures in _measured(o):
                own.setdefault((_SETTING(o), o.device, figures), set()).add(o.run_id)
            for what, _, value in _what(o, _DEVICE):
                insort(mine.setdefault(what, []), value)
    settled = {what for what, runs in own.items() if len(runs) >= ENOUGH_RUNS}
    teaching, by_one = list[Observation](), list[Observation]()
    for o, agreed in zip(observations, confirmed, strict=True):
        if o.reporter == asker or not is_key(o.reporter) or o.confirmed:
            teaching.append(o)
            continue
        setting = _SETTING(o), o.device
        known = {name for each in (_TIME, _MEMORY) if (*setting, each) in settled for name in each}
        for what, name, value in _what(o, _DEVICE) if mine else ():
            if what in mine and _alike(mine[what], name, value):
                known.add(name)
        lone = _figures_of(o) - agreed.keys()
        for names, into in ((agreed.keys() - known, teaching), (lone - known, by_one)):
            if names:
                into.append(_only(o, names, agreed))
    return tuple(teaching), tuple(by_one)


def heard_rows(
    rows: Iterable[Row],
    asker: str | None,
    *,
    told_by: Callable[[Row], str],
    case: Callable[[Row], Hashable],
    agree: Callable[[Row, Row], bool],
) -> list[Row]:
    """The rows that count for whoever asks (None: for all), in their order: what no key told, its own, and
    those with which another reporter's of the same case agrees: agree(the row, the other's)."""
    every = list(rows)
    told: dict[Hashable, dict[str, deque[Row]]] = {}
    for row in every if asker is not None else ():
        told.setdefault(case(row), {}).setdefault(told_by(row), deque(maxlen=MOST_COMPARED)).append(row)

    def counts(row: Row) -> bool:
        who = told_by(row)
        if asker is None or not is_key(who) or who == asker:
            return True
        others = (some for other, some in told[case(row)].items() if other not in (who, SEVERAL))
        return who != SEVERAL and any(agree(row, other) for some in others for other in some)

    return [row for row in every if counts(row)]


def near_figures(one: float, other: float, ratio: float) -> bool:
    """Whether two figures over 0 agree within a ratio."""
    return min(one, other) > 0.0 and _near(one, other, ratio)


def calibrations_agree(one: Calibration, other: Calibration) -> bool:
    """Whether two devices of a kind measured much the same."""
    apart, _ = _compared(_Pair.of(one, other))
    return _two_of_a_kind(one, other) and apart is not None and apart <= SAME_RATES


def confirmed_sections(
    of: Calibration, others: Mapping[str, Sequence[Calibration]]
) -> dict[str, Measurement]:
    """Its sections that one of the others', by reporter, of another device, measured much the same, as they
    are `_agreed`, spread no further than two that agree may lie; none of fewer than `LEAST_COMMON`."""
    told: dict[str, dict[str, list[float]]] = {}
    for who, one in ((who, one) for who, some in others.items() for one in some if _two_of_a_kind(one, of)):
        for name in _compared(_Pair.of(of, one))[1]:
            told.setdefault(name, {}).setdefault(who, []).append(one.sections[name].value)
    found = {name: _bounded(of.sections[name], _agreed(of.sections[name].value, told[name])) for name in told}
    return dict(sorted(found.items())) if len(found) >= LEAST_COMMON else {}


def _bounded(told: Measurement, value: float) -> Measurement:
    low, high = value / SAME_RATES, value * SAME_RATES
    return replace(told, value=value, p20=min(max(told.p20, low), value), p80=max(min(told.p80, high), value))


def _two_of_a_kind(one: Calibration, other: Calibration) -> bool:
    """Two devices, each whole or a slice of the same profile, of as many cores, as much power and memory."""
    mine, theirs = one.fingerprint, other.fingerprint
    sizes = (mine.power_limit_w, theirs.power_limit_w), (mine.memory_gib, theirs.memory_gib)
    return (
        mine.uuid != theirs.uuid
        and (mine.kind, mine.mig) == (theirs.kind, theirs.mig)
        and (mine.kind != "cpu" or mine.cores == theirs.cores)
        and all(a == b or bool(a and b and _near(a, b, SAME_SIZE)) for a, b in sizes)
    )


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two calibrations, known by what they say: at each change of a device all are compared again."""

    content: tuple[str, str]
    one: Calibration = field(compare=False)
    other: Calibration = field(compare=False)

    @classmethod
    def of(cls, one: Calibration, other: Calibration) -> "_Pair":
        return cls((one.content, other.content), one, other)


@lru_cache(maxsize=4_096)
def _compared(pair: _Pair) -> tuple[float | None, frozenset[str]]:
    """(the median ratio of their common sections, larger over smaller; None where too few are common), and
    those that are much the same: near in themselves and beside the others, for what a kernel costs is read
    from differences, and within what allocators differ in memory."""
    common = {
        name: (mine, pair.other.sections[name])
        for name, mine in pair.one.sections.items()
        if name in pair.other.sections and min(mine.value, pair.other.sections[name].value) > 0.0
    }
    apart = {
        name: (log(mine.value) - log(theirs.value)) * (-1.0 if mine.unit in TIMES else 1.0)
        for name, (mine, theirs) in common.items()
    }
    if len(apart) < LEAST_COMMON:
        return None, frozenset()
    timed = [ratio for name, ratio in apart.items() if common[name][0].unit != "GiB"]
    usual = median(timed) if timed else 0.0
    same = (
        name
        for name, (mine, theirs) in common.items()
        if (
            same_memory(mine.value, theirs.value)
            if mine.unit == "GiB"
            else abs(apart[name]) <= log(SAME_RATES) and abs(apart[name] - usual) <= log(SAME_PATTERN)
        )
    )
    return exp(min(median(map(abs, apart.values())), MOST_LOG)), frozenset(same)


def same_memory(one: float, other: float) -> bool:
    """Whether two peaks in GiB agree."""
    return abs(one - other) <= max(SAME_GIB, (SAME_MEMORY - 1.0) * min(one, other))


KEY, HOST = "key ", "host "
SEVERAL = KEY
"""The reporter of a run of which several keys told: nobody's report, which nobody's confirms."""


def is_key(reporter: str) -> bool:
    """Whether it is a key of the server; else a host, or nobody who says a name."""
    return reporter.startswith(KEY)


def key_of(reporter: str) -> str:
    """The key that tells; "" for whoever is none."""
    return reporter if is_key(reporter) else ""


def reporter_of(key_name: str | None, host: Any) -> str:
    """Who tells of a run: the key; without one the host, as far as it says its name."""
    if key_name is not None:
        return f"{KEY}{key_name}"
    name = host.get("hostname") if isinstance(host, dict) else None
    return f"{HOST}{name[:200]}" if isinstance(name, str) and name else ""


def _least_seconds(o: Observation, profile: Profile, card: Gpu) -> float:
    """Of a step, by arithmetic alone, with all that the precision's units can do."""
    phases = (profile.forward,) if o.mode == "infer" else (profile.forward, profile.backward)
    flops = o.batch_size * sum(work.flops_per_sample for phase in phases for work in phase.values())
    units = ("fp32", "tf32") if o.precision in ("fp32", "tf32") else ("fp32", *card.tflops)
    return float(flops / (1e12 * max(card.tflops.get(name, 0.0) for name in units)))


def _case(o: Observation) -> Hashable:
    return o.gpu, o.model, o.input_size, o.mode, o.out_of_memory


SETTING = (
    "gpu", "model", "input_size", "mode", "part", "precision", "layout", "compiled", "checkpointing",
    "optimizer", "cores", "outputs", "leaves",
)  # fmt: skip
"""All that a figure of an observation depends on but for its device and its batch."""

_SETTING = attrgetter(*SETTING)

_DEVICE = attrgetter("device")

_TIME = "step_seconds", "at_least_seconds", "at_most_seconds", "first_epoch_ratio"
_MEMORY = "peak_allocated_gib", "peak_reserved_gib", "peak_driver_gib", "out_of_memory"
_UNSAID: dict[str, Any] = {**dict.fromkeys((*_TIME, *_MEMORY)), "out_of_memory": False}


def _figures_of(o: Observation) -> set[str]:
    """Those that it tells: what was contended or throttled tells no time, nor that memory ran out."""
    names = _MEMORY[:-1] if o.excluded is not None else (*_TIME, *_MEMORY)
    return {name for name in names if getattr(o, name)}


_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _only(o: Observation, names: Set[str], agreed: Mapping[str, Any] = _NOTHING) -> Observation:
    """The observation with these figures alone, as others agree on them."""
    others = {name: _UNSAID[name] for name in _figures_of(o) - names}
    others |= {
        name: agreed[name] for name in names if agreed.get(name) not in (None, False, getattr(o, name))
    }
    return replace(o, **others) if others else o


def _measured(o: Observation) -> tuple[tuple[str, ...], ...]:
    """What of time and memory it says for certain: that memory ran out says both."""
    timed = o.step_seconds is not None and o.excluded is None
    seen = any(getattr(o, name) is not None for name in _MEMORY[:-1])
    return (_TIME, _MEMORY) if o.out_of_memory else (_TIME,) * timed + (_MEMORY,) * seen


def _near(one: float, other: float, ratio: float) -> bool:
    return max(one, other) <= ratio * min(one, other)
