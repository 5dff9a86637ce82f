"""Registered devices and their calibrations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memory_service.store import dialects

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "devices",
        sa.Column("name", dialects.Name, nullable=False),
        sa.Column("gpu", dialects.Name, nullable=True),
        sa.Column("kind", dialects.Name, nullable=True),
        sa.Column("uuid", dialects.Name, nullable=True),
        sa.Column("word", dialects.Name, nullable=True),
        sa.Column("host", dialects.Name, nullable=True),
        sa.Column("fingerprint", dialects.Json, nullable=True),
        sa.Column("environment", dialects.Json, nullable=True),
        sa.Column("registered_at", dialects.UtcDateTime(), nullable=False),
        sa.Column("seen_at", dialects.UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_devices")),
    )
    op.create_index("ix_devices_gpu", "devices", ["gpu"])
    op.create_index("ix_devices_uuid", "devices", ["uuid"])
    op.create_table(
        "calibrations",
        sa.Column("id", dialects.Name, nullable=False),
        sa.Column("device", dialects.Name, nullable=False),
        sa.Column("gpu", dialects.Name, nullable=False),
        sa.Column("status", dialects.Name, nullable=False),
        sa.Column("progress", sa.Double(), nullable=False),
        sa.Column("doing", dialects.Name, nullable=True),
        sa.Column("measured", sa.Integer(), nullable=False),
        sa.Column("error_percent", sa.Double(), nullable=True),
        sa.Column("contended", sa.Boolean(), nullable=False),
        sa.Column("budget_seconds", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("why", dialects.Prose, nullable=True),
        sa.Column("origin", dialects.Name, nullable=False),
        sa.Column("runner", dialects.Name, nullable=True),
        sa.Column("version", dialects.Name, nullable=False),
        sa.Column("started_at", dialects.UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", dialects.UtcDateTime(), nullable=False),
        sa.Column("ended_at", dialects.UtcDateTime(), nullable=True),
        sa.Column("fingerprint", dialects.Json, nullable=False),
        sa.Column("environment", dialects.Json, nullable=False),
        sa.Column("sections", dialects.Json, nullable=False),
        sa.Column("missing", dialects.Json, nullable=False),
        sa.Column("self_check", dialects.Json, nullable=True),
        sa.CheckConstraint("origin IN ('local', 'posted')", name=op.f("ck_calibrations_origin")),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'done', 'failed', 'timed_out')",
            name=op.f("ck_calibrations_status"),
        ),
        sa.ForeignKeyConstraint(
            ["device"], ["devices.name"], name=op.f("fk_calibrations_device_devices"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_calibrations")),
    )
    op.create_index("ix_calibrations_device", "calibrations", ["device"])
    op.create_index("ix_calibrations_error_percent", "calibrations", ["error_percent"])
    op.create_index("ix_calibrations_gpu", "calibrations", ["gpu"])
    op.create_index("ix_calibrations_measured", "calibrations", ["measured"])
    op.create_index("ix_calibrations_started_at", "calibrations", ["started_at"])
    op.create_index("ix_calibrations_status", "calibrations", ["status"])
    # One at a time a device, whoever asks and however many servers share the database.
    active = sa.text("status IN ('queued', 'running')")
    op.create_index(
        "uq_calibrations_active",
        "calibrations",
        ["device"],
        unique=True,
        sqlite_where=active,
        postgresql_where=active,
    )


def downgrade() -> None:
    op.drop_table("calibrations")
    op.drop_table("devices")
