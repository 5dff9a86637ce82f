"""Which other batch size is worth a restart, bounded by memory, updates an epoch and throughput."""

from typing import Any

from memory_service.domain.cost.throughput_knee import BATCH_LADDER, KNEE_GAIN, floor_to_ladder
from memory_service.domain.monitoring.run_view import RunView
from memory_service.domain.planning.hyperparameters import SINGLE_SPLIT_SHARE

EARLY_SHARE = 0.20
"""Only in the first fifth of the budget (or of the epochs) does starting again cost less than it brings:
R13's share. Later the batch is raised next time (R24)."""

FULL_PERCENT = {"driver": 95.0, "unstated": 95.0, "reserved": 92.0, "peak_allocated": 90.0}
"""The fill that a larger batch may reach if memory grew in full proportion, which it never quite does: so the
real one stays about within R04's 90 %. Reserved lacks the context (0.9 GiB), peak allocated also the
allocator's fragments (4 %)."""

LEAST_UPDATES = 30
"""A plan keeps about 50 updates an epoch; an alarm of fill may take them down to 30, not further."""

RESTART_SECONDS = 45.0
"""p90 of starting again: imports, context, first kernels (`domain.planning.run_seconds`)."""

CONTEXT_GIB, LIVE_SHARE = 0.9, 0.9
"""What the driver counts beside the allocator's memory, and the share of that which live tensors take."""

LEAST_FASTER = 1.5
"""A batch must be predicted to be this much faster before a run is started again for its speed alone."""


def larger_batch(
    view: RunView, factor: float, fill_percent: float | None, reading: str | None
) -> tuple[int, str]:
    """(batch, what limits it) for `factor` times the present one; the present one when nothing larger
    goes.

    Memory grows at most in proportion to the batch (weights do not grow), so a fill of 48 % at 384 allows 512
    and not 768.
    """
    state = view.state
    batch = state.batch_size or 0
    limits: list[tuple[float, str]] = [(batch * factor, "")]
    if fill_percent and reading in FULL_PERCENT:
        full = FULL_PERCENT[reading]
        limits.append((batch * full / fill_percent, f"more would pass {full:.0f} % of the memory"))
    if state.expected.largest_batch and not _less_than_predicted(view, fill_percent, reading):
        limits.append((state.expected.largest_batch, "more is predicted not to fit"))
    refused = state.refused_batch
    if refused:
        limits.append((refused - 1, f"{refused} ran out of memory"))
    n_train = state.whole("n_train")
    if n_train:
        most = n_train * SINGLE_SPLIT_SHARE / LEAST_UPDATES
        limits.append((most, f"more would leave under {LEAST_UPDATES} updates an epoch"))
    room, why = min(limits, key=lambda limit: limit[0])
    wanted = floor_to_ladder(room)
    return (wanted, why) if wanted > batch else (batch, why)


def _less_than_predicted(view: RunView, fill_percent: float | None, reading: str | None) -> bool:
    """Whether the run needs less memory than even the low end of its prediction: then what was measured says
    what fits (a measured figure goes before an estimated one)."""
    expected, card = view.state.expected, view.state.memory_gib
    predicted = expected.driver_gib
    if predicted is None or not fill_percent or not card or reading not in FULL_PERCENT:
        return False
    if expected.batch_size is not None and expected.batch_size != view.state.batch_size:
        return False
    low = predicted.low if reading == "driver" else LIVE_SHARE * predicted.low - CONTEXT_GIB
    return fill_percent / 100.0 * card < low


def predicted_gain(view: RunView, to_batch: int) -> float | None:
    """Samples per second at `to_batch` over those at the present batch, by the predicted curve; None
    without."""
    curve, batch = view.state.expected.curve, view.state.batch_size
    now, then = (_on_curve(curve, b) for b in (batch or 0, to_batch))
    if now is None or then is None:
        knee = view.state.expected.knee_batch_size
        return 1.0 if knee and batch and batch >= knee else None
    return then / now


def fastest_batch(view: RunView) -> tuple[int, float] | None:
    """(batch, gain) of the predicted curve's knee, where it is larger and much faster than the present
    batch."""
    batch = view.state.batch_size or 0
    rungs = [b for b, _ in view.state.expected.curve if b > batch]
    most, _ = larger_batch(view, 1e9, None, None)
    best: tuple[int, float] | None = None
    for rung in sorted(rungs):
        gain = predicted_gain(view, rung)
        if rung <= most and gain is not None and gain >= (best[1] if best else 1.0) * KNEE_GAIN:
            best = (rung, gain)
    return best if best is not None and best[1] >= LEAST_FASTER else None


def accumulation_for(view: RunView, to_batch: int) -> dict[str, Any]:
    """Gradient accumulation that keeps the effective batch where the run accumulates; else nothing. What it
    began with belongs to the batch it began with."""
    state, batch = view.state, view.state.batch_size or 1
    steps = float(state.whole("grad_accumulation") or 1)
    if state.summary.setting("grad_accumulation") is None and steps > 1:
        steps *= (state.facts.batch_size or batch) / batch
    if steps <= 1 and to_batch >= batch:
        return {}
    return {"grad_accumulation": max(1, round(steps * batch / to_batch))}


def is_late(view: RunView) -> bool:
    """Whether starting again costs more than it brings."""
    budget = view.state.budget_seconds
    if budget is not None:
        return view.used > EARLY_SHARE * budget
    epochs, folds = view.state.whole("epochs"), view.state.whole("folds") or 1
    at = view.position
    return (
        bool(epochs) and at.fold_index * (epochs or 0) + at.epochs_done > EARLY_SHARE * (epochs or 0) * folds
    )


def pays_to_restart(view: RunView, left_seconds: float | None, gain: float) -> bool:
    """Whether a run of `gain` times the speed, started now, would end before this one; True where the end is
    not known. left_seconds: until training ends as it is."""
    if left_seconds is None:
        return True
    return RESTART_SECONDS + (view.used + left_seconds) / gain < left_seconds


def _on_curve(curve: tuple[tuple[int, float], ...], batch: int) -> float | None:
    """Samples per second at a batch: of the nearest rungs, linear between them; None outside."""
    below = [p for p in curve if p[0] <= batch]
    above = [p for p in curve if p[0] >= batch]
    if not below or not above:
        return None
    (b0, r0), (b1, r1) = below[-1], above[0]
    return r0 if b1 == b0 else r0 + (r1 - r0) * (batch - b0) / (b1 - b0)


def smaller_rung(batch: int) -> int:
    """Half the batch on the ladder, at least 1 (R02)."""
    return max(1, floor_to_ladder(batch / 2)) if batch > 1 else BATCH_LADDER[0]
