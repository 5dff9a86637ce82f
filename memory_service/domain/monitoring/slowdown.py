"""Slow runs and their causes: waiting for the loader, throughput below the prediction (R18), stalls."""

from dataclasses import dataclass
from statistics import median
from typing import Any

from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.cost.data_loader import MOST_WORKERS
from memory_service.domain.cost.throughput_knee import KNEE_GAIN
from memory_service.domain.monitoring.batch_change import (
    accumulation_for,
    is_late,
    larger_batch,
    pays_to_restart,
    predicted_gain,
)
from memory_service.domain.monitoring.run_view import RunView
from memory_service.domain.monitoring.trend import change_point, latched
from memory_service.domain.monitoring.verdict import Answer, advise, keep_going

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

LOW_UTILIZATION, IDLE_SAMPLES = 60.0, 6
"""R05: under this the card idles; more does not mean that it is used well. Six samples: one may fall
between two batches."""

USUAL_WORKERS = 8
"""R08's lower end, where the cores are not known."""

STALL_STEPS, STALL_EPOCHS, STALL_LEAST_S, STALL_SETUP_S = 10.0, 3.0, 60.0, 300.0
"""No step for 10 x the expected step and 60 s; outside the middle of an epoch also half an epoch, or before
the first is over its whole training (validation and checkpoints take no steps); no epoch for 3 x an epoch
where steps are not reported; no first step or epoch within 5 minutes, or 3 epochs as predicted."""

SILENT_LEAST_S = 180.0
"""R21: whoever reads a log to the service does so every 120-180 s; until then silence says nothing."""

PAUSE_TIMES = 2.0
"""Some report every 500th step: twice the longest pause between two reports is not yet a stall."""

TRAINING_UTILIZATION = 20.0
"""Percent; a card that is this busy before the first epoch was reported is training."""

THROTTLE_C = 83.0
"""From about here data centre and desktop cards lower their clocks."""

SLOWER_FROM, LEAST_SLOWER_S, REPORTED_FOR_EPOCHS = 1.5, 1.0, 4
"""Epochs that at once take half again as long and a second longer, two in a row: throttling, another tenant,
a swapping host. It is reported until four epochs show it; then it is known."""


def is_loader_bound(view: RunView) -> bool:
    return latched(view.wait_percents, WAIT_ON, WAIT_OFF)


