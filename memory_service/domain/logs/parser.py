"""Parser of training logs: text becomes events; lines that are not understood are kept and counted.

Understood: the lines of rule R27, PyTorch Lightning and tqdm bars, Hugging Face's dictionaries and headers,
Keras, LightGBM, XGBoost, CatBoost, timm, fastai, Ultralytics, the step lines of usual templates, nvidia-smi,
JSON lines and plain `Epoch 3/30 loss=...`. Time is linear in the text: a line
is read up to `MOST_CHARS`, and of the frames of a progress bar only the last and the finished ones.
"""

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import Any, NamedTuple

from memory_service.domain.common.tables import shipped_table, with_parts
from memory_service.domain.logs.trainer_formats import FORMATS, Context
from memory_service.domain.logs.values import clock_of

__all__ = ["MOST_CHARS", "Context", "ParsedEvent", "Reading", "notes_of", "read_log"]

MOST_CHARS = 2_000
"""Of a longer line its first 2000 characters are read and kept; the rest is counted."""

MAX_UNRECOGNIZED_CHARS = 500

MOST_FRAMES = 1_000
"""Of more frames on one line only those at 100 % and the last one are looked at: a pattern that cuts two
million of them at once keeps every other thread waiting."""

_UTF8 = codecs.getincrementaldecoder("utf-8")
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-9;:?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)?|[@-Z\\-_])"
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]+")
_NO_PROGRESS = str.maketrans("", "", "0123456789 █▉▊▋▌▍▎▏#|%=>.━╸╺")
_JSON_UNSAFE = re.compile("[\x00\ud800-\udfff]")
_FRAME_ENDS = re.compile(r"[\r\x08]+")
_FRAME = re.compile(r"[^\r\x08]+")
_PREFIX = re.compile(
    r"^(?:.{0,120}?\b(?:INFO|DEBUG|WARNING|ERROR)\b\]?[\s:\-|]{0,8})?(?:[\s\-|:]{0,4}(?:root|__main__|tensorflow)\b[\s:\-]{1,4})?"
    r"[\s\-|:]{0,4}"
)
_ELAPSED = re.compile(r"^\s{0,4}\[\d{1,3}:\d{2}(?::\d{2})?\]\s{1,4}")


