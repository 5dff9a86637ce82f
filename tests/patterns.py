"""Every pattern of the package, texts that make a pattern work hard, and the time it takes."""

import ast
import importlib
import pkgutil
import random
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from pathlib import Path
from re import _constants as sre
from re import _parser as parser
from types import FrameType
from typing import Any

import memory_service

Pattern = re.Pattern[str]

_FUNCTIONS = ("compile", "search", "match", "fullmatch", "sub", "subn", "split", "finditer", "findall")
_NOT_IMPORTED = ("memory_service.__main__",)


def patterns_of_the_package() -> dict[Pattern, str]:
    """Each pattern of texts with the place of its first use: those that modules and their classes hold, also
    within dicts, lists and tuples, and those written within a call of `re`."""
    found: dict[Pattern, str] = {}
    for module in pkgutil.walk_packages(memory_service.__path__, "memory_service."):
        if module.name in _NOT_IMPORTED:
            continue
        loaded = importlib.import_module(module.name)
        for name, value in vars(loaded).items():
            for pattern in _patterns_in(value, 0):
                found.setdefault(pattern, f"{module.name}.{name}")
        if file := getattr(loaded, "__file__", None):
            for pattern, line in _written(Path(file)):
                found.setdefault(pattern, f"{module.name}:{line}")
    return found


def _patterns_in(value: Any, depth: int) -> Iterator[Pattern]:
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif depth < 4:
        parts: Iterable[Any] = ()
        if isinstance(value, Mapping):
            parts = [*value.keys(), *value.values()]
        elif isinstance(value, tuple | list | set | frozenset):
            parts = value
        elif isinstance(value, type) and value.__module__.startswith("memory_service."):
            parts = vars(value).values()
        for part in parts:
            yield from _patterns_in(part, depth + 1)


def _written(file: Path) -> Iterator[tuple[Pattern, int]]:
    """Patterns that stand as texts within calls of `re`, with their lines."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=[ast.Constant(str(text)), *more]
            ) if name in _FUNCTIONS:
                said = [ast.unparse(each) for each in (*more, *(word.value for word in node.keywords))]
                named = [each.removeprefix("re.") for each in " | ".join(said).split(" | ")]
                flags = [re.RegexFlag[each] for each in named if each in re.RegexFlag.__members__]
                yield re.compile(text, sum(flags)), node.lineno


COMMON = (
    "a", "A", "1", "_", "-", " ", "\n", ".", "/", "é", "'", "(", "*", "a ", "A ", "1 ", "a1", "1a", "a_1",
    "a-", "1,", "1.", " \n", "\n ",
)  # fmt: skip
WORDS = (
    "twenty-", "twenty ", "\\f1", "F1 ", "auc ", "two ", "2x t4 ", "a100 ", "dozen ", "2 hours ", "the ",
    "Aa", "1 hour and ", "100 images ", "A. ", "a, ", "0.1 ", "\x1b[", "=1, ", "a=1 ", "**a** ", "# A\n",
    "A\n", "\f1", "SYSTEM ", "each ", "to be ", "several dogs ", "one of 3 ", "the train set of ", "2019 ",
    "to predict ", "per ", "test data ", "5 images per ", "mAP@", "F1, ", "and ", "every patient ",
    "May to June ", "512x", "0 to 5 ", "10 x 10 ", "x.", "within 2 hours of ", "on a T4 for ",
    "a a100, 2 hours; ", "half a million rows, ", "3 hours and 20 minutes ", "it's ", "1,000,", "1 000 ",
    "hundred ", "hundred and ", "2h30 ", "patient_id ",
)  # fmt: skip
"""Short texts that are said again and again: letters, digits, signs; and what descriptions have."""


def pieces_of(pattern: Pattern) -> list[str]:
    """Texts made by the pattern's own tree: what it matches, and that without its end."""
    try:
        tree = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    except re.error:
        return []
    head = "".join(chr(value) for _, value in takewhile(lambda part: part[0] is sre.LITERAL, tree))
    rng, out = random.Random(42), [f"{head} "]
    for _ in range(6):
        said = _said(tree, rng)[:120]
        cut = said[: rng.randrange(len(said) + 1)]
        out += [said, said + " ", cut]
    return [piece for piece in dict.fromkeys(out) if piece]


