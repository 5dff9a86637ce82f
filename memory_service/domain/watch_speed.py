"""Is it slow, and why? Waiting for the loader, throughput against the prediction and R18, stalls."""

from __future__ import annotations

from statistics import median
from typing import Any

from memory_service.domain.loader import MOST_WORKERS
from memory_service.domain.speed import KNEE_GAIN
from memory_service.domain.trend import change_point, latched
from memory_service.domain.vocabulary import modality_of
from memory_service.domain.watch_batch import is_late, larger_batch, predicted_gain
from memory_service.domain.watch_verdict import Answer
from memory_service.domain.watch_view import View

__all__ = ["is_loader_bound", "loader_answer", "slow_answer", "slowdown", "stall_answer", "throughput_says"]

WAIT_ON, WAIT_OFF = 20.0, 15.0
"""Percent of the time spent waiting for the loader that makes it the bottleneck; under 15 it no longer is."""

SLOW = 1.5
"""Slower than the late end of the prediction by half: more than its own errors explain."""

AS_PREDICTED = 0.85
"""Measured samples per second from 85 % of the prediction on: the card gives what it was expected to."""

NO_MORE_GAIN = 1.05
"""An earlier run of this case at a smaller batch was within 5 % of this one's speed: past the knee,
measured."""

BATCHES_PER_MINUTE = {"image": 100.0, "tabular": 500.0}
"""R18."""

LOW_UTILIZATION = 60.0
"""R05: under this the card idles; more does not mean that it is used well."""

STALL_STEPS, STALL_EPOCHS, STALL_LEAST_S, STALL_SETUP_S = 10.0, 3.0, 60.0, 300.0
"""No step for 10 x the expected step, and at least 60 s and half an epoch (validation and checkpoints take no
steps); no epoch for 3 x an epoch where steps are not told of; no first step within 5 minutes."""

HOT_C = 83.0
"""From about here data centre and desktop cards lower their clocks."""

SLOWER_FROM = 1.5
"""Epochs that at once take half again as long, two in a row: throttling, another tenant, a swapping host."""


def is_loader_bound(view: View) -> bool:
    return latched(view.wait_percents, WAIT_ON, WAIT_OFF)


def loader_answer(view: View, *, in_time: bool) -> Answer | None:
    """R08, R26: more workers, else smaller or cached samples; a larger batch would wait just as long."""
    if not is_loader_bound(view):
        return None
    state, wait = view.state, view.wait_percents[-1]
    cores, workers = state.whole("cpu_count"), state.whole("num_workers")
    told = state.summary.setting("num_workers")
    workers = 0 if told == 0 else workers
    most = min(cores, MOST_WORKERS) if cores else None
    changes: dict[str, Any]
    if workers is not None and (most or 8) > workers:
        changes = {"num_workers": most or 8, "persistent_workers": True, "prefetch_factor": 4}
        how = f"num_workers {workers} -> {most or 8}"
        rule = "R08"
    else:
        changes = {"cache": "samples resized once to the input size of the model"}
        how = "resize or decode the samples once and cache them"
        rule = "R26"
        if state.facts.image_size and state.facts.image_size >= 192:
            changes["image_size"] = int(state.facts.image_size * 0.75) // 32 * 32
            how += f", or train at {changes['image_size']} px"
    why = (
        f"{wait:.0f} % of the time goes into waiting for the loader: {how}; a larger batch would gain "
        "nothing (R26)."
    )
    if in_time and is_late(view):
        return Answer(
            "continue",
            f"{why} The run ends in time as it is: change it next time.",
            rule,
            severity="info",
            next_time=changes,
        )
    return Answer("relaunch", why, rule, changes)


def slowdown(view: View) -> tuple[float, float] | None:
    """(measured time / predicted time, the late end of the prediction / its median); None without either."""
    expected = view.state.expected
    if expected.batch_size is not None and expected.batch_size != view.state.batch_size:
        return None
    rate = expected.samples_per_second
    if rate is not None and view.samples_per_second and rate.low > 0:
        return rate.value / view.samples_per_second, rate.value / rate.low
    if expected.epoch_seconds is not None and view.later_epoch_seconds and expected.epoch_seconds.value > 0:
        one = expected.epoch_seconds
        return median(view.later_epoch_seconds) / one.value, one.high / one.value
    return None


