"""Which example scripts are there, what is wrong with each, and how well does a review find it?

The scripts lie in `scripts/*.py.txt`, written for this purpose. Their marks are comments:

    # review: style=timm gpu=a100 minutes=30    what is given beside the script (`style`: for the table only)
    ...  # expect: rule, rule                   a fault of this statement that must be found here
    ...  # also: rule                           the same fault may be shown here instead
    ...  # may: rule                            debatable: neither asked for nor wrong
    # expect-file: rule rule                    a fault of the whole file, wherever it is shown
    # may-file: rule rule                       debatable in this file

Every mark is blanked out, columns kept, before a review sees the text. The name tells the set:
`held_…` was written after the tuning set; `blind_…`, `last_…`, `final_…`, `fresh_…`, `later_…`, `wa_…`,
`wb_…`, `wc_…`, `wd_…`, `we_…` and `wf_…` were each measured once before anything was changed for them
(figures: docs/methods/review.md).
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SETS = ("held", "blind", "last", "final", "fresh", "later", "wa", "wb", "wc", "wd", "we", "wf")
FOLDER = Path(__file__).parent / "scripts"
MARK = re.compile(r"# (review|expect|also|may|expect-file|may-file): *([^#\n]*)")


@dataclass(frozen=True)
class Place:
    """A rule at a statement; `first` to `last` are the statement's lines, one-based."""

    rule: str
    line: int
    first: int
    last: int

    def shows(self, finding: Mapping[str, Any]) -> bool:
        if finding["rule"] != self.rule:
            return False
        line, end = finding["line"], finding.get("end_line") or finding["line"]
        return bool(self.first - 1 <= line <= self.last + 1 or line <= self.line <= end)


@dataclass(frozen=True)
class Example:
    """One script as a review gets it (`text`, `facts`) and what is expected of the review."""

    name: str
    style: str
    facts: dict[str, Any]
    text: str
    expected: tuple[Place, ...]
    also: tuple[Place, ...]
    may: tuple[Place, ...]
    expected_anywhere: frozenset[str]
    may_anywhere: frozenset[str]

    @property
    def set_name(self) -> str:
        prefix = self.name.split("_")[0]
        return prefix if prefix in SETS else "tuning"

    @property
    def fine(self) -> bool:
        return not self.expected and not self.expected_anywhere

    @property
    def rules(self) -> set[str]:
        marked = (*self.expected, *self.also, *self.may)
        return {place.rule for place in marked} | self.expected_anywhere | self.may_anywhere


@dataclass
class Score:
    """What was found of what was expected; `missed` and `false` say which, as `script:line rule`."""

    found: list[tuple[str, str]] = field(default_factory=list)
    missed: list[tuple[str, str]] = field(default_factory=list)
    false: list[tuple[str, str]] = field(default_factory=list)

    @property
    def precision(self) -> float:
        return len(self.found) / max(len(self.found) + len(self.false), 1)

    @property
    def recall(self) -> float:
        return len(self.found) / max(len(self.found) + len(self.missed), 1)

    def __iadd__(self, other: Score) -> Score:
        self.found += other.found
        self.missed += other.missed
        self.false += other.false
        return self


def examples() -> list[Example]:
    return [read(path) for path in sorted(FOLDER.glob("*.py.txt"))]


def read(path: Path) -> Example:
    raw = path.read_text("utf-8")
    text = MARK.sub(lambda match: " " * len(match[0]), raw)
    spans = statements(text)
    facts: dict[str, Any] = {}
    places: dict[str, list[Place]] = defaultdict(list)
    anywhere: dict[str, set[str]] = defaultdict(set)
    for match in MARK.finditer(raw):
        kind, said = match[1], re.split(r"[,\s]+", match[2].strip())
        line = raw.count("\n", 0, match.start()) + 1
        if kind == "review":
            facts |= {key: number(value) for key, value in (item.split("=", 1) for item in said)}
        elif kind.endswith("-file"):
            anywhere[kind] |= set(said)
        else:
            first, last = spans.get(line, (line, line))
            places[kind] += [Place(rule, line, first, last) for rule in said]
    return Example(
        name=path.name.removesuffix(".py.txt"),
        style=facts.pop("style"),
        facts=facts,
        text=text,
        expected=tuple(places["expect"]),
        also=tuple(places["also"]),
        may=tuple(places["may"]),
        expected_anywhere=frozenset(anywhere["expect-file"]),
        may_anywhere=frozenset(anywhere["may-file"]),
    )


def number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def statements(text: str) -> dict[int, tuple[int, int]]:
    """The lines of the innermost statement around each line; of a loop or a function, its head."""
    spans: dict[int, tuple[int, int]] = {}
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return spans
    for node in ast.walk(tree):  # outer ones come first, so that inner ones overwrite them
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            for line in range(node.lineno, last + 1):
                spans[line] = (node.lineno, last)
    return spans


def score(example: Example, findings: Iterable[Mapping[str, Any]]) -> Score:
    """Which expectations the findings meet, and which findings nobody expected."""
    met: set[Place | str] = set()
    result = Score()
    seen: Counter[tuple[str, int]] = Counter()
    for finding in findings:
        rule, line = finding["rule"], finding["line"]
        seen[rule, line] += 1
        shown = [place for place in example.expected if place.shows(finding)]
        hit = min(shown, key=lambda place: abs(place.line - line), default=None)
        if hit is None and any(place.shows(finding) for place in example.also):
            of_rule = [place for place in example.expected if place.rule == rule]
            hit = min(of_rule, key=lambda place: abs(place.line - line), default=None)
        if seen[rule, line] > 1:
            result.false.append((rule, f"{example.name}:{line} (twice)"))
        elif hit is not None:
            met.add(hit)
        elif rule in example.expected_anywhere:
            met.add(rule)
        elif rule not in example.may_anywhere and not any(
            place.shows(finding) for place in (*example.may, *example.also)
        ):
            result.false.append((rule, f"{example.name}:{line}"))
    for place in example.expected:
        (result.found if place in met else result.missed).append((place.rule, f"{example.name}:{place.line}"))
    for rule in sorted(example.expected_anywhere):
        (result.found if rule in met else result.missed).append((rule, example.name))
    return result


def table(scores: Mapping[str, Score]) -> str:
    """Precision and recall by row, then each miss and each false alarm."""
    lines = [f"{'':32} {'found':>6} {'missed':>7} {'false':>6} {'precision':>10} {'recall':>7}"]
    for name, one in sorted(scores.items()):
        counts = f"{len(one.found):6} {len(one.missed):7} {len(one.false):6}"
        lines.append(f"{name:32} {counts} {one.precision:10.3f} {one.recall:7.3f}")
    return "\n".join(lines)


def details(one: Score) -> str:
    missed = [f"missed       {where} {rule}" for rule, where in sorted(one.missed)]
    false = [f"false alarm  {where} {rule}" for rule, where in sorted(one.false)]
    return "\n".join(missed + false)
