"""Hands the newest state to somebody slow (a disk, a server far away) without waiting.

The newest state is handed over by a thread; what came between is left out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

State = TypeVar("State")


class Latest(Generic[State]):
    """Calls `hand` with the newest state told, in a thread, at most every so many seconds.

    hand   returns False when nothing more is wanted; what it raises ends the thread
    """

    def __init__(self, hand: Callable[[State], bool], every_seconds: float) -> None:
        self._hand = hand
        self._every = every_seconds
        self._newest: list[State] = []
        self._told = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="latest", daemon=True)
        self._thread.start()

    def tell(self, state: State) -> None:
        """Hand this over soon; it must not change afterwards."""
        self._newest = [state]
        self._told.set()

    def close(self, timeout_seconds: float) -> None:
        """Wait for the handing over that is under way; hand over nothing more."""
        self._closing.set()
        self._told.set()
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while True:
            self._told.wait()
            self._told.clear()
            if self._closing.is_set():
                return
            newest, self._newest = self._newest, []
            if newest and not self._hand(newest[0]):
                return
            self._closing.wait(self._every)
