"""The latest runs of a plan that one reporter told of, by an index."""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

INDEX = "ix_runs_plan_id_told_by_created_at"


def upgrade() -> None:
    op.create_index(INDEX, "runs", ["plan_id", "told_by", "created_at"])


def downgrade() -> None:
    op.drop_index(INDEX, "runs")
