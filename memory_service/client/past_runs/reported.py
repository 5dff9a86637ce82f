"""A past run in the service's words: the body that begins it, its events and its end.

Settings and figures are known by their usual names. Two settings that contradict each other, and what has
no known name, say nothing: they are counted, not guessed.
"""

import datetime as dt
import re
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import ceil
from sys import float_info
from typing import Any

from memory_service.client.delivery.http import Door
from memory_service.client.facts import CUSTOM
from memory_service.client.fields import cleaned
from memory_service.client.past_runs.past_run import Ended, PastRun, Row, Unread, alone, literal
from memory_service.domain.common.tables import shipped_table
from memory_service.domain.logs.values import TRAIN_WORDS, VALID_WORDS, scores_of
from memory_service.errors import Conflict, FieldError, InvalidInput, MemoryServiceError

_NAMESPACE = uuid.UUID("6a4c0c0e-7d1b-5d53-9f43-5b1f6f1f0a48")
"""Of the ids of imported runs: one run has one id, wherever and however often it is read."""

MOST_SAMPLES = 1_500
"""Of the machine: a longer run keeps of each stretch the one with the most memory in use."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_NAMES = shipped_table(__package__, "names.toml")
_FIELD_OF = {name: field for field, names in _NAMES["settings"].items() for name in names.split()}
_WHOLE = _words(
    "batch_size epochs image_size seq_len n_features n_classes num_workers grad_accumulation folds fold "
    "trained validated"
)
_OF_MEASURING = VALID_WORDS | {"teacher", "ema", "predict", "inference"}
_MIXED = re.compile(r"(bf)?(16|32)-(?:mixed|true)")
_EPOCH_SECONDS = _words(
    "epoch_time epoch_seconds epoch_sec epoch_duration time_epoch time_per_epoch seconds_per_epoch"
)
_STEPS = "global_step"
_ON_GPU = re.compile(r"gpu[./_](?:(process)[./_])?(\d{1,3})[./_](\w{1,40})")


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """What is sent of a past run.

    begin     the body of POST /runs; without `task`, `gpu` or `model` where nobody says it
    events    of POST /runs/{id}/events; finish: of POST /runs/{id}/finish
    unknown   settings, figures and readings that say nothing, each once
    notes     what was taken how, as clauses
    """

    begin: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]
    finish: Mapping[str, Any]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


def reported(past: PastRun, stated: Mapping[str, Any], now: float) -> ReportedRun | Unread:
    """What is sent of the run, or why nothing. stated: task, gpu, model of runs that do not say them."""
    unknown: list[str] = []
    notes = list(past.notes)
    facts = _facts(past.config, unknown, notes)
    trained_at = [row.at for row in past.rows]
    moments = [*trained_at, *(row.at for row in past.system)]
    began = past.began if past.began is not None else min(trained_at, default=None)
    ended = past.ended if past.ended is not None else max(trained_at, default=None)
    if began is None or ended is None or not all(map(_is_moment, [began, ended, *moments])):
        return Unread(past.key, "it tells no time")
    trained, validated, fold = (facts.pop(name, None) for name in ("trained", "validated", "fold"))
    batch = (facts.get("batch_size") or 0) * facts.get("grad_accumulation", 1)
    epochs = _epochs(past.rows, facts.get("epochs"), unknown, notes)
    told = list(_told(epochs, fold or 0, trained, batch))
    how = past.how or _probably(len(told), facts.get("epochs"), ended, now)
    if how is None:
        why = "nothing says that it has ended: import it again a day after its last figure"
        return Unread(past.key, why)
    if past.how is None:
        notes.append(f"{past.tracker} does not say how it ended: taken as {how}")
    if trained and (validated or facts.get("folds") in (None, 1)):
        facts["n_train"] = trained + (validated or 0)
    machine = {name: value for name, value in past.machine.items() if name != "gpu"}
    cards = machine.get("gpu_count", 1)
    gpu = facts.get("gpu") or past.machine.get("gpu")
    if gpu and isinstance(cards, int) and cards > 1:
        gpu = f"{cards}x{gpu}"
    begin = {**stated, **facts, **({"gpu": str(gpu)} if gpu else {})}
    imported = {"tracker": past.tracker, "run": past.key, "name": past.name[:200]}
    begin |= {
        "run_id": str(uuid.uuid5(_NAMESPACE, f"{past.tracker}:{past.key}")),
        "started_at": _iso(began),
        "host": {**machine, "imported": imported},
    }
    samples = _samples(past.system, unknown) if cards == 1 else []
    text = f"imported from {past.tracker}: {past.key} {past.name}".strip()
    events = [(began, "note", {"text": text[:300]})]
    events += sorted([*samples, *((at, "epoch", fields) for at, fields in told)], key=lambda one: one[0])
    sent = [
        {"seq": seq, "kind": kind, "at": _iso(max(at, began)), **cleaned(kind, fields)[0]}
        for seq, (at, kind, fields) in enumerate(events)
    ]
    finish = {"status": how, "at": _iso(max([ended, began]))}
    return ReportedRun(begin, sent, finish, tuple(dict.fromkeys(unknown)), tuple(notes))


def _probably(told: int, epochs: int | None, ended: float, now: float) -> Ended | None:
    """How a run ended of which the tracker does not say it; None while it may go on."""
    if epochs and told >= epochs:
        return "completed"
    return "stopped" if now - ended > _A_DAY else None


_A_DAY = 86_400.0


def _flat(config: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in config.items():
        path = (*before, *re.split(r"[./]", str(key)))
        if isinstance(value, Mapping) and len(path) < 8:
            yield from _flat(value, path)
        else:
            yield path, value


def _plain(words: Iterable[str]) -> str:
    return re.sub(r"[^a-z0-9]+", "_", "_".join(words).lower()).strip("_")


def _facts(config: Mapping[str, Any], unknown: list[str], notes: list[str]) -> dict[str, Any]:
    """Our fields with their values."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for path, value in _flat(config):
        shown, words = ".".join(path), [_plain([part]) for part in path]
        field = _FIELD_OF.get(_plain(path)) or _FIELD_OF.get(words[-1])
        if words[-1] in ("fp16", "bf16") and value in (True, False):
            if value:
                found["precision"][shown] = words[-1]
        elif field is None or _OF_MEASURING & set("_".join(words[:-1]).split("_")):
            unknown.append(f"setting {shown}")
        elif value is not None and value != "" and (taken := _taken(field, value)) is not None:
            found[field][shown] = taken
        elif value is not None and value != "":
            unknown.append(f"setting {shown}={str(value)[:40]}")
    facts = {}
    for field, said in found.items():
        if len({str(value) for value in said.values()}) == 1:
            facts[field] = next(iter(said.values()))
        else:
            pairs = ", ".join(f"{name}={value}" for name, value in said.items())
            notes.append(f"{field} is not taken, as settings contradict each other: {pairs}")
    return facts