def throughput_says(view: View, to_batch: int) -> str | None:
    """Why a larger batch would bring no speed, as far as it was measured; None when nothing says so."""
    batch, measured = view.state.batch_size, view.samples_per_second or view.epoch_samples_per_second
    if not batch or not measured:
        return None
    for earlier, rate in view.state.expected.tried:
        if earlier < batch and rate > 0 and measured / rate < NO_MORE_GAIN:
            return (
                f"batch {batch} runs at {measured:.0f} samples/s and batch {earlier} ran at {rate:.0f}: "
                "past the knee of throughput, measured"
            )
    slow, gain = slowdown(view), predicted_gain(view, to_batch)
    if slow is not None and slow[0] <= 1 / AS_PREDICTED and gain is not None and gain < KNEE_GAIN:
        return (
            f"{measured:.0f} samples/s is what batch {batch} was predicted to bring, and batch {to_batch} "
            f"would bring {100 * (gain - 1):.0f} % more at most"
        )
    return None


def slow_answer(view: View, fill_percent: float | None, reading: str | None) -> Answer | None:
    """R05, R18 and the prediction: slower than it should be, although the loader is not what it waits for."""
    cause, checks = _causes(view)
    change = change_point([e.seconds for e in view.epochs if e.seconds and not e.first], jump=0.1, confirm=2)
    if change is not None and change.after >= SLOWER_FROM * change.before:
        return Answer(
            "investigate",
            f"Epochs took {change.before:.3g} s and at once {change.after:.3g} s{cause}.",
            "R25",
            {"check": checks},
        )
    slow, busy = slowdown(view), view.utilization
    waiting = view.wait_percents[-1] if view.wait_percents else None
    if slow is not None:
        ratio, width = slow
        if ratio <= SLOW * max(1.0, width):
            return None
        why, rule = f"A step takes {ratio:.1f} times as long as predicted", "R18"
    else:
        alarm = _r18(view)
        if alarm is None or (busy is not None and busy >= 70.0) or (waiting is not None and waiting < 10.0):
            return None
        why, rule = alarm, "R18"
    if busy is not None and busy < LOW_UTILIZATION and waiting is not None and waiting < 10.0:
        to_batch, _ = larger_batch(view, 2.0, fill_percent, reading)
        batch = view.state.batch_size or 0
        if to_batch > batch and reading not in (None, "allocated_now") and not is_late(view):
            return Answer(
                "raise_batch",
                f"{why}; the card is busy {busy:.0f} % of the time and does not wait for the loader: kernels "
                f"are too small at batch {batch}.",
                "R05",
                {"batch_size": to_batch},
            )
    idle = "" if busy is None else f"; the card is busy {busy:.0f} % of the time"
    return Answer("investigate", f"{why}{idle}{cause}.", rule, {"check": checks})


def _causes(view: View) -> tuple[str, list[str]]:
    """What the card itself said that explains slowness, or what to look at where it said nothing."""
    hot = f" at {view.hottest_c:.0f} C" if view.hottest_c >= HOT_C else ""
    seen = []
    if view.lately(view.summary.shared_us):
        seen.append("other processes on the card")
    if hot or view.lately(view.summary.throttled_us):
        seen.append(f"the card being throttled{hot}")
    if seen:
        return f"; what explains it: {' and '.join(seen)}", seen
    return "; nothing that was told explains it", [
        "loader",
        "mixed precision",
        "other processes",
        "host memory",
    ]


def _r18(view: View) -> str | None:
    least = BATCHES_PER_MINUTE.get(modality_of(view.state.facts.task))
    if least is None or not view.step_seconds or view.state.facts.is_trees:
        return None
    per_minute = 60.0 / view.step_seconds
    if per_minute >= least:
        return None
    return (
        f"{per_minute:.0f} batches a minute, under the {least:.0f} of R18, and no prediction to compare with"
    )


def stall_answer(view: View) -> Answer | None:
    """Nothing moves although the run still tells of itself (its own time goes on)."""
    state, summary = view.state, view.summary
    if state.facts.status != "running":
        return None
    at, epochs, folds = view.position, state.whole("epochs"), state.whole("folds") or 1
    if epochs is not None and (
        at.fold_index >= folds or (at.fold_index == folds - 1 and at.epochs_done >= epochs)
    ):
        return None
    if summary.step_us is None:
        limit, what = STALL_SETUP_S, "first step"
        idle = view.now
    else:
        idle = view.now - summary.step_us / 1e6
        epoch = median(view.later_epoch_seconds) if view.later_epoch_seconds else view.first_epoch_seconds
        if view.step_seconds:
            limit, what = max(STALL_STEPS * view.step_seconds, STALL_LEAST_S, 0.5 * (epoch or 0.0)), "step"
        elif epoch:
            limit, what = max(STALL_EPOCHS * epoch, STALL_LEAST_S), "epoch"
        else:
            return None
    if idle <= limit:
        return None
    return Answer(
        "investigate",
        f"No {what} for {idle:.0f} s, where {limit:.0f} s is the longest that is usual: look for a "
        f"hanging loader "
        "worker, a deadlock, a full disk.",
        "stall",
        {"check": ["loader workers", "deadlock", "disk space"]},
        "critical",
    )
