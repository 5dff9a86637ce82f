"""Page that chooses hardware among the common boxes, or among offers that are
given as JSON; page that compares trainings."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from memory_service.domain.choice.offer import AIMS
from memory_service.domain.common.vocabulary import TASKS, Mode
from memory_service.errors import InvalidInput, NotFound
from memory_service.schemas.choose import ChooseTexts
from memory_service.schemas.validation_errors import checked
from memory_service.services.choice.choose import choose_offer
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.pages.ask import plain_numbers
from memory_service.services.pages.run_list import best_of_epochs
from memory_service.services.pages.runs import one_run_page
from memory_service.services.tables.table_rows import list_rows
from memory_service.store.queries.runs import competition_metrics


def choose_page(database: Database, requested: Mapping[str, str], limit: Mode) -> dict[str, Any]:
    """`{"asked", "aims", "tasks", "question", "refused", "choice"}`: question is what a plan of
    an offer is asked for, beside what its `ask` says; choice is the answer of /choose, None before a task is
    asked about; refused: the sentence, None where there was nothing to refuse (`status` stands beside it)."""
    asked = plain_numbers(requested)
    page: dict[str, Any] = {"asked": asked, "aims": list(AIMS), "refused": None, "choice": None}
    page |= {"tasks": list(TASKS), "question": {n: v for n, v in asked.items() if n not in _OF_OFFERS}}
    if not asked:
        return page
    try:
        given: dict[str, Any] = dict(asked)
        if "offers" in given:
            given["offers"] = orjson.loads(given["offers"])
        page["choice"] = choose_offer(database, checked(ChooseTexts, given), limit)
    except orjson.JSONDecodeError as error:
        page |= {"refused": f"Your offers are no JSON: {error}", "status": 422}
    except (InvalidInput, NotFound) as refusal:
        page |= {"refused": refusal.detail, "status": refusal.status}
    return page


_OF_OFFERS = ("offers", "budget", "deadline_minutes", "minutes", "objective")

MOST_RUNS, USUAL_OTHERS = 6, 3

SETTINGS = (
    "model", "n_gpus", "input_size", "batch_size", "precision", "optimizer", "learning_rate", "folds",
    "epochs", "seeds", "num_workers", "grad_accumulation", "compiled", "checkpointing", "layout", "n_train",
    "competition", "minutes", "plan_id",
)  # fmt: skip
RESULTS = (
    "status", "best_metric", "best_epoch", "submission", "took_minutes", "wasted_minutes", "wasted_on",
    "samples_per_second", "epoch_seconds", "peak_gib",
)  # fmt: skip


def compare_page(
    database: Database, knowledge: Knowledge, run_ids: Sequence[str], now: dt.datetime
) -> dict[str, Any]:
    """`{"runs", "settings", "results", "comparable", "metric", "metric_direction"}` of one to six runs; one
    alone is compared with the latest others of its competition. InvalidInput, NotFound.

    runs        `GET /runs/{run_id}` with `curves`, `took_minutes`, `metric` (of its competition)
    settings    `[{"name", "values", "differs"}]`, values in the order of the runs; none that all leave out
    results     the same of the outcomes, in the units of their names
    comparable  whether scores may be compared: all of one competition
    """
    ids = list(dict.fromkeys(run_ids))
    if not 1 <= len(ids) <= MOST_RUNS:
        raise InvalidInput(f"Tick two to {MOST_RUNS} runs to compare; {len(ids)} were given")
    found = [one_run_page(database, knowledge, run_id, now) for run_id in ids]
    if len(found) == 1 and found[0]["competition"]:
        found += [one_run_page(database, knowledge, one, now) for one in _others(database, found[0])]
    places = {run["competition"] for run in found}
    with database.read() as transaction:
        metrics = competition_metrics(transaction.session, places - {None})
    runs = [
        run
        | _so_far(run, metrics.get(run["competition"], {}).get("metric_direction"))
        | {"metric": metrics.get(run["competition"], {}).get("metric")}
        for run in found
    ]
    comparable = len(places) == 1 and None not in places
    metric = metrics.get(runs[0]["competition"], {}) if comparable else {}
    settings = [_line(name, [run["given"].get(name, run.get(name)) for run in runs]) for name in SETTINGS]
    settings.insert(1, _line("gpu", [run["device"] or run["gpu"] for run in runs]))
    results = [_line(name, [run.get(name) for run in runs]) for name in RESULTS]
    return {
        "runs": runs,
        "settings": [line for line in settings if any(value is not None for value in line["values"])],
        "results": [line for line in results if any(value is not None for value in line["values"])],
        "comparable": comparable,
        "metric": metric.get("metric"),
        "metric_direction": metric.get("metric_direction"),
    }


def _so_far(run: Mapping[str, Any], direction: str | None) -> dict[str, Any]:
    """What a running run reached and measured until now, as its end will write it; nothing of others."""
    if run["status"] != "running":
        return {}
    outcome = run["outcome"] or {}
    epochs = outcome.get("epochs", ())
    best = best_of_epochs(epochs, direction)
    reached = (each["epoch"] for each in epochs if best is not None and each.get("metric") == best)
    return {
        "best_metric": best,
        "best_epoch": next(reached, None),
        "epoch_seconds": outcome.get("epoch_seconds"),
        "peak_gib": (outcome.get("peak_memory_gib") or {}).get("driver_gib"),
        "samples_per_second": (run["watch"] or {}).get("samples_per_second"),
    }


def _others(database: Database, run: dict[str, Any]) -> list[str]:
    with database.read() as transaction:
        of = {"competition": run["competition"]}
        latest = list_rows(transaction, "runs", of, "-started_at", USUAL_OTHERS + 1)
    return [row["id"] for row in latest.items if row["id"] != run["id"]][:USUAL_OTHERS]


def _line(name: str, values: list[Any]) -> dict[str, Any]:
    return {"name": name, "values": values, "differs": any(value != values[0] for value in values)}
