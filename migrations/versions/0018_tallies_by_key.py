"""What runs of each key say of a memory, beside what those of whoever is no key do: what tallies knew before
counts as told by nobody until their place is counted again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memory_service.store import dialects

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    by_key = sa.Column("by_key", dialects.JsonObject, nullable=False, server_default="{}")
    op.add_column("tallies", by_key)


def downgrade() -> None:
    with op.batch_alter_table("tallies") as tallies:
        tallies.drop_column("by_key")