@dataclass(frozen=True, slots=True)
class ParsedEvent:
    """One event that the log reported.

    kind, fields   as `event.Event`
    clock          seconds since 1970 as the line is stamped; None when it is not. For differences only
    """

    kind: str
    fields: Mapping[str, Any]
    clock: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a piece of log gave.

    context   to go on with at the next piece; kept: the lines that were not understood, clipped
    lines     how many (blank ones not counted); understood: of these
    clipped   characters of overlong lines that were not looked at
    """

    events: tuple[ParsedEvent, ...]
    unrecognized: tuple[str, ...]
    lines: int
    understood: int
    clipped: int
    context: Context


def read_log(text: str | bytes, context: Context | None = None, *, final: bool = False) -> Reading:
    """The events of the next piece of a log; pieces may end anywhere, also inside a character. Of a bar that
    is redrawn in place the last frame of each piece is read: pieces say more of it than the whole does.

    final   nothing follows: an unfinished last line is read as it stands
    Never raises, whatever the bytes.
    """
    now = context or Context()
    if isinstance(text, bytes):
        decoder = _UTF8("replace")
        text = decoder.decode(bytes.fromhex(now.cut) + text, final)
        now = replace(now, cut=decoder.getstate()[0].hex())
    text = now.tail + text
    clipped = 0
    if not final:
        end = max(text.rfind("\n"), text.rfind("\r"))
        text, rest = text[: end + 1], text[end + 1 :]
        clipped += max(0, len(rest) - 2 * MOST_CHARS)
        now = replace(now, tail=_JSON_UNSAFE.sub(" ", rest[: 2 * MOST_CHARS]))
    else:
        now = replace(now, tail="")
    events: list[ParsedEvent] = []
    unrecognized: list[str] = []
    lines = understood = 0
    for frame in _frames(text):
        clipped += max(0, len(frame) - MOST_CHARS)
        line = _clean(frame[: 2 * MOST_CHARS])[:MOST_CHARS]
        if not line.strip():
            continue
        lines += 1
        line_events, now = read_line(line, now)
        if line_events is None:
            unrecognized.append(line[:MAX_UNRECOGNIZED_CHARS])
            continue
        understood += 1
        events.extend(line_events)
    return Reading(tuple(events), tuple(unrecognized), lines, understood, clipped, now)


def read_line(line: str, context: Context) -> tuple[tuple[ParsedEvent, ...] | None, Context]:
    """(events of one clean line, the context after it); None where the line is not understood."""
    clock, rest = clock_of(line)
    headed = clock is not None or any(level in rest[:140] for level in ("INFO", "DEBUG", "WARNING", "ERROR"))
    plain = usual_spelling(_ELAPSED.sub("", _PREFIX.sub("", rest, count=1) if headed else rest))
    for form in FORMATS:
        found = form(plain, context)
        if found is not None:
            events, after = found
            return tuple(ParsedEvent(kind, body, clock) for kind, body in events), after
    return None, context


NOTE_CHARS, UNREAD_CHARS = 16_000, 160
"""Of one remark about lines that were not understood; of the line in it that a verdict shows."""


def notes_of(lines: Iterable[str]) -> list[dict[str, str]]:
    """Fields of the remarks that tell of these lines, which were not understood."""
    portions: list[list[str]] = []
    size = NOTE_CHARS
    for line in lines:
        if size + len(line) >= NOTE_CHARS:
            portions.append([])
            size = 0
        portions[-1].append(line)
        size += len(line) + 1
    return [{"text": "\n".join(some), "unread_line": some[-1][:UNREAD_CHARS]} for some in portions]


def _frames(text: str) -> Iterator[str]:
    """Lines; of a progress bar redrawn in place (`\\r` or backspaces) the finished frames and the last."""
    for line in text.split("\n"):
        if "\r" not in line and "\x08" not in line:
            yield line
            continue
        if next(islice(_FRAME_ENDS.finditer(line), MOST_FRAMES, None), None) is None:
            frames = [frame for frame in _FRAME_ENDS.split(line) if frame.strip()]
        else:
            frames = _of_many(line.rstrip("\r\x08 \t"))
        for frame, following in zip_longest(frames, frames[1:]):
            if following is None or _finishes(frame, following):
                yield frame


def _of_many(line: str) -> list[str]:
    """Frames at 100 % and the last one."""
    last = line[max(line.rfind("\r"), line.rfind("\x08")) + 1 :]
    if "100%" not in line:
        return [last]
    before = (found[0] for found in _FRAME.finditer(line, 0, len(line) - len(last)))
    return [*(frame for frame in before if "100%" in frame), last]


def _finishes(frame: str, following: str) -> bool:
    """Whether a frame is the last of its bar: the next one is another bar, or begins anew after 100 %."""
    here, there = (part[:40].split("[")[0].translate(_NO_PROGRESS) for part in (frame, following))
    return here != there or ("100%" in frame[:200] and "100%" not in following[:200])


def _clean(line: str) -> str:
    return _CONTROLS.sub(" ", _ESCAPES.sub("", line))


class Spelling(NamedTuple):
    """A line of `trainer` with `word` in it is read as if `usual` stood in place of `own`."""

    trainer: str
    word: str
    own: re.Pattern[str]
    usual: str


_TABLE = shipped_table(__package__, "words.toml")["spellings"]
SPELLINGS = tuple(
    Spelling(trainer, word, re.compile(with_parts(own, _TABLE["parts"])), usual)
    for trainer, word, own, usual in _TABLE["rows"]
)


def usual_spelling(line: str) -> str:
    """The line as most trainers would print it."""
    for entry in SPELLINGS:
        if entry.word in line:
            line = entry.own.sub(entry.usual, line, count=1)
    return line
