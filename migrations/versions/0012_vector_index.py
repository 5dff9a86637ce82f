"""A denser index of vectors on PostgreSQL; some five minutes for 100 000 competitions."""

from __future__ import annotations

from alembic import op

from memory_service.store import dialects

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    dialects.of(connection).index_vectors(connection)


def downgrade() -> None:
    """The program before searches this index as well."""
