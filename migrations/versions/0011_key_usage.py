"""What keys sent on a day, and answers to requests with an Idempotency-Key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memory_service.store import dialects

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "key_usage",
        sa.Column("key_id", dialects.Name, nullable=False),
        sa.Column("day", dialects.Name, nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_keys.id"], name=op.f("fk_key_usage_key_id_api_keys"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key_id", "day", name=op.f("pk_key_usage")),
    )
    op.create_table(
        "idempotent_answers",
        sa.Column("caller", dialects.Name, nullable=False),
        sa.Column("key", dialects.Name, nullable=False),
        sa.Column("digest", dialects.Name, nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", dialects.Json, nullable=True),
        sa.Column("body", dialects.Prose, nullable=True),
        sa.Column("updated_at", dialects.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("caller", "key", name=op.f("pk_idempotent_answers")),
    )
    op.create_index("ix_idempotent_answers_updated_at", "idempotent_answers", ["updated_at"])


def downgrade() -> None:
    op.drop_table("idempotent_answers")
    op.drop_table("key_usage")
