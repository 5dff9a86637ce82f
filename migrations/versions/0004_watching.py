"""What a run was expected to show, what it has told in sum, its log's place, and what it was advised."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memory_service.store import dialects

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("watch", dialects.Json, nullable=True))
    op.create_table(
        "run_summaries",
        sa.Column("run_id", dialects.Name, nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("summary", dialects.Prose, nullable=True),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_summaries")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "run_logs",
        sa.Column("run_id", dialects.Name, nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("next_seq", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("understood", sa.BigInteger(), nullable=False),
        sa.Column("clipped", sa.BigInteger(), nullable=False),
        sa.Column("shift_seconds", sa.Double(), nullable=True),
        sa.Column("last_piece", dialects.Name, nullable=True),
        sa.Column("context", dialects.Json, nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_logs")),
    )
    op.create_table(
        "run_advice",
        sa.Column("run_id", dialects.Name, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("given_at", dialects.UtcDateTime(), nullable=False),
        sa.Column("at_seconds", sa.Double(), nullable=False),
        sa.Column("action", dialects.Name, nullable=False),
        sa.Column("rule", dialects.Name, nullable=False),
        sa.Column("severity", dialects.Name, nullable=False),
        sa.Column("verdict", dialects.Json, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_run_advice")),
    )
    op.create_index("ix_run_advice_action", "run_advice", ["action", "rule"])


def downgrade() -> None:
    op.drop_table("run_advice")
    op.drop_table("run_logs")
    op.drop_table("run_summaries")
    with op.batch_alter_table("runs") as runs:
        runs.drop_column("watch")
