"""Does memory help? Writes docs/methods/memory.md.

    python -m benchmarks.memory

Every competition with solutions is asked about by its description, itself left out (leave one out), and the
recipe is compared with what its winners did: recall of their families in the first five, techniques in the
first eight, losses in the first two, and whether the split agrees. Baselines name what was most frequent
overall, in the modality, and in the task. The rolling origin knows only competitions of earlier years. Beside
them: how far the usual image size is off, and the weight of families (`benchmarks.family_weight`).
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import family_weight
from benchmarks.family_weight import Fit
from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.domain.recipe.neighbourhood import Neighbourhood
from memory_service.domain.recipe.preferences import FAMILY_WEIGHT, MOST_FAMILY_POINTS
from memory_service.domain.recipe.recipe import Recipe
from memory_service.domain.recipe.solution import Solution
from memory_service.domain.recipe.votes import NEVER_ADVISED, base_rates, votes
from memory_service.recall.encoder import TextEncoder, load_encoder
from memory_service.recall.structure import answer_of
from memory_service.services.competitions.signals import read_text
from memory_service.services.competitions.similar import Signals, signals_of
from memory_service.services.competitions.snapshot import recall_snapshot
from memory_service.services.database.transactions import Database
from memory_service.services.editorial import seeding
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.knowledge.solution_memory import SolutionMemory
from memory_service.services.operations import database as databases
from memory_service.services.planning.memory import (
    TasksOfFamilies,
    recipe_of,
    similarity_weights,
    split_read,
)
from memory_service.store.queries.rows import all_rows

ROOT = Path(__file__).parents[1]
FIRST = {"families": 5, "techniques": 8, "loss": 2}
MEASURES = (*FIRST, "split")
SAMPLES = 2_000
_COARSE = {"stratified": "random", "stratified-group": "group"}

FIRST_YEAR = 2019
FITTED_FROM = 2020
MODALITY = "most frequent of the modality"
YEAR_KNOWN = "memory, its year known"

Answer = Mapping[str, Sequence[str]]
"""Field -> names, best first; "split" -> one name."""

Results = Mapping[str, Mapping[str, Sequence[float]]]
"""Who answers -> measure -> a score for each case, NaN where it cannot be scored."""


@dataclass(frozen=True)
class Case:
    """A competition asked about by its description: what was read, its signals with itself left out, and the
    models that could be planned."""

    slug: str
    row: Mapping[str, Any]
    solutions: tuple[Solution, ...]
    facts: InferredFacts
    signals: Signals
    models: TasksOfFamilies


def cases_of(database: Database, encoder: TextEncoder) -> tuple[list[Case], SolutionMemory]:
    models = TasksOfFamilies(knowledge_of(database).models.values())
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
            cases.append(Case(slug, rows[slug], solutions, read.facts, signals, models))
    return cases, memory


def recipe_for(
    memory: SolutionMemory,
    case: Case,
    as_of: int | None,
    told_task: bool = True,
    told_year: bool = False,
) -> tuple[Recipe, Neighbourhood]:
    """The recipe of a case, itself left out; with `as_of` nothing later counts; told_year: its year is known,
    as that of a competition asked about by name is."""
    signals, task = case.signals, case.facts.task or "tabular-classification"
    if told_task and case.row.get("task"):
        task = case.row["task"]
        kind = replace(signals.kind, task=task, modality=modality_of(task), answer=answer_of(task))
        signals = replace(signals, kind=kind, tasks={task: 1.0})
    if told_year:
        signals = replace(signals, year=float(_year(case)))
    weights, slugs = similarity_weights(signals, as_of), signals.snapshot.slugs
    split = split_read(case.facts)
    return recipe_of(memory.without(case.slug), slugs, weights, task, as_of, split, case.models)


def asked(memory: SolutionMemory, case: Case, as_of: int | None, **told: bool) -> Answer:
    """What the recipe names; told: see `recipe_for`."""
    recipe, _ = recipe_for(memory, case, as_of, **told)
    names = {field: [vote.name for vote in getattr(recipe, field)] for field in FIRST}
    return {**names, "split": [recipe.validation.split]}


def most_frequent(solutions: Sequence[Solution]) -> Answer:
    """The baseline: what most of some solutions used."""
    out: dict[str, list[str]] = {}
    for field in FIRST:
        rates = base_rates(solutions, field)
        out[field] = sorted(rates.keys() - NEVER_ADVISED, key=lambda name: (-rates[name], name))
    splits = [_coarse(one.split) for one in solutions if one.split is not None]
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


def _coarse(split: str) -> str:
    return _COARSE.get(split, split)


def compare(cases: Sequence[Case], answers: Mapping[str, Callable[[Case], Answer]]) -> Results:
    """The scores of everyone who answers."""
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


def lift(results: Results, measure: str, who: str = "memory") -> tuple[float, float, float]:
    """Memory less the modality's most frequent, paired by competition, with its interval."""
    ours, theirs = results[who][measure], results[MODALITY][measure]
    return interval([a - b for a, b in zip(ours, theirs, strict=True)])


