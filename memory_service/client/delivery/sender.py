"""Background delivery: a queue that never blocks, one thread into the spool, one from the spool to the
server.

    training thread ──queue──> spooler ──spool on disk──> sender ──HTTP──> service

The spooler writes what it is given within a tenth of a second, whatever the network does; the sender waits
between failures with growing, jittered pauses, or as long as the service's Retry-After says.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import os
import queue
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from memory_service.client.config import DEFAULT_SERVER, Config, api_key, spool_folder
from memory_service.client.delivery.http import Wire, trace_headers
from memory_service.client.delivery.next_request import Delivery, Step
from memory_service.client.delivery.spool import ASIDE, InUseError, Spool
from memory_service.client.fields import RAW_KINDS, cleaned
from memory_service.client.verdict import NOT_YET, Verdict

log = logging.getLogger("memory_service.client")

WRITE_EVERY_S = 0.05
"""The spooler wakes at most this often, however fast events come."""

SEND_EVERY_S = 2.0
SEND_GAP_S = 0.2
"""Samples are sent every 2 s; an epoch or fold goes at once, but never two requests within 0.2 s."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0

Item = tuple[str, Mapping[str, Any], float]

_alive: weakref.WeakSet[EventSender] = weakref.WeakSet()


def utc(seconds: float) -> str:
    """ISO 8601, UTC, with Z."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat().replace("+00:00", "Z")


def pause_before(attempt: int, retry_after: float | None, draw: Callable[[], float]) -> float:
    """Seconds before attempt 1, 2, ...: from 0.5 to 60 s with jitter, at least `retry_after`."""
    longest = min(FIRST_PAUSE_S * 2.0 ** min(attempt - 1, 30), LONGEST_PAUSE_S)
    return max(longest * (1.0 - 0.5 * draw()), retry_after or 0.0)


class EventSender:
    """Spools and sends the events of one run. `put` and `finish` are safe in threads and signal handlers."""

    def __init__(
        self,
        config: Config,
        run_id: str,
        body: Mapping[str, Any] | None,
        first_seq: int = 0,
        usual: Mapping[str, Any] | None = None,
    ) -> None:
        """body: of POST /runs, None for a run begun elsewhere; usual: defaults the service may require."""
        self.run_id = run_id
        self.verdict: Verdict = NOT_YET
        self.problems: list[str] = []
        self._config = config
        self._patience = config.flush_seconds
        self._trace = trace_headers()  # of the thread that begins the run: the sender's has no context
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._seq = first_seq
        self._wake, self._ending = threading.Event(), threading.Event()
        self._all_written = self._send_ended = self._all_sent = self._forked = False
        self._warned: set[str] = set()
        self._advised: object = None
        header = {"run": body, "run_id": run_id, "server": config.server, "usual": usual or {}}
        # Of a run that was begun elsewhere, whoever began it may have a spool, too.
        name = run_id if body is not None else f"{run_id}-{first_seq}"
        self._spool = Spool.create(config.spool, name, header, config.spool_bytes)
        if self._spool.trouble:
            self._warn("disk", f"{config.spool} takes nothing ({self._spool.trouble}): kept in memory only")
        _alive.add(self)
        self._start("spooler", self._write_loop)
        if config.mode == "online":
            self._start("sender", self._send_loop)
        else:
            self._send_ended = self._all_sent = True

    def put(self, kind: str, fields: Mapping[str, Any], at: float) -> None:
        """Queue an event of the moment `at` (seconds since 1970). Never blocks."""
        if not self._forked:
            self._queue.put((kind, fields, at))

    def finish(self, body: Mapping[str, Any], at: float, patience: float) -> None:
        """Queue the end; later events are dropped. An empty body: the run goes on elsewhere."""
        self._patience = patience
        self.put("", body, at)

    def wait(self, seconds: float) -> bool:
        """After `finish`: True once all is sent (offline: on disk); False after `seconds`. Only sleeps."""
        until = time.monotonic() + seconds
        while not (self._all_written and self._send_ended) and not self._forked and time.monotonic() < until:
            time.sleep(0.005)
        online = self._config.mode == "online"
        complete = self._all_written and self._send_ended and self._all_sent
        warned = self._warned & {"away", "refused", "send"}
        if online and not complete and not warned:
            self._warn("left", f"not all of the run could be sent; {self._where()}")
        return complete

    def after_fork(self) -> None:
        """A forked child does nothing: the run belongs to the parent."""
        self._forked = True
        self._spool.release()

    def _start(self, name: str, target: Callable[[], None]) -> None:
        threading.Thread(target=target, name=f"memory-service-{name}", daemon=True).start()

    def _write_loop(self) -> None:
        while not self._all_written:
            items = [self._queue.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    items.append(self._queue.get_nowait())
            try:
                self._write(items)
            except Exception as error:  # noqa: BLE001 - never the training's problem
                self._warn("keep", f"{len(items)} events could not be kept: {error!r}")
                self._all_written |= any(kind == "" for kind, _, _ in items)
            if not self._all_written:
                time.sleep(WRITE_EVERY_S)
        self._ending.set()
        self._wake.set()
        if self._config.mode != "online":
            self._spool.close()

    def _write(self, items: list[Item]) -> None:
        events: list[dict[str, Any]] = []
        finish: dict[str, Any] | None = None
        ended = False
        for kind, fields, at in items:
            if kind == "":
                ended, finish = True, {**fields, "at": utc(at)} if fields else None
                break
            clean, problems = cleaned(kind, fields) if kind in RAW_KINDS else (dict(fields), [])
            if problems:
                self._warn("fields", f"left out: {problems[0]}")
            events.append({"seq": self._seq, "kind": kind, "at": utc(at), **clean})
            self._seq += 1
        if self._spool.dropped:
            text = f"{self._spool.dropped} older events were dropped: the spool was full"
            self._spool.dropped = 0
            events.append({"seq": self._seq, "kind": "note", "at": utc(items[-1][2]), "text": text})
            self._seq += 1
        self._spool.append(events, finish)
        if self._spool.trouble:
            self._warn("disk", f"the disk takes nothing more ({self._spool.trouble}): kept in memory only")
        self._all_written |= ended
        if ended or any(event["kind"] not in RAW_KINDS for event in events):
            self._wake.set()

    def _send_loop(self) -> None:
        wire = Wire(self._config.server, self._config.key, self._trace)
        delivery = Delivery(self._spool, wire, self._on_verdict, lambda why: self._warn(why, why))
        failures, ended, step = 0, False, Step("idle")
        try:
            while step.outcome not in ("done", "refused"):
                ending = self._all_written
                if ending and not ended:  # what it was away for before says nothing of the seconds left
                    ended, failures = True, 0
                step = delivery.step()
                self.run_id = delivery.run_id
                if step.outcome == "later":
                    failures += 1
                    self._warn("away", f"{self._config.server} does not take the run now ({step.why}); "
                               f"training goes on, {self._where()}")  # fmt: skip
                    pause = pause_before(failures, step.retry_after, random.random)
                    if ending and (not step.reached or pause > self._patience):
                        break
                    self._ending.wait(pause) if not ending else time.sleep(pause)
                elif step.outcome == "idle" and ending and self._spool.finish is None:
                    step = Step("done")
                elif step.outcome == "idle":
                    self._wake.wait(SEND_EVERY_S)
                    self._wake.clear()
                elif step.outcome == "progress":
                    failures = 0
                    self._ending.wait(SEND_GAP_S)
            self._spool_done(step)
            self._all_sent = step.outcome == "done"
        except Exception as error:  # noqa: BLE001 - never the training's problem
            self._warn("send", f"sending ended: {error!r}; {self._where()}")
        finally:
            self._send_ended = True
            wire.close()

    def _spool_done(self, step: Step) -> None:
        if step.outcome == "refused":
            self._warn("refused", f"{self._config.server} refuses the run for good: {step.why}; it is kept "
                       "aside, and `memory-service sync --refused` tries it again")  # fmt: skip
        while not self._all_written:  # refused while the run goes on: the spooler still writes
            self._ending.wait()
        if step.outcome == "refused":
            self._spool.set_aside(step.why)
        else:
            self._spool.close(remove=step.outcome == "done")

    def _on_verdict(self, answer: Any) -> None:
        verdict = Verdict.from_answer(answer)
        if verdict is None:
            return
        self.verdict = verdict
        advice = (verdict.action, tuple(sorted((k, str(v)) for k, v in verdict.set.items())))
        if verdict.action != "continue" and verdict.severity != "info" and advice != self._advised:
            log.warning("memory-service: %s", verdict)
        self._advised = advice

    def _where(self) -> str:
        path = self._spool.path
        if path is None:
            return "what cannot be sent is lost with this process"
        return f"it is kept in {path}, and `memory-service sync` sends it"

    def _warn(self, about: str, message: str) -> None:
        """Once for each `about`."""
        if about not in self._warned and len(self._warned) < 50:
            self._warned.add(about)
            self.problems.append(message)
            log.warning("memory-service: %s", message)


def _after_fork() -> None:
    for sender in list(_alive):
        sender.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


Outcome = Literal["sent", "in_use", "away", "refused", "aside", "unreadable"]

ATTEMPTS = 4
"""Requests in a row that may fail before a spool is left for another time."""

LONGEST_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Synced:
    """What became of one spool.

    outcome   sent | in_use: its process lives and sends it | away: no answer | refused: kept aside now |
              aside: refused before, not tried now | unreadable: no spool
    events    acknowledged now
    """

    path: str
    run_id: str
    outcome: Outcome
    events: int = 0
    why: str = ""


def sync(
    server: str | None = None,
    folder: Path | None = None,
    *,
    refused: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Synced]:
    """Send every spool of `folder` to `server` (default: the one of each), oldest first; one result each.

    A run whose process ended without its end has crashed at its last event. refused: try refused runs again.
    """
    place = folder or spool_folder(os.environ)
    wires: dict[str, Wire] = {}
    aside = sorted((place / ASIDE).glob("*.jsonl"), key=_changed)
    for path in [*sorted(place.glob("*.jsonl"), key=_changed), *(aside if refused else ())]:
        yield _sent(path, server, wires, sleep)
    for wire in wires.values():
        wire.close()
    for path in () if refused else aside:
        yield Synced(str(path), path.stem, "aside", why=_reason(path))


def _sent(path: Path, server: str | None, wires: dict[str, Wire], sleep: Callable[[float], None]) -> Synced:
    try:
        spool = Spool.open(path)
    except InUseError as error:
        return Synced(str(path), path.stem, "in_use", why=str(error))
    except (OSError, ValueError, KeyError) as error:
        return Synced(str(path), path.stem, "unreadable", why=str(error))
    if spool.finish is None and spool.header.get("run") is not None:
        ended = {"at": spool.last_at} if spool.last_at else {}
        spool.append((), finish={"status": "crashed", **ended})
    address = server or str(spool.header.get("server"))
    wire = wires.setdefault(address, Wire(address, _key_for(address, server)))
    troubles: list[str] = []
    delivery = Delivery(spool, wire, lambda _: None, troubles.append)
    step = _delivered(delivery, sleep)
    if step.outcome == "refused":
        moved = spool.set_aside(step.why) or path
        return Synced(str(moved), delivery.run_id, "refused", delivery.sent, step.why)
    # A run that was begun elsewhere ends elsewhere: with its events sent it owes nothing.
    done = step.outcome == "done" or (step.outcome == "idle" and spool.finish is None)
    spool.close(remove=done)
    why = step.why or "; ".join(troubles)
    return Synced(str(path), delivery.run_id, "sent" if done else "away", delivery.sent, why)


def _key_for(address: str, given: str | None) -> str | None:
    """The key belongs to the server that was set for it or named now; a spool may name any other."""
    trusted = given or os.environ.get("MEMORY_SERVER", DEFAULT_SERVER)
    return api_key(os.environ) if address.strip().rstrip("/") == trusted.strip().rstrip("/") else None


def _reason(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError, AttributeError), path.open("rb") as file:
        return str(json.loads(file.readline()).get("refused", ""))
    return ""


def _delivered(delivery: Delivery, sleep: Callable[[float], None]) -> Step:
    failures = 0
    while True:
        step = delivery.step()
        if step.outcome == "progress":
            failures = 0
        elif step.outcome == "later":
            failures += 1
            if failures >= ATTEMPTS or not step.reached or (step.retry_after or 0) > LONGEST_WAIT_S:
                return step
            sleep(pause_before(failures, step.retry_after, random.random))
        else:
            return step


def _changed(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0
