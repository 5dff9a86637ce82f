"""Names and numbers in log lines: scores, times, memory with its kind, settings.

Every pattern here runs over at most `logline.MOST_CHARS` characters, starts with a fixed character class and
has bounded repeats, so that no line takes more than a few milliseconds.
"""

import re
from calendar import timegm
from collections.abc import Iterator
from itertools import islice
from statistics import fmean
from typing import Any, NamedTuple

from memory_service.domain.common.tables import shipped_table, with_parts
from memory_service.domain.logs.durations import duration_of, epoch_seconds_of

_NUMBER = r"[-+]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][-+]?\d{1,3})?"
_VALUE = rf"({_NUMBER}|[-+]?nan\b|[-+]?inf\b)"
_IS = r"\s{0,3}[=:]\s{0,20}"
_UNITS = r"ms|us|s|sec|seconds|min|%|it/s|s/it|(?:images?|imgs?|samples?|examples?)/s(?:ec)?|sec/step"
_PAIR = re.compile(
    rf"(?:['\"]?{_IS}['\"]?|(?<=[A-Za-z@\d_])\s{{1,3}}){_VALUE}(?![\d:])(?:\s?({_UNITS})(?![A-Za-z/]))?"
    rf"(?:/\d{{1,9}})?(?:['\"]?\s{{0,3}}\(\s{{0,6}}({_NUMBER})(%?)\s?\))?",
    re.IGNORECASE,
)
_NAME_CHARS, MOST_PAIRS = 48, 200
_NAME = re.compile(r"(?<![\w.])[A-Za-z#*][A-Za-z0-9_/.@() \-]{0,47}$")
_LIST = re.compile(r"\[((?:(?:np\.float\d\d\()?(?:-?\d{1,4}\.\d{1,20}|nan)\)?(?:, ?|(?=\]))){1,200})\]")


_TABLE = shipped_table(__package__, "words.toml")
_WORDS = {name: frozenset(words.split()) for name, words in _TABLE["words"].items()}
VALID_WORDS, TRAIN_WORDS = _WORDS["validation"], _WORDS["training"]
_FILLERS, _LOSSES, _ERRORS = _WORDS["fillers"], _WORDS["losses"], _WORDS["errors"]
_METRICS, _TIMES = _WORDS["metrics"], _WORDS["times"]
_PARTS = {"precision", "recall"}
_RATES = {"lr", "learning_rate"}
_DATA_TIMES = {"data", "data_time", "data_cost", "reader_cost", "avg_reader_cost"}

_SIZE = r"(\d{1,7}(?:\.\d{1,6})?)\s?"
_UNIT = r"(GiB|GB|G|MiB|MB|(?-i:M))\b"
_MEMORY = re.compile(
    rf"{_IS}{_SIZE}(?:{_UNIT})?"
    rf"(?:\s?(?:/|of)\s?{_SIZE}{_UNIT})?(?:\s?\(\s?(\d{{1,3}}(?:\.\d{{1,4}})?)\s?%\s?\))?",
    re.IGNORECASE,
)
_MEMORY_NAME = re.compile(r"gpu|mem|vram|cuda|alloc|reserved|cached", re.IGNORECASE)
_USE = re.compile(r"used|peak|max|alloc|reserved|cached", re.IGNORECASE)
_SMI_CSV = re.compile(
    r"(?:(\d{1,3}) %,\s{0,2}(?:\d{1,3} %,\s{0,2})?)?(\d{1,7}) MiB,\s{0,2}(\d{1,7}) MiB"
    r"(?:,\s{0,2}(\d{1,3}) %)?"
)
_SMI = re.compile(r"(\d{1,7})MiB\s{0,3}/\s{0,3}(\d{1,7})MiB\s{0,3}\|\s{0,9}(\d{1,3})%")

_SETTINGS = tuple(
    (name, hint, re.compile(with_parts(pattern, _TABLE["settings"]["parts"]), re.IGNORECASE))
    for name, hint, pattern in _TABLE["settings"]["patterns"]
)
_GPU_NAME = re.compile(r"\bGPU=([A-Za-z][^,\n]{2,80})")
_PERSISTENT = re.compile(r"\bpersistent_workers=(True|False)", re.IGNORECASE)