def _taken(field: str, value: Any) -> Any:
    """The value as our field has it; None where it is of another kind."""
    if isinstance(value, str):
        value = literal(value) if field in _WHOLE or field == "learning_rate" else value.strip()
    if field in _WHOLE:
        if isinstance(value, list | tuple) and field == "image_size" and value:
            value = value[-1] if all(each == value[-1] for each in value[-2:]) else None
        is_whole = _is_finite(value) and (isinstance(value, int) or value.is_integer())
        return int(value) if is_whole and value >= (0 if field in ("num_workers", "fold") else 1) else None
    if field == "learning_rate":
        return float(value) if _is_finite(value) and value > 0 else None
    if field == "precision":
        mixed = _MIXED.fullmatch(str(value))
        return {"16": "fp16", "32": "fp32"}.get(str(value), str(value)) if mixed is None else (
            f"{mixed[1] or 'fp'}{mixed[2]}"
        )  # fmt: skip
    if field == "optimizer" and isinstance(value, str):
        return re.split(r"_(?:torch|hf|apex)(?=_|$)", value, maxsplit=1)[0]
    return value if isinstance(value, str) and value and not value.isdigit() else None


@dataclass(frozen=True, slots=True)
class _Epoch:
    """Rows of one epoch; at: of the last."""

    number: int
    at: float
    values: Mapping[str, Any]


