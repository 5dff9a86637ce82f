"""The latest outcomes of a key by an index, wherever they are; tallies over all places. What a plan served is
in the run's outcome, and is counted as that changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy import func, literal, select

from memory_service.store import dialects

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

ENDED = "ended_at IS NOT NULL"
COMPETITIONS = "ended_at IS NOT NULL AND place >= 'competition:' AND place < 'competition;'"
COUNTS = ("served", "followed", "compared", "without", "better", "same", "worse", "weight", "won")
OUTCOMES = sa.table("outcomes", *map(sa.column, ("run_id", "place", "teller")))
TALLIES = sa.table("tallies", *map(sa.column, ("subject", "place", *COUNTS, "updated_at")))
INDEXES = {
    "ix_outcomes_there": (ENDED, ["place", "teller", "ended_at", "run_id"]),
    "ix_outcomes_ended": (ENDED, ["teller", "ended_at", "run_id"]),
    "ix_outcomes_scored": (COMPETITIONS, ["teller", "ended_at", "run_id"]),
}


def upgrade() -> None:
    op.add_column("outcomes", sa.Column("teller", dialects.Name, nullable=False, server_default=""))
    runs = sa.table("runs", sa.column("id"), sa.column("told_by"))
    is_key = runs.c.told_by.startswith("key ")
    told_by = select(runs.c.told_by).where(runs.c.id == OUTCOMES.c.run_id, is_key).scalar_subquery()
    op.execute(OUTCOMES.update().values(teller=func.coalesce(told_by, "")))
    op.drop_index("ix_outcomes_place", "outcomes")
    for name, (where, columns) in INDEXES.items():
        op.create_index(
            name, "outcomes", columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where)
        )
    op.drop_table("servings")
    parts = 2**20  # so that sums of places have no error of rounding
    exact = {name: func.round(TALLIES.c[name] * parts) / parts for name in ("weight", "won")}
    op.execute(TALLIES.update().values(exact))
    sums = [func.sum(TALLIES.c[name]) for name in COUNTS]
    total = select(TALLIES.c.subject, literal(""), *sums, func.max(TALLIES.c.updated_at))
    total = total.where(~TALLIES.c.subject.startswith("family:")).group_by(TALLIES.c.subject)
    op.execute(TALLIES.insert().from_select(["subject", "place", *COUNTS, "updated_at"], total))
    op.drop_index("ix_tallies_updated_at", "tallies")
    op.create_index("ix_tallies_place", "tallies", ["place", "compared"])


def downgrade() -> None:
    op.drop_index("ix_tallies_place", "tallies")
    op.create_index("ix_tallies_updated_at", "tallies", ["updated_at"])
    op.execute(TALLIES.delete().where(TALLIES.c.place == ""))
    servings = op.create_table(
        "servings",
        sa.Column("run_id", dialects.Name, nullable=False),
        sa.Column("subject", dialects.Name, nullable=False),
        sa.Column("place", dialects.Name, nullable=False),
        sa.Column("followed", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_servings_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "subject", name=op.f("pk_servings")),
    )
    op.create_index("ix_servings_subject", "servings", ["subject", "place"])
    ended = sa.table(
        "outcomes", sa.column("run_id"), sa.column("place"), sa.column("outcome", dialects.JsonObject)
    )
    for run_id, place, outcome in op.get_bind().execute(select(ended).where(sa.text(ENDED))).all():
        rows = [
            {"run_id": run_id, "subject": subject, "place": place, "followed": followed}
            for subject, followed in (outcome or {}).get("served", {}).items()
        ]
        op.bulk_insert(servings, rows)
    for name in INDEXES:
        op.drop_index(name, "outcomes")
    op.create_index("ix_outcomes_place", "outcomes", ["place", "ended_at"])
    with op.batch_alter_table("outcomes") as outcomes:
        outcomes.drop_column("teller")
