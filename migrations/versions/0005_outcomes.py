"""What runs were advised, what came of them, and how often each memory was served, followed and right."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memory_service.store import dialects

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "outcomes",
        sa.Column("run_id", dialects.Name, nullable=False),
        sa.Column("place", dialects.Name, nullable=False),
        sa.Column("ended_at", dialects.UtcDateTime(), nullable=True),
        sa.Column("advice", dialects.Json, nullable=True),
        sa.Column("outcome", dialects.Json, nullable=True),
        sa.Column("thinned_at", dialects.UtcDateTime(), nullable=True),
        sa.Column("updated_at", dialects.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_outcomes_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_outcomes")),
    )
    op.create_index("ix_outcomes_place", "outcomes", ["place", "ended_at"])
    op.create_table(
        "servings",
        sa.Column("run_id", dialects.Name, nullable=False),
        sa.Column("subject", dialects.Name, nullable=False),
        sa.Column("place", dialects.Name, nullable=False),
        sa.Column("followed", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_servings_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "subject", name=op.f("pk_servings")),
    )
    op.create_index("ix_servings_subject", "servings", ["subject", "place"])
    op.create_table(
        "tallies",
        sa.Column("subject", dialects.Name, nullable=False),
        sa.Column("place", dialects.Name, nullable=False),
        *(
            sa.Column(name, sa.Integer(), nullable=False)
            for name in ("served", "followed", "compared", "without", "better", "same", "worse")
        ),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("won", sa.Double(), nullable=False),
        sa.Column("updated_at", dialects.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("subject", "place", name=op.f("pk_tallies")),
    )
    op.create_index("ix_tallies_updated_at", "tallies", ["updated_at"])


def downgrade() -> None:
    op.drop_table("tallies")
    op.drop_table("servings")
    op.drop_table("outcomes")
