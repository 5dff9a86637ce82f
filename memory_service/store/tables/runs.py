"""Tables of runs: prediction, events, summaries, observations.

Events are rows of one clustered tree by (run, seq): a run's page reads one stretch of it however many other
runs there are, and a batch of new events lands on one or two pages.
"""

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, text, true
from sqlalchemy.orm import Mapped, mapped_column

from memory_service.store.dialects import JsonObject, Name, Prose
from memory_service.store.tables.devices import LISTED, Base

__all__ = ["LATEST", "NOT_RAW", "Base", "Observation", "Run", "RunAdvice", "RunEvent", "RunLog", "RunSummary"]

NOT_RAW = "kind NOT IN ('gpu', 'batch')"
"""Events that are not samples: few, and never thinned. In these very words an index of them is found."""

LATEST = "latest"
"""Observations that may teach. In this very word an index of them is found."""

SORTED = (
    "task", "competition", "plan_id", "gpu", "device", "model", "family", "batch_size", "precision", "status",
    "finished_at", "wasted_on",
)  # fmt: skip
"""Many runs have the same value of these, or none: a page sorted by one goes on by id, and so does its
index."""

NARROWED = ("task", "competition", "gpu", "device", "model", "family", "precision", "status")
"""What lists of runs are narrowed by: the latest of each are found without reading the others."""


class Run(Base):
    """One training run: what it said when it began, what was predicted then, how it ended.

    gpu, model      the data sheet's slug and the catalogue's name where they are known, else as given
    device          registered device, "" where only the GPU model was named
    given           the body of POST /runs after the check; `digest` of it distinguishes a repetition from a
                    conflict
    prediction      as `services.runs.frozen_prediction` made it at that moment; never changed
    samples_per_second   of the device at the run's batch, steady; peak_gib: as the driver saw the process
    excluded        why its speed says nothing of the device (`domain.runs.run_observations`); by_person,
                    implausible: why nothing of it counts
    exclusion       {who, at, why} where somebody excluded it, with what it taught before: `observations`,
                    `excluded`
    summary         per-epoch figures and totals, when the run has ended
    watch           what a verdict measures it by (`services.runs.expectations`); never changed
    told_by         the reporter (`domain.prediction.trust`); "" where no key told of it, or a person
                    confirmed it
    waste           minutes that brought nothing, by part (`domain.runs.wasted_minutes`), when the run has
                    ended; wasted_on: the part that took the most
    """

    __tablename__ = "runs"
    __table_args__ = (
        CheckConstraint(
            "status IN ('running', 'completed', 'stopped', 'out_of_memory', 'timed_out', 'crashed')",
            name="status",
        ),
        *(Index(None, name, "id") for name in SORTED),
        *(Index(None, name, "started_at") for name in NARROWED),
        Index(None, "status", "wasted_minutes", "id"),
        Index(None, "plan_id", "told_by", "created_at"),
        # Last week's worst: the day is read in the index, not in rows that are then passed over.
        Index(None, "wasted_minutes", "id", "started_at"),
    )

    id: Mapped[str] = mapped_column(Name, primary_key=True)
    task: Mapped[str] = mapped_column(Name, info=LISTED)
    competition: Mapped[str | None] = mapped_column(Name, info=LISTED)
    plan_id: Mapped[str | None] = mapped_column(Name, info=LISTED)
    gpu: Mapped[str] = mapped_column(Name, info=LISTED)
    device: Mapped[str] = mapped_column(Name, info=LISTED)
    model: Mapped[str] = mapped_column(Name, info=LISTED)
    family: Mapped[str] = mapped_column(Name, info=LISTED)
    input_kind: Mapped[str]
    input_size: Mapped[int | None]
    batch_size: Mapped[int | None] = mapped_column(info=LISTED)
    precision: Mapped[str] = mapped_column(Name, info=LISTED)
    layout: Mapped[str]
    optimizer: Mapped[str]
    mode: Mapped[str]
    folds: Mapped[int | None]
    epochs: Mapped[int | None]
    n_train: Mapped[int | None] = mapped_column(BigInteger)
    minutes: Mapped[float | None]
    status: Mapped[str] = mapped_column(Name, info=LISTED)
    started_at: Mapped[dt.datetime] = mapped_column(index=True)
    finished_at: Mapped[dt.datetime | None] = mapped_column(info=LISTED)
    best_metric: Mapped[float | None]
    best_epoch: Mapped[int | None]
    submission: Mapped[bool | None]
    predicted_samples_per_second: Mapped[float | None]
    samples_per_second: Mapped[float | None]
    predicted_peak_gib: Mapped[float | None]
    peak_gib: Mapped[float | None]
    predicted_epoch_seconds: Mapped[float | None]
    epoch_seconds: Mapped[float | None]
    predicted_minutes: Mapped[float | None]
    total_minutes: Mapped[float | None]
    excluded: Mapped[str | None]
    wasted_minutes: Mapped[float | None] = mapped_column(info=LISTED)
    wasted_on: Mapped[str | None] = mapped_column(Name, info=LISTED)
    waste: Mapped[Any] = mapped_column(JsonObject, nullable=True)
    created_at: Mapped[dt.datetime] = mapped_column(index=True)
    updated_at: Mapped[dt.datetime] = mapped_column(index=True)
    digest: Mapped[str]
    given: Mapped[Any] = mapped_column(JsonObject, nullable=False)
    prediction: Mapped[Any] = mapped_column(JsonObject, nullable=True)
    summary: Mapped[Any] = mapped_column(JsonObject, nullable=True)
    finish: Mapped[Any] = mapped_column(JsonObject, nullable=True)
    watch: Mapped[Any] = mapped_column(JsonObject, nullable=True)
    exclusion: Mapped[Any] = mapped_column(JsonObject, nullable=True)
    told_by: Mapped[str] = mapped_column(Name, server_default="")


