"""Does any text, however long or odd, take bounded time and break nothing?"""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service.domain.logs.parser import MOST_CHARS, Reading, read_log
from memory_service.domain.monitoring.decision import verdict
from memory_service.domain.monitoring.event import Event
from memory_service.domain.monitoring.reducer import add_events
from memory_service.domain.monitoring.state import RunFacts, State
from memory_service.domain.monitoring.summary import Summary

PIECES = st.sampled_from(
    [
        "Epoch",
        "epoch ",
        "Fold ",
        "=",
        ":",
        "/",
        "[",
        "]",
        "(",
        ")",
        "%|",
        "\r",
        "\n",
        "\x08",
        "\x1b[",
        "m",
        "loss",
        "val_",
        "nan",
        "1",
        "23",
        ".",
        "e",
        "-",
        "GB",
        "GPU",
        "memory",
        " ",
        "\t",
        "it/s",
        "<",
        "{'",
        "'epoch'",
        "}",
        "total:",
        "s",
        "learn:",
        "'s ",
        "━",
        "█",
        "\x00",
        "9" * 40,
        "time",
        "took ",
        "Step",
        "2026-01-01 00:00:00",
        "batch=",
        ",",
    ]
)


@settings(max_examples=400)
@given(
    st.one_of(st.lists(PIECES, max_size=60).map("".join), st.text(max_size=400), st.binary(max_size=800)),
    st.booleans(),
)
def test_no_text_breaks_it_or_its_verdict(text: str | bytes, final: bool) -> None:
    reading = read_log(text, final=final)
    assert reading.lines == reading.understood + len(reading.unrecognized)
    summary = add_events(
        Summary(), [Event(i, t.kind, 60.0 + i, t.fields) for i, t in enumerate(reading.events)]
    )
    assert verdict(State(RunFacts(minutes=10.0), summary)).why


HUGE = {
    "one line": b"x" * 50_000_000,
    "one line of figures": b"loss=0.5 " * 5_500_000,
    "no end": b"Epoch 3/30 loss=" + b"9" * 50_000_000,
    "frames": b"\r 45%|####      | 45/100 [00:05<00:06,  8.20it/s]" * 200_000,
    "backspaces": b"\x08" * 5_000_000 + b" 500/1875 [===>....] - loss: 0.05" * 100_000,
}


@pytest.mark.parametrize("name", HUGE)
def test_fifty_megabytes_take_bounded_time(name: str) -> None:
    began = time.process_time()
    reading = read_log(HUGE[name] + b"\nEpoch 4/30 loss=0.5\n")
    assert time.process_time() - began < 8.0
    assert reading.events[-1].fields["epoch"] == 4
    assert all(len(line) <= MOST_CHARS for line in reading.unrecognized)
    unfinished = read_log(HUGE[name])
    assert len(unfinished.context.tail) <= 2 * MOST_CHARS


HARD = [
    "a" * 40 + "=",
    "gpu mem ((",
    "ab cd ",
    "epoch [:# ",
    "1",
    "1/1 [",
    "loss ",
    "(",
    "[[[",
    "{'epoch': ",
    "time : ",
    "--",
    "\x1b[",
    "train loss ",
    "val_",
    "9.",
    "GPU=1GB (",
    "1e1",
    "step [1/",
    ": 1 GB / ",
    " all 1",
    "a 1 (1) ",
    "train 1.",
    "1 MiB, ",
    " 1.5",
    "1/1 1.5G",
    "Test: [ 1/1 Time: 1 (",
    "[1]\ta-b:1 ",
    "early stopping ",
    "Epoch: [1][1/",
    "1 %, 1 MiB, ",
]


@pytest.mark.parametrize("piece", HARD)
def test_hard_lines_cost_no_more_than_milliseconds(piece: str) -> None:
    line = (piece * (MOST_CHARS // len(piece) + 1))[:MOST_CHARS] + "\n"
    began = time.process_time()
    read_log(line * 50)
    assert (time.process_time() - began) / 50 < 0.02


def test_binary_noise_is_kept_as_text() -> None:
    reading: Reading = read_log(bytes(range(256)) * 500 + b"\n")
    assert reading.understood == 0
    assert reading.unrecognized
