"""What comments and docstrings say of the data: columns, and groups with several rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from memory_service.review.source.script import Script

_MANY = (
    r"(?:several|many|multiple|more than one|few|(?:some )?(?:dozens|hundreds|thousands)(?: of)?|"
    r"(?<![\w.])(?!1\b)\d[\d.,]*k?|(?:a |half a )?(?:dozen|few|handful of|couple of|number of))"
)
_ABOUT = r"(?:(?:~|about|around|roughly|some|up to|at least|on average)\s*)?"
_ROWS = (
    r"(?:rows?|records?|images?|photos?|pictures?|scans?|slices?|views?|studies|visits?|exams?|days?|times|"
    r"clips?|recordings?|utterances?|sentences?|windows?|segments?|sessions?|samples?|patches|tiles?|crops?|"
    r"essays?|texts?|posts?|reviews?|messages?|notes?|answers?|entries|examples?|files?|frames?|orders?|"
    r"occasions|measurements?|lesions?|tracks?|snippets?|excerpts?|chunks?|fragments?)"
)
_SO_MANY = rf"{_ABOUT}{_MANY}\s+(?:[\w-]+ )?{_ROWS}\b"
_CUT = r"\b(?:cut|split|slice|chopp?|divide|segment|tile|cropp?|extract|clipp?)(?:e?d|s|ing)?"
_SUCH = r"(?:(?:an?|the|each|every|one|whole|full|long|longer|large|larger|original|raw) ){0,2}"
_INTO_ROWS = rf"(?:up )?into (?:{_ABOUT}{_MANY}\s+)?(?:[\w-]+ )?{_ROWS}\b"
_EACH_HAS = (
    re.compile(rf"\b([a-z]+) (?:was|were|is|are|has been|have been|gets?) (?:\w+ )??{_CUT} {_INTO_ROWS}"),
    re.compile(rf"{_CUT} (?:each|every|all|the|whole|long)(?: [\w-]+)?? ([a-z]+) {_INTO_ROWS}"),
    re.compile(rf"{_ROWS} (?:\w+ )??{_CUT} (?:out )?(?:of|from) {_SUCH}([a-z]+)\b"),
    re.compile(rf"{_MANY}\s+[\w -]{{0,24}}\b(?:per|for each|(?:of|from|by) (?:one|each|a|the same))\s+(\w+)"),
    re.compile(
        rf"\b([a-z]+)s\b\W{{0,4}}(?:(?:with|of|and|having)\s+)?{_ABOUT}{_MANY}\s+(?:[\w-]+ )?{_ROWS}\s+"
        r"(?:each|apiece|per head)\b"
    ),
    re.compile(rf"\b(?:each|every|one|a|the same)\s+([a-z]+)\s+(?:\w+\s+){{1,3}}?{_SO_MANY}"),
    re.compile(
        r"\b(?:many|most|several|some|all)\s+([a-z]+)s\s+(?:\w+\s+){1,3}?"
        rf"(?:on |in |for )?{_SO_MANY}"
    ),
    re.compile(r"\bthe same\s+([a-z]+)\s+(?:may |can |often |does )?(?:appears?|occurs?|comes?|returns?)\b"),
    re.compile(r"\b([a-z]+)s\s+(?:\w+\s+){0,2}(?:more than once|repeatedly|several times|many times)\b"),
)
_ONE_EACH = re.compile(
    r"\b(?:one|a|single|1|each)\s+(?:row|line|record|entry|file|image|example|sample)\s+"
    r"(?:per|for each|for every|of each|is one|is a|is an)\s+(?:single\s+)?(\w+)"
)
_LISTED = re.compile(
    r"(?:\w\.(?:csv|tsv|parquet|feather|jsonl?|txt|pkl)|\bcolumns|\bcols|\bfields)\b ?"
    r"(?:has|holds|are|with)? ?[:(=-]+ ?((?:\w+ ?[,|] ?)+\w+)"
)
MOST_READ = 20_000  # signs of comments and docstrings that are looked through


def prose_of(script: Script) -> list[str]:
    """Docstrings, and comments with those below joined, in lower case, without marks of emphasis."""
    docs = (getattr(node.value, "value", None) for node in script.all(ast.Expr))
    out = [*script.notes, *(text for text in docs if isinstance(text, str))]
    joined = [" ".join(re.sub(r"[*`_]{1,2}(\w{1,80})[*`]{1,2}", r"\1", text).lower().split()) for text in out]
    read = accumulate(map(len, joined))
    return [text for text, signs in zip(joined, read, strict=True) if signs < MOST_READ]


def several_each(texts: Sequence[str]) -> Iterator[str]:
    """Words for what has several rows each: "91 actors, ~400 clips each" -> "actor"."""
    single = {stated[1] for text in texts for stated in _ONE_EACH.finditer(text)}
    for text in texts:
        for pattern in _EACH_HAS:
            words = (stated[1].rstrip("s") for stated in pattern.finditer(text))
            yield from (word for word in words if word not in single)


def columns_listed(texts: Iterable[str]) -> Iterator[str]:
    """ "meta.csv: clip, actor, emotion" -> "clip", "actor", "emotion"."""
    for text in texts:
        for stated in _LISTED.finditer(text):
            yield from re.findall(r"\w+", stated[1])
