"""Durations in log lines: `12.3s`, `1m 23s`, `1 minutes 23 seconds`, `1:02:03`, `2 days, 3:04:05`."""

import re

_AMOUNT = r"\d{1,7}(?:\.\d{1,18})?"
_LONG_UNIT = r"d(?:ays?)?|h(?:(?:ou)?rs?)?|min(?:ute)?s?|sec(?:ond)?s?|msecs?|milliseconds?"
_PART = rf"{_AMOUNT}\s?(?:(?i:{_LONG_UNIT})|ms?|s)(?![A-Za-z])"
_GLUED = rf"{_AMOUNT}(?:d|hr?|m(?:in)?)(?=\d)"
_CLOCK = r"(?:\d{1,4} days?,? )?\d{1,4}(?::\d{2}){1,2}(?:\.\d{1,9})?(?![\d:])"
_WITH_UNITS = rf"(?:(?:{_GLUED}|{_PART}(?=,?\s{{1,2}}(?:and )?\d))(?:,?\s{{1,2}})?(?:and )?){{0,4}}{_PART}"
_DURATION = re.compile(
    rf"(?<![\w.:+\-])(?<!\d,)(?:(?P<clock>{_CLOCK})|(?P<units>{_WITH_UNITS})"
    rf"|(?P<plain>{_AMOUNT}(?:[eE][+-]?\d{{1,2}})?(?![\w%:.])))"
)
_ONE_PART = re.compile(rf"({_AMOUNT})\s?([A-Za-z]{{1,12}})")
_SECONDS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}

_LABEL = re.compile(
    r"([A-Za-z_][A-Za-z_ ]{0,39})['\"]?\s?(?:[(\[]s(?:ecs?|econds)?[)\]])?\s{0,3}([:=(]?)\s{0,3}['\"]?$"
)
_NAMES = re.compile(r"\b(?:time|took|takes|taken|elapsed|duration|secs?|seconds|in)\b")
_OF_ANOTHER = re.compile(
    r"\b(?:eta|remain(?:ing)?|left|data|load(?:er|ing)?|batch|step|iter(?:ation)?|forward|backward|infer(?:ence)?|"
    r"predict(?:ion)?|best|limit|budget|timeout|estimated|expected|wait(?:ing)?|sleep)\b"
)
_TRAIN, _VALID = re.compile(r"\btrain(?:ing)?\b"), re.compile(r"\b(?:val(?:id(?:ation)?)?|eval|test)\b")
_STEP_SAID = re.compile(r"\beta\b|\bdata(?:_time)?['\"]?\s?[:=]|\bsteps?\b|\biter\b", re.IGNORECASE)
_NOT_ITS_OWN = re.compile(
    r"\s{0,2}(?:(?:/|per\b|each\b|an?\b)\s{0,2}(?!\s?ep(?:och)?\b)|(?:left|remain\w{0,5}|to go|eta|ago)\b|<)",
    re.IGNORECASE,
)
_FIELD_BEGINS, _FIELD_ENDS = (
    re.compile(r"(?:^|[|,;(\[\s])\s{0,4}-?\s{0,4}$"),
    re.compile(r"(?:\s?(?:/|per)\s?epoch)?\s{0,4}\.?\s{0,4}(?:$|[|,;)\]]|- )"),
)


def duration_of(text: str) -> float | None:
    """Seconds of a text that is one duration: `12` (seconds), `65s`, `1m05s`, `1 hour 2 min`, `850ms`,
    `00:12`, `1:02:03`, `2 days, 3:04:05`; None for anything else, `?` included."""
    found = _DURATION.fullmatch(text.strip())
    return None if found is None else _seconds(found)


def epoch_seconds_of(text: str) -> float | None:
    """Seconds of an epoch that a line names as its time, or that stand in a field of their own (`- 5.5s`,
    `(12.1s)`); training and validation added up where they are told apart. None where it names none: what is
    left, a step's, the loader's and a rate are no epoch's, nor is a bare number in a line about steps."""
    alone: float | None = None
    parts: dict[str, float] = {}
    for found in _DURATION.finditer(text):
        before = text[max(0, found.start() - 60) : found.start()]
        if _NOT_ITS_OWN.match(text, found.end()):
            continue
        label = _LABEL.search(before)
        if label is None:
            own_field = _FIELD_BEGINS.search(before) and _FIELD_ENDS.match(text, found.end())
            if alone is None and found["units"] and (own_field or not before.strip()):
                alone = _seconds(found)
            continue
        name = " ".join(re.split(r"[ _]+", label[1].lower().strip(" _"))[-4:])
        if _NAMES.search(name) is None or _OF_ANOTHER.search(name) is not None:
            continue
        if found["plain"] and (not label[2] or name.endswith("in") or _STEP_SAID.search(text)):
            continue
        side = "train" if _TRAIN.search(name) else "valid" if _VALID.search(name) else ""
        parts.setdefault(side, _seconds(found))
    return parts.get("", sum(parts.values()) if parts else alone)


def _seconds(found: re.Match[str]) -> float:
    if found["clock"]:
        days, _, clock = found["clock"].rpartition(" ")
        seconds = 0.0
        for part in clock.split(":"):
            seconds = seconds * 60.0 + float(part)
        return seconds + (float(days.split()[0]) * 86_400.0 if days else 0.0)
    if found["units"]:
        return sum(float(n) * _unit_seconds(unit.lower()) for n, unit in _ONE_PART.findall(found["units"]))
    return float(found["plain"])


def _unit_seconds(unit: str) -> float:
    return 0.001 if unit.startswith(("ms", "milli")) else _SECONDS[unit[0]]
