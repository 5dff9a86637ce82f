"""Checks whether this machine is fit for the service, with what to do where something is wrong."""

import importlib.metadata
import os
import platform
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from memory_service.errors import MemoryServiceError
from memory_service.resources import has_torch
from memory_service.services.database.transactions import Database
from memory_service.services.operations import database as databases
from memory_service.settings import Settings, unread

LEAST_FREE_GIB = 1.0
"""Room for the database, its backups and what an upgrade saves."""

_PARTS = ("SQLAlchemy", "fastapi", "numpy")
_TRACING_PARTS = ("torch", "timm", "transformers", "sentence-transformers")


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, how it is, and what to do when `status` is not ok."""

    part: str
    status: Literal["ok", "note", "problem"]
    found: str
    advice: str = ""


def examine(settings: Settings) -> list[Finding]:
    """All findings; nothing is changed and nothing is fetched. Loading the encoder takes seconds."""
    looks: tuple[Callable[[Settings], Finding], ...] = (
        _settings, _python, _packages, _accelerator, _encoder, _database, _disk, _port,
    )  # fmt: skip
    return [look(settings) for look in looks]


def _settings(_: Settings) -> Finding:
    odd = unread(os.environ)
    return Finding("settings", "note" if odd else "ok", " ".join(odd) or "every MEMORY_* variable is known")


def _python(_: Settings) -> Finding:
    found = f"{platform.python_version()} on {platform.platform()}"
    return Finding("python", "ok", found)


def _packages(_: Settings) -> Finding:
    versions, missing = [], []
    for name in (*_PARTS, *_TRACING_PARTS):
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    found = ", ".join(versions)
    if missing and not {*missing} & {*_PARTS}:
        advice = "shipped profiles answer; tracing and calibrating: pip install 'memory-service[server]'"
        return Finding("packages", "note", f"{found}; not installed: {', '.join(missing)}", advice)
    if missing:
        found = f"missing: {', '.join(missing)}"
        return Finding("packages", "problem", found, "install memory-service again")
    return Finding("packages", "ok", found)


def _accelerator(_: Settings) -> Finding:
    if not has_torch():
        return Finding("accelerator", "note", "not looked for: torch is not installed", _NO_CARD)
    import torch

    if torch.cuda.is_available():
        cards = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return Finding("accelerator", "ok", ", ".join(cards))
    return Finding("accelerator", "note", "none seen", _NO_CARD)


_NO_CARD = "none is needed: plans are for the cards you name"


def _encoder(settings: Settings) -> Finding:
    from memory_service.services.competitions.encoding import encoder_at

    encoder, reason = encoder_at(settings.embedding_model)
    if encoder is None and not settings.embedding_model and not has_torch():
        return Finding("encoder", "note", reason or "not installed", "search goes by words alone until then")
    if encoder is None:
        return Finding("encoder", "problem", reason or "does not load", "search goes by words until it loads")
    checked = "" if settings.embedding_model else ", weights have the published SHA-256"
    return Finding("encoder", "ok", f"{encoder.name}{checked}")


def _database(settings: Settings) -> Finding:
    database = Database(settings.database_url)
    if database.file is not None and not database.file.exists():
        found = f"{database.url} is not there yet"
        return Finding("database", "note", found, "`memory-service serve` makes it")
    try:
        report = databases.check(database)
    except MemoryServiceError as error:
        return Finding("database", "problem", error.detail, "see MEMORY_DATABASE_URL in docs/settings.md")
    finally:
        database.close()
    if not report.sound:
        found = f"{report.url}: {'; '.join(report.problems)}"
        return Finding("database", "problem", found, "memory-service db check")
    return Finding("database", "ok", f"{report.url} at revision {report.revision}")


def _disk(settings: Settings) -> Finding:
    folder = settings.home
    while not folder.exists():
        folder = Path(folder.parent)
    free = shutil.disk_usage(folder).free / 2**30
    if free < LEAST_FREE_GIB:
        return Finding("disk", "problem", f"{free:.1f} GiB free at {folder}", "free some, or set MEMORY_HOME")
    return Finding("disk", "ok", f"{free:.1f} GiB free at {folder}")


def _port(settings: Settings) -> Finding:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            found = f"{settings.host}:{settings.port}: {error.strerror}"
            return Finding("port", "note", found, "a server may run there already; choose another by --port")
    return Finding("port", "ok", f"{settings.host}:{settings.port} is free")
