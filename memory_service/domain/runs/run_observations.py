"""Observations of a finished run: one for each batch size, or one of its fits; and one of what fed it.

Rules of exclusion (an excluded observation still counts for memory):
    contended      in over a tenth of the samples another process used the card; on a processor, threads of
                   the run were ready and other work had the cores
    throttled      in over a tenth of them the driver slowed the clock for heat or power
    loader_bound   over a tenth of the time went into waiting for the loader: the card's own share of such a
                   step is not known, because it works while the loop waits
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from memory_service.domain.learning.observation import Exclusion, Observation
from memory_service.domain.monitoring.event import OWN_FIT
from memory_service.domain.runs.run_outcome import Epoch, Outcome, Peaks, trained_samples

EndStatus = Literal["completed", "stopped", "out_of_memory", "timed_out", "crashed"]

LARGEST_SHARE = 0.1
LARGEST_WAIT_PERCENT = 10.0
MIN_WINDOWS = 2


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended, in its own time since its start.

    setup_seconds   what a run of this kind may take before its first step, at most (p90)
    batch_size      at which memory ran out, where it is not the run's
    """

    status: EndStatus
    after_seconds: float
    setup_seconds: float = 120.0
    batch_size: int | None = None


MOST_BATCHES = 64
"""Batch sizes of one run that teach: each is judged and stored by itself."""


def observations_of(
    case: Observation, outcome: Outcome, ending: Ending, *, n_train: int | None, folds: int | None
) -> list[Observation]:
    """Those with something to say, by batch size: the latest MOST_BATCHES, its epochs' first.

    case   of what ran, with the batch it began with (0 = not stated); figures not filled in
    """
    if case.part == "fit":
        return _of_fits(case, outcome, ending)
    failed = _failed_batch(case, outcome, ending)
    timed = [window.batch_size for window in outcome.step_windows] + [e.batch_size for e in outcome.epochs]
    told = dict.fromkeys(batch for batch in reversed((*outcome.peaks, *timed, failed)) if batch)
    used = [*told][:MOST_BATCHES] or {case.batch_size} - {0}
    excluded = exclusion_of(outcome, processor=case.cores is not None)
    found = []
    for batch in sorted(used):
        one = _of_batch(replace(case, batch_size=batch, excluded=excluded), outcome)
        if batch == failed:
            one = replace(one, out_of_memory=True)
        if one.step_seconds is None and ending.status == "timed_out":
            least = _at_least(batch, outcome, ending, trained_samples(n_train, folds))
            one = replace(one, at_least_seconds=least)
        if _has_figures(one):
            found.append(one)
    return found


def loader_observation(
    case: Observation, outcome: Outcome, task: str, modality: str, workers: int, cpu_count: int
) -> Observation | None:
    """What the run says of the pipeline that fed it: what a sample took where the network waited for it, else
    what it took at most. case: of the run, with its input size."""
    epochs = [e for e in outcome.steady if e.seconds and e.samples]
    if not epochs or (outcome.use.crowded and outcome.use.crowded > LARGEST_SHARE):
        return None
    seconds = float(np.median([(e.seconds or 0.0) / (e.samples or 1.0) for e in epochs]))
    waits = (outcome.loader_wait_percent or 0.0) > LARGEST_WAIT_PERCENT
    return Observation(
        case.gpu, task, modality, case.input_size, "fp32", workers, case.device, "loader", cpu_count,
        step_seconds=seconds if waits else None, at_most_seconds=None if waits else seconds, n=len(epochs),
        timed_seconds=sum(e.seconds or 0.0 for e in epochs), reporter=case.reporter, run_id=case.run_id,
        source=case.source, at=case.at,
    )  # fmt: skip


def _of_fits(case: Observation, outcome: Outcome, ending: Ending) -> list[Observation]:
    """One for the folds together: seconds of a round on average."""
    fits = [one for one in outcome.fits if one.model in (OWN_FIT, case.model) and one.rows and one.rounds > 0]
    if not fits or ending.status in ("out_of_memory", "crashed"):
        return []
    seconds, rounds = sum(one.seconds for one in fits), sum(one.rounds for one in fits)
    excluded = exclusion_of(outcome, processor=True)
    return [
        replace(
            case,
            batch_size=round(float(np.median([one.rows or 0.0 for one in fits]))),
            input_size=fits[0].columns or case.input_size,
            step_seconds=seconds / rounds,
            timed_seconds=min(seconds, ending.after_seconds),
            peak_driver_gib=outcome.peak.host_gib,
            n=max(1, round(float(np.median([one.rounds for one in fits])))),
            excluded=None if excluded == "loader_bound" else excluded,
        )
    ]


