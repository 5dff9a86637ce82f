"""The way to the latest runs of one card, model, competition, ..., however many others there are."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_NARROWED = ("task", "competition", "gpu", "device", "model", "family", "precision", "status")


def upgrade() -> None:
    for name in _NARROWED:
        op.create_index(f"ix_runs_{name}_started_at", "runs", [name, "started_at"])


def downgrade() -> None:
    for name in _NARROWED:
        op.drop_index(f"ix_runs_{name}_started_at", table_name="runs")
