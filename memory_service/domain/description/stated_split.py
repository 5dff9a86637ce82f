"""How test differs from train, as a description says it: by time, at random, or by groups of rows."""

import re
from calendar import month_name
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from memory_service.domain.common.tables import shipped_table, with_parts
from memory_service.domain.description.phrases import patterns, sentences_of, singular
from memory_service.domain.description.quantities import KIND_OF, Quantity

Stated = dict[str, tuple[Any, str]]
"""Name of a fact -> its value, and the words of the text it was read from."""

TELLS, ASKS = 0.85, 0.4
"""Probabilities of a fitted reading from which it is taken, and from which it is asked about."""


@dataclass(frozen=True, slots=True)
class Separation:
    """A clause that may say how test differs from training: group | time | random, how likely it says so,
    and the unit whose rows stay together."""

    split: str
    probability: float
    clause: str
    unit: str | None = None


_MONTH_NAMES = [name.lower() for name in month_name[1:]]
_GROUPS = [f"{noun}s?" for noun, kind in KIND_OF.items() if kind == "group" and noun[-1] not in "yh"]
_P = patterns("stated_split", month_names="|".join(_MONTH_NAMES), groups="|".join(_GROUPS))
DESCRIBED_BY = _P["described_by"]
_GROUP_SPLITS = [pattern for name, pattern in _P.items() if name.startswith("by_group_")]


def one_figure(
    name: str, found: Sequence[Quantity], chosen: Callable[[set[int]], int] | None = None
) -> Stated:
    """The one figure that all of these about agree on, the first of them, or the `chosen` one."""
    values = {round(q.value) for q in found}
    if not values or (chosen is None and max(values) > _ALIKE * min(values)):
        return {}
    value = chosen(values) if chosen else round(found[0].value)
    return {name: (value, next(q.words for q in found if round(q.value) == value))}


_ALIKE = 1.15
"""Figures no further apart are one, rounded or of two editions of the data."""


def split_in(text: str) -> Stated:
    """How test differs from train: group | time | random; and by what groups."""
    for pattern in _GROUP_SPLITS:
        if match := pattern.search(text):
            who = next((each for each in match.groupdict().values() if each), None)
            by: Stated = {"group_by": (_singular(who), match[0])} if who else {}
            return {"split": ("group", match[0]), **by}
    if stated := _kept_apart(text):
        return stated
    for name, pattern in (("time", _P["time_split"]), ("random", _P["random_split"]), ("time", _P["later"])):
        if match := pattern.search(text):
            return {"split": (name, match[0])}
    if years := _years_apart(text):
        return {"split": ("time", years)}
    if match := _P["months"].search(text):
        following = _MONTH_NAMES[(_MONTH_NAMES.index(match[1].lower()) + 1) % 12]
        if re.search(rf"\b{following}\b", text[match.end() :], re.IGNORECASE):
            return {"split": ("time", match[0])}
    return {}


_SEPARATION = shipped_table(__package__, "separation.toml")


def _patterns(lines: str) -> tuple[re.Pattern[str], ...]:
    told = (with_parts(line, _SEPARATION["parts"]) for line in lines.splitlines() if line)
    return tuple(re.compile(line, re.IGNORECASE) for line in told)


_KEEP_APART = [
    (_patterns(holds := rule["holds"]), _patterns(rule.get("names", holds.splitlines()[-1])))
    for rule in _SEPARATION["rules"]
]
UNLESS = re.compile(_SEPARATION["unless"], re.IGNORECASE)
_NO_UNIT = (*(_P[name].pattern for name in ("rows", "period")), *_SEPARATION["no_unit"].split())
NO_UNIT = re.compile(rf"(?:{'|'.join(_NO_UNIT)})s?", re.IGNORECASE)


def _kept_apart(text: str) -> Stated:
    """What a sentence says must not stand on both sides of a split, whatever it is called."""
    for sentence in sentences_of(text):
        if UNLESS.search(sentence):
            continue
        for holds, names in _KEEP_APART:
            if not all(each.search(sentence) for each in holds):
                continue
            found = (match for name in names for match in name.finditer(sentence))
            told = next((match for match in found if not NO_UNIT.fullmatch(match["unit"])), None)
            if told is not None:
                plural = sentence.startswith("s", told.end("unit"))
                unit = _singular(re.sub("_(?:id|no|nr|num)$", "", told["unit"]) + ("s" if plural else ""))
                return {"split": ("group", sentence[:120]), "group_by": (unit, sentence[:120])}
    return {}


def _years_apart(text: str) -> str | None:
    """The clause on test data whose years, with months where told, are all later than those of training."""
    times: dict[bool, list[int]] = {True: [], False: []}
    words, before = "", (False, False)
    for clause in re.split(r"[;\n]|[.] |, (?=[a-z])", text):
        of = bool(_P["learned"].search(clause)), bool(_P["judged"].search(clause))
        learned, judged = of if any(of) or not _P["these"].match(clause) else before
        before = learned, judged
        found = (
            [match.groups(default="") for match in _P["year"].finditer(clause)] if learned != judged else []
        )
        for name, year, number in found:
            month = _MONTH_NAMES.index(name.lower()) + 1 if name else int(number or (1 if judged else 12))
            times[judged].append(12 * int(year) + month)
            words = clause.strip()[:120] if judged else words
    apart = times[True] and times[False] and min(times[True]) > max(times[False])
    return words if apart else None


