"""Does memory help? Writes docs/memory.md.

    python -m benchmarks.memory

Every competition with solutions is asked about by its description, itself left out (leave one out), and the
recipe is compared with what its winners did: recall of their families in the first five, techniques in the
first eight, losses in the first two, and whether the split agrees. Baselines name what was most frequent
overall, in the modality, and in the task. The rolling origin knows only competitions of earlier years.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memory_service.domain.description.task_inference import InferredFacts
from memory_service.domain.recipe.solution import Solution
from memory_service.domain.recipe.votes import NEVER_ADVISED, base_rates
from memory_service.recall.encoder import Encodes, load_encoder
from memory_service.services.competitions.neighbours import Signals, read_text, recall_snapshot, signals_of
from memory_service.services.database.transactions import Database
from memory_service.services.editorial import seeding
from memory_service.services.knowledge.solution_memory import SolutionMemory
from memory_service.services.operations import database as databases
from memory_service.services.planning.recipe import recipe_of, split_of_text
from memory_service.store.queries.rows import all_rows

ROOT = Path(__file__).parents[1]
FIRST = {"families": 5, "techniques": 8, "loss": 2}
MEASURES = (*FIRST, "split")
SAMPLES = 2_000
_COARSE = {"stratified": "random", "stratified-group": "group"}

Answer = Mapping[str, Sequence[str]]
"""Field -> names, best first; "split" -> one name."""


@dataclass(frozen=True)
class Case:
    """A competition asked about by its description: what was read, and its signals with itself left out."""

    slug: str
    row: Mapping[str, Any]
    solutions: tuple[Solution, ...]
    facts: InferredFacts
    signals: Signals


def cases_of(database: Database, encoder: Encodes) -> tuple[list[Case], SolutionMemory]:
    with database.read() as transaction:
        rows = {row["slug"]: row for row in all_rows(transaction.session, "competitions")}
        memory = SolutionMemory.of(all_rows(transaction.session, "solutions"), rows)
        snapshot = recall_snapshot(transaction)
        cases = []
        for slug, solutions in memory.by_competition.items():
            read = read_text(rows[slug]["description"], encoder)
            left_out = np.zeros(len(snapshot.competitions), dtype=np.bool_)
            left_out[snapshot.position[slug]] = True
            signals = signals_of(transaction, snapshot, read, left_out)
            cases.append(Case(slug, rows[slug], solutions, read.facts, signals))
    return cases, memory


def asked(memory: SolutionMemory, case: Case, as_of: int | None) -> Answer:
    """What the recipe says of a case; with `as_of` nothing later counts."""
    task = case.facts.task or "tabular-classification"
    recipe, _ = recipe_of(memory.without(case.slug), case.signals, task, as_of, split_of_text(case.facts))
    names = {field: [vote.name for vote in getattr(recipe, field)] for field in FIRST}
    return {**names, "split": [recipe.validation.split]}


def most_frequent(solutions: Sequence[Solution]) -> Answer:
    """The baseline: what most of some solutions used."""
    out: dict[str, list[str]] = {}
    for field in FIRST:
        rates = base_rates(solutions, field)
        out[field] = sorted(rates.keys() - NEVER_ADVISED, key=lambda name: (-rates[name], name))
    splits = [_coarse(one.split) for one in solutions if one.split]
    out["split"] = [max(sorted(set(splits)), key=splits.count)] if splits else ["random"]
    return out


def baseline(
    memory: SolutionMemory, case: Case, as_of: int | None, alike: Callable[[Mapping[str, Any]], Any]
) -> Answer:
    """Most frequent among the solutions of competitions that are alike in something, itself left out; of all
    where none is."""
    known = [
        (slug, some)
        for slug, some in memory.by_competition.items()
        if slug != case.slug and (as_of is None or (memory.competitions[slug].get("year") or 9999) <= as_of)
    ]
    kind = alike(case.row)
    same = [one for slug, some in known if alike(memory.competitions[slug]) == kind for one in some[:3]]
    return most_frequent(same or [one for _, some in known for one in some[:3]])


def score(case: Case, answer: Answer) -> dict[str, float]:
    """Measure -> recall (or agreement) for one case, measures that nobody knows left out."""
    out: dict[str, float] = {}
    for field, first in FIRST.items():
        used = {name for one in case.solutions for name in getattr(one, field)} - NEVER_ADVISED
        if used:
            out[field] = len(used & set(answer[field][:first])) / min(first, len(used))
    splits = {_coarse(one.split) for one in case.solutions if one.split}
    if splits:
        out["split"] = float(_coarse(answer["split"][0]) in splits)
    return out


def _coarse(split: str | None) -> str | None:
    return _COARSE.get(split, split) if split else None


def compare(
    cases: Sequence[Case], answers: Mapping[str, Callable[[Case], Answer]]
) -> dict[str, dict[str, list[float]]]:
    """Who answers -> measure -> a score for each case, NaN where it cannot be scored."""
    out: dict[str, dict[str, list[float]]] = {}
    for who, answer in answers.items():
        scores = [score(case, answer(case)) for case in cases]
        out[who] = {name: [one.get(name, float("nan")) for one in scores] for name in MEASURES}
    return out


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """(mean, low, high) of the central 95 % by bootstrap over competitions."""
    known = np.array([value for value in values if not np.isnan(value)])
    rng = np.random.default_rng(0)
    means = rng.choice(known, (SAMPLES, len(known))).mean(axis=1)
    return float(known.mean()), float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def lift(results: Mapping[str, Mapping[str, list[float]]], measure: str) -> tuple[float, float, float]:
    """Memory less the modality's most frequent, paired by competition, with its interval."""
    ours, theirs = results["memory"][measure], results["most frequent of the modality"][measure]
    return interval([a - b for a, b in zip(ours, theirs, strict=True)])


