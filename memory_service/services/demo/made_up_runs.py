"""Runs that are made up but possible: for `memory-service demo`, screenshots, and pages under load.

Every run goes through the services as a real one does: predicted when it begins, reported in pieces, advised,
concluded. How it went (`Course`) is made up; nothing here may be published as a measurement.
"""

import asyncio
import datetime as dt
import math
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select, update

from memory_service.services.database.transactions import Database
from memory_service.services.runs import telemetry
from memory_service.services.runs.run_log import take_log
from memory_service.services.runs.runs import begin_run, finish_run
from memory_service.store.queries import rows, runs
from memory_service.store.tables.runs import RunAdvice

Event = dict[str, Any]

MOST_AT_ONCE = 80
"""Events of a request where few are story."""

CARDS = ("a100", "t4", "rtx3090", "l4", "h100")

SPEEDS = {"h100": 4.0, "a100": 2.5, "lab-a100": 2.5, "rtx3090": 1.5, "l4": 0.8, "t4": 0.5, "class-t4": 0.5}
"""Rough, beside an A10: how long a run is planned, and its batch."""

_IMAGES = (
    ("resnet50", {"image_size": 224}, 128), ("efficientnet_b0", {"image_size": 224}, 128),
    ("convnext_tiny", {"image_size": 224}, 96), ("tf_efficientnet_b4", {"image_size": 380}, 24),
    ("swin_tiny_patch4_window7_224", {"image_size": 224}, 64), ("convnext_base", {"image_size": 384}, 16),
)  # fmt: skip
_TEXTS = (
    ("deberta-v3-small", {"seq_len": 256}, 32), ("distilbert-base-uncased", {"seq_len": 256}, 64),
    ("bert-base-uncased", {"seq_len": 256}, 32),
)  # fmt: skip
_MASKS = (("unet/resnet34", {"image_size": 256}, 16), ("unet/efficientnet_b0", {"image_size": 256}, 16))
_SOUNDS: tuple[Any, ...] = (("spec/efficientnet_b0", {}, 64),)

CASES: tuple[tuple[str, str, Sequence[Any]], ...] = (
    ("plant-pathology-2021-fgvc8", "max", _IMAGES), ("cassava-leaf-disease-classification", "max", _IMAGES),
    ("dog-breed-identification", "min", _IMAGES), ("aptos2019-blindness-detection", "max", _IMAGES),
    ("aerial-cactus-identification", "max", _IMAGES), ("dogs-vs-cats-redux-kernels-edition", "min", _IMAGES),
    ("spooky-author-identification", "min", _TEXTS), ("random-acts-of-pizza", "max", _TEXTS),
    ("tgs-salt-identification-challenge", "max", _MASKS),
    ("tensorflow-speech-recognition-challenge", "max", _SOUNDS),
)  # fmt: skip
"""Competition, whether its metric rises, and what is trained for it: model, size, a batch that fits a T4."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a run goes.

    slow          times the predicted epoch; wait: share of it that the loader keeps the card waiting
    batch         times the usual batch; done: share of its epochs that it makes
    best_at       share of the epochs made after which the validation gets no better
    silent_minutes   nothing happens for so long in the middle
    """

    name: str
    status: str
    submission: bool | None
    slow: float = 1.0
    wait: float = 0.02
    batch: float = 1.0
    done: float = 1.0
    best_at: float = 0.8
    silent_minutes: float = 0.0


COURSES = (
    Course("as planned", "completed", True),
    Course("a little slow", "completed", True, slow=1.2, wait=0.06),
    Course("trained on for nothing", "completed", True, best_at=0.3),
    Course("waits for its loader", "completed", True, slow=2.4, wait=0.55),
    Course("a card half empty", "completed", True, slow=1.3, batch=0.125),
    Course("hung", "timed_out", False, done=0.5, silent_minutes=9.0),
    Course("planned too much", "timed_out", False, slow=1.5, done=0.7),
    Course("memory ran out", "out_of_memory", False, batch=4.0, done=0.0),
    Course("crashed", "crashed", False, done=0.35),
    Course("stopped in time", "stopped", True, slow=1.4, done=0.6, best_at=0.7),
)


