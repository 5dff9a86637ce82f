"""Is the time of an epoch read in whatever form it is printed, and nothing else taken for it?"""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.logs.durations import duration_of
from memory_service.domain.logs.parser import read_log


def epoch_seconds(line: str) -> float | None:
    events = [event.fields for event in read_log(line, final=True).events if event.kind == "epoch"]
    return events[0].get("seconds") if events else None


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("Epoch: 01 | Train Loss: 0.5 | Epoch Time: 1m 23s", 83.0),
        ("Epoch 1/10 | Time: 12m 5s | Train Loss: 0.5", 725.0),
        ("Epoch 2/10 - loss: 0.4 - Time: 1 minutes 23 seconds", 83.0),
        ("Epoch 2/10 - loss: 0.4 - Time: 1 min 3 sec", 63.0),
        ("Epoch 2/10 loss=0.4 time: 1 hour, 2 minutes and 3 seconds", 3723.0),
        ("Epoch 2/10 loss=0.4 took 1h 2m 3s", 3723.0),
        ("Epoch 2/10 loss=0.4 took 1h2m3s", 3723.0),
        ("Epoch 2/10 loss=0.4 elapsed 1:23", 83.0),
        ("Epoch 2/10 loss=0.4 elapsed: 1:02:03", 3723.0),
        ("Epoch 2/10 loss=0.4 elapsed: 0:00:12.345", 12.345),
        ("Epoch 2/10 loss=0.4 duration: 2 days, 3:04:05", 183_845.0),
        ("Epoch 2/10 loss=0.4 time 83s", 83.0),
        ("Epoch 2/10 loss=0.4 time: 1.4 min", 84.0),
        ("Epoch 2/10 loss=0.4 time: 850ms", 0.85),
        ("Epoch 2/10 loss=0.4 time=83.12345678901234s", 83.12345678901234),
        ("Epoch 2/10 loss=0.4 epoch_time_sec=12.3", 12.3),
        ("Epoch 2/10 loss=0.4 Time taken: 83 s.", 83.0),
        ("Epoch 2/10 loss=0.4 Time (s): 12.3", 12.3),
        ("Epoch 2 train loss 0.3 val loss 0.2 - 5.5s", 5.5),
        ("Epoch 2 train loss 0.3 val loss 0.2 5.5s", 5.5),
        ("Epoch 2 loss 0.3 [12.1s]", 12.1),
        ("Epoch 2 loss 0.3, done in 12.3s.", 12.3),
        ("Epoch 2 finished in 1m 2s, loss 0.3", 62.0),
        ("Epoch 2 loss 0.3 | 12s | mem 4.2GB", 12.0),
        ("Epoch 2 loss 0.3 | 12s/epoch", 12.0),
        ("Epoch 2: 12s, loss 0.3", 12.0),
        ("{'loss': 0.3, 'epoch': 2.0, 'time': 12.3}", 12.3),
        ("Epoch 2 loss 0.3 train time: 50s val time: 10s", 60.0),
        ("Epoch 3/30 - loss 0.4 - 45s - eta 20m 3s", 45.0),
        ("Epoch: [0] loss 0.4 Total time: 0:10:15 (0.3075 s / it)", 615.0),
    ],
)
def test_the_time_of_an_epoch_is_read_in_every_usual_form(line: str, seconds: float) -> None:
    assert epoch_seconds(line) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "line",
    [
        "Epoch 2 loss 0.3 ETA: 12m 5s",
        "Epoch 2 loss 0.3 remaining 12s",
        "Epoch 2 loss 0.3 time left: 12s",
        "Epoch 2 loss 0.3, 1m 5s left",
        "Epoch 2 loss 0.3 1.2s/it",
        "Epoch 2 loss 0.3 8.2 it/s",
        "Epoch 2 loss 0.3 time: 5s/step",
        "Epoch 2 loss 0.3 time: 0.3 s / it",
        "Epoch 2 loss 0.3 step time: 0.3s",
        "Epoch 2 loss 0.3 data_time: 0.3",
        "Epoch 2 loss 0.3 time: 12s per batch",
        "Epoch 2 loss 0.3 lr 3e-5s",
        "Epoch 2 loss 0.3 lr=1e-4",
        "Epoch 2 loss 0.3 params 1.2M",
        "Epoch 2 loss 0.3 mem 12.5",
        "2026-03-01 12:34:56 Epoch 2 loss 0.3",
        "[12:34:56] Epoch 2 loss 0.3",
        "Epoch 2 loss 0.3 at 12:34:56",
        "Epoch 2 loss 0.3 inference time: 3s",
        "Epoch 2 loss 0.3 time: 1710000000",
        "Epoch [1][50/7330] lr: 1.0e-02, eta: 16:10:00, time: 0.800, data_time: 0.01, loss: 0.9",
        "Epoch: [0]  [ 20/2000]  eta: 0:34:01  closs: 1.9  time: 1.0204  data: 0.0002  max mem: 38120",
    ],
)
def test_what_is_left_and_the_time_of_a_step_are_no_time_of_an_epoch(line: str) -> None:
    assert epoch_seconds(line) is None


def test_a_score_beside_a_time_is_still_read() -> None:
    ((event),) = read_log("Epoch 2 | Val Acc: 0.81 | Time: 1m 2s | Val Loss: 0.4\n").events
    assert (event.fields["metric"], event.fields["valid_loss"], event.fields["seconds"]) == (0.81, 0.4, 62.0)


FORMATS = {
    "timedelta": lambda s: str(dt.timedelta(seconds=s)),
    "clock": lambda s: (
        f"{s // 60}:{s % 60:02d}" if s < 3600 else f"{s // 3600}:{s // 60 % 60:02d}:{s % 60:02d}"
    ),
    "seconds": lambda s: f"{s}s",
    "float": lambda s: f"{s:.2f} sec",
    "words": lambda s: f"{s // 60} minutes {s % 60} seconds",
    "short": lambda s: f"{s // 60}m {s % 60}s",
    "padded": lambda s: f"{s // 60}m{s % 60:02d}s",
    "hours": lambda s: f"{s // 3600}h {s // 60 % 60}m {s % 60}s",
    "glued": lambda s: f"{s // 3600}h{s // 60 % 60}m{s % 60}s",
    "prose": lambda s: f"{s // 3600} hours, {s // 60 % 60} minutes and {s % 60} seconds",
    "minutes": lambda s: f"{s / 60!r} min",
    "milliseconds": lambda s: f"{1000 * s} ms",
}
PLACES = (
    "Epoch 3/30 loss=0.5 time: {}",
    "Epoch 3 | Epoch Time: {} | Val Loss: 0.4",
    "Epoch 3 loss 0.5 (took {})",
)


@given(st.sampled_from(sorted(FORMATS)), st.sampled_from(PLACES), st.integers(1, 9_000))
def test_a_printed_duration_is_read_back(form: str, place: str, seconds: int) -> None:
    printed = FORMATS[form](seconds)
    assert duration_of(printed) == pytest.approx(seconds, abs=0.01)
    assert epoch_seconds(place.format(printed)) == pytest.approx(seconds, abs=0.01)
