"""How far a run's summary has come among its events, and the way to its epochs past its raw samples."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memory_service.store import dialects

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_NOT_RAW = sa.text("kind NOT IN ('gpu', 'batch')")


def upgrade() -> None:
    op.add_column("run_summaries", sa.Column("upto", sa.BigInteger(), nullable=True))
    op.add_column("run_summaries", sa.Column("mark", dialects.Name, nullable=True))
    op.create_index(
        "ix_run_events_not_raw",
        "run_events",
        ["run_id", "seq"],
        sqlite_where=_NOT_RAW,
        postgresql_where=_NOT_RAW,
    )


def downgrade() -> None:
    # A summary that is behind is made again from all events.
    op.execute(
        "UPDATE run_summaries SET summary = NULL WHERE EXISTS (SELECT 1 FROM run_events "
        "WHERE run_events.run_id = run_summaries.run_id AND run_events.seq > run_summaries.upto "
        f"AND run_events.seq < {2**60})"
    )
    op.drop_index("ix_run_events_not_raw", table_name="run_events")
    with op.batch_alter_table("run_summaries") as summaries:
        summaries.drop_column("mark")
        summaries.drop_column("upto")
