"""The raw log of a run as events: piece by piece, each byte once, in the order of the log.

A piece says where in the log it begins (`offset`): what was taken before is passed over, so that a piece can
be sent again, or the whole log as it grows. What no form understands is kept as a remark.
"""

import datetime as dt
import hashlib
import re
from dataclasses import dataclass, field, replace
from functools import partial
from time import thread_time, time
from typing import Any

from memory_service.domain.logs.parser import Context, Reading, notes_of, read_log
from memory_service.domain.monitoring.event import SERVER_SEQ
from memory_service.errors import Conflict, FieldError, NotFound, Unavailable, wrong_value
from memory_service.schemas.events import ReportedEvent, fitting
from memory_service.schemas.fields import utc_text
from memory_service.services.database.transactions import Database, WriteTransaction
from memory_service.services.runs.observations import conclude_again
from memory_service.services.runs.summaries import Folding, begun, note_teller, or_nothing
from memory_service.services.runs.telemetry import RUNNING, Batch, insert, known_run_key
from memory_service.services.runs.verdicts import reported_verdict
from memory_service.store.queries import run_summaries as watched

TRIES = 5
HEAD_BYTES = 256

MOST_EVENTS = 2_000
"""Of one piece; what is behind them is sent again from the answer's `offset` on."""

MOST_LINES, MOST_SECONDS = 50_000, 1.0
"""Of one piece: lines, frames of bars among them, and processor time of reading."""

MOST_BYTES = 64 * 1024
"""Of a part, which is as often as the time is looked at, unless one line is longer: a line of 2000 characters
takes up to 7 ms."""

