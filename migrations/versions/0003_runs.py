"""Runs, what they told and what was observed of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memory_service.store import dialects

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("id", dialects.Name, nullable=False),
        sa.Column("task", dialects.Name, nullable=False),
        sa.Column("competition", dialects.Name, nullable=True),
        sa.Column("plan_id", dialects.Name, nullable=True),
        sa.Column("gpu", dialects.Name, nullable=False),
        sa.Column("device", dialects.Name, nullable=False),
        sa.Column("model", dialects.Name, nullable=False),
        sa.Column("family", dialects.Name, nullable=False),
        sa.Column("input_kind", dialects.Name, nullable=False),
        sa.Column("input_size", sa.Integer(), nullable=True),
        sa.Column("batch_size", sa.Integer(), nullable=True),
        sa.Column("precision", dialects.Name, nullable=False),
        sa.Column("layout", dialects.Name, nullable=False),
        sa.Column("optimizer", dialects.Name, nullable=False),
        sa.Column("mode", dialects.Name, nullable=False),
        sa.Column("folds", sa.Integer(), nullable=True),
        sa.Column("epochs", sa.Integer(), nullable=True),
        sa.Column("n_train", sa.BigInteger(), nullable=True),
        sa.Column("minutes", sa.Double(), nullable=True),
        sa.Column("status", dialects.Name, nullable=False),
        sa.Column("started_at", dialects.UtcDateTime(), nullable=False),
        sa.Column("finished_at", dialects.UtcDateTime(), nullable=True),
        sa.Column("best_metric", sa.Double(), nullable=True),
        sa.Column("best_epoch", sa.Integer(), nullable=True),
        sa.Column("submission", sa.Boolean(), nullable=True),
        sa.Column("predicted_samples_per_second", sa.Double(), nullable=True),
        sa.Column("samples_per_second", sa.Double(), nullable=True),
        sa.Column("predicted_peak_gib", sa.Double(), nullable=True),
        sa.Column("peak_gib", sa.Double(), nullable=True),
        sa.Column("predicted_epoch_seconds", sa.Double(), nullable=True),
        sa.Column("epoch_seconds", sa.Double(), nullable=True),
        sa.Column("predicted_minutes", sa.Double(), nullable=True),
        sa.Column("total_minutes", sa.Double(), nullable=True),
        sa.Column("excluded", dialects.Name, nullable=True),
        sa.Column("created_at", dialects.UtcDateTime(), nullable=False),
        sa.Column("updated_at", dialects.UtcDateTime(), nullable=False),
        sa.Column("digest", dialects.Name, nullable=False),
        sa.Column("given", dialects.Json, nullable=False),
        sa.Column("prediction", dialects.Json, nullable=True),
        sa.Column("summary", dialects.Json, nullable=True),
        sa.Column("finish", dialects.Json, nullable=True),
        sa.CheckConstraint(
            "status IN ('running', 'completed', 'stopped', 'out_of_memory', 'timed_out', 'crashed')",
            name=op.f("ck_runs_status"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )
    for column in (
        "task",
        "competition",
        "plan_id",
        "gpu",
        "device",
        "model",
        "family",
        "batch_size",
        "precision",
        "status",
        "started_at",
        "finished_at",
        "created_at",
        "updated_at",
    ):
        op.create_index(f"ix_runs_{column}", "runs", [column])
    op.create_table(
        "run_events",
        sa.Column("run_id", dialects.Name, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", dialects.Name, nullable=False),
        sa.Column("body", dialects.Prose, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "seq", name=op.f("pk_run_events")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "observations",
        sa.Column("id", dialects.Name, nullable=False),
        sa.Column("run_id", dialects.Name, nullable=False),
        sa.Column("gpu", dialects.Name, nullable=False),
        sa.Column("device", dialects.Name, nullable=False),
        sa.Column("model", dialects.Name, nullable=False),
        sa.Column("subject", dialects.Name, nullable=False),
        sa.Column("updated_at", dialects.UtcDateTime(), nullable=False),
        sa.Column("observation", dialects.Json, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_observations_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_observations")),
    )
    for column in ("run_id", "gpu", "device", "model", "updated_at"):
        op.create_index(f"ix_observations_{column}", "observations", [column])
    op.create_index("ix_observations_latest", "observations", ["subject", "updated_at", "id"])


def downgrade() -> None:
    op.drop_table("observations")
    op.drop_table("run_events")
    op.drop_table("runs")
