"""Plans, candidates and scripts beside each other before one of them runs: `POST /compare`.

    compare_trainings(database, checked(CompareRequest, {"plans": ["plan-…", "plan-…"]}))

Quality and minutes are those of /recommend, /rank and /review. Nothing is executed, no language model asked.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any

from memory_service.domain.choice.choice import Side, compare
from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.vocabulary import Mode
from memory_service.domain.planning.fits import fits_of
from memory_service.domain.quality.quality_model import quality_kind
from memory_service.domain.quality.ranking import rank_candidates
from memory_service.errors import MemoryServiceError, wrong_value
from memory_service.schemas.choose import CompareRequest
from memory_service.schemas.predict import PredictRequest
from memory_service.schemas.rank import RankRow
from memory_service.schemas.validation_errors import checked
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.planning.rank import as_planned, best_in_minutes, judged, listed_model
from memory_service.services.planning.recommend import known_plan
from memory_service.services.prediction.predict import predict
from memory_service.services.review.review import review_script

Values = dict[str, Any]

_SIZES = ("image_size", "seq_len", "n_features")


@dataclass(frozen=True, slots=True)
class _Training:
    """A side as it was read; index: the plan's own expected quality; why: what cannot be told."""

    name: str
    kind: str
    row: RankRow | None = None
    minutes: Estimate | None = None
    index: float | None = None
    why: str | None = None


def compare_trainings(
    database: Database, request: CompareRequest, limit: Mode = "open", *, in_child_process: bool = False
) -> Values:
    """`sides`, each with expected quality and minutes, and of each two the likelier winner.

    in_child_process   limits of time and memory for what reads scripts
    Of a side that cannot be judged these are null and `why` says so. InvalidInput for an unknown card or
    sides of several tasks; NotFound for a plan that is not known any more.
    """
    knowledge = knowledge_of(database)
    trainings = [*_plans(database, request, limit), *_rows(database, knowledge, request)]
    trainings += _scripts(database, request, in_child_process)
    kinds = {(t.row.task, t.row.n_classes) for t in trainings if t.row is not None}
    tables = {quality_kind(task, n_classes).table for task, n_classes in kinds}
    if len(tables) > 1:
        tasks = ", ".join(sorted({task for task, _ in kinds}))
        raise wrong_value("task", "must be one of all sides", tasks)
    own = all(training.index is not None for training in trainings)
    shown, sides = list[Values](), list[Side]()
    for training in trainings:
        row: Values = {"name": training.name, "kind": training.kind, "model": None, "quality": None}
        row |= {"minutes": training.minutes and training.minutes.as_dict(), "p_best": None}
        candidate, why = None, training.why
        if training.row is not None:
            row["model"] = training.row.model
            try:
                model = listed_model(knowledge, training.row.model)
                kind = quality_kind(
                    training.row.task, training.row.n_classes, training.row.language, training.row.subtask
                )
                candidate, row["quality"] = judged(knowledge.quality, kind, training.row, model)
            except MemoryServiceError as error:
                why = error.detail
        if candidate is not None and own and training.index is not None:
            moved = training.index - candidate.index
            candidate = replace(candidate, index=training.index)
            figures = {part: round(row["quality"][part] + moved, 2) for part in ("value", "low", "high")}
            row["quality"] = {**row["quality"], **figures}
        shown.append({**row, "why": why})
        sides.append(Side(training.name, candidate, training.minutes))
    table = next(iter(tables), "")
    known = [(place, side.quality) for place, side in enumerate(sides) if side.quality is not None]
    if known:
        ranking = rank_candidates([quality for _, quality in known], knowledge.quality, table)
        for (place, _), p_best in zip(known, ranking.p_best, strict=True):
            shown[place]["p_best"] = round(p_best, 4)
    timed = [side for side in sides if side.minutes is not None]
    best = max(known, key=lambda each: each[1].index, default=None)
    return {
        "sides": shown,
        "pairs": compare(sides, knowledge.quality, table),
        "best": sides[best[0]].name if best else None,
        "soonest": min(timed, key=lambda s: s.minutes.value if s.minutes else 0.0).name if timed else None,
        "knowledge_revision": knowledge.revision,
    }


