"""How test differs from train, as a description says it: by time, at random, or by groups of rows."""

import re
from calendar import month_name
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from memory_service.domain.common.tables import shipped_table
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


DESCRIBED_BY = re.compile(r"\bdescribed by (?:about |some )?$", re.IGNORECASE)

_WHO = "|".join(f"{noun}s?" for noun, kind in KIND_OF.items() if kind == "group" and noun[-1] not in "yh") + (
    "|cities|countries|people|families|bodies|companies|factories|laboratories|batches|molecules?|recordings?|"
    "scenes?|games?|plays?|passages?|authors?|breaths?|fragments?|products?|queries|videos?|slides?|scaffolds?|"
    "compounds?|proteins?|streets?|sessions?"
)
_WHO_ID = rf"(?:(?:{_WHO})(?:[_ ]ids?)?|[a-z]{{2,20}}_ids?)"
_PERIOD = (
    r"(?:days?|weeks?|months?|years?|quarters?|hours?|periods?|seasons?|minutes?|holidays?|springs?|summers?"
    r"|autumns?|winters?)(?!['’]s)"
)
_MONTH_NAMES = [name.lower() for name in month_name[1:]]
_P = patterns("stated_split", month_names="|".join(_MONTH_NAMES), period=_PERIOD)
_ROWS = (
    "rows?|samples?|examples?|records?|observations?|entries|reports?|images?|pictures?|photos?|texts?|sounds?|"
    "clips?|files?|ids?|labels?|values?|targets?|answers?|columns?|features?|data|ones|cases|instances|classes|"
    "categories|those|these|that|this|which|and|but|they|part|half|each|all|some|none|information|measurements?|"
    "distribution|price|size|order|sentences?|default|email|hand|design|contrast|law"
)
_GROUP_SPLIT = (
    (
        rf"\b(?P<c>{_WHO})\b[^.;]{{0,60}}?\b(?:not|never|nor) (?:\w+ )?(?:appear|present|seen|occur|overlap|"
        r"in (?:the )?train|shared|known|part of|among|included)\w*"
    ),
    (
        rf"\b(?:split|group(?:ed|s)?|divided|partitioned|separated|folds?) (?:by|per|along|on) (?:the )?"
        rf"(?P<d>{_WHO_ID})\b(?! into (?:\w+ )?(?:folders|files)\b)"
    ),
    (
        rf"\b(?:of|from) (?:the same|one|an?|each|any) (?P<g>{_WHO_ID})\b[^.;]{{0,40}}?\b"
        r"(?:(?:must|should|may|can) ?(?:not|never)|(?:stay|kept?|belong) together|never)\b"
    ),
    (
        r"\b(?:stratified[ -]?)?group[ -]?(?:shuffle[ -]?)?k-?folds?\b(?:\([^()]{0,40}\))?"
        r"(?: (?:split|validation|cv))?"
        r"(?:,? (?:by|on|over|per|with groups?)(?: the| =)? [\"'`]?(?P<h>[a-z]\w{1,40}))?"
    ),
    (
        rf"\b(?!(?:{_ROWS})\b)(?P<j>[a-z]{{3,20}}) (?:in|of) (?:the )?test\b[^;]{{0,30}}"
        r"\b(?:(?:not|never) (?:\w+ ){0,2}(?:in|seen|occur|appear|present|part|found)|absent)\b"
        r"[^;]{0,40}\btrain"
    ),
    (
        rf"\b(?:(?P<l>{_WHO}) (?:in|of|from|behind) (?:the )?(?:test|hidden|private)"
        rf"|(?:test|hidden) (?P<m>{_WHO}))"
        r"\b(?:\.csv)?[^.;]{0,15} (?:are|is|were|will be) (?:all |entirely |completely |always )?"
        r"(?:new|unseen|unknown|others|different ones)\b"
    ),
    (
        r"\b(?:(?:test|hidden|validation)(?: sets?| data| part)? (?:has|have|holds?|contains?)"
        r"|(?:test|hidden) [^.;]{0,40}\bbelongs? to) (?:only )?(?:other|different|new|distinct) "
        rf"(?P<a>{_WHO})\b(?! (?:types|variables))|\b(?:other|different|new|unseen) (?P<b>{_WHO}) "
        rf"(?:are (?:in|for)|form|make up) (?:the )?test\b|\b(?P<e>{_WHO}) (?:that are |which are )?"
        r"(?:absent|missing|excluded) from (?:the )?train(?:ing)?\b[^.;]{0,40}\btest\b"
    ),
    rf"^[ \t*-]*(?-i:By) (?!(?:{_ROWS}|time|dates?|{_PERIOD})\b)(?P<k>[a-z_]{{3,20}}):",
)
_SEVERAL = re.compile(
    r"\b(?:several|many|multiple|more than one|two or more|up to \w+|a few|dozens of|repeated)"
    r"(?! (?:\w+ )?(?:features|columns|attributes|fields|variables)\b)[^.;,]{0,30}\b"
    rf"(?:per|(?:of|from) (?:the same|each|every|one|an?)|for (?:each|every)|by each) (?P<a>{_WHO})\b"
    rf"|\b(?P<b>{_WHO})[^.;,]{{0,25}}\b(?:(?:appears? in|has|have|contribute\w*|gave|is shown in|occur in) "
    r"(?:several|many|multiple|more than one|two or more|up to)|with (?:several|many|multiple|two or more))\b"
    rf"|(?:\b(?P<e>{_WHO}), each|\beach (?P<f>{_WHO})) (?:\w+ ){{0,2}}(?:several|many|multiple|dozens)\b"
    rf"|\b(?P<c>{_WHO}), (?:several|more than one)\b"
    rf"|\bsame (?P<d>{_WHO})\b[^.;]{{0,40}}\b(?:several|again|more than once|twice)",
    re.IGNORECASE,
)


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

