"""Winning solutions, and what more is known of competitions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memory_service.store import dialects

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_FACTS = {
    "group_by": dialects.Prose,
    "host_kind": dialects.Name,
    "teams": sa.Integer(),
    "code_competition": sa.Boolean(),
    "inference_limit_hours": sa.Double(),
}
_LISTED = ("host_kind", "teams")


def upgrade() -> None:
    for name, kind in _FACTS.items():
        op.add_column("competitions", sa.Column(name, kind, nullable=True))
    for name in _LISTED:
        op.create_index(f"ix_competitions_{name}", "competitions", [name])
    op.create_table(
        "solutions",
        sa.Column("id", dialects.Name, nullable=False),
        sa.Column("competition", dialects.Name, nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("url", dialects.Prose, nullable=True),
        sa.Column("basis", dialects.Name, nullable=False),
        sa.Column("read_at", dialects.Prose, nullable=True),
        sa.Column("families", dialects.Json, nullable=False),
        sa.Column("models", dialects.Json, nullable=False),
        sa.Column("input", dialects.Prose, nullable=True),
        sa.Column("image_size", sa.Integer(), nullable=True),
        sa.Column("seq_len", sa.Integer(), nullable=True),
        sa.Column("validation", dialects.Json, nullable=False),
        sa.Column("loss", dialects.Json, nullable=False),
        sa.Column("techniques", dialects.Json, nullable=False),
        sa.Column("features", dialects.Json, nullable=False),
        sa.Column("ensemble", dialects.Json, nullable=False),
        sa.Column("epochs", sa.Integer(), nullable=True),
        sa.Column("batch_size", sa.Integer(), nullable=True),
        sa.Column("optimizer", dialects.Name, nullable=True),
        sa.Column("learning_rate", dialects.Name, nullable=True),
        sa.Column("hardware", dialects.Prose, nullable=True),
        sa.Column("score", dialects.Json, nullable=False),
        sa.Column("what_mattered", dialects.Json, nullable=False),
        sa.Column("what_failed", dialects.Json, nullable=False),
        sa.Column("source", dialects.Prose, nullable=False),
        sa.Column("grade", dialects.Name, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("origin", dialects.Name, nullable=False),
        sa.Column("corrected", sa.Boolean(), nullable=False),
        sa.Column("seed_digest", dialects.Name, nullable=True),
        sa.Column("created_at", dialects.UtcDateTime(), nullable=False),
        sa.Column("updated_at", dialects.UtcDateTime(), nullable=False),
        sa.CheckConstraint("grade IN ('measured', 'estimated', 'claimed')", name=op.f("ck_solutions_grade")),
        sa.CheckConstraint("origin IN ('seed', 'user')", name=op.f("ck_solutions_origin")),
        sa.CheckConstraint("basis IN ('read', 'second-hand', 'recalled')", name=op.f("ck_solutions_basis")),
        sa.ForeignKeyConstraint(
            ["competition"], ["competitions.slug"], name=op.f("fk_solutions_competition_competitions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_solutions")),
    )
    for name in ("basis", "competition", "grade", "rank", "updated_at"):
        op.create_index(f"ix_solutions_{name}", "solutions", [name])


def downgrade() -> None:
    history = sa.table("history", sa.column("table"))
    op.execute(sa.delete(history).where(history.c.table == "solutions"))
    op.drop_table("solutions")
    for name in _LISTED:
        op.drop_index(f"ix_competitions_{name}", table_name="competitions")
    with op.batch_alter_table("competitions") as competitions:
        for name in _FACTS:
            competitions.drop_column(name)