_LINE_END = re.compile(rb"\n|100%")
"""And of a bar that is redrawn in place each finished frame."""


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a log was read. head: its first bytes, in hexadecimal digits."""

    offset: int = 0
    next_seq: int = SERVER_SEQ
    lines: int = 0
    understood: int = 0
    clipped: int = 0
    shift_seconds: float | None = None
    last_piece: str | None = None
    head: str = ""
    context: Context = field(default_factory=Context)
    is_new: bool = True


def take_log(
    database: Database, run_id: str, raw: bytes, offset: int | None = None, at: str | None = None
) -> dict[str, Any]:
    """`{"accepted", "offset", "lines", "understood", "clipped", "verdict"}`: events of this piece; of the
    whole log so far its bytes, lines and clipped characters. Of a piece of more than `MOST_EVENTS` events, or
    `MOST_LINES` lines, the beginning is taken: what lies behind `offset` is to be sent again.

    offset   of the piece's first byte in the log; None = it follows what was taken, unless it is the very
             piece taken last (then it was sent again)
    at       when it was written (ISO 8601); the service's clock if not given. Lines with clocks of their own
             are dated by these, the latest as written then

    NotFound for a run nobody began; Conflict where bytes are missing before the piece.
    """
    key = known_run_key(run_id)
    note_teller(database, key)
    return _take(database, key, raw, offset, None if at is None else _moment(at), final=False)


def end_log(database: Database, run_id: str) -> None:
    """Nothing follows: a last line without an end is read as it stands."""
    place = _place(database, run_id)
    if not place.is_new and place.context.tail:
        _take(database, run_id, b"", None, None, final=True)


def _take(
    database: Database, key: str, raw: bytes, offset: int | None, at: float | None, *, final: bool
) -> dict[str, Any]:
    for _ in range(TRIES):
        place = _place(database, key)
        piece, digest = _unread(raw, place, offset)
        place = _with_head(place, raw, piece, offset)
        reading, size = _read(piece, place.context, final=final) if piece or final else (None, 0)
        if size < len(piece):
            digest = f"{digest}:{place.offset - len(raw) + len(piece)}"
        events = _reported(reading, place, time() if at is None else at)
        try:
            batch, place = _kept(database, key, place, reading, events, size, digest)
        except Conflict:
            continue  # somebody else began the log meanwhile
        if batch is not None:
            break
    else:
        raise Unavailable("this log is being written by others all the time; send the piece again")
    assert batch.status is not None  # noqa: S101 - _kept found the run
    if batch.status != RUNNING and batch.accepted:
        or_nothing(key, lambda: conclude_again(database, key))
    return {
        "accepted": batch.accepted,
        "offset": place.offset,
        "lines": place.lines,
        "understood": place.understood,
        "clipped": place.clipped,
        "verdict": reported_verdict(database, key, batch.status, batch.kinds, new=batch.accepted > 0),
    }


def _unread(raw: bytes, place: _Place, offset: int | None) -> tuple[bytes, str | None]:
    """(what was not taken yet, digest of the piece). of a piece taken in part the digest is kept with
    where it began: sent again, it goes on."""
    digest = hashlib.blake2b(raw, digest_size=16).hexdigest() if raw else place.last_piece
    if offset is None:
        last, _, began = (place.last_piece or "").partition(":")
        if digest != last:
            return raw, digest
        return (raw[place.offset - int(began) :] if began else b""), digest
    if offset > place.offset:
        message = f"leaves a gap: the log was taken up to byte {place.offset}; send on from there"
        raise Conflict(f"offset {offset} {message}", [FieldError("offset", message, offset)])
    return raw[place.offset - offset :], digest


def _with_head(place: _Place, raw: bytes, piece: bytes, offset: int | None) -> _Place:
    """The place with the log's first bytes noted; Conflict where a piece is of another log, which would be
    passed over up to where the first one was taken."""
    known = b"" if ":" in place.head else bytes.fromhex(place.head)  # with a colon: of an older program
    again = b"" if offset is None else known[offset : offset + len(raw)]
    if again != raw[: len(again)]:
        message = f"begins otherwise than the log that was taken up to byte {place.offset}: was it rotated? "
        message += "Send what follows without offset"
        raise Conflict(f"This log {message}", [FieldError("offset", message, offset)])
    if len(known) != place.offset:
        return place
    return replace(place, head=(known + piece)[:HEAD_BYTES].hex())


def _read(piece: bytes, context: Context, *, final: bool) -> tuple[Reading, int]:
    """(what was read, of how many bytes)."""
    found: list[Reading] = []
    at, lines, began = 0, 0, thread_time()
    while True:
        end, count = _end_of_part(piece, at)
        found.append(read_log(piece[at:end], context, final=final and end == len(piece)))
        at, context, lines = end, found[-1].context, lines + count
        enough = lines >= MOST_LINES or sum(len(one.events) for one in found) >= MOST_EVENTS
        if at == len(piece) or enough or thread_time() - began > MOST_SECONDS:
            break
    events = tuple(event for one in found for event in one.events)
    strange = tuple(line for one in found for line in one.unrecognized)
    counts = ("lines", "understood", "clipped")
    read, understood, clipped = (sum(getattr(one, name) for one in found) for name in counts)
    return Reading(events, strange, read, understood, clipped, context), at


def _end_of_part(piece: bytes, start: int) -> tuple[int, int]:
    """(where a part of some `MOST_EVENTS` lines and frames, or `MOST_BYTES`, ends, how many these are)."""
    count, begun = 0, start
    for found in _LINE_END.finditer(piece, start):
        end = found.end()
        count += 1 + piece.count(b"\r", begun, end) + piece.count(b"\x08", begun, end)
        if count >= MOST_EVENTS or (end - start > MOST_BYTES and found[0] == b"\n"):
            return end, count
        begun = end
    return len(piece), count + 1


def _place(database: Database, key: str) -> _Place:
    if not begun(database, [key]):
        raise NotFound(f"There is no run {key}; begin it first: POST /runs or the tool start_run")
    with database.read() as transaction:
        known = watched.log_of(transaction.session, key)
    if known is None:
        return _Place()
    return _Place(
        **{name: getattr(known, name) for name in _COLUMNS}, head=str(known.context.get("head", "")),
        context=Context.from_dict(known.context), is_new=False,
    )  # fmt: skip


def _kept(
    database: Database,
    key: str,
    place: _Place,
    reading: Reading | None,
    events: tuple[float | None, list[ReportedEvent]],
    size: int,
    digest: str | None,
) -> tuple[Batch | None, _Place]:
    """Events, summary and the place in the log in one transaction; (None, _) where the log went on between
    reading and writing."""
    since = begun(database, [key])[key]
    shift, reported = events
    batch = Batch.of(key, reported)
    with database.write_untracked() as transaction:
        statements = transaction.session.statements
        folding = Folding(transaction.caches, statements, {key: since.started})
        if not _unmoved(transaction, key, place):
            return None, place
        batch.of_run(folding.statuses[key], since, transaction.now, partial(folding.summary, key))
        batch.accepted = len(batch.events) - len(insert(statements, folding, batch))
        folding.write()
        read = reading or Reading((), (), 0, 0, 0, place.context)
        offset, seq, understood = place.offset + size, place.next_seq + len(reported), place.understood
        counts = (place.lines + read.lines, understood + read.understood, place.clipped + read.clipped)
        after = _Place(offset, seq, *counts, shift, digest, place.head, read.context)
        if reading is not None:
            values = {name: getattr(after, name) for name in _COLUMNS} | {
                "context": after.context.as_dict() | {"head": after.head}
            }
            watched.write_log(transaction.session, key, values, new=place.is_new)
    folding.done()
    return batch, after


_COLUMNS = ("offset", "next_seq", "lines", "understood", "clipped", "shift_seconds", "last_piece")


def _unmoved(transaction: WriteTransaction, key: str, place: _Place) -> bool:
    now = watched.log_of(transaction.session, key, to_change=True)
    if now is None:
        return place.is_new
    return not place.is_new and (now.offset, now.next_seq) == (place.offset, place.next_seq)


def _reported(
    reading: Reading | None, place: _Place, written: float
) -> tuple[float | None, list[ReportedEvent]]:
    """(shift from the lines' clocks to ours, the events with their seqs and times).

    Clocks have no zone: the latest line counts as written when the piece was, and none before it later."""
    if reading is None:
        return place.shift_seconds, []
    clocks = [reported.clock for reported in reading.events if reported.clock is not None]
    shift = place.shift_seconds
    if clocks:
        shift = min(x for x in (shift, written - max(clocks)) if x is not None)
    clock = min(clocks, default=None)
    found: list[ReportedEvent] = []
    for reported in reading.events:
        clock = clock if reported.clock is None else reported.clock
        moment = written if clock is None or shift is None else min(clock + shift, written)
        found.append(fitting(place.next_seq + len(found), reported.kind, _iso(moment), reported.fields))
    last = _iso(written)
    for fields in notes_of(reading.unrecognized):
        found.append(fitting(place.next_seq + len(found), "note", last, fields))
    return shift, found


def _iso(moment: float) -> str:
    """A time that the service can keep; clocks of binary noise can be anything."""
    return utc_text(dt.datetime.fromtimestamp(min(max(moment, 0.0), 7e9), dt.UTC).isoformat())


def _moment(at: str) -> float:
    try:
        at = utc_text(at)
    except ValueError as error:
        raise wrong_value("at", str(error), at) from None
    return dt.datetime.fromisoformat(at).timestamp()
