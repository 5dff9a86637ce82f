"""Runs that a person excluded: who, when, why, and what they taught before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memory_service.store import dialects

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("exclusion", dialects.Json, nullable=True))


def downgrade() -> None:
    """What was excluded teaches nothing under the program before either: its observations stay away."""
    with op.batch_alter_table("runs") as runs:
        runs.drop_column("exclusion")
