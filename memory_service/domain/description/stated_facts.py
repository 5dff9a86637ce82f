"""Facts that a description states in figures: training samples, classes, image size, split.

Conservative: a figure is taken only when the words beside it say what it counts, and two different figures
for the same fact mean that neither is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_NUMBER = r"(\d{1,3}(?:[,\u202f ]\d{3})+|\d+(?:\.\d+)?)\s?(k|K|thousand|million|M|m)?"
_SAMPLES = (
    r"(?:images?|photos?|photographs?|pictures?|samples?|examples?|rows?|records?|instances?|observations?|"
    r"clips?|recordings?|sentences?|comments?|tweets?|essays?|texts?|documents?|articles?|questions?|texts?|"
    r"molecules?|scans?|patients?|studies|sequences?|videos?|pairs?|segments?|tokens?|files?|x-rays?|"
    r"materials?|patches|chips|conversations?|notebooks?|events?|tiles?|cases?|entries)"
)
_FILLER = r"(?:\s+(?:[a-z-]+)){0,4}?"
_N_TRAIN = (
    re.compile(
        rf"{_NUMBER}\s+(?:labell?ed\s+|annotated\s+)?train(?:ing)?\s+(?:[a-z-]+\s+)?{_SAMPLES}",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?:train(?:ing)?\s+(?:set|data(?:set)?|split|file|csv|part|portion)|train\.csv)\b[^.\d\n]{{0,60}}?"
        rf"\b(?:contains?|comprises?|consists? of|has|have|holds?|includes?|of|is|with|:)\s+"
        rf"(?:about|around|approximately|roughly|over|more than|nearly|some|a total of|~)?\s*{_NUMBER}\s+"
        rf"(?:[a-z-]+\s+){{0,2}}?{_SAMPLES}",
        re.IGNORECASE,
    ),
    re.compile(
        rf"{_NUMBER}{_FILLER}\s+{_SAMPLES}\s+(?:for|in|to|as)\s+(?:the\s+)?train(?:ing)?\b",
        re.IGNORECASE,
    ),
    re.compile(
        rf"\btrain(?:ed)? on\s+(?:about|around|approximately|roughly|over|some|~)?\s*{_NUMBER}\s+"
        rf"(?:[a-z-]+\s+){{0,2}}?{_SAMPLES}",
        re.IGNORECASE,
    ),
)
_WORD_NUMBERS_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
)
_WORD_NUMBERS = {word: number for number, word in enumerate(_WORD_NUMBERS_WORDS.split())}
_COUNT = rf"(\d{{1,3}}(?:,\d{{3}})+|\d+|{'|'.join(list(_WORD_NUMBERS)[2:])})"
_KINDS = (
    r"(?:classes|categories|species|breeds|labels|categories|diseases|taxa|genres|commands|gestures|authors|"
    r"abnormalit(?:y|ies)|topics|types of [a-z]+|kinds of [a-z]+|cover types|emotions|languages|"
    r"levels|grades)"
)
_N_CLASSES = (
    re.compile(rf"\b{_COUNT}\s+(?:[a-z-]+\s+){{0,2}}?{_KINDS}\b", re.IGNORECASE),
    re.compile(
        rf"\b(?:number of classes|n_classes|num_classes)\s*(?:is|=|:)\s*{_COUNT}\b",
        re.IGNORECASE,
    ),
)
_BINARY = re.compile(
    r"\b(?:binary (?:classification|target|label|outcome|classifier)|(?:either|predict) (?:a )?(?:0 or 1|1 "
    r"or 0|true or false|yes or no)|0/1 label)\b",
    re.IGNORECASE,
)
_IMAGE_SIZE = (
    re.compile(
        r"\b(\d{2,4})\s?(?:x|×|by|\*)\s?(\d{2,4})(?:\s?(?:x|×|by)\s?3)?\s*(?:-?\s?(?:px|pixels?|images?|"
        r"thumbnails?|tiles?|patches|jpegs?|pngs?|chips|crops))",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:images?|photos?|pictures?|scans?|tiles?|patches|chips)\b[^.\n]{0,50}?\b(?:are|is|of|resized "
        r"to|sized?|measures?|scaled to)\s+(\d{2,4})\s?(?:x|×|by|\*)\s?(\d{2,4})\b",
        re.IGNORECASE,
    ),
    re.compile(r"\b(\d{2,4})\s?(?:px|pixels?)\s+(?:a|per|on a|each)\s+(?:side|edge)()", re.IGNORECASE),
)
_TIME_SPLIT = re.compile(
    r"\b(?:split (?:by|on|in|over) time|time[- ]based split|chronological(?:ly)?|(?:following|next|future|"
    r"later|coming) (?:days?|weeks?|months?|years?|period|quarter)s?|forecast(?:ing)? (?:horizon|period)|"
    r"after the training period|(?:later|more recent|newer) than (?:the )?train(?:ing)?)\b",
    re.IGNORECASE,
)
_WHO = (
    r"(?:patients?|speakers?|users?|subjects?|people|persons?|locations?|sites?|cameras?|molecules?|"
    r"participants?|authors?|customers?|drivers?|hospitals?|scenes?|wells?|stores?|breaths?|animals?|"
    r"individuals?|regions?|fragments?|recordings?|plays|games|devices?|machines?|signers?|cities|buildings?)"
)
_GROUP_SPLIT = re.compile(
    rf"\b(?:unseen {_WHO}|(?:different|new|other|disjoint) (?:sets? of )?{_WHO} (?:from|than|that|which|in "
    rf"the test|not)|{_WHO} (?:that |which )?(?:do|does|are|is|were|was)? ?(?:not|never) (?:appear|present|"
    rf"seen|occur|overlap|in (?:the )?train)\w*|split by {_WHO}|group(?:ed)? by {_WHO}|no {_WHO} (?:in "
    rf"common|appears? in both|overlap)|never (?:been )?seen (?:in|during) train(?:ing)?|absent from "
    rf"train(?:ing)?|group (?:folds?|k-?fold))\b",
    re.IGNORECASE,
)
_RANDOM_SPLIT = re.compile(
    r"\b(?:random(?:ly)? (?:split|divided|selected|sampled|partitioned)|split (?:at )?random)",
    re.IGNORECASE,
)

_SCALE = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6}


def n_train_in(text: str) -> int | None:
    """Training samples, if the text states one figure for them."""
    for pattern in _N_TRAIN:
        found = {value for match in pattern.finditer(text) if 10 <= (value := _scaled(match)) <= 10**10}
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def n_classes_in(text: str) -> int | None:
    """Number of classes, if one figure from 2 up is stated for them; 2 where the target is called binary."""
    found = _agreeing(_N_CLASSES, text, lambda match: _count(match[1]))
    usable = {value for value in found if 2 <= value <= 1_000_000}
    if len(usable) == 1:
        return usable.pop()
    return 2 if not usable and _BINARY.search(text) else None


def image_size_in(text: str) -> int | None:
    """Pixels of the longer side, if one size between 16 and 4096 is stated for the images."""
    sizes = _agreeing(_IMAGE_SIZE, text, lambda match: max(int(match[1]), int(match[2] or 0)))
    usable = {size for size in sizes if 16 <= size <= 4096}
    return usable.pop() if len(usable) == 1 else None


def split_in(text: str) -> str | None:
    """How test differs from train: "group", "time" or "random", None if the text does not say."""
    for name, pattern in (
        ("group", _GROUP_SPLIT),
        ("time", _TIME_SPLIT),
        ("random", _RANDOM_SPLIT),
    ):
        if pattern.search(text):
            return name
    return None


def _agreeing(
    patterns: Iterable[re.Pattern[str]], text: str, read: Callable[[re.Match[str]], int]
) -> set[int]:
    return {read(match) for pattern in patterns for match in pattern.finditer(text)}


def _scaled(match: re.Match[str]) -> int:
    digits = re.sub(r"[^\d.]", "", match[1])
    return round(float(digits) * _SCALE.get((match[2] or "").lower(), 1))


def _count(word: str) -> int:
    return _WORD_NUMBERS.get(word.lower()) or int(word.replace(",", "") if word[0].isdigit() else 0)
