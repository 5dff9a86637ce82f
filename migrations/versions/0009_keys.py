"""Keys, who is signed in on the pages, and a history that tells of more than rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memory_service.store import dialects

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_LISTED = ("table", "row", "action", "who")


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", dialects.Name, nullable=False),
        sa.Column("name", dialects.Name, nullable=False),
        sa.Column("scopes", dialects.Json, nullable=False),
        sa.Column("digest", dialects.Name, nullable=False),
        sa.Column("created_at", dialects.UtcDateTime(), nullable=False),
        sa.Column("created_by", dialects.Name, nullable=False),
        sa.Column("expires_at", dialects.UtcDateTime(), nullable=True),
        sa.Column("last_used_at", dialects.UtcDateTime(), nullable=True),
        sa.Column("revoked_at", dialects.UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
    )
    in_use = sa.text("revoked_at IS NULL")
    op.create_index(
        "uq_api_keys_name", "api_keys", ["name"], unique=True, sqlite_where=in_use, postgresql_where=in_use
    )
    op.create_table(
        "browser_sessions",
        sa.Column("digest", dialects.Name, nullable=False),
        sa.Column("key_id", dialects.Name, nullable=False),
        sa.Column("created_at", dialects.UtcDateTime(), nullable=False),
        sa.Column("expires_at", dialects.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_keys.id"], name="fk_browser_sessions_key_id_api_keys", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("digest", name="pk_browser_sessions"),
    )
    op.create_index("ix_browser_sessions_key_id", "browser_sessions", ["key_id"])
    op.create_index("ix_browser_sessions_expires_at", "browser_sessions", ["expires_at"])
    for name in _LISTED:
        op.create_index(f"ix_history_{name}_id", "history", [name, "id"])


def downgrade() -> None:
    for name in _LISTED:
        op.drop_index(f"ix_history_{name}_id", table_name="history")
    history = sa.table("history", sa.column("table"))
    known = ("competitions", "patterns", "models", "profiles", "gpus", "claims", "strategies")
    op.execute(sa.delete(history).where(history.c.table.not_in(known)))
    op.drop_table("browser_sessions")
    op.drop_table("api_keys")
