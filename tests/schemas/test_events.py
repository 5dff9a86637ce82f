"""Most events are checked by a shorter way: what it takes, the whole check takes, and as the same event."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memory_service.schemas import events
from memory_service.schemas.events import EVENT_FIELDS, MOST_SEQ

NAMES = sorted({name for fields in EVENT_FIELDS.values() for name in fields} - {"kind", "seq", "at"})
NUMBERS = st.sampled_from(
    (0, 1, 3, -1, 50, 101, 102, 10**6, 10**9, 10**15, 10**16, 0.0, -0.0, 0.5, 99.5, 1e6, 1e9, 1.7e308, -3.0)
)
OTHERS: st.SearchStrategy[Any] = st.sampled_from(
    (True, None, "nan", "x", [], {}, math.nan, math.inf, 10**400)
)
MOMENTS = st.sampled_from(
    (
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:00",
        "2026-03-01T14:00:00.5+02:00",
        "2026-03-01",
        "now",
        5,
        "x" * 41,
    )
)


@st.composite
def sent(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from((*EVENT_FIELDS, "loss", None)))
    known = [name for name in EVENT_FIELDS.get(kind or "", ()) if name in NAMES] or NAMES
    names = draw(st.lists(st.one_of(st.sampled_from(known), st.sampled_from(NAMES)), max_size=5))
    values = st.one_of(NUMBERS, NUMBERS, NUMBERS, OTHERS)
    event: dict[str, Any] = {name: draw(values) for name in names}
    event |= {
        "kind": kind,
        "at": draw(MOMENTS),
        "seq": draw(st.sampled_from((0, 7, MOST_SEQ, MOST_SEQ + 1, -1, 1.0))),
    }
    for name in draw(
        st.lists(st.sampled_from(("kind", "at", "seq")), max_size=1 if draw(st.booleans()) else 0)
    ):
        del event[name]
    return event


@given(sent())
def test_what_the_shorter_way_takes_is_what_the_whole_check_makes_of_it(event: dict[str, Any]) -> None:
    short = events._plain(event)
    if short is not None:
        (whole,) = events._EVENTS.validate_python([event])
        seq, kind, fields = events._split(whole)
        assert (seq, kind) == short[:2]
        assert events.as_stored(short) == events.as_stored((seq, kind, fields))
        assert {name: repr(value) for name, value in short[2].items()} == {
            n: repr(v) for n, v in fields.items()
        }


def test_usual_events_go_the_shorter_way() -> None:
    at = "2026-03-01T12:00:00Z"
    for event in (
        {"seq": 1, "kind": "gpu", "at": at, "utilization_percent": 91.5, "used_gib": 18, "temperature_c": 60},
        {"seq": 2, "kind": "batch", "at": at, "steps": 10, "seconds": 1.5, "samples": 320, "train_loss": 0.5},
        {"seq": 3, "kind": "epoch", "at": at, "fold": 0, "epoch": 3, "seconds": 60.5, "valid_loss": -0.5},
    ):
        assert events._plain(event) is not None
