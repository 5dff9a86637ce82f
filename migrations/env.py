"""How does Alembic reach the database? Through the connection that `memory_service.store.migrations` hands
over, which also upgrades (`migrate`)."""

from __future__ import annotations

from alembic import context

from memory_service.store import migrations

migrations.run_migrations(context)
