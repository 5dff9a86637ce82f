"""Old raw samples become one of the device and one of steps an epoch; what a run learns from them stays."""

from __future__ import annotations

from typing import Any

import pytest

from memory_service.domain.monitoring.event import Event
from memory_service.domain.runs.run_outcome import outcome_of
from memory_service.domain.runs.thinning import thinned

Raw = list[tuple[int, str, dict[str, Any]]]


def _run() -> Raw:
    out: Raw = []
    for epoch in range(3):
        for n in range(5):
            used = {"process_gib": 8.0 + epoch + 0.1 * n, "utilization_percent": 90 + n, "at": "t"}
            out.append((len(out), "gpu", used))
            wait = {"loader_wait_percent": 10.0} if n % 2 else {"loader_wait_seconds": 0.2}
            out.append((len(out), "batch", {"steps": 10, "seconds": 2.0, "at": "t", **wait}))
        out.append((len(out), "epoch", {"fold": 0, "epoch": epoch, "seconds": 10.0 + epoch, "at": "t"}))
    out.append((len(out), "gpu", {"process_gib": 6.0, "at": "t"}))
    return out


def _apply(events: Raw) -> Raw:
    kept: dict[int, Any] = {}
    gone: set[int] = set()
    for one in thinned(events):
        kept |= one.merged
        gone |= set(one.gone)
    return [(seq, kind, kept.get(seq, body)) for seq, kind, body in events if seq not in gone]


def _outcome(events: Raw) -> Any:
    return outcome_of([Event(seq, kind, float(seq), body) for seq, kind, body in events], batch_size=32)


def test_epochs_peaks_and_steps_are_what_they_were() -> None:
    before, after = _run(), _apply(_run())
    assert len(after) == 3 * 3 + 1
    old, new = _outcome(before), _outcome(after)
    assert new.epochs == old.epochs
    assert new.peaks == old.peaks
    assert sum(s.steps for s in new.step_windows) == sum(s.steps for s in old.step_windows) == 150
    waited = [sum(s.waited_seconds for s in outcome.step_windows) for outcome in (new, old)]
    assert waited[0] == pytest.approx(waited[1])
    assert new.use.utilization_percent == old.use.utilization_percent


def test_thinning_again_changes_nothing() -> None:
    once = _apply(_run())
    assert list(thinned(once)) == []


def test_what_is_no_raw_sample_stays() -> None:
    told: Raw = [(n, "note", {"text": "x"}) for n in range(4)]
    assert list(thinned(told)) == []
