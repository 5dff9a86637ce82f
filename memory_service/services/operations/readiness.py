"""What is loaded before the service can be asked, in which order, and how far it is.

`/healthz` answers at once; all of this happens in one thread behind it.

Checks whether this machine is fit for the service, with what to do where something is wrong.
"""

import importlib.metadata
import logging
import os
import platform
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from memory_service.errors import InvalidInput, MemoryServiceError, Unavailable
from memory_service.resources import has_torch
from memory_service.services.competitions.snapshot import TextEncoder, encoder_at, recall_snapshot, use_model
from memory_service.services.database.transactions import Database
from memory_service.services.devices.calibrations import settle
from memory_service.services.devices.devices import look_again, registered
from memory_service.services.editorial import seeding
from memory_service.services.knowledge.snapshot import knowledge_of, rows_left_out
from memory_service.services.operations import database as databases
from memory_service.services.planning.recommend import recommend
from memory_service.settings import Settings, unread

RETRY_SECONDS = 5.0
MOST_SHOWN = 20

EncoderState = Literal["loading", "ready", "degraded"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class State:
    """Where the preparation stands. `failed` is a sentence while it cannot go on; left_out: "table key: why"
    of each row that cannot be used."""

    database: bool = False
    knowledge: bool = False
    index: bool = False
    encoder: EncoderState = "loading"
    encoder_reason: str | None = None
    failed: str | None = None
    seconds: float | None = None
    left_out: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Database at head, all loaded, the encoder ready or known to be missing, and nothing failed."""
        loaded = self.database and self.knowledge and self.index and self.encoder != "loading"
        return loaded and self.failed is None

    def as_dict(self) -> Mapping[str, Any]:
        return {
            "ready": self.ready,
            "database": "at head" if self.database else "not ready",
            "knowledge": "loaded" if self.knowledge else "loading",
            "index": "loaded" if self.index else "loading",
            "encoder": self.encoder,
            "encoder_reason": self.encoder_reason,
            "failed": self.failed,
            "seconds": self.seconds,
            "left_out": list(self.left_out[:MOST_SHOWN]),
            "left_out_rows": len(self.left_out),
        }


class Preparation:
    """Brings a database to where it can be asked, once, in a thread of its own."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self.when_ready: Callable[[], object] = lambda: None
        """Called once, when the first question was answered."""
        self.state = State()

    def start(self) -> None:
        """Begin; returns at once."""
        use_model(self._settings.embedding_model)
        self._thread = threading.Thread(target=self._run, name="preparation", daemon=True)
        self._thread.start()

    def load(self) -> None:
        """Load what can be loaded, in this thread, for processes that are forked from this one: what fails
        they try again."""
        use_model(self._settings.embedding_model)
        for step in (self._open, self._seed, self._load_encoder, self._load_index, self._rehearse):
            if not self._done(step):
                break
        self._database.close()

    def stop(self, timeout_seconds: float = 60.0) -> bool:
        """Wait for the step that runs; the steps behind it are left out. False where it still runs."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_seconds)
        return self._thread is None or not self._thread.is_alive()

    def wait(self, timeout_seconds: float) -> State:
        """The state when the thread is done, or after the time."""
        if self._thread is not None:
            self._thread.join(timeout_seconds)
        return self.state

    def checked(self) -> State:
        """The state now: a database that was ready and does not answer any more is not ready."""
        state = replace(self.state, left_out=rows_left_out(self._database))
        if not state.ready:
            return state
        try:
            self._database.knowledge_revision()
        except MemoryServiceError as error:
            return replace(state, database=False, failed=error.detail)
        return state

    def encoder(self) -> TextEncoder | None:
        """The encoder, loading it when that has not happened; None when there is none."""
        return encoder_at(self._settings.embedding_model)[0]

    def require_knowledge(self) -> Database:
        """The database, once what is shipped is in it; Unavailable before."""
        if not self.state.knowledge:
            raise Unavailable(
                self.state.failed or "The knowledge is being loaded; ask again in a few seconds"
            )
        return self._database

    def _run(self) -> None:
        began = time.monotonic()
        for step in (self._open, self._seed, self._load_encoder, self._load_index, self._rehearse):
            if step == self._rehearse:
                self.state = replace(self.state, seconds=round(time.monotonic() - began, 2))
                _log.info("ready after %.1f s", self.state.seconds)
            while not self._done(step):
                self._stopping.wait(RETRY_SECONDS)
            if self._stopping.is_set():
                return
        self.when_ready()

    def _done(self, step: Callable[[], None]) -> bool:
        """False where it failed: a database that was away may come back, a row that was in the way may be
        corrected, and nobody restarts a server that is alive. True also when the server is stopping."""
        if self._stopping.is_set():
            return True
        try:
            step()
        except Exception as error:  # noqa: BLE001 - shown in /readyz and the log; the thread has no caller
            expected = isinstance(error, MemoryServiceError)
            failed = str(error) if expected else f"cannot get ready: {type(error).__name__}"
            if failed != self.state.failed:
                _log.error("cannot get ready yet: %s", failed, exc_info=None if expected else error)
            self.state = replace(self.state, failed=failed)
            return False
        self.state = replace(self.state, failed=None)
        return True

    def _open(self) -> None:
        databases.require_head(self._database)
        self.state = replace(self.state, database=True)
        self._look_at_devices()

    def _look_at_devices(self) -> None:
        """Calibrations that a killed server left, and what changed on this host's devices since."""
        from memory_service.measure.identity import identify, local_devices

        with self._database.read() as transaction:
            known = bool(registered(transaction))
        if known:
            settle(self._database)
            look_again(self._database, identify, local_devices())

    def _seed(self) -> None:
        # Without vectors: until the encoder fills them in, search goes by words; plans need not wait for it.
        if self._settings.seed_on_start and not seeding.is_seeded(self._database):
            seeding.seed(self._database)
        self.state = replace(self.state, knowledge=True)

    def _load_index(self) -> None:
        with self._database.read() as transaction:
            recall_snapshot(transaction)
        self.state = replace(self.state, index=True)

    def _load_encoder(self) -> None:
        encoder, reason = encoder_at(self._settings.embedding_model)
        if encoder is not None and self._settings.seed_on_start:
            seeding.fill_embeddings(self._database, encoder)
        state: EncoderState = "degraded" if encoder is None else "ready"
        self.state = replace(self.state, encoder=state, encoder_reason=reason)

    def _rehearse(self) -> None:
        """A first question: it prices the part of the catalogue that most questions need."""
        cards = knowledge_of(self._database).gpus
        if cards:
            with suppress(InvalidInput):  # no model may be left that serves it
                gpu = "a100" if "a100" in cards else next(iter(cards))
                recommend(self._database, {"task": "image", "size": "medium", "gpu": gpu})


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
    from memory_service.services.competitions.snapshot import encoder_at

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
