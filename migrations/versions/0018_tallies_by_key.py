"""What runs of each key say of a memory, beside what those of whoever is no key do: what tallies knew before
counts as told by nobody until their place is counted again, and so are all that have outcomes."""

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
    marked = op.create_table(
        "marked_places",
        sa.Column("place", dialects.Name, nullable=False),
        sa.Column("mark", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("place", name=op.f("pk_marked_places")),
    )
    outcomes = sa.table("outcomes", *map(sa.column, ("place", "ended_at")))
    places = sa.select(outcomes.c.place, sa.literal("0018")).where(outcomes.c.ended_at.is_not(None))
    op.execute(marked.insert().from_select(["place", "mark"], places.distinct()))


def downgrade() -> None:
    op.drop_table("marked_places")
    with op.batch_alter_table("tallies") as tallies:
        tallies.drop_column("by_key")
