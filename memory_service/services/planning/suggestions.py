"""Models that patterns of the kind, and of similar competitions, favour, and by how much that moves a plan.

A pattern that runs followed and fared worse with than without (`domain.runs.pattern_effect`) moves nothing
any more: it comes last, and says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory_service.domain.common.vocabulary import size_of
from memory_service.domain.planning.problem import Suggestion
from memory_service.domain.planning.request import Question
from memory_service.domain.runs.pattern_effect import Tally
from memory_service.services.competitions.neighbours import Hit
from memory_service.services.knowledge.snapshot import Knowledge

KIND_BONUS = 0.3
SIMILAR_BONUS = 0.4
"""Index points. Patterns are claims: they may tip the balance between models that estimates hold equal (the
price of one doubling of time), not overrule one that is better by a class."""

MOST_ROWS = 6
MOST_DEMOTED = 2


@dataclass(frozen=True, slots=True)
class Suggested:
    """What the memory suggests for one question.

    models     model name -> why it is favoured, and by how much
    evidence   the pattern rows to show; `demoted`: true on those that are ranked down
    warnings   a sentence for each of these
    """

    models: Mapping[str, Suggestion] = field(default_factory=dict)
    evidence: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()


def suggestions_of(
    knowledge: Knowledge,
    question: Question,
    task: str,
    n_train: int,
    hits: Sequence[Hit],
    described: str | None = None,
) -> Suggested:
    """Mode blind: nothing at all; family: neither the patterns of the competition asked about nor what its
    runs say of others. described: the stored competition that the question's text is of."""
    if question.mode == "blind":
        return Suggested()
    own = {slug for slug in (question.competition, described) if slug}
    near = {hit.slug for hit in hits}
    if question.mode == "family":
        near -= own
    elif question.competition:
        near.add(question.competition)
    hidden = own if question.mode == "family" else set()
    suggestions: dict[str, Suggestion] = {}
    shown: list[Mapping[str, Any]] = []
    demoted: list[Mapping[str, Any]] = []
    for row, bonus in _relevant(knowledge.patterns, task, size_of(n_train), near):
        why = _worse(knowledge.tallies, row, hidden) if knowledge.tallies else ""
        if why:
            demoted.append(
                _shown(row, f"Ranked down: {why}. It says: {row['statement']}") | {"demoted": True}
            )
            continue
        models = (row.get("advice") or {}).get("models") or ()
        for name in models if row.get("kind") == "model" else ():
            resolved = knowledge.model_names.get(_normal(str(name)))
            if resolved and bonus > (suggestions[resolved].bonus if resolved in suggestions else 0.0):
                suggestions[resolved] = Suggestion(bonus, row["id"], row["statement"], row["source"])
        shown.append(_shown(row, row["statement"]))
    demoted = demoted[:MOST_DEMOTED]
    return Suggested(
        suggestions,
        (*shown[: MOST_ROWS - len(demoted)], *demoted),
        tuple(f"{row['id']}: {row['text'].partition('. It says: ')[0]}." for row in demoted),
    )


def _shown(row: Mapping[str, Any], text: str) -> dict[str, Any]:
    return {"id": row["id"], "grade": row["grade"], "text": text, "source": row["source"]}


def _worse(tallies: Mapping[str, Mapping[str, Tally]], row: Mapping[str, Any], hidden: set[str]) -> str:
    """Why a pattern, or the remembered competition it is of, is ranked down; "" where it is not."""
    subjects = [("followed", f"pattern:{row['id']}")]
    if row.get("competition"):
        subjects.append((f"what {row['competition']} taught", f"competition:{row['competition']}"))
    for what, subject in subjects:
        places = tallies.get(subject, {})
        open_to = (t for place, t in places.items() if place.removeprefix("competition:") not in hidden)
        total = sum(open_to, Tally())
        if total.demoted:
            return f"{what} {total.sentence.removeprefix('followed ')}"
    return ""


def _relevant(
    patterns: Iterable[Mapping[str, Any]], task: str, size: str, near: set[str]
) -> Iterable[tuple[Mapping[str, Any], float]]:
    """Patterns of similar competitions first, then those of the kind; only of the same task."""
    kind = []
    for row in patterns:
        if row.get("competition"):
            if row["competition"] in near and row.get("task") in (None, task):
                yield row, SIMILAR_BONUS
        elif row.get("task") == task and row.get("size") in (None, size):
            kind.append(row)
    yield from ((row, KIND_BONUS) for row in kind)


def _normal(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")
