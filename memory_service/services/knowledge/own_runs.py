"""The best run of each model on each competition, beside what was expected of it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.planning.option import candidate_of
from memory_service.domain.quality.conditioning import Surprise, points_of_metric, surprises_of
from memory_service.domain.quality.quality_model import QualityModel, quality_kind
from memory_service.domain.quality.ranking import Candidate
from memory_service.services.knowledge.outcomes import BestRun, best_runs

MOST_RUNS = 300
"""The latest runs of competitions: a plan rests on them."""


@dataclass(frozen=True)
class ComparedRuns:
    """Models that were run on one competition: each one's best run, and the candidate that it was. The
    expectation is that of the shipped figures alone."""

    competition: str
    table: str
    best: tuple[BestRun, ...]
    candidates: tuple[Candidate, ...]


def compared_runs(
    models: Mapping[str, CatalogueModel], quality: QualityModel, rows: Sequence[Any]
) -> Iterator[ComparedRuns]:
    """Of rows of `store.queries.outcomes.with_metric`, the competitions where two models of the catalogue
    have a metric."""
    by_competition: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for row in rows:
        if row.model in models:
            by_competition[row.competition, row.task].append(row)
    for (competition, task), found in by_competition.items():
        kind, best = quality_kind(task), tuple(best_runs(found).values())
        compared = [run.row for run in best]
        candidates = tuple(
            candidate_of(quality, kind, task, models[r.model], r.n_train, r.epochs, r.folds, r.input_size)
            for r in compared
        )
        if best:
            yield ComparedRuns(competition, kind.table, best, candidates)


def surprises(
    models: Mapping[str, CatalogueModel], quality: QualityModel, rows: Sequence[Any]
) -> tuple[Surprise, ...]:
    """What the runs of these rows say beyond what was expected."""
    found: list[Surprise] = []
    for each in compared_runs(models, quality, rows):
        points = [points_of_metric(run.value, run.direction, each.table) for run in each.best]
        usable = [(c, p) for c, p in zip(each.candidates, points, strict=True) if p is not None]
        found += surprises_of(each.competition, each.table, [c for c, _ in usable], [p for _, p in usable])
    return tuple(found)
