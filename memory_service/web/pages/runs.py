"""Runs: the list that goes on by itself, one of them, and the plan that they followed."""

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request
from starlette.responses import Response

from memory_service.api.security.auth_middleware import who_of
from memory_service.api.service import database_of, mode_limit_of
from memory_service.domain.planning.explanation.plan_text import plan_view
from memory_service.errors import NotFound
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.choose import compare_page
from memory_service.services.pages.plans import plan_page, rest_of_run
from memory_service.services.pages.run_list import runs_page, runs_table
from memory_service.services.pages.runs import epochs_table, one_run_page
from memory_service.services.runs.runs import mark_run
from memory_service.web.charts.base import Series, axis, band, deadline, limit, line, option, points
from memory_service.web.site import Form, Pages, answer, query_of, see, url_of, wants_json

STILL = "still"
"""In the query: the page is not to look again by itself."""

router = Pages()
router.computed_files("/browse/runs", runs_table)
router.files("/browse/runs/{run_id}/events", "run-events")
router.computed_files("/browse/runs/{run_id}/epochs", epochs_table)


@router.page("/browse/runs")
def run_list(request: Request) -> Response:
    query = query_of(request)
    still = query.pop(STILL, None) is not None
    data = runs_page(database_of(request), query, dt.datetime.now(dt.UTC))
    return answer(request, "runs/list.html", data, title="Runs", still=still)


@router.form("/browse/runs/{run_id}/{action}")
def marked(request: Request, run_id: str, action: str, form: Form) -> Response:
    """Exclude a run, or restore it."""
    if action not in ("exclude", "restore"):
        raise NotFound(f"Nothing called {action[:40]!r} can be done with a run")
    database, why = database_of(request), form.get("why", "")
    page = mark_run(database, run_id, why, excluded=action == "exclude", who=who_of(request))
    return see(f"/browse/runs/{page['id']}")


@router.page("/browse/compare")
def compare(request: Request) -> Response:
    """`run=` once for each."""
    pairs = parse_qsl(request.scope["query_string"].decode("ascii", "replace"))
    database, now = database_of(request), dt.datetime.now(dt.UTC)
    ids = [value for name, value in pairs if name == "run"]
    if not ids and not wants_json(request):
        return see("/browse/runs")
    data = compare_page(database, knowledge_of(database), ids, now)
    metrics = dict.fromkeys(run["metric"] for run in data["runs"])
    better = data["metric_direction"]
    over = partial(compared_over_time, data["runs"])
    charts = {
        f"metric-{n}": over("metric", name or "Metric", only=name, direction=better)
        for n, name in enumerate(metrics)
    }
    loss, memory = over("valid_loss", "Validation loss"), over("peak_reserved_gib", "Reserved, GiB")
    charts |= {"loss": loss, "memory": memory}
    return answer(request, "runs/compare.html", data, title="Compare runs", charts=charts)


@router.page("/browse/plans/{plan_id}")
def plan(request: Request, plan_id: str) -> Response:
    """A plan that was given, with its runs."""
    data = plan_page(database_of(request), plan_id, dt.datetime.now(dt.UTC), mode_limit_of(request))
    view = plan_view(data["plan"]) if data["plan"] else None
    return answer(request, "plan.html", data, title=f"Plan {plan_id[:40]}", url_of=url_of, view=view)


@router.get("/browse/runs/{run_id}/rest")
def rest(request: Request, run_id: str) -> Response:
    """To the plan of the minutes that the run left."""
    return see(f"/browse/plans/{rest_of_run(database_of(request), run_id)}")


