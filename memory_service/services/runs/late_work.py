"""Work that follows from what was told, and for which nobody need wait: one piece at a time, and of each
owner no more than a share of a core, however much is told."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from time import monotonic, thread_time

from memory_service.services.database.transactions import Database

_log = logging.getLogger(__name__)

RESTS, AHEAD_SECONDS = 20.0, 30.0
"""An owner's work takes a twentieth of a core: for each second of processor time it rests so many, up to so
many of which it may be behind."""
_LOOKS_SECONDS = 0.2


class LateWork(ABC):
    """Names to work on, each once for all that asked meanwhile; working: whether a thread of this process
    does so.

    waiting   name -> whose work it is; doing: the name that is worked on
    rests     owner -> when it has rested from its work so far
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.working = False
        self.waiting: dict[str, str] = {}
        self.doing: str | None = None
        self.rests: dict[str, float] = {}

    @abstractmethod
    def do(self, database: Database, name: str) -> None:
        """Do one piece of work, by its name; a failure is logged."""

    def ask(self, database: Database, owners: Mapping[str, str]) -> None:
        """Work on these, the first one at once. Where another is being worked on, or its owner has to rest,
        it waits for its turn behind the answer; what several want is done for the one that rests least."""
        with self.lock:
            for name, owner in owners.items():
                some = self.waiting.get(name, owner), owner
                self.waiting[name] = min(some, key=lambda each: self.rests.get(each, 0.0))
            if self.working or not self.waiting:
                return
            self.working = True
        try:
            self._work(database)
        finally:
            with self.lock:
                self.working = False
                if self.waiting:
                    threading.Thread(target=self._go_on, args=(database,), name="late", daemon=True).start()
                    self.working = True

    def _go_on(self, database: Database) -> None:
        while (seconds := self._work(database)) is not None:
            if database.closed.wait(min(seconds, _LOOKS_SECONDS)):
                break
        if database.closed.is_set():
            with self.lock:
                self.working = False
            database.close()  # what was opened while it closed

    def _work(self, database: Database) -> float | None:
        """Seconds until the next may be worked on; None, and the end of the work, where none waits."""
        with self.lock:
            now = monotonic()
            self.rests = {owner: until for owner, until in self.rests.items() if until > now}
            most = now + AHEAD_SECONDS
            free = {name: self.rests.get(owner, now) - most for name, owner in self.waiting.items()}
            name = next((name for name, seconds in free.items() if seconds <= 0.0), None)
            if name is None:
                self.working = bool(free)
                return min(free.values(), default=None)
            owner, self.doing = self.waiting.pop(name), name
        began = thread_time()
        try:
            self.do(database, name)
        except Exception:  # noqa: BLE001 - it is asked for again; the others wait for their turn
            _log.exception("%s: %s failed", type(self).__name__, name)
        with self.lock:
            self.doing, now = None, monotonic()
            self.rests[owner] = max(self.rests.get(owner, now), now) + RESTS * (thread_time() - began)
        return 0.0