def _said(tree: Any, rng: random.Random) -> str:
    return "".join(_said_by(op, value, rng) for op, value in tree)


def _said_by(op: Any, value: Any, rng: random.Random) -> str:
    if op is sre.LITERAL:
        return chr(value)
    if op is sre.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if op is sre.ANY:
        return rng.choice("a 1")
    if op is sre.IN:
        return _one_of(value, rng)
    if op is sre.BRANCH:
        return _said(rng.choice(value[1]), rng)
    if op is sre.SUBPATTERN:
        return _said(value[3], rng)
    if op is getattr(sre, "ATOMIC_GROUP", None):
        return _said(value, rng)
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, getattr(sre, "POSSESSIVE_REPEAT", None)):
        least, most, of = value
        return "".join(
            _said(of, rng) for _ in range(rng.choice((least, min(most, least + 1), min(most, least + 3))))
        )
    return ""


def _one_of(parts: Any, rng: random.Random) -> str:
    if parts[0][0] is sre.NEGATE:
        return next(c for c in "a 1-.é" if c not in _members(parts[1:]))
    members = _members(parts)
    return rng.choice(members) if members else "a"


_CATEGORIES = {
    "DIGIT": "19",
    "NOT_DIGIT": "a ",
    "SPACE": " \n",
    "NOT_SPACE": "a1",
    "WORD": "a1_",
    "NOT_WORD": " -",
}


def _members(parts: Any) -> str:
    out = ""
    for op, value in parts:
        if op is sre.LITERAL:
            out += chr(value)
        elif op is sre.RANGE:
            out += chr(value[0]) + chr(value[1])
        elif op is sre.CATEGORY:
            out += _CATEGORIES[str(value).removeprefix("CATEGORY_")]
    return out


class TooLongError(Exception):
    """The work took more processor time than it was given."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Ends the block after so much processor time of the process: patterns look for signals as they work."""

    def ended(_signal: int, _frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGVTALRM, ended)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def processor_seconds(work: Callable[[], object], times: int = 1) -> float:
    """The median of several times that work took the processor in this thread."""
    taken = []
    for _ in range(times):
        start = time.thread_time()
        work()
        taken.append(time.thread_time() - start)
    return sorted(taken)[times // 2]


def work_through(pattern: Pattern, text: str) -> None:
    for _ in pattern.finditer(text):
        pass


SHORT, LONG = 1_500, 6_000
_AT_ONCE, _LIMIT = 0.004, 0.4
_MOST_GROWTH = 8.0


def grows_too_fast(pattern: Pattern, piece: str) -> str | None:
    """How, where four times the text is more than eight times the work (sixteen times if it is quadratic). A
    pattern that is done with the long text at once is linear as far as anybody can notice."""
    for end in ("", "!"):
        short, long = (piece * (n // len(piece) + 1) + end for n in (SHORT, LONG))
        try:
            with at_most(_LIMIT):
                first = processor_seconds(partial(work_through, pattern, long))
            if first < _AT_ONCE:
                continue
            with at_most(10 * _LIMIT):
                more = processor_seconds(partial(work_through, pattern, long), 3)
                less = processor_seconds(partial(work_through, pattern, short), 7)
        except TooLongError:
            return f"{piece!r}: over {_LIMIT} s for {LONG} characters"
        if more > max(_AT_ONCE, _MOST_GROWTH * less):
            return f"{piece!r}: {less * 1e3:.1f} ms for {SHORT} characters, {more * 1e3:.1f} ms for {LONG}"
    return None
