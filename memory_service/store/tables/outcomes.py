"""Tables of outcomes: what runs were advised, what came of it, and counts (a function of the outcomes)."""

import datetime as dt
from typing import Any

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from memory_service.store.dialects import JsonObject, Name
from memory_service.store.tables.runs import Base

__all__ = ["COMPETITIONS", "ENDED", "STARTED", "TOTAL", "Base", "Marked", "Outcome", "Tally"]

ENDED = "ended_at IS NOT NULL"
COMPETITIONS = "ended_at IS NOT NULL AND place >= 'competition:' AND place < 'competition;'"
STARTED = "ended_at IS NOT NULL AND start_up_minutes IS NOT NULL"
"""Outcomes that are looked up. In these very words an index of them is found."""

TOTAL = ""
"""The place of a tally over all places."""


def _latest(name: str, where: str, *columns: str) -> Index:
    by = (*columns, "teller", "ended_at", "run_id")
    return Index(name, *by, sqlite_where=text(where), postgresql_where=text(where))


class Outcome(Base):
    """A run as evidence (`domain.runs.advice_outcome`).

    place       where runs may be compared: "competition:<slug>", else "kind:<task>/<size>"
    advice      the plan it came from and whether it is followed; known when the run begins, null without
    outcome     what came of it; null until the run has ended
    teller      the key that told of it (`Run.told_by`); "" where none did
    start_up_minutes   that its box took to start, as it told
    thinned_at  when its raw samples were thinned (`services.runs.retention`)
    """

    __tablename__ = "outcomes"
    __table_args__ = (
        _latest("ix_outcomes_there", ENDED, "place"),
        _latest("ix_outcomes_ended", ENDED),
        _latest("ix_outcomes_scored", COMPETITIONS),
        _latest("ix_outcomes_started", STARTED),
    )

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    place: Mapped[str]
    teller: Mapped[str] = mapped_column(server_default="")
    ended_at: Mapped[dt.datetime | None]
    advice: Mapped[Any] = mapped_column(JsonObject, nullable=True)
    outcome: Mapped[Any] = mapped_column(JsonObject, nullable=True)
    start_up_minutes: Mapped[float | None]
    thinned_at: Mapped[dt.datetime | None]
    updated_at: Mapped[dt.datetime]


class Tally(Base):
    """How a memory did in one place, or in all (`TOTAL`; `domain.runs.pattern_effect.Tally`)."""

    __tablename__ = "tallies"
    __table_args__ = (Index("ix_tallies_place", "place", "compared"),)

    subject: Mapped[str] = mapped_column(Name, primary_key=True)
    place: Mapped[str] = mapped_column(Name, primary_key=True)
    served: Mapped[int]
    followed: Mapped[int]
    compared: Mapped[int]
    without: Mapped[int]
    better: Mapped[int]
    same: Mapped[int]
    worse: Mapped[int]
    weight: Mapped[float]
    won: Mapped[float]
    by_key: Mapped[Any] = mapped_column(JsonObject, server_default="{}")
    updated_at: Mapped[dt.datetime]


class Marked(Base):
    """A place whose outcomes changed since its tallies were counted; mark: another one at each change."""

    __tablename__ = "marked_places"

    place: Mapped[str] = mapped_column(Name, primary_key=True)
    mark: Mapped[str]