def loader_answer(view: RunView, *, in_time: bool, left_seconds: float | None) -> Answer | None:
    """R08, R26: more workers, else cached or smaller samples; a larger batch would wait just as long.

    left_seconds   until training ends as it is; None = not known
    """
    if not is_loader_bound(view):
        return None
    state, wait = view.state, view.wait_percents[-1]
    cores, reported = state.whole("cpu_count"), state.summary.setting("num_workers")
    workers = 0 if reported == 0 else state.whole("num_workers")
    most = min(cores, MOST_WORKERS) if cores else USUAL_WORKERS
    changes: dict[str, Any]
    if workers is None or workers < most:
        changes = {"num_workers": most, "persistent_workers": True, "prefetch_factor": 4}
        how = f"set num_workers to {most}{'' if workers is None else f' instead of {workers}'}"
        rule = "R08"
    else:
        changes = {"cache": "samples converted once to what the model reads"}
        enough = f"all that {cores} cores can feed" if cores and cores <= most else "as many as help (R08)"
        how = f"{workers} workers are {enough}, so convert the samples once and cache them"
        if state.facts.image_size and state.facts.image_size >= 192:
            how += f" (or train at {int(state.facts.image_size * 0.75) // 32 * 32} px)"
        rule = "R26"
    found = {"finding": sentence("loader-waits", percent=wait), "how": how}
    faster = 100.0 / max(100.0 - wait, 1.0)
    if in_time and (is_late(view) or not pays_to_restart(view, left_seconds, faster)):
        return keep_going(sentence("feed-faster-next-time", **found), rule, changes)
    if is_late(view) and view.position.epochs_done:
        return keep_going(sentence("feed-faster-too-late", **found), rule, changes)
    return advise("relaunch", sentence("feed-faster", **found), rule, changes)


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Measured time over predicted; late: the late end of the prediction over its median."""

    ratio: float
    late: float
    words: Sentence


def slowdown(view: RunView) -> Slowdown | None:
    """How measured speed compares with the prediction; None without either."""
    expected = view.state.expected
    if expected.batch_size is not None and expected.batch_size != view.state.batch_size:
        return None
    rate, measured = expected.samples_per_second, view.samples_per_second
    if rate is not None and measured and rate.low > 0:
        ratio = rate.value / measured
        words = sentence("slow-step", times=ratio, measured=measured, predicted=rate.value)
        return Slowdown(ratio, rate.value / rate.low, words)
    epoch, seconds = expected.epoch_seconds, view.later_epoch_seconds
    if epoch is not None and seconds and epoch.value > 0:
        ratio = median(seconds) / epoch.value
        words = sentence("slow-epoch", times=ratio, measured=median(seconds), predicted=epoch.value)
        return Slowdown(ratio, epoch.high / epoch.value, words)
    return None


def throughput_objection(view: RunView, to_batch: int) -> str | None:
    """Why a larger batch would bring no speed, as measured; None where nothing speaks against it."""
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
    first, expected = view.first_epoch_seconds, view.state.expected.epoch_seconds
    in_first = first is not None and expected is not None and first <= expected.value
    if gain is None or gain >= KNEE_GAIN:
        return None
    more = f"batch {to_batch} would bring {100 * (gain - 1):.0f} % more at most"
    if slow is not None and slow.ratio > SLOW * max(1.0, slow.late):
        return f"{slow.words[0].lower()}{slow.words[1:]}, and {more}"
    if in_first if slow is None else slow.ratio <= max(1 / AS_PREDICTED, slow.late):
        as_predicted = f"is about what batch {batch} was predicted to bring, or more"
        return f"{measured:.0f} samples/s {as_predicted}, and {more}"
    return None


def slow_answer(view: RunView, fill: tuple[float, str] | None, left_seconds: float | None) -> Answer | None:
    """R05, R18 and the prediction: low throughput that data-loader wait does not explain.

    fill           of the card, percent, and which figure it was read from; None = not known
    left_seconds   until training ends as it is; None = not known
    """
    cause, checks = _causes(view)
    seconds = view.later_epoch_seconds
    change = change_point(seconds, jump=LEAST_SLOWER_S, confirm=2)
    recent = change is not None and len(seconds) - change.index <= REPORTED_FOR_EPOCHS
    if change is not None and recent and change.after >= SLOWER_FROM * change.before:
        why = sentence("epochs-slowed", before=change.before, after=change.after, cause=cause)
        return Answer("investigate", why, "R25", {"check": checks})
    if is_loader_bound(view):
        return None
    slow, busy = slowdown(view), view.utilization
    waiting = view.wait_percents[-1] if view.wait_percents else None
    if slow is not None:
        if slow.ratio <= SLOW * max(1.0, slow.late):
            return None
        finding, rule = slow.words, "R18"
    else:
        alarm, idle = _r18(view), _idles(view)
        if busy is not None and busy >= 70.0:
            return None
        if not idle and (alarm is None or (waiting is not None and waiting < 10.0)):
            return None
        finding = alarm or sentence("large-idles", percent=LOW_UTILIZATION)
        rule = "R18" if alarm else "R05"
    if slow is not None and not pays_to_restart(view, left_seconds, slow.ratio):
        return keep_going(sentence("slow-but-over", finding=finding), rule)
    if busy is not None and busy < LOW_UTILIZATION and waiting is not None and waiting < 10.0:
        percent, reading = fill or (None, None)
        to_batch, _ = larger_batch(view, 2.0, percent, reading)
        batch = view.state.batch_size or 0
        if to_batch > batch and reading not in (None, "allocated_now") and not is_late(view):
            changes = {"batch_size": to_batch, **accumulation_for(view, to_batch)}
            why = sentence("small-kernels", finding=finding, busy=busy, batch=batch)
            return advise("raise_batch", why, "R05", changes)
    why = sentence("slow", finding=finding, cause=cause)
    if busy is not None:
        why = sentence("slow-busy", finding=finding, busy=busy, cause=cause)
    return Answer("investigate", why, rule, {"check": checks})


def _causes(view: RunView) -> tuple[str, list[str]]:
    """Reported causes of slowness as (sentence, checks); without any, what to check."""
    hot = f" at {view.max_temperature_c:.0f} C" if view.max_temperature_c >= THROTTLE_C else ""
    causes = []
    if view.is_recent(view.summary.shared_us):
        causes.append("other processes on the card")
    if hot or view.is_recent(view.summary.throttled_us):
        causes.append(f"the card being throttled{hot}")
    if causes:
        return f"; what explains it: {' and '.join(causes)}", causes
    checks = ["loader", "mixed precision", "other processes", "host memory"]
    return "; nothing that was reported explains it", checks[1:] if view.wait_percents else checks


def _idles(view: RunView) -> bool:
    """R05, for models that should fill a card: over a minute of training and under 60 % busy."""
    began, busy = view.summary.first_step_us, view.utilization
    if began is None or busy is None or view.state.model_class != "large" or view.state.facts.is_trees:
        return False
    if view.samples_in_training < IDLE_SAMPLES or _is_done(view):
        return False
    return busy < LOW_UTILIZATION and view.now - began / 1e6 >= view.state.expected.first_check_seconds


def _r18(view: RunView) -> Sentence | None:
    least = BATCHES_PER_MINUTE.get(modality_of(view.state.facts.task))
    if least is None or not view.step_seconds or view.state.facts.is_trees:
        return None
    made = 60.0 / view.step_seconds
    if made >= least:
        return None
    return sentence("few-batches", made=made, least=least)


def stall_answer(view: RunView) -> Answer | None:
    """A stall: no progress although the run's own time goes on."""
    state, step_us = view.state, view.summary.step_us
    if state.facts.status != "running" or _is_done(view):
        return None
    if step_us is None and state.facts.reserve_minutes is not None:
        step_us = view.summary.last_us  # a script that fits models counts no steps: only silence is a stall
    limit = _usual_pause(view)
    idle = view.now - (0.0 if step_us is None else step_us / 1e6)
    if limit is None or idle <= limit:
        return None
    unread = view.summary.setting("unread_line")
    if step_us is None and unread:
        finding = sentence("log-not-understood", line=repr(str(unread).strip()))
        return advise("add_monitoring", sentence("report-epochs", finding=finding), "log", {})
    what = "step" if view.steps_seen else "epoch" if step_us is not None else "first step"
    checks = ["loader workers", "deadlock", "disk space"]
    silent = view.now - state.last_event_seconds
    if silent > 0.9 * idle:
        if silent <= SILENT_LEAST_S:
            return None
        limit, checks = max(limit, SILENT_LEAST_S), ["process alive", *checks]
        why = sentence("no-report", seconds=silent, usual=limit)
    else:
        why = sentence("no-step", what=what, seconds=idle, usual=limit)
    return Answer("investigate", why, "stall", {"check": checks}, "critical")