def make_up_runs(
    database: Database, count: int, seed: int, now: dt.datetime, *, every_seconds: float, running: int = 0,
    cards: Sequence[str] = CARDS,
) -> list[str]:  # fmt: skip
    """`count` runs of the last four weeks and of `running` that go on; their ids, the latest last.

    every_seconds   between two samples of a run: 15 gives full curves, 240 a run of few events
    cards           GPU models or registered devices that they ran on
    """
    draw = random.Random(f"runs {seed}")  # noqa: S311 - nothing secret
    ids = []
    for number in range(count + running):
        live = number >= count
        course = COURSES[number % len(COURSES)]
        course = replace(COURSES[number % 2], submission=None) if live else course
        ago = dt.timedelta(
            days=27.0 * max(0.0, 1.0 - number / max(count, 1)) ** 1.6, minutes=90 + draw.uniform(0, 60)
        )
        started = now - (dt.timedelta(minutes=draw.uniform(6, 14)) if live else ago)
        card = cards[draw.randrange(len(cards))]
        ids.append(_one(database, draw, number, card, course, started, every_seconds, now if live else None))
    return ids


def _one(
    database: Database, draw: random.Random, number: int, card: str, course: Course, started: dt.datetime,
    every_seconds: float, now: dt.datetime | None,
) -> str:  # fmt: skip
    slug, direction, choices = CASES[number % len(CASES)]
    model, size, batch = choices[draw.randrange(len(choices))]
    big = SPEEDS.get(card, 1.0) > 1.0
    with database.read() as unit:
        facts = rows.values_of(rows.find(unit.session, "competitions", slug))  # type: ignore[arg-type]
    n_train = min(facts["n_train"] or 10_000, 26_000)
    body = {
        "run_id": str(uuid.UUID(int=draw.getrandbits(128), version=4)),
        "competition": slug, "task": facts["task"], "gpu": card, "model": model,
        **size,
        "batch_size": max(2, int(batch * (2 if big else 1) * course.batch)), "precision": "fp16",
        "folds": draw.choice((1, 3, 5)), "n_train": n_train, "n_test": n_train // 3, "minutes": 30.0,
        "started_at": started.isoformat(), "host": {"cpu_count": 12}, "num_workers": draw.choice((2, 4, 8)),
    }  # fmt: skip
    likely = _epoch_seconds(body)
    body["epochs"] = max(2, min(12, int(0.7 * 1_800 / likely / body["folds"])))
    begun, _ = begin_run(database, body)
    predicted = (begun["prediction"] or {}).get("epoch_seconds") or {}
    course = replace(course, wait=max(course.wait, _waits(begun["prediction"], body)))
    seconds = float(predicted.get("value") or likely) * course.slow * draw.lognormvariate(0.0, 0.07)
    peak = ((begun["prediction"] or {}).get("peak_memory_gib") or {}).get("value") or 6.0
    story = _Story(body, course, seconds, peak * draw.uniform(0.93, 1.02), direction, draw, every_seconds)
    for piece in story.pieces(None if now is None else (now - started).total_seconds()):
        with ThreadPoolExecutor(1) as thread:  # the caller may have an event loop of its own
            taken = telemetry.take_events(database, begun["run_id"], {"events": piece})
            thread.submit(asyncio.run, taken).result()
    if number % 7 == 3:
        take_log(database, begun["run_id"], story.log().encode(), at=story.moment(story.at))
    if now is None:
        end: dict[str, Any] = {"status": course.status, "submission": course.submission}
        end["at"] = story.moment(story.at)
        end |= {} if story.best is None else {"best_metric": story.best[0], "best_epoch": story.best[1]}
        finish_run(database, begun["run_id"], end)
    _as_if_then(database, begun["run_id"], started, story.at)
    return str(begun["run_id"])


