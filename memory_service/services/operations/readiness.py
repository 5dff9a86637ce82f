"""What is loaded before the service can be asked, in which order, and how far it is.

`/healthz` answers at once; all of this happens in one thread behind it.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from memory_service.errors import InvalidInput, MemoryServiceError, Unavailable
from memory_service.services.competitions.encoding import TextEncoder, encoder_at, use_model
from memory_service.services.competitions.snapshot import recall_snapshot
from memory_service.services.database.transactions import Database
from memory_service.services.devices.calibrations import settle
from memory_service.services.devices.devices import look_again, registered
from memory_service.services.editorial import seeding
from memory_service.services.knowledge.snapshot import knowledge_of, rows_left_out
from memory_service.services.operations import database as databases
from memory_service.services.planning.recommend import recommend
from memory_service.settings import Settings

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
