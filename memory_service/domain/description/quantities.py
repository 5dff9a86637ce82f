"""Quantities of a text: a number, the noun it counts, and whether that is of training or of test data.

"7,349 pictures", "165 thousand labelled and 110 thousand test customers", "half a million rows".
What a number counts is decided here once; `domain.description.stated_facts` decides what it tells.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.description.phrases import patterns, sentences_of, singular

Kind = Literal["sample", "group", "class", "column", "token", "unknown"]
Role = Literal["train", "test", "valid"]

_WORDS = shipped_table(__package__, "quantities.toml")
KIND_OF: dict[str, Kind] = {noun: kind for kind, listed in _WORDS["nouns"].items() for noun in listed.split()}

_ROLES: dict[str, Role] = {word: role for role, words in _WORDS["roles"].items() for word in words.split()}
_STOP, _UNITS = (frozenset(_WORDS["others"][name].split()) for name in ("stop", "units"))
_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
)
_ONES, _TENS = _NUMBERS.split()[:20], _NUMBERS.split()[20:]
_SMALL = {w: n for n, w in enumerate(_ONES)} | {w: 10 * n for n, w in enumerate(_TENS, 2)}
_SCALE = {"hundred": 100, "thousand": 1e3, "million": 1e6, "billion": 1e9, "dozen": 12, "k": 1e3, "m": 1e6}
_SCALE |= {"lakh": 1e5, "crore": 1e7}
NUMBER_WORD = rf"(?:{'|'.join([*_TENS, *reversed(_ONES[1:]), 'hundred', 'thousand', 'million', 'dozen'])})"
_P = patterns("quantities", number_word=NUMBER_WORD, roles="|".join(_ROLES))
_TOKEN = re.compile(r"[A-Za-zÀ-ÿ][A-Za-zÀ-ÿ’'-]*|[,;:.()\d×]")
_MOST_CLASSES = 100_000
"""More "ratings" than that are samples."""
_ELSEWHERE = frozenset(("further", "more", "another", "additional", "new"))
_OF_COLUMNS = frozenset(("expression", "level", "value", "measurement", "reading", "intensity", "count"))
NEAR = 7
"""Words after a number in which its noun may stand, and about it in which its role may."""


MOST_QUANTITIES = 500
"""A description has a few dozen; a text of nothing but numbers must not cost seconds."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with what it counts.

    noun    in the singular, "" where none was found; kind: what such a noun counts
    role    of training or of test data, None where the text does not say; direct: said right at the noun
    each    it says how many belong to one of something else ("30 images per patient")
    of_rows it says how many groups the quantity just before comes from ("9,000 photos of 300 pigs")
    words   the number with its noun, as written; before: its sentence up to there
    """

    value: float
    noun: str
    kind: Kind
    role: Role | None
    direct: bool
    each: bool
    words: str
    before: str
    of_rows: bool = False


def quantities_in(text: str) -> list[Quantity]:
    """The quantities of a text in order, about the first `MOST_QUANTITIES`."""
    found: list[Quantity] = []
    for sentence in sentences_of(text):
        found += _with_groups(list(islice(_of_sentence(sentence), MOST_QUANTITIES)))
        if len(found) >= MOST_QUANTITIES:
            break
    return found


def numbers_in(text: str) -> list[float]:
    """The numbers of a text in digits or words, whatever they count, about the first `MOST_QUANTITIES`."""
    return [_value(number) for number in islice(_P["number"].finditer(text), MOST_QUANTITIES)]


def _with_groups(found: list[Quantity]) -> list[Quantity]:
    """ "960 clips of 15 people form the test": the 15 are groups of the 960, and what is of one is of "
    "both."""
    for place in range(1, len(found)):
        rows, groups = found[place - 1 : place + 1]
        between = groups.before.rpartition(rows.words)[2]
        if (
            rows.value > groups.value
            and not rows.each
            and len({rows.role, groups.role} - {None}) < 2
            and len(between) < 40
            and _P["counted_from"].search(f" x{between}")
            and "," not in between
        ):
            role = rows.role or groups.role
            found[place - 1] = replace(rows, role=role, direct=rows.direct or rows.role is None)
            counts = groups.kind in ("group", "sample", "unknown") and bool(groups.noun)
            found[place] = replace(groups, of_rows=counts)
    return found


