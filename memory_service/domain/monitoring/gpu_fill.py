"""Memory fill and the decision matrix (R20-R25)."""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_service.domain.common.sentences import sentence
from memory_service.domain.cost.memory import GIB, optimizer_bytes
from memory_service.domain.monitoring.batch_change import (
    accumulation_for,
    is_late,
    larger_batch,
    pays_to_restart,
)
from memory_service.domain.monitoring.event import MEMORY_KINDS, number_of
from memory_service.domain.monitoring.plausibility import SAME_CARD
from memory_service.domain.monitoring.run_view import FinishedEpoch, RunView
from memory_service.domain.monitoring.slowdown import slowdown, throughput_objection
from memory_service.domain.monitoring.trend import Change, change_point, growth_per_step
from memory_service.domain.monitoring.verdict import Answer, advise, keep_going
from memory_service.errors import InvalidInput

STATES_TIMES, STATES_PLUS_GIB = 1.5, 0.1
"""A figure whose kind is not stated, and that weights, gradients and optimizer state explain, is one of those
printed between steps (claim C01: 0.4 GB of EfficientNet-B4 at batch 32 were no "1 % of the card")."""

STATES_PERCENT = 5.0
"""The same where the model's parameters are not known: nobody's training step peaks under 5 % of a card."""

PLANNED_SHARE = 0.6
"""As `advice.checks_of`: from 60 % of the plan's own low end on, the fill is the one that was planned."""

MONITORING = {"print_gpu_memory": "every epoch", "call": "torch.cuda.max_memory_allocated()"}

GROWS_TO = 95.0


@dataclass(frozen=True, slots=True)
class Fill:
    """Share of the card's memory, percent, by the best figure there is.

    kind           of memory, as reported
    lower_bound    only weights and states were reported: the peak is at least this
    """

    percent: float
    gib: float | None
    of_gib: float | None
    kind: str
    lower_bound: bool

    @property
    def words(self) -> str:
        name = {
            "allocated_now": "allocated between steps",
            "peak_allocated": "peak allocated",
            "reserved": "reserved",
            "driver": "as the driver shows it",
            "unstated": "as the log says",
        }[self.kind]
        size = "" if self.gib is None or self.of_gib is None else f"{self.gib:.1f} of {self.of_gib:.1f} GiB, "
        near_a_band = abs(self.percent - 10.0 * round(self.percent / 10.0)) < 1.0
        percent = f"{self.percent:.1f}".removesuffix(".0") if near_a_band else f"{self.percent:.0f}"
        return f"{percent} % ({size}{name})"


def card_gib(view: RunView) -> float | None:
    """Memory that the fill is a share of: the planned card's (R06), as the run prints it if it is the
    same."""
    sheet = view.state.facts.memory_gib
    reported = number_of(view.summary.setting("total_gib"), most=1e6)
    if not sheet or not reported:
        return sheet or reported
    return reported if reported <= SAME_CARD * sheet else sheet


def fill_of(view: RunView) -> Fill | None:
    """Memory use since the batch or the memory itself last changed; None without a reading."""
    card = card_gib(view)
    for kind in MEMORY_KINDS:
        gib = _latest_level(view, kind, card) or view.memory_since(kind)
        if gib is None or not gib or not card:
            continue
        percent = 100.0 * gib / card
        between = kind == "allocated_now" or (kind == "unstated" and _is_model_state(view, gib, percent))
        return Fill(percent, gib, card, kind, between)
    reported = view.memory_since("unstated_percent")
    if reported is None:
        return None
    percent = reported * (1 << 20) / 1000.0
    return Fill(percent, None, card, "unstated", percent < STATES_PERCENT)


def _is_model_state(view: RunView, gib: float, percent: float) -> bool:
    params = view.state.facts.params_m * 1e6
    if params <= 0:
        return percent < STATES_PERCENT
    try:
        state = optimizer_bytes(int(params), view.state.facts.optimizer)
    except InvalidInput:
        state = 8.0 * params
    return gib <= STATES_TIMES * (8.0 * params + state) / GIB + STATES_PLUS_GIB


def monitoring_answer(view: RunView, fill: Fill | None) -> Answer | None:
    """R20: no reading of the card's memory, or only one that says nothing of a step's peak."""
    if view.state.facts.device_kind != "cuda" or view.state.facts.is_trees:
        return None
    if fill is not None and (not fill.lower_bound or fill.percent >= view.state.expected.kill_percent):
        return None
    slow = slowdown(view)
    if slow is not None and slow.ratio <= 1.2:
        known = sentence("no-reading-as-predicted")
        if fill is not None:
            known = sentence("no-peak-as-predicted", fill=fill.words)
        return keep_going(known, "R20", MONITORING)
    finding = sentence("no-reading") if fill is None else sentence("no-peak", fill=fill.words)
    if is_late(view):
        return keep_going(sentence("print-next-time", finding=finding), "R20", MONITORING)
    return advise("add_monitoring", sentence("print-peak", finding=finding), "R20", dict(MONITORING))