def _is_done(view: RunView) -> bool:
    at, epochs, folds = view.position, view.state.whole("epochs"), view.state.whole("folds") or 1
    return epochs is not None and (
        at.fold_index >= folds or (at.fold_index == folds - 1 and at.epochs_done >= epochs)
    )


def _usual_pause(view: RunView) -> float | None:
    """Seconds that may pass without a step, or an epoch where steps are not reported; None = unknown.

    A run that reports epochs only is silent through its first, and shows by a busy card that it trains.
    """
    expected = view.state.expected.epoch_seconds
    epoch = median(view.later_epoch_seconds) if view.later_epoch_seconds else view.first_epoch_seconds
    if view.summary.step_us is None:
        if (view.utilization or 0.0) >= TRAINING_UTILIZATION and view.now == view.state.last_event_seconds:
            return None
        return max(STALL_SETUP_S, 0.0 if expected is None else STALL_EPOCHS * expected.high)
    usual = max(STALL_LEAST_S, PAUSE_TIMES * view.longest_pause_seconds)
    if view.step_seconds:
        validation = 0.5 * epoch if epoch else (view.steps_per_epoch or 0) * view.step_seconds
        return max(usual, STALL_STEPS * view.step_seconds, 0.0 if view.in_mid_epoch else validation)
    return max(usual, STALL_EPOCHS * epoch) if epoch else None
