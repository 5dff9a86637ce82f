"""How far a run's summary has come among its events, and the way to its epochs past its raw samples."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from memory_service.store import dialects

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_NOT_RAW = sa.text("kind NOT IN ('gpu', 'batch')")


def upgrade() -> None:
    # The long column comes last: what is before it is read without it.
    _remade(
        sa.Column("run_id", dialects.Name, nullable=False),
        sa.Column("upto", sa.BigInteger(), nullable=True),
        sa.Column("mark", dialects.Name, nullable=True),
        sa.Column("summary", dialects.Prose, nullable=True),
        filled="(run_id, summary) SELECT run_id, summary",
    )
    op.create_index(
        "ix_run_events_not_raw",
        "run_events",
        ["run_id", "seq"],
        sqlite_where=_NOT_RAW,
        postgresql_where=_NOT_RAW,
    )


def downgrade() -> None:
    # A summary that is behind is made again from all events; from 2**60 on are those of the log.
    op.execute(
        "UPDATE run_summaries SET summary = NULL WHERE EXISTS (SELECT 1 FROM run_events "
        "WHERE run_events.run_id = run_summaries.run_id AND run_events.seq > run_summaries.upto "
        "AND run_events.seq < 1152921504606846976)"
    )
    op.drop_index("ix_run_events_not_raw", table_name="run_events")
    counted = "(SELECT count(*) FROM run_events WHERE run_events.run_id = before.run_id)"
    _remade(
        sa.Column("run_id", dialects.Name, nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("summary", dialects.Prose, nullable=True),
        filled=f"(run_id, events, summary) SELECT run_id, {counted}, summary",
    )


def _remade(*columns: sa.Column[Any], filled: str) -> None:
    """The table anew, without another name in between: names of keys are those of tables."""
    op.execute("CREATE TEMPORARY TABLE before AS SELECT run_id, summary FROM run_summaries")
    op.drop_table("run_summaries")
    op.create_table(
        "run_summaries",
        *columns,
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_summaries")),
        sqlite_with_rowid=False,
    )
    op.execute(f"INSERT INTO run_summaries {filled} FROM before")
    op.execute("DROP TABLE before")
