"""Devices, calibrations and observed runs put straight into a database, to test what follows from them."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from memory_service.domain.calibration.calibration import Fingerprint, Measurement
from memory_service.domain.learning.observation import Observation
from memory_service.services.database.transactions import Database
from memory_service.services.tables.audit import note
from memory_service.store.queries import calibrations as device_store
from memory_service.store.queries import runs
from memory_service.store.tables.devices import Calibration, Device

A100 = Fingerprint(
    kind="cuda", name="NVIDIA A100-SXM4-40GB", uuid="GPU-1", memory_gib=39.5, architecture="ampere",
    compute_capability=8.0, power_limit_w=400.0, driver="550.54", torch="2.8.0", cuda="12.8", cudnn="9.1",
    cores=16,
)  # fmt: skip
CPU = Fingerprint(kind="cpu", name="Some processor", uuid="cpu-1", memory_gib=15.0, torch="2.8.0", cores=4)

START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


def register(
    database: Database, name: str, gpu: str, fingerprint: Fingerprint | None = A100, told_by: str = ""
) -> None:
    with database.write() as unit:
        device_store.add(
            unit.session,
            Device(
                name=name,
                gpu=gpu if fingerprint else None,
                kind=fingerprint.kind if fingerprint else None,
                uuid=fingerprint.uuid if fingerprint else None,
                word="cuda:0",
                host="elsewhere",
                fingerprint=fingerprint.as_dict() if fingerprint else None,
                environment={},
                registered_at=unit.now,
                seen_at=unit.now if fingerprint else None,
                told_by=told_by,
                told_at=unit.now,
            ),
        )
        note(unit, "devices", name, "create", "registered", who=told_by)


def calibrate(
    database: Database,
    name: str,
    gpu: str,
    sections: Mapping[str, float],
    fingerprint: Fingerprint = A100,
    day: int = 0,
    **values: Any,
) -> str:
    """Keep a calibration of the device; units follow from the sections' names. Returns its id."""
    key = str(values.pop("id", uuid.uuid4().hex[:12]))
    measured = {section: measurement(section, value).as_dict() for section, value in sections.items()}
    with database.write() as unit:
        row = Calibration(
            id=key, device=name, gpu=gpu, status="done", progress=1.0, doing=None, measured=len(measured),
            error_percent=None, contended=False, budget_seconds=60.0, seconds=58.0, why=None, origin="posted",
            runner=None, version="", started_at=START + dt.timedelta(days=day), heartbeat_at=unit.now,
            ended_at=unit.now, fingerprint=fingerprint.as_dict(), environment={}, sections=measured,
            missing={}, self_check=None, told_by="",
        )  # fmt: skip
        for field, value in values.items():
            setattr(row, field, value)
        device_store.add(unit.session, row)
        if row.status not in device_store.ACTIVE:
            note(unit, "calibrations", key, "update", "ended", who=row.told_by)
    return key


def measurement(section: str, value: float) -> Measurement:
    from memory_service.domain.calibration.probes import probe_of

    probe = probe_of("cuda", section) or probe_of("cpu", section)
    return Measurement(value, probe.unit if probe else "", 0.99 * value, 1.01 * value, 5)


def observe(database: Database, observations: Iterable[Observation]) -> list[Observation]:
    """Keep each as the one observation of a finished run of its own."""
    kept = []
    with database.write() as unit:
        for index, given in enumerate(observations):
            run = given.run_id or uuid.uuid4().hex
            at = given.at or (START + dt.timedelta(hours=index)).isoformat()
            one = replace(given, run_id=run, at=at)
            runs.add(unit.session, _run(one, unit.now))
            runs.replace_observations(unit.session, run, [one.as_dict()], unit.now)
            kept.append(one)
    return kept


def _run(o: Observation, now: dt.datetime) -> dict[str, Any]:
    return {
        "id": o.run_id, "task": "image-classification", "gpu": o.gpu, "device": o.device, "model": o.model,
        "family": o.family, "input_kind": o.input_kind, "input_size": o.input_size,
        "batch_size": o.batch_size, "precision": o.precision, "layout": o.layout, "optimizer": o.optimizer,
        "mode": o.mode, "status": "completed", "started_at": now, "created_at": now, "updated_at": now,
        "digest": "", "given": {}, "told_by": o.reporter,
    }  # fmt: skip
