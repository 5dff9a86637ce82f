"""Which reporter told of a run, as a column: the latest runs are looked up for each of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy import case, func

from memory_service.store import dialects

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("told_by", dialects.Name, nullable=False, server_default=""))
    runs = sa.table(
        "runs",
        sa.column("told_by", dialects.Name),
        sa.column("prediction", dialects.JsonObject),
        sa.column("watch", dialects.JsonObject),
    )
    predicted, watch = dialects.ReadableJson(runs.c.prediction), dialects.ReadableJson(runs.c.watch)
    confirmed = predicted[("case", "confirmed")].as_boolean().is_(True)
    stated = predicted[("case", "reporter")].as_string(), watch["reporter"].as_string()
    op.execute(runs.update().values(told_by=case((confirmed, ""), else_=func.coalesce(*stated, ""))))


def downgrade() -> None:
    with op.batch_alter_table("runs") as runs:
        runs.drop_column("told_by")