def leave_one_out(memory: SolutionMemory, cases: Sequence[Case], *who: str) -> Results:
    """Everything but the competition itself is known. `who` answers: all, where nobody is named."""
    answers: dict[str, Callable[[Case], Answer]] = {
        "memory": lambda case: asked(memory, case, None),
        YEAR_KNOWN: lambda case: asked(memory, case, None, told_year=True),
        "memory, from the text alone": lambda case: asked(memory, case, None, told_task=False),
        "memory, as of its year": lambda case: asked(memory, case, _year(case)),
        **_baselines(memory, lambda _: None),
    }
    return compare(cases, {name: answers[name] for name in who or answers})


def rolling(memory: SolutionMemory, cases: Sequence[Case]) -> Results:
    """Only competitions of earlier years are known; from 2019 on, when there is something to know."""
    return compare([case for case in cases if _year(case) >= FIRST_YEAR], {
        "memory": lambda case: asked(memory, case, _year(case) - 1),
        "memory, from the text alone": lambda case: asked(memory, case, _year(case) - 1, told_task=False),
        **_baselines(memory, lambda case: _year(case) - 1),
    })  # fmt: skip


def winners_alike(memory: SolutionMemory, cases: Sequence[Case]) -> dict[str, tuple[float, float]]:
    """Field -> (share of what a winner used that the other winners of the very same competition name first,
    share that the recipe names with the year known), of competitions with two winners or more that say it."""
    out: dict[str, tuple[list[float], list[float]]] = {field: ([], []) for field in FIRST}
    for case in cases:
        answer = asked(memory, case, None, told_year=True)
        for field, first in FIRST.items():
            used = [set(names) for one in case.solutions if (names := {*getattr(one, field)} - NEVER_ADVISED)]
            for place, own in enumerate(used if len(used) > 1 else ()):
                others = Counter(name for names in used[:place] + used[place + 1 :] for name in sorted(names))
                named = {name for name, _ in others.most_common(first)}
                out[field][0].append(len(own & named) / len(own))
                out[field][1].append(len(own & set(answer[field][:first])) / len(own))
    return {field: (float(np.mean(theirs)), float(np.mean(ours))) for field, (theirs, ours) in out.items()}


def size_errors(memory: SolutionMemory, cases: Sequence[Case]) -> tuple[list[float], list[float]]:
    """(ours, modality's): doublings between the usual image size and that of the winners, of each case whose
    winners say one. The modality's is the geometric mean over its other competitions."""
    own = {slug: _mean_octave(some) for slug, some in memory.by_competition.items()}
    ours, theirs = [], []
    for case in (each for each in cases if own[each.slug]):
        size = recipe_for(memory, case, None)[0].image_size
        modality = case.row.get("modality")
        others = [
            octave
            for slug, octave in own.items()
            if octave and slug != case.slug and memory.competitions[slug].get("modality") == modality
        ]
        if size and others:
            ours.append(abs(log2(size[0]) - own[case.slug]))
            theirs.append(abs(float(np.mean(others)) - own[case.slug]))
    return ours, theirs


