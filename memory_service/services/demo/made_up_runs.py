"""Runs that are made up but possible: for `memory-service demo`, screenshots, and pages under load.

Every run goes through the services as a real one does: predicted when it begins, reported in pieces, advised,
concluded. Nothing here may be published as a measurement.
"""

import asyncio
import datetime as dt
import itertools
import random
import threading
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import exp, inf, log
from statistics import NormalDist
from typing import Any

from sqlalchemy import select

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.planning.fits import split_of
from memory_service.services.database.transactions import Database
from memory_service.services.runs import telemetry
from memory_service.services.runs.run_log import take_log
from memory_service.services.runs.runs import begin_run, finish_run
from memory_service.store.queries import rows, runs
from memory_service.store.tables.runs import RunAdvice

_MADE_UP = shipped_table(__package__, "made_up_runs.toml")
CARDS = ("a100", "t4", "rtx3090", "l4", "h100")


def make_up_runs(
    database: Database, count: int, seed: int, now: dt.datetime, *, every_seconds: float, running: int = 0,
    cards: Sequence[str] = CARDS, stopping: threading.Event | None = None,
) -> list[str]:  # fmt: skip
    """`count` runs of the last four weeks and `running` that go on; their ids, the latest last.

    every_seconds   between two samples of a run: 15 gives full curves, 240 a run of few events
    cards           GPU models or registered devices that they ran on
    """
    draw = random.Random(f"runs {seed}")  # noqa: S311 - nothing secret
    ids = []
    for number in range(count + running):
        if stopping is not None and stopping.is_set():
            break
        live = number >= count
        days = 27.0 * max(0.0, 1.0 - number / max(count, 1)) ** 1.6
        ago = dt.timedelta(days=days, minutes=90 + draw.uniform(0, 60))
        started = now - (dt.timedelta(minutes=draw.uniform(6, 14)) if live else ago)
        courses = _MADE_UP["courses"][: 2 if live else None]
        course = _MADE_UP["as_planned"] | courses[number % len(courses)]
        ids.append(
            _one(database, draw, number, draw.choice(cards), course, started, every_seconds, live, now)
        )
    return ids


def _one(
    database: Database, draw: random.Random, number: int, card: str, course: Mapping[str, Any],
    started: dt.datetime, every: float, live: bool, now: dt.datetime,
) -> str:  # fmt: skip
    made = _begun(database, draw, number, card, course, started)
    until = (now - started).total_seconds() if live else inf
    events, ends = _story(made, draw, every, until)
    _tell(database, made, [event for event in events if event["at"] <= until], every)
    if number % 7 == 3:  # colours and marks, as scripts print them
        line = "\x1b[32mEpoch {}/{}\x1b[0m loss: {:.4f} <b>ok</b>"
        told = [each for each in events if each["kind"] == "epoch" and each["at"] <= until]
        lines = [line.format(each["epoch"] + 1, made.body["epochs"], each["train_loss"]) for each in told]
        log = "\n".join(("Loading data ... \u05e9\u05dc\u05d5\u05dd \U0001f680", *lines, ""))
        take_log(database, made.run, log.encode(), at=made.moment(ends))
    if not live:
        _finish(database, made, events, ends)
    with database.write_untracked() as unit:  # as if the service had heard of it when it happened
        last = started + dt.timedelta(seconds=ends)
        runs.change(unit.session, made.run, {"created_at": started, "updated_at": last})
        for advice in unit.session.scalars(select(RunAdvice).where(RunAdvice.run_id == made.run)):
            advice.given_at = started + dt.timedelta(seconds=advice.at_seconds)
    return made.run


@dataclass(frozen=True, slots=True)
class _Made:
    """A run that began. rises: whether its metric does; seconds: of an epoch; per_second: samples of a
    GPU that is fed; peak and below: GiB."""

    run: str
    body: Mapping[str, Any]
    course: Mapping[str, Any]
    started: dt.datetime
    rises: bool
    seconds: float
    per_second: float
    peak: float
    reserved: float
    allocated: float

    def moment(self, at: float) -> str:
        return (self.started + dt.timedelta(seconds=round(at, 3))).isoformat()


