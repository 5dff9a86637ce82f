"""Who told of a device and a calibration, which observations are the latest of their subject, and what boxes
took to start: the latest of each teller by an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy import func, select

from memory_service.domain.monitoring.event import number_of
from memory_service.store import dialects

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

CALIBRATED = "measured > 0 AND status NOT IN ('queued', 'running')"
STARTED = "ended_at IS NOT NULL AND start_up_minutes IS NOT NULL"
LATEST = ["told_by", "heartbeat_at", "id"]
INDEXES = {
    "ix_devices_told_by_told_at_name": ("devices", ["told_by", "told_at", "name"], None),
    "ix_calibrations_ended": ("calibrations", LATEST, CALIBRATED),
    "ix_calibrations_latest": ("calibrations", LATEST, None),
    "ix_calibrations_of_device": ("calibrations", ["device", *LATEST], None),
    "ix_observations_taught": ("observations", ["teller", "updated_at", "id"], "latest"),
    "ix_outcomes_started": ("outcomes", ["teller", "ended_at", "run_id"], STARTED),
}
COLUMNS = {
    "devices": ("told_by", "told_at"),
    "calibrations": ("told_by",),
    "observations": ("teller", "latest"),
    "outcomes": ("start_up_minutes",),
}
MOST_OF_A_CASE = 8

HISTORY = sa.table("history", *map(sa.column, ("id", "table", "row", "action", "who")))
RUNS = sa.table("runs", sa.column("id"), sa.column("told_by"), sa.column("given", dialects.JsonObject))
DEVICES = sa.table("devices", *map(sa.column, ("name", "told_by", "told_at", "seen_at", "registered_at")))
CALIBRATIONS = sa.table("calibrations", sa.column("id"), sa.column("told_by"))
OBSERVATIONS = sa.table(
    "observations", *map(sa.column, ("id", "run_id", "subject", "teller", "updated_at")),
    sa.column("latest", sa.Boolean()),
)  # fmt: skip
OUTCOMES = sa.table("outcomes", *map(sa.column, ("run_id", "ended_at", "start_up_minutes")))


def upgrade() -> None:
    for table in ("devices", "calibrations"):
        op.add_column(table, sa.Column("told_by", dialects.Name, nullable=False, server_default=""))
    op.add_column("devices", sa.Column("told_at", dialects.UtcDateTime()))
    op.add_column("observations", sa.Column("teller", dialects.Name, nullable=False, server_default=""))
    op.add_column("observations", sa.Column("latest", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.add_column("outcomes", sa.Column("start_up_minutes", sa.Double()))
    op.execute(DEVICES.update().values(told_at=func.coalesce(DEVICES.c.seen_at, DEVICES.c.registered_at)))
    for told, key in ((DEVICES, DEVICES.c.name), (CALIBRATIONS, CALIBRATIONS.c.id)):
        of_row = HISTORY.c.table == told.name, HISTORY.c.row == key
        # Not by the index of actions, in which SQLite would read all that was ever added to any table.
        created = select(HISTORY.c.who).where(*of_row, HISTORY.c.action.concat("") == "create")
        who = created.order_by(HISTORY.c.id.desc()).limit(1).scalar_subquery()
        op.execute(told.update().values(told_by=func.coalesce(who, "")))
    is_key = RUNS.c.told_by.startswith("key ")
    told_by = select(RUNS.c.told_by).where(RUNS.c.id == OBSERVATIONS.c.run_id, is_key).scalar_subquery()
    op.execute(OBSERVATIONS.update().values(teller=func.coalesce(told_by, "")))
    order = OBSERVATIONS.c.updated_at.desc(), OBSERVATIONS.c.id.desc()
    place = func.row_number().over(partition_by=OBSERVATIONS.c.subject, order_by=order).label("place")
    of = select(OBSERVATIONS.c.id, place).subquery().c
    older = select(of.id).where(of.place > MOST_OF_A_CASE)
    op.execute(OBSERVATIONS.update().where(OBSERVATIONS.c.id.in_(older)).values(latest=sa.false()))
    _copy_start_ups()
    for name, (table, columns, where) in INDEXES.items():
        only = None if where is None else sa.text(where)
        op.create_index(name, table, columns, sqlite_where=only, postgresql_where=only)


def _copy_start_ups() -> None:
    connection, after = op.get_bind(), ""
    ended = select(RUNS.c.id, RUNS.c.given).join(OUTCOMES, OUTCOMES.c.run_id == RUNS.c.id)
    ended = ended.where(OUTCOMES.c.ended_at.is_not(None)).order_by(RUNS.c.id).limit(500)
    change = OUTCOMES.update().where(OUTCOMES.c.run_id == sa.bindparam("of"))
    while found := connection.execute(ended.where(RUNS.c.id > after)).all():
        hosts = ((run_id, (given or {}).get("host")) for run_id, given in found)
        told = [{"of": run, "start_up_minutes": minutes} for run, host in hosts for minutes in _told(host)]
        if told:
            connection.execute(change.values(start_up_minutes=sa.bindparam("start_up_minutes")), told)
        after = found[-1].id


def _told(host: object) -> list[float]:
    minutes = number_of(host.get("start_up_minutes")) if isinstance(host, dict) else None
    return [] if minutes is None else [minutes]


def downgrade() -> None:
    for name, (table, *_) in INDEXES.items():
        op.drop_index(name, table)
    for table, columns in COLUMNS.items():
        with op.batch_alter_table(table) as altered:
            for column in columns:
                altered.drop_column(column)