@router.page("/browse/runs/{run_id}")
def run(request: Request, run_id: str) -> Response:
    database = database_of(request)
    data = one_run_page(database, knowledge_of(database), run_id, dt.datetime.now(dt.UTC))
    losses = [("train_loss", "training loss"), ("valid_loss", "validation loss")]
    charts = {
        "memory": memory_over_time(data),
        "speed": speed_over_time(data),
        "waiting": waiting_over_time(data),
        "loss": scores_over_time(data, losses, "Loss"),
        "metric": scores_over_time(data, [("metric", "validation metric")], "Metric"),
        "told": verdicts_over_time(data),
    }
    title = f"Run {data['id'][:8]}, {data['model'][:100]}"
    still = STILL in query_of(request)
    return answer(request, "runs/one.html", data, title=title, charts=charts, still=still)


_MINUTES = "Minutes since the run began"
_SEVERITY_COLOURS = {"critical": "var(--bad)", "warning": "var(--weak)", "info": "var(--fair)"}
_SHAPES = {"critical": "triangle", "warning": "diamond", "info": "circle"}
_COLOURS = 8


def _over_minutes(y: Mapping[str, Any], series: Sequence[Series]) -> dict[str, Any]:
    """Charts of one page share the cursor, and what they are zoomed to (Ctrl and the wheel)."""
    zoom = [{"type": "inside", "zoomOnMouseWheel": "ctrl", "preventDefaultMouseMove": False}]
    return option(axis(_MINUTES), y, series) | {"group": "minutes", "dataZoom": zoom}


