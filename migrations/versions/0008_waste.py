"""What of a run brought nothing; lists of runs sorted by any column without reading all of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memory_service.store import dialects

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_SORTED = (
    "task", "competition", "plan_id", "gpu", "device", "model", "family", "batch_size", "precision", "status",
    "finished_at",
)  # fmt: skip


def upgrade() -> None:
    op.add_column("runs", sa.Column("wasted_minutes", sa.Double(), nullable=True))
    op.add_column("runs", sa.Column("wasted_on", dialects.Name, nullable=True))
    op.add_column("runs", sa.Column("waste", dialects.Json, nullable=True))
    op.create_index("ix_runs_wasted_on_id", "runs", ["wasted_on", "id"])
    op.create_index("ix_runs_wasted_minutes_id_started_at", "runs", ["wasted_minutes", "id", "started_at"])
    op.create_index("ix_runs_status_wasted_minutes_id", "runs", ["status", "wasted_minutes", "id"])
    for name in _SORTED:
        op.drop_index(f"ix_runs_{name}", table_name="runs")
        op.create_index(f"ix_runs_{name}_id", "runs", [name, "id"])


def downgrade() -> None:
    for name in _SORTED:
        op.drop_index(f"ix_runs_{name}_id", table_name="runs")
        op.create_index(f"ix_runs_{name}", "runs", [name])
    op.drop_index("ix_runs_status_wasted_minutes_id", table_name="runs")
    op.drop_index("ix_runs_wasted_minutes_id_started_at", table_name="runs")
    op.drop_index("ix_runs_wasted_on_id", table_name="runs")
    with op.batch_alter_table("runs") as runs:
        for name in ("waste", "wasted_on", "wasted_minutes"):
            runs.drop_column(name)