_GROUP_SPLITS = tuple(re.compile(pattern, re.IGNORECASE | re.MULTILINE) for pattern in _GROUP_SPLIT)


def split_in(text: str) -> Stated:
    """How test differs from train: group | time | random; and by what groups."""
    for pattern in _GROUP_SPLITS:
        if match := pattern.search(text):
            who = next((each for each in match.groupdict().values() if each), None)
            by: Stated = {"group_by": (_singular(who), match[0])} if who else {}
            return {"split": ("group", match[0]), **by}
    if stated := _kept_apart(text):
        return stated
    for name, pattern in (
        ("time", _P["time_split"]),
        ("random", _P["random_split"]),
        ("time", _P["later"]),
    ):
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


def _patterns(lines: str, parts: Mapping[str, str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(_filled(line, parts), re.IGNORECASE) for line in lines.splitlines() if line)


def _filled(pattern: str, parts: Mapping[str, str]) -> str:
    return re.sub(r"(?<!P)<([a-z_]+)>", lambda part: parts.get(part[1], part[0]), pattern)


def _parts() -> Mapping[str, str]:
    parts: dict[str, str] = {}
    for name, pattern in _SEPARATION["parts"].items():
        parts[name] = _filled(pattern, parts)
    return parts


_PARTS = _parts()
_KEEP_APART = [
    (_patterns(holds := rule["holds"], _PARTS), _patterns(rule.get("names", holds.splitlines()[-1]), _PARTS))
    for rule in _SEPARATION["rules"]
]
UNLESS = re.compile(_SEPARATION["unless"], re.IGNORECASE)
NO_UNIT = re.compile(rf"(?:{_ROWS}|{_PERIOD}|{'|'.join(_SEPARATION['no_unit'].split())})s?", re.IGNORECASE)


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


_LEARNED = re.compile(r"(?:\b|_)(?:train|learn|history|historical|past)", re.IGNORECASE)
_JUDGED = re.compile(r"(?:\b|_)test|\bjudged\b|\bevaluated on\b|\bscored on\b|\bhidden\b", re.IGNORECASE)


def _years_apart(text: str) -> str | None:
    """The clause on test data whose years, with months where told, are all later than those of training."""
    times: dict[bool, list[int]] = {True: [], False: []}
    words, before = "", (False, False)
    for clause in re.split(r"[;\n]|[.] |, (?=[a-z])", text):
        of = bool(_LEARNED.search(clause)), bool(_JUDGED.search(clause))
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
    for match in _P["id"].finditer(text):
        who = match[1] or match[2]
        if several := re.search(_OF_ONE.replace("{0}", who), text, re.IGNORECASE):
            words = f"{match[0].strip()}, {several[0]}"
            return {"split": ("group", words), "group_by": (who.lower(), words)}
    return {}


def groups_in(found: Sequence[Quantity], text: str, stated: Stated) -> Stated:
    """The groups that rows come in and how many, where the split does not name them: "several each" asks for
    a split by them, fewer of them than of rows just tells that they are there."""
    groups = [
        q
        for q in found
        if q.kind in ("group", "unknown") and q.noun and q.value >= 2 and not q.each and q.role != "test"
    ]
    rows = stated.get("n_train", (0, ""))
    of_rows = [
        q
        for before, q in pairwise(found)
        if q.of_rows
        and q.role != "test"
        and q.value < (rows[0] or before.value)
        and q.value != stated.get("n_classes", (0, ""))[0]
        and not DESCRIBED_BY.search(q.before)
    ]
    if not of_rows and "group_by" not in stated and (match := _SEVERAL.search(text)):
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
        if not split and (match := _SEVERAL.search(text)):
            split = {"split": ("group", match[0])}
        return out | ({} if "split" in stated else split)
    by = stated["group_by"][0]
    return one_figure("n_groups", [q for q in groups if _singular(q.noun) == by], max)


_ROWS_PER_GROUP = 1.5


def _singular(word: str) -> str:
    word = word.lower()
    return _IRREGULAR.get(word, singular(word))


_IRREGULAR = {
    "people": "person", "women": "woman", "men": "man", "children": "child",
    "series": "series", "species": "species",
}  # fmt: skip