def _mean_octave(solutions: Sequence[Solution]) -> float:
    sizes = [log2(one.image_size) for one in solutions if one.image_size]
    return float(np.mean(sizes)) if sizes else 0.0


def family_fits(knowledge: Knowledge, memory: SolutionMemory, cases: Sequence[Case]) -> list[Fit]:
    """What winners since 2020 chose, by the index and by what similar winners of earlier years used."""
    choices = []
    for case in cases:
        task = case.row.get("task")
        if task and _year(case) >= FITTED_FROM:
            near = recipe_for(memory, case, _year(case) - 1)[1]
            share = {vote.name: vote.share for vote in votes(near, "families", {})}
            used = [family for one in case.solutions[:3] for family in one.families]
            choices.append(family_weight.choice(knowledge, task, case.row.get("n_train"), share, used))
    return family_weight.fits([one for one in choices if one is not None])


def _year(case: Case) -> int:
    return int(case.row.get("year") or 0)


def _baselines(
    memory: SolutionMemory, as_of: Callable[[Case], int | None]
) -> dict[str, Callable[[Case], Answer]]:
    def of(alike: Callable[[Mapping[str, Any]], Any]) -> Callable[[Case], Answer]:
        return lambda case: baseline(memory, case, as_of(case), alike)

    return {
        "most frequent overall": of(lambda _: None),
        MODALITY: of(lambda row: row.get("modality")),
        "most frequent of the task": of(lambda row: row.get("task")),
    }


@dataclass(frozen=True)
class Measured:
    """All that the page tells: leave one out, rolling origin with the year of each of its cases, how alike
    winners are, errors of sizes, and weights of families."""

    out: Results
    before: Results
    years: list[int]
    alike: dict[str, tuple[float, float]]
    sizes: tuple[list[float], list[float]]
    fits: list[Fit]


def measured() -> Measured:
    """Over the seeds."""
    encoder = load_encoder().encoder
    if encoder is None:
        raise SystemExit("no encoder")
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/memory.sqlite3")
        databases.upgrade(database)
        seeding.seed(database, encoder=encoder)
        cases, memory = cases_of(database, encoder)
        fits = family_fits(knowledge_of(database), memory, cases)
        database.close()
    return Measured(
        leave_one_out(memory, cases),
        rolling(memory, cases),
        [_year(case) for case in cases if _year(case) >= FIRST_YEAR],
        winners_alike(memory, cases),
        size_errors(memory, cases),
        fits,
    )


def table(results: Results) -> Iterator[str]:
    yield "| who answers | families (5) | techniques (8) | loss (2) | split |"
    yield "|---|---|---|---|---|"
    for who, scores in results.items():
        cells = ("{:.2f} ({:.2f}-{:.2f})".format(*interval(scores[name])) for name in MEASURES)
        yield f"| {who} | {' | '.join(cells)} |"
    for who in ("memory", YEAR_KNOWN):
        if who in results:
            cells = ("{:+.2f} ({:+.2f} to {:+.2f})".format(*lift(results, name, who)) for name in MEASURES)
            yield f"| {who} less {MODALITY} | {' | '.join(cells)} |"


def by_year(results: Results, years: Sequence[int]) -> Iterator[str]:
    """A row for each year: its competitions, then memory and the modality's most frequent, measure by
    measure; a dash where nobody can be scored."""
    yield "| year | competitions | families (5) | techniques (8) | loss (2) | split |"
    yield "|---|---|---|---|---|---|"
    for year in sorted(set(years)):
        of_year = [place for place, each in enumerate(years) if each == year]
        cells = []
        for name in MEASURES:
            pairs = [(results["memory"][name][i], results[MODALITY][name][i]) for i in of_year]
            known = np.array([pair for pair in pairs if not np.isnan(pair).any()])
            cells.append("{:.2f} / {:.2f}".format(*known.mean(axis=0)) if len(known) else "-")
        yield f"| {year} | {len(of_year)} | {' | '.join(cells)} |"


def main() -> None:
    found = measured()
    text = page(found)
    (ROOT / "docs/methods/memory.md").write_text(text)
    print(text)


