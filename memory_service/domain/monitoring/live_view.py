"""What the page of a running run shows: latest minutes and peaks, in plain units."""

from dataclasses import asdict, replace
from typing import Any

from memory_service.domain.monitoring.end_of_training import project, training_deadline_seconds
from memory_service.domain.monitoring.gpu_fill import fill_of
from memory_service.domain.monitoring.run_view import GIB, RunView
from memory_service.domain.monitoring.state import State
from memory_service.domain.monitoring.summary import BUCKET_SECONDS, RankSums, TimeBucket


def live_view(state: State) -> dict[str, Any]:
    """Position, speed, memory and projected end of a run, its latest time buckets; None = not reported."""
    view, summary = RunView(state), state.summary
    projection, fill = project(view), fill_of(view)
    deadline, own = training_deadline_seconds(view), state.facts.reserve_minutes is not None
    position, peaks = view.position, sorted(summary.peaks.items())
    return {
        "at_seconds": round(state.now_seconds, 3),
        "used_minutes": round(view.used / 60.0, 2),
        "batch_size": state.batch_size,
        "position": {
            "fold": position.fold_index,
            "folds": state.whole("folds"),
            "epochs_done": position.epochs_done,
            "epochs": state.whole("epochs"),
        },
        "steps": view.steps_seen,
        "step_seconds": view.step_seconds,
        "samples_per_second": view.samples_per_second or view.epoch_samples_per_second,
        "loader_wait_percent": view.wait_percents[-1] if view.wait_percents else None,
        "utilization_percent": view.utilization,
        "end_minutes": None if projection is None else projection.end.scaled(1.0 / 60.0).as_dict(),
        "training_ends_by_minute": None if deadline is None or own else round(deadline / 60.0, 2),
        "fill": fill and asdict(replace(fill, percent=round(fill.percent, 1))),
        "peaks_gib": {kind: round(kib * GIB, 4) for kind, kib in peaks if kind != "unstated_percent"},
        "ranks": [_rank(number, sums) for number, sums in sorted(summary.ranks.items())],
        "odd_values": summary.odd,
        "expected": {
            name: estimate and estimate.as_dict()
            for name in ("samples_per_second", "epoch_seconds", "driver_gib")
            for estimate in (getattr(state.expected, name),)
        },
        "stretch_seconds": BUCKET_SECONDS,
        "stretches": [_bucket(n, sums) for n, sums in sorted(summary.time_buckets.items())],
    }


def _rank(number: int, sums: RankSums) -> dict[str, Any]:
    steps, busy, known, waited, samples, peak = sums
    return {
        "rank": number,
        "steps": steps,
        "step_seconds": busy / 1e6 / steps if steps else None,
        "samples_per_second": samples * 1e6 / busy if busy and samples else None,
        "loader_wait_percent": 100.0 * waited / known if known else None,
        "peak_gib": round(peak * GIB, 4) or None,
    }


def _bucket(number: int, sums: TimeBucket) -> dict[str, Any]:
    busy = sums.busy / 1e6
    return {
        "at_seconds": number * BUCKET_SECONDS,
        "steps": sums.steps or None,
        "samples_per_second": sums.samples / busy if busy and sums.samples else None,
        "loader_wait_percent": 100.0 * sums.waited / sums.wait_known if sums.wait_known else None,
        "utilization_percent": sums.utilization / 1000.0 / sums.sampled if sums.sampled else None,
        "temperature_c": sums.temperature / 10.0 if sums.temperature else None,
    }