def keep_running(database: Database, seed: int, stopping: threading.Event, running: int = 2) -> None:
    """Runs that go on as time does, until `stopping`: one that ends is followed by another."""
    draw = random.Random(f"live {seed}")  # noqa: S311 - nothing secret
    numbers, live = itertools.count(), list[tuple[_Made, list[dict[str, Any]], float, int]]()
    while True:
        now = dt.datetime.now(dt.UTC)
        while len(live) < running:
            number = next(numbers)
            started = now - dt.timedelta(minutes=draw.uniform(6, 14) if number < running else 0.0)
            course = _MADE_UP["as_planned"] | _MADE_UP["courses"][0]
            made = _begun(database, draw, number, draw.choice(CARDS), course, started)
            events, ends = _story(made, draw, LIVE_SECONDS, inf)
            live.append((made, events, ends, 0))
        for made, events, ends, told in live[:]:
            elapsed = (now - made.started).total_seconds()
            due = sum(event["at"] <= elapsed for event in events)
            _tell(database, made, events[told:due], LIVE_SECONDS, told)
            live.remove((made, events, ends, told))
            if elapsed < ends:
                live.append((made, events, ends, due))
            else:
                _finish(database, made, events, ends)
        if stopping.wait(LIVE_SECONDS / 2):
            return


LIVE_SECONDS = 4.0
"""Between two samples of a run that goes on: pages look again as often."""


def _begun(
    database: Database, draw: random.Random, number: int, card: str, course: Mapping[str, Any],
    started: dt.datetime,
) -> _Made:  # fmt: skip
    """A run of the service's own prediction: what happens is drawn from the intervals that it gave."""
    slug, rises, kind = _MADE_UP["cases"][number % len(_MADE_UP["cases"])]
    model, size, batch, cost = draw.choice(_MADE_UP["models"][kind])
    speed = _MADE_UP["speeds"].get(card, 1.0)
    with database.read() as unit:
        facts = rows.values_of(rows.find(unit.session, "competitions", slug))  # type: ignore[arg-type]
    n_train = min(facts["n_train"] or 10_000, 26_000)
    run = str(uuid.UUID(int=draw.getrandbits(128), version=4))
    folds = draw.choice((1, 3, 5))
    likely = max(6.0, n_train * cost / 3_000.0 / speed)
    body: dict[str, Any] = {
        "run_id": run, "competition": slug, "task": facts["task"], "gpu": card, "model": model, **size,
        "batch_size": max(2, int(batch * (2 if speed > 1.0 else 1) * course["batch"])), "precision": "fp16",
        "folds": folds, "n_train": n_train, "n_test": n_train // 3, "minutes": 30.0,
        "epochs": max(2, min(12, int(0.7 * 1_800 / likely / folds))), "num_workers": draw.choice((2, 4, 8)),
        "started_at": started.isoformat(), "host": {"cpu_count": 12},
    }  # fmt: skip
    predicted = begin_run(database, body)[0]["prediction"] or {}
    names = ("epoch_seconds", "step_seconds", "samples_per_second")
    epoch, step, speed = (predicted.get(name) or {} for name in names)
    waits = 1.0 - n_train / body["batch_size"] * step["value"] / epoch["value"] if epoch and step else 0.0
    course = {**course, "wait": max(course["wait"], min(0.95, waits) if waits > 0.5 else 0.0)}
    odd = exp(_spread(speed or epoch) * draw.normalvariate(0.0, 1.0))
    seconds = epoch.get("value", likely) * course["slow"] * odd
    per_second = speed["value"] / odd if speed else inf
    odd = NormalDist().inv_cdf(draw.random())
    gib = [
        figure.get("value", usual) * exp(_spread(figure) * odd)
        for name, usual in (("peak_memory_gib", 6.0), ("peak_reserved_gib", 5.8), ("peak_allocated_gib", 5.2))
        for figure in [predicted.get(name) or {}]
    ]
    return _Made(run, body, course, started, rises, seconds, per_second, *gib)


def _spread(figure: Mapping[str, float]) -> float:
    """Of the logarithm: nine of ten draws lie in the interval, which narrows as runs are learned from."""
    known = figure and figure["low"] > 0
    return log(figure["high"] / figure["low"]) / (2 * NormalDist().inv_cdf(0.95)) if known else 0.05


def _tell(
    database: Database, made: _Made, events: Sequence[Mapping[str, Any]], every: float, told: int = 0
) -> None:
    """Report events, in pieces as scripts send them."""
    pieces: list[list[dict[str, Any]]] = [[]]
    for seq, event in enumerate(events, told + 1):
        epoch_ended = pieces[-1] and pieces[-1][-1]["kind"] in ("epoch", "fold") and event["kind"] != "fold"
        if epoch_ended and (every < 60.0 or len(pieces[-1]) >= 80 or event["kind"] == "note"):
            pieces.append([])
        pieces[-1].append({**event, "seq": seq, "at": made.moment(event["at"])})
    for piece in filter(None, pieces):
        with ThreadPoolExecutor(1) as thread:  # the caller may have an event loop of its own
            told_them = telemetry.take_events(database, made.run, {"events": piece})
            thread.submit(asyncio.run, told_them).result()