def exclusion_of(outcome: Outcome, *, processor: bool = False) -> Exclusion | None:
    """Why the run says nothing of the device's speed; None when it does."""
    shared = outcome.use.crowded if processor else outcome.use.shared
    if (shared or 0.0) > LARGEST_SHARE:
        return "contended"
    if (outcome.use.throttled or 0.0) > LARGEST_SHARE:
        return "throttled"
    if (outcome.loader_wait_percent or 0.0) > LARGEST_WAIT_PERCENT:
        return "loader_bound"
    return None


def steady_step_seconds(outcome: Outcome, batch_size: int) -> tuple[float | None, int, float]:
    """(median seconds of a step at the batch, epochs or batch events behind it, seconds of them): from the
    epochs without the run's first; where there are none, from batch events after the first steps."""
    steady = [e for e in outcome.steady if e.batch_size == batch_size and e.step_seconds]
    if steady:
        seconds = sum(e.seconds or 0.0 for e in steady)
        return float(np.median([e.step_seconds or 0.0 for e in steady])), len(steady), seconds
    parts = [s for s in outcome.step_windows if s.batch_size == batch_size and not s.first and s.step_seconds]
    if len(parts) < MIN_WINDOWS:
        return None, 0, 0.0
    median = _weighted_median([p.step_seconds for p in parts], [p.steps for p in parts])
    return median, len(parts), sum(p.seconds for p in parts)


def _of_batch(case: Observation, outcome: Outcome) -> Observation:
    step, n, seconds = steady_step_seconds(outcome, case.batch_size)
    peaks = outcome.peaks.get(case.batch_size, Peaks())
    driver = peaks.driver_gib if case.cores is None else peaks.host_gib or peaks.driver_gib
    shared = case.excluded == "contended" and case.cores is None
    return replace(
        case,
        step_seconds=step,
        first_epoch_ratio=_first_ratio(outcome.first, step, case.batch_size),
        peak_allocated_gib=peaks.allocated_gib,
        peak_reserved_gib=peaks.reserved_gib,
        peak_driver_gib=None if shared else driver,
        timed_seconds=seconds or None,
        n=max(n, 1),
    )


def _first_ratio(first: Epoch | None, step: float | None, batch_size: int) -> float | None:
    if first is None or step is None or first.batch_size != batch_size:
        return None
    slow = first.step_seconds
    return slow / step if slow else None


def _failed_batch(case: Observation, outcome: Outcome, ending: Ending) -> int | None:
    """The batch that did not fit: as the finish says, else the last one used."""
    if ending.status != "out_of_memory" and not (ending.status == "crashed" and outcome.out_of_memory):
        return None
    if ending.batch_size:
        return ending.batch_size
    used = [epoch.batch_size for epoch in outcome.epochs] + [s.batch_size for s in outcome.step_windows]
    return next((batch for batch in reversed(used) if batch), None) or case.batch_size or None


def _at_least(batch: int, outcome: Outcome, ending: Ending, samples: float | None) -> float | None:
    """A step takes at least this: the epoch that the time-out cut short had not ended. Its beginning is the
    end of the first epoch; before that, the start and all that a setup may take."""
    first = outcome.first
    per_epoch = samples or (first.samples if first else None)
    if not per_epoch:
        return None
    began = ending.setup_seconds if first is None else max(e.at_seconds for e in outcome.epochs)
    cut = ending.after_seconds - began
    return cut / -(-per_epoch // batch) if cut > 0.0 else None


def _has_figures(one: Observation) -> bool:
    figures = (one.step_seconds, one.at_least_seconds, one.peak_allocated_gib, one.peak_reserved_gib)
    return one.out_of_memory or any(value is not None for value in (*figures, one.peak_driver_gib))


def _weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    order = np.argsort(values, kind="stable")
    share = np.cumsum(np.asarray(weights, dtype=np.float64)[order])
    return float(np.asarray(values)[order][np.searchsorted(share, share[-1] / 2.0)])