def fill_answer(view: RunView, fill: Fill | None, left_seconds: float | None) -> Answer | None:
    """R23 by class and fill; throughput decides where it says otherwise. None without a usable reading.

    left_seconds   until training ends as it is; None = not known
    """
    if fill is None or view.state.facts.device_kind != "cuda" or view.state.facts.is_trees:
        return None
    large, p = view.state.model_class == "large", round(fill.percent, 1)
    (low, high), least = view.state.expected.target_percent, view.state.expected.kill_percent
    if fill.lower_bound:
        if p < least:
            return None
        return keep_going(sentence("fill-lower-bound", fill=fill.words), "R23")
    code = ""
    if p > high:
        code = "fill-near-limit"
    elif p >= low:
        code = "fill-inside"
    elif p >= max(60.0, least):
        code = "fill-not-ideal" if large else "fill-good-small"
    elif p >= least and not large:
        code = "fill-acceptable-small"
    if code:
        return keep_going(sentence(code, fill=fill.words, low=low, high=high), "R23")
    return _raise(view, fill, 2.0 if p < least else 1.5, left_seconds)


def _raise(view: RunView, fill: Fill, factor: float, left_seconds: float | None) -> Answer:
    batch = view.state.batch_size
    expected = view.state.expected
    low = expected.kill_percent if factor == 2.0 else expected.target_percent[0]
    size = " for a large model" * (factor != 2.0)  # whatever its class, less is too little
    finding = sentence("fill-under", fill=fill.words, low=low, size=size)
    if not batch:
        why = sentence("batch-unknown", finding=finding, factor=factor)
        return Answer("investigate", why, "R23", {"tell": "batch_size"})
    to_batch, limited_by = larger_batch(view, factor, fill.percent, fill.kind)
    if _as_planned(view, fill):
        return keep_going(sentence("fill-as-planned", finding=finding), "R23")
    if to_batch <= batch:
        return keep_going(sentence("batch-stays", finding=finding, batch=batch, limit=limited_by), "R23")
    objection = throughput_objection(view, to_batch)
    if objection is not None:
        return keep_going(sentence("no-faster", finding=finding, objection=objection), "R23")
    changes = {"batch_size": to_batch, **accumulation_for(view, to_batch)}
    steps = {"batch": batch, "to_batch": to_batch, "limit": f" ({limited_by})" if limited_by else ""}
    if is_late(view) or not pays_to_restart(view, left_seconds, to_batch / batch):
        return keep_going(sentence("raise-next-time", finding=finding, **steps), "R24", changes)
    if factor == 2.0:
        return advise("relaunch", sentence("restart-with-batch", finding=finding, **steps), "R23", changes)
    return advise("raise_batch", sentence("raise-batch", finding=finding, **steps), "R23", changes, "info")


def _as_planned(view: RunView, fill: Fill) -> bool:
    expected = view.state.expected
    if not expected.planned or expected.driver_gib is None or not fill.of_gib:
        return False
    if expected.batch_size is not None and expected.batch_size != view.state.batch_size:
        return False
    slow = slowdown(view)
    if slow is not None and slow.ratio > 1.5 * slow.late:
        return False
    return fill.percent >= PLANNED_SHARE * 100.0 * expected.driver_gib.low / fill.of_gib


def memory_trend(view: RunView) -> Answer | None:
    """R25: a jump of memory at one epoch, or a leak that will fill the card before the end."""
    card = card_gib(view)
    kinds = [kind for kind in MEMORY_KINDS if sum(kind in e.memory_gib for e in view.epochs) >= 2]
    if not kinds or not card:
        return None
    rows, percents, change = _levels(view, kinds[0], card)
    if change is not None and len(rows) - change.index <= REPORTED_FOR_EPOCHS:
        row = rows[change.index]
        at = f"epoch {row.epoch}{f' of fold {row.fold}' if row.fold > 1 else ''}"
        why = sentence("memory-jumped", before=change.before, after=change.after, at=at)
        checks = {"check": ["batch size", "tensors kept alive", "model on the card"]}
        return Answer("investigate", why, "R25", checks)
    return _leak(view, percents)


def _levels(view: RunView, kind: str, card: float) -> tuple[list[FinishedEpoch], list[float], Change | None]:
    """Epochs with a figure of this kind, the fill at each in percent, and where it moved at once."""
    rows = [e for e in view.epochs if kind in e.memory_gib]
    percents = [100.0 * e.memory_gib[kind] / card for e in rows]
    return rows, percents, change_point(percents)


def _latest_level(view: RunView, kind: str, card: float | None) -> float | None:
    """GiB at the level that memory moved to; None where it never moved."""
    if not card:
        return None
    rows, _, change = _levels(view, kind, card)
    return None if change is None else max(e.memory_gib[kind] for e in rows[change.index :])


REPORTED_FOR_EPOCHS = 3
"""A change is reported for three epochs; after that it is known, and the new level is judged as it is."""


def _leak(view: RunView, percents: Sequence[float]) -> Answer | None:
    step = growth_per_step(percents)
    epochs = view.state.whole("epochs")
    if step is None or epochs is None or percents[-1] - percents[0] < 10.0:
        return None
    left = max(0, epochs - view.position.epochs_done)
    if percents[-1] + left * step < GROWS_TO:
        return None
    why = sentence("memory-leaks", step=step, most=GROWS_TO)
    return Answer("investigate", why, "R25", {"check": ["losses kept with their graph", "lists of outputs"]})