def _waits(prediction: Mapping[str, Any], body: Mapping[str, Any]) -> float:
    """Share of the predicted epoch in which the card waits, where the pipeline is expected to be slower."""
    epoch, step = prediction.get("epoch_seconds"), prediction.get("step_seconds")
    if not epoch or not step:
        return 0.0
    share = 1.0 - body["n_train"] / body["batch_size"] * step["value"] / epoch["value"]
    return float(min(0.95, share)) if share > 0.5 else 0.0


def _epoch_seconds(body: Mapping[str, Any]) -> float:
    """A guess before anything is predicted: enough to plan about 20 minutes."""
    cost = {"resnet50": 3, "efficientnet_b0": 2, "tf_efficientnet_b4": 16, "convnext_base": 40}
    seconds = body["n_train"] * cost.get(body["model"], 6) / 3_000.0 / SPEEDS.get(body["gpu"], 1.0)
    return max(6.0, float(seconds))


class _Story:
    """The events of one run in its own time; `at`: seconds since its start."""

    def __init__(
        self, body: Mapping[str, Any], course: Course, epoch_seconds: float, peak_gib: float,
        direction: str, draw: random.Random, every_seconds: float,
    ) -> None:  # fmt: skip
        self.body, self.course, self.seconds, self.peak = body, course, epoch_seconds, peak_gib
        self.direction, self.draw, self.every = direction, draw, every_seconds
        self.start = dt.datetime.fromisoformat(body["started_at"])
        self.at, self.seq = draw.uniform(20.0, 70.0), 0
        self.best: tuple[float, int] | None = None
        self.lines: list[str] = []

    def moment(self, seconds: float) -> str:
        return (self.start + dt.timedelta(seconds=round(seconds, 3))).isoformat()

    def pieces(self, until: float | None) -> Iterator[list[Event]]:
        """Some epochs at a time; no event later than `until`."""
        folds, epochs = self.body["folds"], self.body["epochs"]
        whole = max(1, round(folds * epochs * self.course.done)) if self.course.done else 0
        budget = 60.0 * self.body["minutes"] if self.course.status == "timed_out" else math.inf
        piece: list[Event] = []
        for nth in range(whole):
            if nth == whole // 2:
                self.at += 60.0 * self.course.silent_minutes
            piece += (e for e in self._epoch(nth // epochs, nth % epochs) if _within(e, self.start, until))
            if len(piece) >= MOST_AT_ONCE or self.every < 60.0:
                yield piece
                piece = []
            if self.at > min(budget, math.inf if until is None else until):
                break
        if piece:
            yield piece
        if until is None:
            yield from self._ending(budget)

    def _ending(self, budget: float) -> Iterator[list[Event]]:
        if self.course.status == "timed_out":
            self.at = max(self.at, budget)
        elif self.course.status == "out_of_memory":
            yield [
                self._event("note", text="torch.OutOfMemoryError: CUDA out of memory.", out_of_memory=True)
            ]
        elif self.course.status == "crashed":
            yield [self._event("note", text="KeyError: 'label'", error=True)]
        elif self.course.submission:
            self.at += 0.1 * self.seconds + 15.0
            yield [self._event("note", text="submission.csv written", submission=True)]

    def _event(self, kind: str, **fields: Any) -> Event:
        self.seq += 1
        return {"seq": self.seq, "kind": kind, "at": self.moment(self.at), **fields}

    def _epoch(self, fold: int, epoch: int) -> Iterator[Event]:
        course, batch = self.course, self.body["batch_size"]
        took = self.seconds * (1.35 if fold == epoch == 0 else 1.0) * self.draw.lognormvariate(0.0, 0.02)
        samples = int(self.body["n_train"] * (1.0 - 1.0 / max(self.body["folds"], 5)))
        parts = max(1, int(took / self.every))
        for part in range(parts):
            self.at += took / parts
            busy = max(
                4.0, (97.0 if course.batch >= 1 else 46.0) * (1.0 - course.wait) + self.draw.gauss(0, 3)
            )
            yield self._event(
                "gpu", utilization_percent=round(min(busy, 100.0), 1), used_gib=round(self.peak + 0.3, 2),
                process_gib=round(self.peak, 2), power_w=round(2.4 * busy, 1),
                temperature_c=round(52 + 0.25 * busy), throttled=False, other_processes=0,
            )  # fmt: skip
            yield self._event(
                "batch", fold=fold, epoch=epoch, steps=max(1, samples // batch // parts),
                step=max(1, samples // batch * (part + 1) // parts), of=max(1, samples // batch),
                scope="epoch", seconds=round(took / parts, 3), samples=samples // parts,
                loader_wait_seconds=round(course.wait * took / parts, 3),
            )  # fmt: skip
        loss, metric = self._scores(epoch)
        self.lines.append(
            f"\x1b[32mEpoch {epoch + 1}/{self.body['epochs']}\x1b[0m loss: {loss:.4f} <b>ok</b>"
        )
        yield self._event(
            "epoch", fold=fold, epoch=epoch, seconds=round(took, 2), valid_seconds=round(0.12 * took, 2),
            samples=samples, train_loss=round(loss, 4), valid_loss=round(1.08 * loss + 0.02, 4),
            metric=round(metric, 4), loader_wait_percent=round(100 * course.wait, 1), batch_size=batch,
            peak_allocated_gib=round(0.9 * self.peak - 0.2, 2), peak_reserved_gib=round(0.97 * self.peak, 2),
        )  # fmt: skip
        if epoch == self.body["epochs"] - 1:
            yield self._event("fold", fold=fold, done=True, metric=round(metric, 4))

    def _scores(self, epoch: int) -> tuple[float, float]:
        """(training loss, metric): the metric gets no better after the course's best epoch."""
        made = max(2.0, self.body["epochs"] * self.course.best_at)
        progress = 1.0 - math.exp(-2.2 * min(epoch + 1, made) / made)
        over = max(0.0, epoch + 1 - made) / made
        good = 0.5 + 0.45 * progress - 0.03 * over + self.draw.gauss(0, 0.004)
        metric = good if self.direction == "max" else 1.05 - good
        if self.best is None or (metric > self.best[0]) == (self.direction == "max"):
            self.best = (round(metric, 4), epoch)
        return 1.4 * math.exp(-2.6 * (epoch + 1) / self.body["epochs"]) + 0.08, metric

    def log(self) -> str:
        """What the script printed, with colours and marks as scripts have them."""
        return "\n".join(("Loading data ... \u05e9\u05dc\u05d5\u05dd \U0001f680", *self.lines, ""))


def _within(event: Event, start: dt.datetime, until: float | None) -> bool:
    return until is None or dt.datetime.fromisoformat(event["at"]) <= start + dt.timedelta(seconds=until)


def _as_if_then(database: Database, run_id: str, started: dt.datetime, seconds: float) -> None:
    """The service's clock as it would have been: it heard of the run when it happened."""
    with database.write_untracked() as unit:
        end = started + dt.timedelta(seconds=seconds)
        runs.change(unit.session, run_id, {"created_at": started, "updated_at": end})
        for number, at in unit.session.execute(
            select(RunAdvice.number, RunAdvice.at_seconds).where(RunAdvice.run_id == run_id)
        ).all():
            given = started + dt.timedelta(seconds=at)
            mine = (RunAdvice.run_id == run_id, RunAdvice.number == number)
            unit.session.execute(
                update(RunAdvice).where(*mine).values(given_at=given),
                execution_options={"synchronize_session": False},
            )