def _epochs(rows: Sequence[Row], planned: int | None, unknown: list[str], notes: list[str]) -> list[_Epoch]:
    """By the epoch that rows name; else each row that has a score is one, where they are as many as the
    epochs of the settings."""
    named = [(row, at) for row in rows if (at := _epoch_of(row.values)) is not None]
    unknown += [
        f"figure {name}" for name in dict.fromkeys(n for r in rows for n in r.values) if not _known(name)
    ]
    grouped: dict[int, list[Row]] = defaultdict(list)
    if named:
        by_part = any(at != int(at) for _, at in named)
        for row, at in named:
            grouped[max(0, ceil(at) - 1) if by_part else int(at)].append(row)
    else:
        scored = [row for row in rows if any(map(_scores, row.values.items()))]
        by_row: dict[Any, list[Row]] = defaultdict(list)
        for n, row in enumerate(scored):
            by_row[n if row.step is None else row.step].append(row)
        if planned is None or len(by_row) != planned:
            if scored:
                notes.append(f"its {len(by_row)} rows with scores name no epoch: none is taken")
            return []
        notes.append(f"its {planned} rows with scores are taken as its {planned} epochs")
        grouped.update(enumerate(by_row[step] for step in sorted(by_row)))
    found = []
    for number, some in sorted(grouped.items()):
        values = {name: value for row in some for name, value in row.values.items() if value is not None}
        found.append(_Epoch(number, max(row.at for row in some), values))
    return found


def _told(
    epochs: Sequence[_Epoch], fold: int, trained: int | None, batch: int
) -> Iterator[tuple[float, dict[str, Any]]]:
    """Events of epochs. Its seconds are those that it logged, else since the epoch before ended: of the first
    nobody knows when it began. Its samples are those of the settings, else by the steps between."""
    before: dict[int, _Epoch] = {later.number: one for one, later in pairwise(epochs)
                                 if later.number == one.number + 1}  # fmt: skip
    for one in epochs:
        text = " | ".join(f"{name}={value!r}" for name, value in one.values.items() if _is_number(value))
        fields = {"fold": fold, "epoch": one.number, **scores_of(text, timed=False)}
        last = before.get(one.number)
        logged = next((v for n, v in one.values.items() if _plain([n]) in _EPOCH_SECONDS), None)
        seconds = logged if _is_finite(logged) else None if last is None else one.at - last.at
        if seconds and seconds > 0:
            fields["seconds"] = round(float(seconds), 6)
        steps = [_steps(each.values) for each in (last, one) if each is not None]
        if trained:
            fields["samples"] = trained
        elif batch and len(steps) == 2 and None not in steps and steps[1] > steps[0]:
            fields["samples"] = int(steps[1] - steps[0]) * batch
        yield one.at, fields


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and -float_info.max <= value <= float_info.max


def _is_moment(at: float) -> bool:
    """Whether a calendar has it: of the years 1970 to 9999."""
    return 0 <= at < 253_402_300_799


def _last(name: str) -> str:
    return re.split(r"[./]", name)[-1].lower()


def _epoch_of(values: Mapping[str, Any]) -> float | None:
    told = [value for name, value in values.items() if _last(name) == "epoch" and _is_number(value)]
    return max((float(value) for value in told if 0 <= value < 1e6), default=None)


def _steps(values: Mapping[str, Any]) -> Any:
    return next((v for n, v in values.items() if _last(n) == _STEPS and _is_finite(v)), None)


def _scores(pair: tuple[str, Any]) -> Mapping[str, Any]:
    name, value = pair
    found = scores_of(f"{name}={value!r}", timed=False) if _is_number(value) else {}
    return {field: each for field, each in found.items() if field != "learning_rate"}


def _known(name: str) -> bool:
    of_training = bool(TRAIN_WORDS & set(_plain([name]).split("_")))
    return _last(name) in ("epoch", _STEPS) or _plain([name]) in _EPOCH_SECONDS or of_training or bool(
        scores_of(f"{name}=0.5", timed=False)
    )  # fmt: skip


_Sample = tuple[float, str, dict[str, Any]]


def _samples(rows: Sequence[Row], unknown: list[str]) -> list[_Sample]:
    """Readings of the only GPU; of several nobody says which the run used."""
    found: list[_Sample] = []
    cards: Counter[str] = Counter()
    for row in rows:
        fields: dict[str, Any] = {}
        for name, value in row.values.items():
            place = _ON_GPU.fullmatch(name)
            what = None if place is None else _NAMES["machine"].get(place[3])
            if place is None or what is None or not _is_finite(value):
                unknown.append(f"reading {name}")
                continue
            cards[place[2]] += 1
            field = "process_gib" if place[1] and what[0] == "used_gib" else what[0]
            if not place[1] or field == "process_gib":
                fields[field] = value * what[1]
        if fields:
            found.append((row.at, "gpu", fields))
    if len(cards) > 1:
        unknown.append("readings of several GPUs")
        return []
    apart = ceil(len(found) / MOST_SAMPLES)
    most: Callable[[_Sample], float] = lambda one: one[2].get("used_gib", 0.0)  # noqa: E731
    return [max(found[n : n + apart], key=most) for n in range(0, len(found), apart or 1)]


