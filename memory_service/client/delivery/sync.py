"""`memory-service sync`: send what earlier processes left in the spool."""

import contextlib
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from memory_service.client.config import DEFAULT_SERVER, api_key, spool_folder
from memory_service.client.delivery.http import Wire
from memory_service.client.delivery.next_request import Delivery, Step
from memory_service.client.delivery.sender import pause_before
from memory_service.client.delivery.spool import ASIDE, Spool
from memory_service.client.delivery.spool_storage import InUseError

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