def _plans(database: Database, request: CompareRequest, limit: Mode) -> Iterator[_Training]:
    for number, given in enumerate(request.plans or (), 1):
        plan = known_plan(database, given, limit=limit) if isinstance(given, str) else given
        name = f"plan {number}"
        try:
            name = f"{name}: {plan['plan_id']}"
            if not plan["feasible"]:
                yield _Training(name, "plan", why=f"nothing fits: {plan['why']}")
                continue
            model, facts = plan["model"], {fact["name"]: fact["value"] for fact in plan["facts"]}
            said = {n: facts.get(n) for n in ("n_train", "n_classes", "n_features", "language", "subtask")}
            size = next((model[key] for key in _SIZES[:2] if key in model), None)
            trained = {"folds": plan["folds"], "epochs": plan["epochs"], "input_size": size}
            stated = {n: v for n, v in (said | trained).items() if v is not None}
            row = checked(RankRow, {"task": plan["task"], "model": model["name"], **stated})
            minutes, quality = plan["expected"]["total_minutes"], plan["expected"]["quality_index"]
            stages = [run.get("stage") for run in plan["portfolio"] if plan["run"] is None]
            first = [s["total_minutes"] for s in stages if s and s["name"] == "retriever" and s["kept"]]
            whole = {n: sum(each[n] for each in (minutes, *first)) for n in ("value", "low", "high")}
            index, estimate = float(quality["value"]), Estimate(**minutes | whole)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            message = f"is no answer of /recommend: {error}"
            raise wrong_value(f"plans.{number - 1}", message, None) from None
        if not (isfinite(index) and all(0 <= each < inf for each in whole.values())):
            raise wrong_value(f"plans.{number - 1}", "must have finite figures, minutes not below 0", None)
        yield _Training(name, "plan", row, estimate, index)


def _rows(database: Database, knowledge: Knowledge, request: CompareRequest) -> Iterator[_Training]:
    for number, given in enumerate(request.rows or (), 1):
        name = f"row {number}: {given.model}"
        if not (given.gpu and given.minutes):
            yield _Training(name, "row", given)
            continue
        try:
            best = best_in_minutes(database, knowledge, given)
        except MemoryServiceError as error:
            yield _Training(name, "row", given, why=error.detail)
            continue
        minutes = best.run().total_end.estimate(60.0, "timetable")
        yield _Training(name, "row", as_planned(given, best), minutes)


def _scripts(database: Database, request: CompareRequest, in_child: bool) -> Iterator[_Training]:
    facts = request.facts()
    for number, script in enumerate(request.scripts or (), 1):
        found = review_script(database, {"script": script, **facts}, in_child_process=in_child)
        read = found["read"]
        name, model = f"script {number}", read.get("model")
        task = facts.get("task") or next((row.task for row in request.rows or ()), None)
        if not isinstance(model, str) or task is None:
            why = "its model cannot be told" if task else "needs task"
            why = why if read else "; ".join(found["not_checked"][:1]) or why
            yield _Training(name, "script", why=why)
            continue
        name = f"{name}: {model}"
        said = {n: facts[n] for n in ("n_train", "n_classes", "n_features") if n in facts}
        trained = {n: read[n] for n in ("folds", "epochs") if n in read}
        size = read.get("image_size") or read.get("seq_len")
        row = checked(RankRow, {"task": task, "model": model, **said, **trained})
        row = row.model_copy(update={"input_size": size})
        minutes = _minutes(database, facts, read)
        yield _Training(name, "script", row, minutes, why=None if minutes else "its minutes cannot be told")


def _minutes(database: Database, facts: Mapping[str, Any], read: Mapping[str, Any]) -> Estimate | None:
    """Of all folds and epochs, by the time of one; None where card, samples or a setting are not known."""
    if not (facts.get("gpu") and facts.get("n_train") and read.get("epochs")):
        return None
    asked = {n: read[n] for n in ("model", "batch_size", "image_size", "seq_len", "precision") if n in read}
    try:
        request = checked(PredictRequest, {**asked, "gpu": facts["gpu"], "n_train": facts["n_train"]})
        epoch = predict(database, request).get("epoch_seconds")
    except MemoryServiceError:
        return None
    fits = fits_of(facts["n_train"], 0, read.get("folds") or 1)
    times = read["epochs"] * float(fits.rows_read / fits.whole_rows) / 60.0
    return None if epoch is None else Estimate(**epoch).scaled(times)