def _finish(database: Database, made: _Made, events: Sequence[Mapping[str, Any]], ends: float) -> None:
    end = {"status": made.course["status"], "submission": "submission" in made.course["note"]}
    epochs = [each for each in events if each["kind"] == "epoch"]
    if epochs:
        best = (max if made.rises else min)(epochs, key=lambda each: each["metric"])
        end |= {"best_metric": best["metric"], "best_epoch": best["epoch"]}
    finish_run(database, made.run, end | {"at": made.moment(ends)})


def _story(
    made: _Made, draw: random.Random, every: float, until: float
) -> tuple[list[dict[str, Any]], float]:
    """All events, `at` in seconds since the start, and when the last was."""
    body, course, seconds, peak = made.body, made.course, made.seconds, made.peak
    folds, epochs, batch, wait = body["folds"], body["epochs"], body["batch_size"], course["wait"]
    at = draw.uniform(20.0, 70.0)
    whole = max(1, round(folds * epochs * course["done"])) if course["done"] else 0
    budget = 60.0 * body["minutes"] if course["status"] == "timed_out" else inf
    best_at = max(2.0, epochs * course["best_at"])
    samples = int(split_of(body["n_train"], folds)[0])
    steps = max(1, samples // batch)
    out: list[dict[str, Any]] = []
    for nth in range(whole):
        fold, epoch = divmod(nth, epochs)
        at += 60.0 * course["silent_minutes"] if nth == whole // 2 else 0.0
        took = seconds * (1.0 if nth else 1.35) * draw.lognormvariate(0.0, 0.02)
        fed = samples / made.per_second / (1.0 - wait) * draw.lognormvariate(0.0, 0.01) or took
        took = max(took, fed / (1.0 - 0.12))  # the rest validates
        parts = max(1, int(took / every))
        place = {"fold": fold, "epoch": epoch}
        for part in range(1, parts + 1):
            at += took / parts
            busy = max(4.0, (97.0 if course["batch"] >= 1 else 46.0) * (1.0 - wait) + draw.gauss(0, 3))
            out += {
                "kind": "gpu", "at": at, "utilization_percent": round(min(busy, 100.0), 1),
                "used_gib": round(peak + 0.3, 2), "process_gib": round(peak, 2),
                "power_w": round(2.4 * busy, 1), "temperature_c": round(52 + 0.25 * busy),
                "throttled": False, "other_processes": 0,
            }, {
                "kind": "batch", "at": at, **place, "steps": max(1, samples // batch // parts),
                "step": max(1, samples // batch * part // parts), "of": steps, "scope": "epoch",
                "seconds": round(fed / parts, 3), "samples": samples // parts,
                "loader_wait_seconds": round(wait * fed / parts, 3),
            }  # fmt: skip
        late = max(0.0, epoch + 1 - best_at) / best_at
        good = 0.95 - 0.45 * exp(-2.2 * min(epoch + 1, best_at) / best_at) - 0.03 * late
        good += draw.gauss(0, 0.004)
        loss = 1.4 * exp(-2.6 * (epoch + 1) / epochs) + 0.08
        metric = round(good if made.rises else 1.05 - good, 4)
        out.append({
            "kind": "epoch", "at": at, **place, "seconds": round(took, 2), "samples": samples,
            "valid_seconds": round(took - fed, 2), "train_loss": round(loss, 4),
            "valid_loss": round(1.08 * loss + 0.02, 4), "metric": metric,
            "loader_wait_percent": round(100 * wait, 1), "batch_size": batch,
            "peak_allocated_gib": round(made.allocated, 2), "peak_reserved_gib": round(made.reserved, 2),
        })  # fmt: skip
        if epoch == epochs - 1:
            out.append({"kind": "fold", "at": at, "fold": fold, "done": True, "metric": metric})
        if at > min(budget, until):
            break
    if until == inf:
        at = (
            at + (0.1 * seconds + 15.0) * ("submission" in course["note"])
            if budget == inf
            else max(at, budget)
        )
        out += [{"kind": "note", "at": at, **course["note"]}] if course["note"] else []
    return out, at