def _iso(moment: float) -> str:
    return dt.datetime.fromtimestamp(round(moment, 3), dt.UTC).isoformat()


AT_ONCE = 1_000
"""Events of a request."""

_NEEDED = ("task", "gpu", "model")
_OUTCOMES = ("taken", "there", "refused")


def tell_all(
    found: Iterable[PastRun | Unread], stated: Mapping[str, str], door: Door, now: float
) -> dict[str, Any]:
    """How many were taken, were there or were refused, each run with its outcome, and the names that nobody
    understood with the number of runs that have them.

    In the order of their beginnings, so that each is predicted by what was known before. Unavailable where
    the service is away: what was told stays, and the next time only the rest is told.
    """
    lines: list[dict[str, Any]] = []
    unknown: Counter[str] = Counter()
    for one in sorted(found, key=lambda each: (each.began or 0.0) if isinstance(each, PastRun) else 0.0):
        if isinstance(one, Unread):
            lines.append(_line(one.where, None, "refused", one.why, []))
            continue
        run = alone(one.key, partial(reported, one, stated, now))
        if isinstance(run, Unread):
            lines.append(_line(run.where, None, "refused", run.why, []))
            continue
        unknown.update(run.unknown)
        notes = list(run.notes)
        try:
            outcome, why = _tell(run, stated, door, notes), None
        except MemoryServiceError as error:
            if error.status not in (Conflict.status, InvalidInput.status):
                raise
            outcome, why = "refused", error.detail
        lines.append(_line(one.key, run.begin["run_id"], outcome, why, notes))
    counts = Counter(line["outcome"] for line in lines)
    answer: dict[str, Any] = {name: counts[name] for name in _OUTCOMES}
    return answer | {"runs": lines, "unknown": dict(unknown.most_common())}


def _line(run: str, run_id: str | None, outcome: str, why: str | None, notes: list[str]) -> dict[str, Any]:
    return {"run": run, "run_id": run_id, "outcome": outcome, "why": why, "notes": notes}


def _tell(run: ReportedRun, stated: Mapping[str, str], door: Door, notes: list[str]) -> str:
    """ "taken", or "there" where the service knows its end already."""
    answer = _begun(dict(run.begin), stated, door, notes)
    if answer["status"] != "running":
        return "there"
    at = f"/runs/{answer['run_id']}"
    for first in range(0, len(run.events), AT_ONCE):
        door(f"{at}/events", {"events": run.events[first : first + AT_ONCE]})
    door(f"{at}/finish", run.finish)
    return "taken"


def _begun(
    body: dict[str, Any], stated: Mapping[str, str], door: Door, notes: list[str]
) -> Mapping[str, Any]:
    """The service's answer. A model or GPU that it does not know is the run's own: watched, without
    predictions; another setting that it refuses is left out."""
    missing = [name for name in _NEEDED if name not in body]
    if missing:
        options = " ".join(f"--{name}" for name in missing)
        raise InvalidInput(f"its settings do not say {', '.join(missing)}: give {options}")
    while True:
        try:
            return door("/runs", body)
        except MemoryServiceError as error:
            wrong = {each.field.split(".")[0]: each for each in error.errors}
            if error.status != InvalidInput.status or not wrong or not wrong.keys() <= body.keys():
                raise
            for name, each in wrong.items():
                _mend(body, name, each, stated, notes, error)


def _mend(
    body: dict[str, Any], name: str, each: FieldError, stated: Mapping[str, str], notes: list[str],
    error: MemoryServiceError,
) -> None:  # fmt: skip
    value = body.pop(name)
    notes.append(f"{name} {str(value)[:80]!r} is not taken: {each.message}")
    if name in stated and stated[name] != value:
        body[name] = stated[name]
    elif name in ("gpu", "model") and not str(value).startswith(CUSTOM):
        body[name] = f"{CUSTOM}/{value}"[:120]
    elif name in _NEEDED:
        raise error