_CLOCK = re.compile(
    r"^\W{0,3}(\d{4})[-/](\d{2})[-/](\d{2})[ T](\d{2}):(\d{2}):(\d{2})(?:[.,](\d{1,9}))?"
    r"\s?(Z|[+-]\d{2}:?\d{2})?"
)


def clock_of(line: str) -> tuple[float | None, str]:
    """(seconds since 1970 UTC of a date and time at the line's start, the rest of the line).

    A time without a zone is taken as UTC: only differences within one log are meant to be used. None, and the
    line as it was, where it starts otherwise.
    """
    found = _CLOCK.match(line)
    if found is None:
        return None, line
    year, month, day, hour, minute, second = (int(g) for g in found.groups()[:6])
    if not (year and 1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return None, line
    at = float(timegm((year, month, day, hour, minute, second)))
    if found[7]:
        at += float(f"0.{found[7]}")
    zone = found[8]
    if zone and zone != "Z":
        offset = int(zone[1:3]) * 3_600 + int(zone[-2:]) * 60
        at -= offset if zone[0] == "+" else -offset
    return at, line[found.end() :]


class Pair(NamedTuple):
    """`name=value unit (average)`; the name in lower case, its words joined by `_`."""

    name: str
    value: str
    unit: str
    average: str | None


def pairs_of(text: str) -> Iterator[Pair]:
    """Every `name=number`, `name: number` and `name number`; a list of numbers is its mean."""
    if "[" in text and "." in text:
        text = _LIST.sub(_mean, text)
    for found in islice(_PAIR.finditer(text), MOST_PAIRS):
        name = re.sub(r"[^a-z0-9@]+", "_", _name_before(text, found.start()).lower()).strip("_")
        if not name:
            continue
        whole = found[4] == "%"  # `9827/10000 (98%)`
        value, unit = (found[3], "%") if whole else (found[1], (found[2] or "").lower())
        yield Pair(name, value, unit, None if whole else found[3])


def _mean(found: re.Match[str]) -> str:
    values = [float(x) for x in re.findall(r"-?\d{1,4}\.\d{1,20}", found[1])]
    return f"{fmean(values):.6g}" if values else "nan"


def _name_before(text: str, end: int) -> str:
    """The name that ends right before a `=` or `:`; "" where there is none."""
    found = _NAME.search(text[max(0, end - _NAME_CHARS) : end].rstrip(" '\""))
    words = [] if found is None else found[0].split()
    numbers = [n for n, word in enumerate(words) if word.lstrip("(")[:1].isdigit()]
    return " ".join(words[numbers[-1] + 1 :] if numbers else words)


def float_of(text: str | None) -> float | None:
    """The number that a text is; None for no text and for any other."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def scores_of(
    text: str, side: str = "", *, best: bool = False, averages: bool = False, timed: bool = True
) -> dict[str, Any]:
    """train_loss, valid_loss, metric and metric_name, learning_rate, seconds, as far as the text names them.

    side       "train" | "valid": of the figures whose names do not say it
    averages   of `0.5 (0.6)` the average in brackets is meant
    timed      whether seconds are looked for, which costs most
    The loss as such wins over a part of it, a metric over an error measure. Not-a-number losses are stored as
    the text "nan" or "inf": they mean something.
    """
    out: dict[str, Any] = {}
    ranks = dict.fromkeys(("train_loss", "valid_loss", "metric"), 0)
    errors: list[tuple[str, str, str]] = []
    for name, plain, _, average in pairs_of(text):
        value = average if averages and average is not None else plain
        said, what, rest = _split_name(name, best)
        where = said or side
        if what in _RATES:
            out.setdefault("learning_rate", _score(value))
        elif what in _LOSSES:
            _take(out, ranks, "valid_loss" if where == "valid" else "train_loss", 2 + (not rest), value)
        elif what in _ERRORS:
            errors.append((where, name, value))
        elif what in _METRICS and where != "train":
            _take(out, ranks, "metric", 2 + 2 * (where == "valid") + (what not in _PARTS), value, name)
    for where, name, value in errors:
        loss = "valid_loss" if where == "valid" else "train_loss"
        if not _take(out, ranks, loss, 1, value) and where == "valid" and ranks[loss] > 1:
            _take(out, ranks, "metric", 1, value, name)
    seconds = epoch_seconds_of(text) if timed else None
    return out if seconds is None else {**out, "seconds": seconds}


def _take(
    out: dict[str, Any], ranks: dict[str, int], what: str, rank: int, value: str, name: str = ""
) -> bool:
    """Whether the value ranks before what was found so far, and is taken."""
    if rank <= ranks[what]:
        return False
    ranks[what], out[what] = rank, _score(value)
    if name:
        out["metric_name"] = name
    return True


def _split_name(name: str, best: bool) -> tuple[str, str, bool]:
    """("train" | "valid" | "", the score's own name, whether other words qualify it) of `val_acc`,
    `train/loss`, `loss_val`, `fold 1 auc`.

    A "best" figure repeats an earlier one: it is none unless `best`.
    """
    words = [w for w in name.split("_") if w and w not in _FILLERS]
    if ("best" in words or "max" in words) and not best:
        return "", "", False
    side = "valid" if VALID_WORDS & set(words) else "train" if TRAIN_WORDS & set(words) else ""
    own = [w for w in words if w not in VALID_WORDS and w not in TRAIN_WORDS] or words
    for size in (3, 2, 1):
        what = "_".join(own[-size:])
        if what in _LOSSES or what in _ERRORS or what in _METRICS or what in _RATES:
            return side, what, len(own) > size
    return "", "", False


def _score(value: str) -> float | str:
    plain = value.lower()
    return plain.lstrip("+") if "n" in plain else float(plain)


_ETA = re.compile(
    r"\b(?:eta|remain(?:ing)?)\b['\"]?[\s:=]{0,4}"
    r"((?:\d{1,4} days?, )?\d{1,4}:\d{2}(?::\d{2})?|\d{1,5}m \d{1,2}s)",
    re.IGNORECASE,
)
_ELAPSED = re.compile(r"Elapsed (\d{1,5}m \d{1,2}s)")
_EACH_AND_RATE = re.compile(r"\(([\d.]{1,9})s,\s{1,4}([\d.]{1,12})/s\)|\b([\d.]{1,10})\s?sec/step\b")


class StepFigures(NamedTuple):
    """What a line says of its step: its seconds, of these waiting for data, samples a second; the seconds
    left, and since the epoch began."""

    each: float | None
    data: float | None
    rate: float | None
    eta: float | None
    elapsed: float | None


def step_figures(text: str) -> StepFigures:
    found: dict[str, float] = {}
    for name, plain, unit, average in pairs_of(text):
        words, value = name.split("_"), float_of(average or plain)
        own = {"_".join(words[-size:]) for size in (1, 2, 3)}
        if value is None or words[0] == "last":
            continue
        if own & _DATA_TIMES:
            found.setdefault("data", value)
        elif own & _TIMES and unit != "min":
            found.setdefault("each", value * (0.001 if "ms" in (unit, words[0], words[-1]) else 1.0))
        elif words[-1] == "ips" or ("/s" in unit and unit not in ("it/s", "s/it")):
            found["rate"] = value
    told = _EACH_AND_RATE.search(text)
    if told is not None:
        found["each"] = float_of(told[1] or told[3]) or 0.0
        found |= {"rate": float_of(told[2]) or 0.0} if told[2] else {}
    eta, elapsed = (pattern.search(text) for pattern in (_ETA, _ELAPSED))
    left, since = (None if part is None else duration_of(part[1]) for part in (eta, elapsed))
    return StepFigures(found.get("each"), found.get("data"), found.get("rate"), left, since)


def memory_of(text: str, *, alone_is_total: bool = True) -> dict[str, Any]:
    """Memory figures with their kind, by the names of `event.MEMORY_FIELDS`, and the card's total.

    alone_is_total   `GPU Memory: 24.0 GB` says how much the card has (R27), not how much is used
    """
    out: dict[str, Any] = {}
    smi = _SMI.search(text) if "MiB" in text else None
    if smi is not None:
        return {"used_gib": int(smi[1]) / 1024, "total_gib": int(smi[2]) / 1024,
                "utilization_percent": float(smi[3])}  # fmt: skip
    listed = _SMI_CSV.search(text) if "MiB, " in text else None
    if listed is not None:
        less, more = sorted((int(listed[2]) / 1024, int(listed[3]) / 1024))
        busy = listed[1] or listed[4]
        utilization = {} if busy is None else {"utilization_percent": float(busy)}
        return {"used_gib": less, "total_gib": more, **utilization}
    for pair in pairs_of(text) if "gib" in text or "GiB)" in text or "_GB" in text else ():
        if (
            pair.name.endswith(("_gib", "_gb"))
            and _MEMORY_NAME.search(pair.name)
            and "active" not in pair.name
        ):
            out[_kind_field(pair.name)] = float(pair.value)
    for found in _MEMORY.finditer(text):
        unit = found[2] or found[4]
        name = "" if unit is None else _name_before(text, found.start()).lower()
        if _MEMORY_NAME.search(name) is None:
            continue
        used, total = _gib(found[1], unit), _gib(found[3], found[4])
        percent = None if found[5] is None else float(found[5])
        alone = total is None and percent is None and _USE.search(name) is None
        if (alone and alone_is_total and "gpu memory" in name) or re.search(r"total|capacity", name):
            out.setdefault("total_gib", used)
            continue
        out.setdefault(_kind_field(name), used)
        if total is not None:
            out.setdefault("total_gib", total)
        elif percent and used:
            out.setdefault("total_gib", round(used / percent * 100.0, 1))
    return out


_STEP_MIB = re.compile(
    r"\b(?:gpu[_ ])?(?:max[_ ])?mem(?:ory)?['\"]?[\s:=]{1,4}(\d{3,6})\s?(?:M(?:i?B)?)?(?![\w.%])",
    re.IGNORECASE,
)


def step_memory_of(text: str) -> dict[str, Any]:
    """Memory figures of a line about a step: `memory: 7410`, `max mem: 3421`, `mem 14764MB` are the peak of
    what was allocated in MiB, as PyTorch tells it."""
    found = _STEP_MIB.search(text)
    if found is not None:
        return {"peak_allocated_gib": int(found[1]) / 1024.0}
    return memory_of(text, alone_is_total=False)


def _gib(value: str | None, unit: str | None) -> float | None:
    if value is None or unit is None:
        return None
    return float(value) / (1024.0 if unit[0] in "mM" else 1.0)


def _kind_field(name: str) -> str:
    peak = re.search(r"max|peak", name) is not None
    if "reserved" in name or "cached" in name:
        return "peak_reserved_gib" if peak else "reserved_gib"
    if "alloc" in name:
        return "peak_allocated_gib" if peak else "allocated_gib"
    if "driver" in name or "smi" in name or "nvml" in name:
        return "used_gib"
    return "peak_allocated_gib" if peak else "memory_gib"


def without_memory(text: str) -> str:
    """The text without its memory figures, so that they are not read as scores."""
    return _MEMORY.sub(lambda m: " " if m[2] or m[4] else m[0], text)


def settings_of(text: str) -> dict[str, Any]:
    """What the line says of the run's settings, by the names of `event.SETTING_FIELDS`."""
    out: dict[str, Any] = {}
    plain = text.lower()
    if not any(word in plain for word in _TABLE["settings"]["hints"]):
        return out
    for name, hint, pattern in _SETTINGS:
        found = pattern.search(text) if hint in plain else None
        if found is not None and name not in out:
            value = found[1].replace(",", "")
            out[name] = float(value) if name == "learning_rate" else int(value)
    card, persistent = _GPU_NAME.search(text), _PERSISTENT.search(text)
    if card is not None:
        out["gpu_name"] = card[1].strip()
    if persistent is not None:
        out["persistent_workers"] = persistent[1].lower() == "true"
    return out
