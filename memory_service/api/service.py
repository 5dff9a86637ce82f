"""What do all routes share? The settings, the database behind its preparation, the counts, the answers
kept."""

from __future__ import annotations

import threading
from collections import OrderedDict

from fastapi import Request

from memory_service.api.metrics import Metrics
from memory_service.services.access.keyring import Keyring
from memory_service.services.database.transactions import Database
from memory_service.services.devices.local_calibration import Calibrating
from memory_service.services.operations.readiness import Preparation
from memory_service.services.runs.retention import Retention
from memory_service.settings import Settings

__all__ = ["MOST_KEPT_BYTES", "KeptAnswers", "Service", "database_of", "service_of"]

MOST_KEPT = 4096
MOST_KEPT_BYTES = 32 * 2**20
LARGEST_QUESTION_BYTES = 16_384


class KeptAnswers:
    """Answers as bytes by the question as sent, up to 32 MiB; the oldest use goes first. All are of one
    knowledge revision: nobody asks again what an earlier one would have answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._revision = -1
        self._held: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._held)

    def get(self, revision: int, question: bytes) -> bytes | None:
        """The bytes answered before, None when this was not asked of this revision."""
        with self._lock:
            held = self._held.get(question) if revision == self._revision else None
            if held is not None:
                self._held.move_to_end(question)
            return held

    def keep(self, revision: int, question: bytes, answer: bytes) -> None:
        """Remember an answer, and forget those of another revision; very long questions are not worth the
        memory."""
        if len(question) > LARGEST_QUESTION_BYTES:
            return
        with self._lock:
            if revision != self._revision:
                self._held.clear()
                self._revision, self._size = revision, 0
            before = self._held.pop(question, b"")
            self._held[question] = answer
            self._size += len(answer) - len(before)
            while self._size > MOST_KEPT_BYTES or len(self._held) > MOST_KEPT:
                self._size -= len(self._held.popitem(last=False)[1])


class Service:
    """One per application, in `app.state.service`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings.database_url)
        self.preparation = Preparation(self.database, settings)
        self.calibrating = Calibrating(self.database)
        self.retention = Retention(self.database, settings.keep_raw_days)
        self.keyring = Keyring(self.database)
        self.metrics = Metrics()
        self.answers = KeptAnswers()
        self.stopping = threading.Event()
        """Set when the server was told to stop: an answer that goes on ends here, and is asked for again."""


def service_of(request: Request) -> Service:
    """The service of the application that the request came to."""
    service: Service = request.app.state.service
    return service


def database_of(request: Request) -> Database:
    """The database once it can be asked; Unavailable (503) before."""
    return service_of(request).preparation.require_knowledge()