def _split_by(noun: str, apart: Sequence[str], found: Sequence[Quantity]) -> Stated:
    """The test has others of these groups: a number of its own, or a sentence of those `apart` says so."""
    for one in found:
        if one.role == "test" and _singular(one.noun) == noun:
            return {"split": ("group", one.words)}
    plural = "people|persons?" if noun == "person" else f"{re.escape(noun)}s?|{re.escape(noun[:-1])}ies"
    for sentence in apart:
        if re.search(rf"\b(?:{plural})\b", sentence, re.IGNORECASE) and (
            word := _P["apart"].search(sentence)
        ):
            start = max(0, word.start() - 60)
            return {"split": ("group", sentence[start : word.end() + 60])}
    return {}


_MANY = "|".join(f"{noun}s" for noun, kind in KIND_OF.items() if kind in ("sample", "token")) + "|lines"
_OF_ONE = (
    rf"\b(?:{_MANY})\b(?: (?:of|from|within|by) (?:an?|one|each)| in (?:one|each)|[^.;\n]{{0,30}} same) "
    r"{0}\b(?! (?:of|published)\b)|\beach (?:row|line)\b[^.;\n]{0,30} (?:with)?in an? {0}\b"
    rf"|\b(?:several|multiple|many|more than one|[1-9]\d+) (?:[\w-]+ ){{0,2}}(?:{_MANY}) per {{0}}\b"
)


def repeated_in(text: str) -> Stated:
    """Groups that have a column of their own and several rows each: "patient_id"."""
    named: dict[str, re.Match[str]] = {}
    for match in _P["id"].finditer(text):
        named.setdefault((match[1] or match[2]).lower(), match)
    for who, match in islice(named.items(), _MOST_IDS):
        if several := re.search(_OF_ONE.replace("{0}", who), text, re.IGNORECASE):
            words = f"{match[0].strip()}, {several[0]}"
            return {"split": ("group", words), "group_by": (who, words)}
    return {}


_MOST_IDS = 8
"""Columns of ids that are looked for in the text, each by itself."""


def groups_in(found: Sequence[Quantity], text: str, stated: Stated) -> Stated:
    """The groups that rows come in and how many, where the split does not name them: "several each" asks for
    a split by them, fewer of them than of rows just tells that they are there."""
    found = [q for q in found if not _P["judged_by"].search(q.before)]
    groups = [
        q
        for q in found
        if q.kind in ("group", "unknown") and q.noun and q.value >= 2 and not q.each and q.role != "test"
    ]
    rows = stated.get("samples", (0, ""))
    of_rows = [
        q
        for before, q in pairwise(found)
        if q.of_rows
        and q.role != "test"
        and q.value < (rows[0] or before.value)
        and q.kind != "class"
        and not DESCRIBED_BY.search(q.before)
    ]
    if not of_rows and "group_by" not in stated and (match := _P["several"].search(text)):
        by = _singular(next(each for each in match.groupdict().values() if each))
        out: Stated = {"group_by": (by, match[0])}
        out |= {} if "split" in stated else {"split": ("group", match[0])}
        return out | one_figure("n_groups", [q for q in groups if _singular(q.noun) == by], max)
    if "group_by" not in stated:
        apart = [
            each for each in sentences_of(text) if _P["apart"].search(each) and _P["tested"].search(each)
        ]
        counted = [q for q in groups if q.words != rows[1] and q.value * _ROWS_PER_GROUP <= rows[0]]
        splits = {noun: _split_by(noun, apart, found) for noun in {_singular(q.noun) for q in counted}}
        fewer = [q for q in counted if splits[_singular(q.noun)]] or of_rows
        fewer = fewer or [q for q in counted if q.kind == "group"]
        if not fewer:
            return {}
        first = fewer[0]
        by = _singular(first.noun)
        out = {"n_groups": (round(first.value), first.words), "group_by": (by, first.words)}
        split = splits.get(by) or _split_by(by, apart, found)
        if not split and (match := _P["several"].search(text)):
            split = {"split": ("group", match[0])}
        return out | ({} if "split" in stated else split)
    by = stated["group_by"][0]
    return one_figure("n_groups", [q for q in groups if _singular(q.noun) == by], max)


def column_named(unit: str | None, text: str) -> str | None:
    """The column that the text names of a unit, `box_id` of boxes; else the unit."""
    match = re.search(rf"\b{re.escape('_'.join(unit.split()))}_?id\b", text, re.IGNORECASE) if unit else None
    return match[0] if match else unit


_ROWS_PER_GROUP = 1.5


def _singular(word: str) -> str:
    word = word.lower()
    return _IRREGULAR.get(word, singular(word))


_IRREGULAR = {
    "people": "person", "women": "woman", "men": "man", "children": "child",
    "series": "series", "species": "species",
}  # fmt: skip
