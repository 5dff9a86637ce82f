"""Tables of outcomes: what runs were advised, what came of it, and counts.

Rows of `tallies` are a function of `outcomes` and `servings`: they can be counted again at any time.
"""

import datetime as dt
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from memory_service.store.dialects import JsonObject, Name
from memory_service.store.tables.runs import Base

__all__ = ["Base", "Outcome", "Serving", "Tally"]


class Outcome(Base):
    """A run as evidence (`domain.runs.advice_outcome`).

    place       where runs may be compared: "competition:<slug>", else "kind:<task>/<size>"
    advice      the plan it came from and whether it is followed; known when the run begins, null without
    outcome     what came of it; null until the run has ended
    thinned_at  when its raw samples were thinned (`services.runs.retention`)
    """

    __tablename__ = "outcomes"
    __table_args__ = (Index("ix_outcomes_place", "place", "ended_at"),)

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    place: Mapped[str]
    ended_at: Mapped[dt.datetime | None]
    advice: Mapped[Any] = mapped_column(JsonObject, nullable=True)
    outcome: Mapped[Any] = mapped_column(JsonObject, nullable=True)
    thinned_at: Mapped[dt.datetime | None]
    updated_at: Mapped[dt.datetime]


class Serving(Base):
    """A memory that the plan of an ended run named: "pattern:<id>" or "competition:<slug>".

    followed   null where nothing shows it
    """

    __tablename__ = "servings"
    __table_args__ = (Index("ix_servings_subject", "subject", "place"),)

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    subject: Mapped[str] = mapped_column(Name, primary_key=True)
    place: Mapped[str]
    followed: Mapped[bool | None]


class Tally(Base):
    """How a memory did in one place (`domain.runs.pattern_effect.Tally`)."""

    __tablename__ = "tallies"

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
    updated_at: Mapped[dt.datetime] = mapped_column(index=True)