def memory_over_time(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Memory readings by kind, with the GPU's memory as a limit; None without readings."""
    samples, epochs = run["curves"]["card"], run["curves"]["epochs"]
    series = []
    for name, rows, field, colour in (
        ("whole GPU", samples, "driver_gib", "var(--series-1)"),
        ("this process", samples, "process_gib", "var(--series-6)"),
        ("reserved", epochs, "peak_reserved_gib", "var(--series-4)"),
        ("allocated", epochs, "peak_allocated_gib", "var(--series-3)"),
    ):
        data = _xy(rows, field)
        if data:
            series.append(line(name, data, colour=colour, dashed=rows is epochs))
    if not series:
        return None
    y = axis("Memory, GiB", at="y")
    if run["card"]:
        total = run["card"]["memory_gib"]
        series[0] |= {"markLine": limit(total, f"the GPU, {total:g} GiB")}
        y |= {"max": round(total * 1.1, 1), "axisLabel": {"showMaxLabel": False}}
    return _over_minutes(y, series)


def speed_over_time(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Reported samples a second over the predicted band."""
    reported = _xy(run["curves"]["steps"], "samples_per_second")
    if not reported:
        return None
    series: list[Series] = []
    expected = ((run.get("watch") or {}).get("expected") or {}).get("samples_per_second")  # with its loader
    expected = expected or (run["prediction"] or {}).get("samples_per_second")
    if expected:
        ends = (0.0, reported[-1][0])
        expected_at = [(x, expected["low"], expected["high"]) for x in ends]
        series += band("predicted, 80 of 100", expected_at, colour="var(--estimated)")
    series.append(line("measured", reported, colour="var(--measured)"))
    return _over_minutes(axis("Samples per second", at="y"), series)


def waiting_over_time(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """GPU utilisation and loader wait in percent."""
    curves = run["curves"]
    series = [
        line(name, data, colour=colour, dashed=dashed)
        for name, rows, field, colour, dashed in (
            ("GPU busy", curves["card"], "utilization_percent", "var(--series-1)", False),
            ("waiting for the loader", curves["steps"], "loader_wait_percent", "var(--series-2)", True),
        )
        if (data := _xy(rows, field))
    ]
    return _over_minutes(axis("Percent of the time", at="y", max=100), series) if series else None


def scores_over_time(
    run: Mapping[str, Any], fields: Sequence[tuple[str, str]], name: str
) -> dict[str, Any] | None:
    """Figures of epochs: of one fold a colour for each figure, of several a colour for each fold.

    fields   [(field of an epoch, what it is called)]; where there are two, the first is dashed
    """
    epochs = run["curves"]["epochs"]
    folds = sorted({epoch.get("fold") or 0 for epoch in epochs})
    series = []
    for place, fold in enumerate(folds):
        of_fold = [epoch for epoch in epochs if (epoch.get("fold") or 0) == fold]
        for number, (field, called) in enumerate(fields):
            data = _xy(of_fold, field)
            if not data:
                continue
            label, colour = (f"fold {fold}", place) if len(folds) > 1 else (called, number)
            paint = f"var(--series-{colour % _COLOURS + 1})"
            series.append(line(label, data, colour=paint, dashed=len(fields) > 1 and number == 0))
    return _over_minutes(axis(name, at="y", scale=True), series) if series else None


def compared_over_time(
    runs: Sequence[Mapping[str, Any]],
    field: str,
    name: str,
    only: str | None = "",
    direction: str | None = None,
) -> dict[str, Any] | None:
    """A figure of the epochs of several runs, a colour for each, called as in the table; `only` of those with
    this metric. direction: "max" or "min", of a score: the best so far of all folds."""
    series = []
    for place, run in enumerate(runs):
        if only not in ("", run["metric"]):
            continue
        epochs = run["curves"]["epochs"]
        data = _best_so_far(epochs, field, direction) if direction else _by_fold(epochs, field)
        if data:
            called = f"{chr(65 + place)} {run['model'].partition('.')[0][:24]}"
            colour = f"var(--series-{place % _COLOURS + 1})"
            series.append(line(called, data, colour=colour, step="end" if direction else False))
    return _over_minutes(axis(name, at="y", scale=True), series) if series else None


def _best_so_far(epochs: Sequence[Mapping[str, Any]], field: str, direction: str) -> list[list[float]]:
    """The best of all epochs until each, of folds that follow each other."""
    rows = sorted(_xy(epochs, field))
    bests = accumulate((value for _, value in rows), max if direction == "max" else min)
    return [[minute, best] for (minute, _), best in zip(rows, bests, strict=True)]


def _by_fold(epochs: Sequence[Mapping[str, Any]], field: str) -> list[list[Any]]:
    """Points of one fold after the other, a gap between two folds."""
    found: list[list[Any]] = []
    for fold in dict.fromkeys(epoch.get("fold") or 0 for epoch in epochs):
        data: list[list[Any]] = list(_xy([e for e in epochs if (e.get("fold") or 0) == fold], field))
        if found and data:
            found.append([data[0][0], None])
        found += data
    return found


def verdicts_over_time(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Every verdict at its minute, by what it asked for, its severity by colour and shape; the end of the
    budget as a line."""
    verdicts = run["verdicts"]
    if not verdicts:
        return None
    actions = list(dict.fromkeys(verdict["action"].replace("_", " ") for verdict in verdicts))
    series = []
    for severity, colour in _SEVERITY_COLOURS.items():
        chosen = [verdict for verdict in verdicts if verdict["severity"] == severity]
        places = [[round(each["at_seconds"] / 60, 2), each["action"].replace("_", " ")] for each in chosen]
        data = [{"value": at, "name": each["rule"]} for at, each in zip(places, chosen, strict=True)]
        if data:
            drawn = points(severity, data, colour=colour, symbolSize=12)
            series.append(drawn | {"symbol": _SHAPES[severity]})
    last = max(verdict["at_seconds"] / 60 for verdict in verdicts)
    end = max(run["minutes"] or 0.0, last) * 1.04
    if run["minutes"]:
        mark = deadline(run["minutes"], f"budget, {run['minutes']:g} min")
        late = run["minutes"] > end / 2
        mark["label"] |= {"position": "end", "distance": 4, "align": "right" if late else "left"}
        series[0] |= {"markLine": mark}
    x = axis(_MINUTES, max=round(end, 2), axisLabel={"showMaxLabel": False})
    return option(x, axis("", "category", at="y", data=actions), series)


def _xy(rows: Sequence[Mapping[str, Any]], field: str) -> list[list[float]]:
    return [
        [round(row["minute"], 3), round(row[field], 5)]
        for row in rows
        if row.get("minute") is not None and isinstance(row.get(field), int | float)
    ]
