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
from operator import itemgetter
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
        run = _begun(database, draw, number, cards, courses[number % len(courses)], started, every_seconds)
        until = (now - started).total_seconds() if live else run.ends
        run.tell(database, until)
        if number % 7 == 3:
            run.send_log(database, until)
        if not live:
            run.finish(database)
        with database.write_untracked() as unit:  # as if the service had heard of it when it happened
            last = started + dt.timedelta(seconds=until)
            runs.change(unit.session, run.id, {"created_at": started, "updated_at": last})
            for advice in unit.session.scalars(select(RunAdvice).where(RunAdvice.run_id == run.id)):
                advice.given_at = started + dt.timedelta(seconds=advice.at_seconds)
        ids.append(run.id)
    return ids


LIVE_SECONDS = 4.0
"""Between two samples of a run that goes on: pages look again as often."""


def keep_running(database: Database, seed: int, stopping: threading.Event, running: int = 2) -> None:
    """Runs that go on as time does, until `stopping`: one that ends is followed by another."""
    draw = random.Random(f"live {seed}")  # noqa: S311 - nothing secret
    numbers, live = itertools.count(), list[_Run]()
    while not stopping.is_set():
        now = dt.datetime.now(dt.UTC)
        for number in itertools.islice(numbers, running - len(live)):
            started = now - dt.timedelta(minutes=draw.uniform(6, 14) if number < running else 0.0)
            live.append(_begun(database, draw, number, CARDS, {"status": "completed"}, started, LIVE_SECONDS))
        for run in live:
            run.tell(database, (now - run.started).total_seconds())
            if run.told == len(run.events):
                run.finish(database)
        live = [run for run in live if run.told < len(run.events)]
        stopping.wait(LIVE_SECONDS / 2)


@dataclass(slots=True)
class _Run:
    """A run that began, all of its events (`at`: seconds since its start), and how many were reported.

    end    the body that finishes it; ends: when, seconds since its start
    """

    id: str
    started: dt.datetime
    events: list[dict[str, Any]]
    ends: float
    end: Mapping[str, Any]
    told: int = 0

    def tell(self, database: Database, until: float) -> None:
        """Report what happened until then, in pieces as scripts send them."""
        due = [
            {**event, "seq": seq, "at": self._at(event["at"])}
            for seq, event in enumerate(self.events, 1)
            if event["at"] <= until
        ]
        pieces = {*range(self.told, len(due), MOST_AT_ONCE), *range(self.told, len(due))[-1:], len(due)}
        for begin, end in itertools.pairwise(sorted(pieces)):
            with ThreadPoolExecutor(1) as thread:  # the caller may have an event loop of its own
                taken = telemetry.take_events(database, self.id, {"events": due[begin:end]})
                thread.submit(asyncio.run, taken).result()
        self.told = len(due)

    def finish(self, database: Database) -> None:
        finish_run(database, self.id, {**self.end, "at": self._at(self.ends)})

    def send_log(self, database: Database, at: float) -> None:
        """What a script prints, with colours and marks."""
        epochs = [each for each in self.events[: self.told] if each["kind"] == "epoch"]
        line = "\x1b[32mEpoch {}\x1b[0m loss: {:.4f} <b>ok</b>\n"
        log = "Loading data ... \u05e9\u05dc\u05d5\u05dd \U0001f680\n" + "".join(
            line.format(each["epoch"] + 1, each["train_loss"]) for each in epochs
        )
        take_log(database, self.id, log.encode(), at=self._at(at))

    def _at(self, seconds: float) -> str:
        return (self.started + dt.timedelta(seconds=round(seconds, 3))).isoformat()


MOST_AT_ONCE = 40
"""Events of one report."""


def _begun(
    database: Database, draw: random.Random, number: int, cards: Sequence[str], course: Mapping[str, Any],
    started: dt.datetime, every: float,
) -> _Run:  # fmt: skip
    """A run of the service's own prediction: what happens is drawn from the intervals that it gave."""
    card, course = draw.choice(cards), _MADE_UP["as_planned"] | course
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
    events, ends = _story(body, course, draw, every, rises, seconds, per_second, *gib)
    end = {"status": course["status"], "submission": "submission" in course["note"]}
    epochs = [each for each in events if each["kind"] == "epoch"]
    if epochs:
        best = (max if rises else min)(epochs, key=itemgetter("metric"))
        end |= {"best_metric": best["metric"], "best_epoch": best["epoch"]}
    return _Run(run, started, events, ends, end)


def _spread(figure: Mapping[str, float]) -> float:
    """Of the logarithm: nine of ten draws lie in the interval, which narrows as runs are learned from."""
    known = figure and figure["low"] > 0
    return log(figure["high"] / figure["low"]) / (2 * NormalDist().inv_cdf(0.95)) if known else 0.05


def _story(
    body: Mapping[str, Any], course: Mapping[str, Any], draw: random.Random, every: float, rises: bool,
    seconds: float, per_second: float, peak: float, reserved: float, allocated: float,
) -> tuple[list[dict[str, Any]], float]:  # fmt: skip
    """All events, `at` in seconds since the start, and when the last was.

    rises        whether its metric does
    seconds      of an epoch; per_second: samples of a GPU that is fed
    peak         of the driver, reserved and allocated of PyTorch: GiB
    """
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
        fed = samples / per_second / (1.0 - wait) * draw.lognormvariate(0.0, 0.01) or took
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
        metric = round(good if rises else 1.05 - good, 4)
        out.append({
            "kind": "epoch", "at": at, **place, "seconds": round(took, 2), "samples": samples,
            "valid_seconds": round(took - fed, 2), "train_loss": round(loss, 4),
            "valid_loss": round(1.08 * loss + 0.02, 4), "metric": metric,
            "loader_wait_percent": round(100 * wait, 1), "batch_size": batch,
            "peak_allocated_gib": round(allocated, 2), "peak_reserved_gib": round(reserved, 2),
        })  # fmt: skip
        if epoch == epochs - 1:
            out.append({"kind": "fold", "at": at, "fold": fold, "done": True, "metric": metric})
        if at > budget:
            break
    at = max(at, budget) if budget < inf else at + (0.1 * seconds + 15.0) * ("submission" in course["note"])
    out += [{"kind": "note", "at": at, **course["note"]}] if course["note"] else []
    return out, at