class RunEvent(Base):
    """One event of a run. `body` is its JSON without seq and kind, as text: equal bodies are equal bytes.

    No foreign key: runs are never deleted, and a check costs PostgreSQL as much as the insertion.
    """

    __tablename__ = "run_events"
    __table_args__ = (
        Index(
            "ix_run_events_not_raw",
            "run_id",
            "seq",
            sqlite_where=text(NOT_RAW),
            postgresql_where=text(NOT_RAW),
        ),
        {"sqlite_with_rowid": False},
    )

    run_id: Mapped[str] = mapped_column(Name, primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    kind: Mapped[str]
    body: Mapped[str] = mapped_column(Prose)


class Observation(Base):
    """What a finished run measured at one batch (`domain.learning.observation`'s wire form).

    subject   all that distinguishes cases; latest: whether it is one of the latest few of its subject
    teller    the key that told of its run; "" where none did
    """

    __tablename__ = "observations"
    __table_args__ = (
        Index("ix_observations_latest", "subject", "updated_at", "id"),
        Index(
            "ix_observations_taught",
            "teller",
            "updated_at",
            "id",
            sqlite_where=text(LATEST),
            postgresql_where=text(LATEST),
        ),
    )

    id: Mapped[str] = mapped_column(Name, primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), index=True)
    gpu: Mapped[str] = mapped_column(Name, index=True)
    device: Mapped[str] = mapped_column(Name, index=True)
    model: Mapped[str] = mapped_column(Name, index=True)
    subject: Mapped[str]
    teller: Mapped[str] = mapped_column(server_default="")
    latest: Mapped[bool] = mapped_column(server_default=true())
    updated_at: Mapped[dt.datetime] = mapped_column(index=True)
    observation: Mapped[Any] = mapped_column(JsonObject, nullable=False)


class RunSummary(Base):
    """A run's events reduced to `domain.monitoring.summary`, as JSON; may lag by some hundred events.

    upto      greatest client seq in it; None = all that are there
    mark      new with every write: a cache of the same mark, and the events since, need not read
    summary   None = to be made from the events
    """

    __tablename__ = "run_summaries"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012 - SQLAlchemy's form

    run_id: Mapped[str] = mapped_column(Name, primary_key=True)
    upto: Mapped[int | None] = mapped_column(BigInteger)
    mark: Mapped[str | None] = mapped_column(Name)
    summary: Mapped[str | None] = mapped_column(Prose)


class RunLog(Base):
    """How far the raw log of a run has been read.

    offset         bytes taken so far; next_seq: of the next event that a line gives
    shift_seconds  from the clock that lines are stamped with to seconds since 1970; None = no stamp yet
    last_piece     digest of the last piece taken; context: `domain.logs.parser.Context`
    """

    __tablename__ = "run_logs"

    run_id: Mapped[str] = mapped_column(Name, primary_key=True)
    offset: Mapped[int] = mapped_column(BigInteger)
    next_seq: Mapped[int] = mapped_column(BigInteger)
    lines: Mapped[int] = mapped_column(BigInteger)
    understood: Mapped[int] = mapped_column(BigInteger)
    clipped: Mapped[int] = mapped_column(BigInteger)
    shift_seconds: Mapped[float | None]
    last_piece: Mapped[str | None] = mapped_column(Name)
    context: Mapped[Any] = mapped_column(JsonObject, nullable=False)


class RunAdvice(Base):
    """A verdict: one row each time the action or its numbers changed.

    at_seconds   the moment in the run's own time; given_at: by the service's clock
    verdict      the whole answer
    """

    __tablename__ = "run_advice"
    __table_args__ = (Index("ix_run_advice_action", "action", "rule"),)

    run_id: Mapped[str] = mapped_column(Name, primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    given_at: Mapped[dt.datetime]
    at_seconds: Mapped[float]
    action: Mapped[str] = mapped_column(Name)
    rule: Mapped[str] = mapped_column(Name)
    severity: Mapped[str] = mapped_column(Name)
    verdict: Mapped[Any] = mapped_column(JsonObject, nullable=False)