def page(found: Measured) -> str:
    n, later = (len(results["memory"]["split"]) for results in (found.out, found.before))
    ours, theirs = found.sizes
    return PAGE.format(
        n=n, later=later, first=FIRST_YEAR, out="\n".join(table(found.out)),
        before="\n".join(table(found.before)), years="\n".join(by_year(found.before, found.years)),
        alike="\n".join(
            f"| {field} | {theirs:.2f} | {year:.2f} |" for field, (theirs, year) in found.alike.items()
        ), sized=len(ours), ours=float(np.median(ours)),
        theirs=float(np.median(theirs)), fitted=FITTED_FROM, weight=FAMILY_WEIGHT, most=MOST_FAMILY_POINTS,
        fits="\n".join(family_weight.table(found.fits)),
    )  # fmt: skip


PAGE = """# Does memory help?

Written by `python -m benchmarks.memory` from the shipped solutions. Each of {n} competitions with solutions
is asked about by its task and its description, itself left out. The recipe is compared with what its best
three to five solutions did: the share of their families found among the first five of the recipe, of their
techniques among the first eight, of their losses among the first two (of those that fit in), and whether any
of them split as the recipe says (stratified counts as random, stratified-group as group). Means over
competitions with 95 % intervals by bootstrap. The baselines are told task and modality by the record. The
settings of the vote were chosen on these same competitions, so its figures are a little too good; a part of
the solutions that is not in this repository judges it afresh.

## Leave one out

{out}

"From the text alone": the task is read from the description, too. "Its year known": solutions of about the
same time count most, later ones as well, as for a competition that is asked about by its name. "As of its
year": with `as_of`, so that nothing later counts.

## Rolling origin

{later} competitions from {first} on; only competitions of earlier years are known, as `as_of` of the year
before.

{before}

By the year of the competition, memory / most frequent of the modality:

{years}

## How alike winners are

The share of what one winner used that the other winners of the very same competition name first (five
families, eight techniques, two losses), and that the recipe names with the year known; of competitions with
two winners or more. Nothing that has not seen the competition can be expected to be much above the first.

| field | the others who won it | memory, its year known |
|---|---|---|
{alike}

## What was tried for the families

On leave one out (left out, its own year known, or rolling origin; paired, 95 %), none of these is better
beyond noise in families and techniques at once: weights of the cosine of 2 to 12, all competitions instead of
the nearest 40, a prior of 1 to 25 competitions, base rates of task in modality in all, with or without decay
by years. Kernel ridge regression over meaning, facts and year instead of the vote: families +0.03 (0.00 to
0.05) with the year unknown, +0.02 (-0.00 to 0.05) with it known and 0.00 (-0.02 to 0.02) at the rolling
origin, techniques +0.01, -0.02 (-0.04 to -0.01) and -0.02 (-0.04 to -0.00). Knowing the year is what counts:
families +0.06 (0.04 to 0.09), techniques +0.03 (0.01 to 0.05); so a competition that is asked about by its
name, or recognised, is given the solutions of its time. Where no year is known the latest counts, by a third
in twenty years. Three years would be +0.04 (0.02 to 0.06) for families at the rolling origin, but cost 0.04
where the text is of an old competition and does not say so; twelve +0.01 (-0.00 to 0.03), and 0.02 of the
split: say `as_of` to be told what is used now.

## Image sizes

{sized} competitions whose winners say a size. Between the usual size of the recipe and the geometric mean of
theirs lie **{ours:.2f} doublings** at the median, itself left out; {theirs:.2f} from the geometric mean of
the modality.

## How much a family weighs

What winners since {fitted} used of what could be planned: a conditional logit on the quality index of a
family's best plan (ten hours on an A100, no memory) and the log share of the family among similar winners of
earlier years. Their ratio is the number of index points that an e-fold of the share is worth; gains are of
the mean log likelihood of a competition over a guess, each on the data it was fitted to. A dash: one of the
two says nothing beside the other. It measures agreement with past winners, not what is best: a plan counts
{weight} points an e-fold among winners of the last years, {most} at most (`domain/recipe/preferences.py`).

{fits}
"""


if __name__ == "__main__":
    main()
