"""Ranks candidates by expected quality: `POST /rank`, `memory-service rank FILE`.

    rank(database, [{"dataset": "loans", "task": "tabular-classification", "model": "catboost"}, ...])

A row that cannot be judged says why and stops nothing. Asking writes nothing.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from memory_service.domain.common.vocabulary import FORECASTS
from memory_service.domain.planning.candidates import Candidate as PlannedRun
from memory_service.domain.planning.candidates import price_candidates
from memory_service.domain.planning.model_catalogue import CatalogueModel, normal_model_name
from memory_service.domain.planning.option import candidate_of
from memory_service.domain.quality.quality_index import quality_estimate
from memory_service.domain.quality.quality_model import Kind, QualityModel, judges_quantiles, quality_kind
from memory_service.domain.quality.ranking import Candidate, rank_candidates
from memory_service.errors import InvalidInput, MemoryServiceError, wrong_value
from memory_service.schemas.rank import RankRow, RankTextRow
from memory_service.schemas.recommend import plan_request
from memory_service.schemas.validation_errors import checked
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.asker import still_wanted
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.planning.planning_problem import case_of
from memory_service.services.planning.request_text import read_request_text

MOST_PLANNED = 100
"""Rows with `gpu` and `minutes`: each is a plan, some 20 ms of processor time."""

_PLANNED = ("epochs", "folds")


def rank(database: Database, rows: Sequence[RankRow | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each row with `quality`, `rank` and `p_best` among the rows of its `dataset` (1 and 0..1), and
    `run_order` (in which order a portfolio would run them, None after the fifth); in the order given.

    Of a row of another model or with a value that cannot be, these are None and `why` says so.
    """
    knowledge = knowledge_of(database)
    answers: list[dict[str, Any]] = []
    forecast = _forecast(knowledge, rows)
    groups: dict[tuple[str, str], list[tuple[int, Candidate]]] = defaultdict(list)
    planned, known = 0, dict[Hashable, tuple[Candidate, dict[str, Any]]]()
    for place, given in enumerate(rows):
        still_wanted()
        said = given.explicit() if isinstance(given, RankRow) else dict(given)
        answer = {**said, "quality": None, "rank": None, "p_best": None, "run_order": None, "why": None}
        answers.append(answer)
        try:
            row = given if isinstance(given, RankRow) else _row(given)
            answer.update(row.explicit())
            model = listed_model(knowledge, row.model)
            trained = row
            if row.gpu and row.minutes:
                planned += 1
                if planned > MOST_PLANNED:
                    message = f"at most {MOST_PLANNED} rows of a request are planned"
                    raise wrong_value("minutes", message, row.minutes)
                trained = as_planned(row, best_in_minutes(database, knowledge, row))
        except MemoryServiceError as error:
            answer["why"] = "; ".join(f"{each.field}: {each.message}" for each in error.errors) or str(error)
            continue
        answer.update({name: getattr(trained, name) for name in _PLANNED if getattr(trained, name)})
        ahead = row.task in FORECASTS and (row.dataset or "") in forecast
        kind = quality_kind(
            row.task, row.n_classes, row.language, row.subtask,
            forecasts=ahead, quantiles=ahead and judges_quantiles(row.metric),
        )  # fmt: skip
        how = kind, row.task, model.name, trained.n_train, trained.epochs, trained.folds, trained.input_size
        candidate, quality = known.get(how) or judged(knowledge.quality, kind, trained, model)
        known[how] = candidate, quality
        answer["quality"] = dict(quality)
        groups[row.dataset or "", kind.table].append((place, candidate))
    for (_, table), members in groups.items():
        still_wanted()
        ranking = rank_candidates([each for _, each in members], knowledge.quality, table)
        order = {member: turn for turn, member in enumerate(ranking.run_order, 1)}
        for at, (place, _) in enumerate(members):
            p_best = round(ranking.p_best[at], 4)
            answers[place].update(rank=ranking.rank[at], p_best=p_best, run_order=order.get(at))
    return answers


def _forecast(knowledge: Knowledge, rows: Sequence[RankRow | Mapping[str, Any]]) -> frozenset[str]:
    """Data sets whose series go on: a horizon is given, or a candidate does nothing but forecast."""
    found = set()
    for given in rows:
        row = given.explicit() if isinstance(given, RankRow) else given
        slug = knowledge.model_names.get(normal_model_name(str(row.get("model"))))
        if row.get("horizon") or (slug and knowledge.models[slug].only_forecasts):
            found.add(str(row.get("dataset") or ""))
    return frozenset(found)


def listed_model(knowledge: Knowledge, name: str) -> CatalogueModel:
    """The catalogue row of a name; InvalidInput without the nearest names, which cost more than a ranking."""
    plain = normal_model_name(name)
    slug = knowledge.model_names.get(plain) or knowledge.model_names.get(plain.partition(".")[0])
    if slug is None:
        raise wrong_value("model", "is not in the catalogue", name)
    return knowledge.models[slug]


def _row(given: Mapping[str, Any]) -> RankRow:
    known = {name: given[name] for name in RankRow.model_fields if given.get(name) not in (None, "")}
    whole = {
        name: value.removesuffix(".0") if isinstance(value, str) and name != "minutes" else value
        for name, value in known.items()
    }
    return checked(RankTextRow, whole)


def judged(
    quality: QualityModel, kind: Kind, row: RankRow, model: CatalogueModel
) -> tuple[Candidate, dict[str, Any]]:
    trained = row.n_train, row.epochs, row.folds, row.input_size
    candidate = candidate_of(quality, kind, row.task, model, *trained)
    sd, measured = quality.interval_sd(kind, (model.name, model.family), model.quality_score)
    return candidate, quality_estimate(candidate.index, sd, measured).as_dict()


def best_in_minutes(database: Database, knowledge: Knowledge, row: RankRow) -> PlannedRun:
    """What the row's minutes allow on its card. Raises InvalidInput where nothing fits."""
    left_out = {"dataset", "input_size"}
    asked = {name: value for name, value in row.explicit().items() if name not in left_out}
    question = plan_request({**asked, "objective": "quality", "mode": "blind"})
    case = case_of(knowledge, question, read_request_text(database, question))
    best = price_candidates(case, knowledge).best("quality", question.minutes)
    if best is None:
        raise InvalidInput(f"does not fit into {row.minutes:g} min on {row.gpu}")
    return best


def as_planned(row: RankRow, planned: PlannedRun) -> RankRow:
    """The row with the epochs and folds of its plan."""
    return row.model_copy(update={"epochs": planned.epochs, "folds": planned.folds})