def leave_one_out(memory: SolutionMemory, cases: Sequence[Case]) -> dict[str, dict[str, list[float]]]:
    return compare(cases, {
        "memory": lambda case: asked(memory, case, None),
        "memory, told the year": lambda case: asked(memory, _at(case), None),
        **_baselines(memory, lambda case: None),
    })  # fmt: skip


def _at(case: Case) -> Case:
    return case


def _baselines(
    memory: SolutionMemory, as_of: Callable[[Case], int | None]
) -> dict[str, Callable[[Case], Answer]]:
    def of(alike: Callable[[Mapping[str, Any]], Any]) -> Callable[[Case], Answer]:
        return lambda case: baseline(memory, case, as_of(case), alike)

    return {
        "most frequent overall": of(lambda row: None),
        "most frequent of the modality": of(lambda row: row.get("modality")),
        "most frequent of the task": of(lambda row: row.get("task")),
    }


def rolling(memory: SolutionMemory, cases: Sequence[Case]) -> dict[str, dict[str, list[float]]]:
    """Only what was known before the competition's year; from 2019 on, when there is something to know."""
    later = [case for case in cases if (case.row.get("year") or 0) >= FIRST_YEAR]

    def before(case: Case) -> int:
        return int(case.row["year"]) - 1

    return compare(later, {
        "memory": lambda case: asked(memory, case, before(case)), **_baselines(memory, before)
    })  # fmt: skip


FIRST_YEAR = 2019


def seeded(folder: str, encoder: Encodes) -> Database:
    database = Database(f"sqlite:///{folder}/memory.sqlite3")
    databases.upgrade(database)
    seeding.seed(database, encoder=encoder)
    return database


def table(results: Mapping[str, Mapping[str, list[float]]]) -> Iterator[str]:
    yield "| who answers | families (5) | techniques (8) | loss (2) | split |"
    yield "|---|---|---|---|---|"
    for who, scores in results.items():
        cells = ("{:.2f} ({:.2f}-{:.2f})".format(*interval(scores[name])) for name in MEASURES)
        yield f"| {who} | {' | '.join(cells)} |"


if __name__ == "__main__":
    import sys

    encoder = load_encoder().encoder
    database = Database(f"sqlite:///{sys.argv[1]}")
    cases, memory = cases_of(database, encoder)
    for name, results in (
        ("leave one out", leave_one_out(memory, cases)),
        ("rolling", rolling(memory, cases)),
    ):
        print(name)
        print("\n".join(table(results)))
        for m in MEASURES:
            print(m, "lift %.3f (%.3f-%.3f)" % lift(results, m))
