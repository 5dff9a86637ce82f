"""Passes the latest state to a slow consumer (a disk, a remote server) in a thread.

Only the latest state is passed on; those before it are skipped.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

State = TypeVar("State")


class Latest(Generic[State]):
    """Calls `hand` with the latest state, in a thread, at most every so many seconds.

    hand   returns False when nothing more is wanted; what it raises ends the thread
    """

    def __init__(self, hand: Callable[[State], bool], every_seconds: float) -> None:
        self._hand = hand
        self._every = every_seconds
        self._newest: list[State] = []
        self._changed = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="latest", daemon=True)
        self._thread.start()

    def put(self, state: State) -> None:
        """Pass this on soon; it must not change afterwards."""
        self._newest = [state]
        self._changed.set()

    def close(self, timeout_seconds: float) -> None:
        """Wait for the call in progress; pass on nothing more."""
        self._closing.set()
        self._changed.set()
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            if self._closing.is_set():
                return
            newest, self._newest = self._newest, []
            if newest and not self._hand(newest[0]):
                return
            self._closing.wait(self._every)