def _of_sentence(sentence: str) -> Iterator[Quantity]:
    numbers = [
        n
        for n in _P["number"].finditer(sentence)
        if not (_P["vague"].match(n[0]) or _is_year(n, sentence) or _P["size"].match(sentence, n.end()))
        and not (len(n[0]) < 3 and _P["ordinal"].search(sentence, max(0, n.start() - 10), n.start()))
        and not _P["of_a_size"].search(sentence, max(0, n.start() - 8), n.start())
    ]
    of_file = _P["file"].match(sentence)
    last: Quantity | None = None
    for place, number in enumerate(numbers):
        following = numbers[place + 1].start() if place + 1 < len(numbers) else len(sentence)
        earlier = numbers[place - 1].end() if place else 0
        noun, role, end = _noun_after(sentence, number.end(), following)
        left = sentence[earlier : number.start()]
        if noun in _UNITS or _P["across"].match(sentence, end) or (not noun and _P["score"].search(left)):
            continue
        direct = role is not None
        inside = "(" not in left or sentence.startswith(")", end)
        if (
            last and last.role and not role and inside and _P["behind_others"].fullmatch(left)
        ):  # "35 pots (105 scans)"
            role, direct = last.role, True
        elif leading := _P["leading"].search(left):  # "validation data (3,500 labelled clips"
            role, direct = _ROLES[leading[1].lower()], True
        elif role is None:
            role, direct = _role_about(left, sentence[end : end + 120])
            of_this = _ROLES[of_file[1].lower()] if of_file else None
            direct, role = direct or (of_this is not None and role in (None, of_this)), role or of_this
        before = sentence[max(0, number.start() - 120) : number.start()]
        if not direct and _P["asked_for"].search(before):
            role = "test"
        value, kind = _value(number), KIND_OF.get(noun, "unknown")
        kind = "sample" if kind == "class" and role and value >= _MOST_CLASSES else kind
        each = not before.endswith("which of ") and bool(_P["each_after"].match(sentence, end))
        each = each or bool(_P["each_before"].search(before))
        words = sentence[number.start() : end].strip()
        last = Quantity(value, noun, kind, role, direct, each, words, before)
        yield last


def _is_year(number: re.Match[str], sentence: str) -> bool:
    """2019, but not "2019 test images" nor "a set of 2000 photos"."""
    if not _P["year"].match(number[0]):
        return False
    noun, role, end = _noun_after(sentence, number.end(), len(sentence))
    near = _P["few_words"].fullmatch(sentence, number.end(), end)
    counted = near and KIND_OF.get(noun) in ("sample", "group")
    dated = _P["dated"].search(sentence, max(0, number.start() - 20), number.start())
    return not counted or (role is None and dated is not None)


def _noun_after(sentence: str, start: int, limit: int) -> tuple[str, Role | None, int]:
    """The noun that a number counts (one that is known, else the first plural), the role said between the
    two, and where the noun ends."""
    of = None if "(" in sentence[max(0, start - 14) : start] else _P["of_them"].match(sentence, start)
    if of and KIND_OF.get(whole := singular((of[1] or "sample").lower())) == "sample":
        return whole, None, of.end()
    noun, role, end, plural = "", None, start, False
    other = "", start
    for count, token in enumerate(_TOKEN.finditer(sentence, start, min(limit, start + 90))):
        word = token[0].lower()
        if count >= NEAR or not word[0].isalpha() or word in _STOP:
            break
        tail = singular(word.rpartition("-")[2])
        whole = tail if KIND_OF.get(tail) == "sample" else singular(word)
        one = next((each for each in (word, word.removesuffix("s")) if each in KIND_OF), whole)
        if one in _UNITS and not noun and not sentence.startswith((" cloud", " step"), token.end()):
            return one, None, end
        if (one in _ROLES or word in _ELSEWHERE) and not noun:
            role, end = role or _ROLES.get(one, "test"), token.end()
        elif one in KIND_OF:
            noun, end, plural = one, token.end(), one != word
        elif noun:
            if KIND_OF[noun] == "column" and one in _OF_COLUMNS:  # "gene expression values" are of genes
                end = token.end()
                continue
            # "Three category guesses" are guesses.
            return (noun, role, end) if plural or one == word else (one, role, token.end())
        elif one != word and not other[0]:
            other = one, token.end()
    return (noun, role, end) if noun or not other[0] else (other[0], role, other[1])


def _role_about(left: str, right: str) -> tuple[Role | None, bool]:
    """The role said just after ("5,000 images for training", "310 to segment"), else the nearest before."""
    if _P["learned"].search(left):
        return "train", True
    if _P["to_do"].match(_P["between"].sub("", right)):
        return "test", True
    if _P["unseen"].match(right):
        return "test", False
    if _P["labelled"].match(right):
        return "train", True
    if said := _P["said_behind"].match(right):  # "1,498 letters (training)"
        return "valid" if said[1].lower() == "development" else _ROLES[said[1].lower()], True
    right = re.split(r"\d", _P["aside"].sub("", right), maxsplit=1)[0]
    close = " ".join(_P["clause_end"].split(right, maxsplit=1)[0].split()[:4])
    if after := _P["role"].search(close):
        return _ROLES[after[0].lower()], True
    before = _P["role"].findall(_P["of_the_last"].sub("", left.rpartition(";")[2]))
    return (_ROLES[before[-1].lower()] if before else None), False


MOST = 1e15
"""Nothing is counted beyond it; what is said to be more is this."""


def _value(number: re.Match[str]) -> float:
    if number["digits"]:
        scale = (number["scale"] or "").strip(" -").lower()
        return min(float(re.sub(r"[^\d.]", "", number["digits"])) * _SCALE.get(scale, 1), MOST)
    return number_of_words(number["words"])


def number_of_words(words: str) -> float:
    """ "fourteen hundred" -> 1400, "half a million" -> 500 000, "twenty-five" -> 25; at most `MOST`."""
    if words[0].isdigit():
        return float(words.replace(",", ""))
    total = current = 0.0
    for word in words.lower().replace("-", " ").split():
        if word in _SMALL:
            current += _SMALL[word]
        elif word == "half":
            current = 0.5
        elif word in ("hundred", "dozen"):
            current = min((current or 1) * _SCALE[word], MOST)
        elif word in _SCALE:
            total, current = total + (current or 1) * _SCALE[word], 0.0
    return min(total + current, MOST)
