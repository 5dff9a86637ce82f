"""How close are predicted epochs and memory on this processor, calibrated a minute ago?

    python -m benchmarks.cpu_epochs [--budget-seconds 60] [--cases small-cnn,mlp,lightgbm]

One run on one machine: a real server calibrates the processor (POST /gpus), /predict says what each case
takes, then each case is really trained for an epoch in a process of its own. `make bench` writes the table
into docs/methods/performance.md; run alone it replaces the table there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.page import Section
from benchmarks.servers import ROOT, Connection, serving

SECTION = Section("cpu_epochs")
GIB = 2.0**30
BUDGET_SECONDS = 60.0
PATIENCE_SECONDS = 900.0
WARM_STEPS = 3
"""Before the clock: in its first step a process imports parts of torch and compiles kernels, for a second or
two."""


@dataclass(frozen=True)
class PlanningProblem:
    """One question to /predict and the training that answers it.

    target_time, target_memory   how far off is allowed; None = for information
    """

    name: str
    model: str
    title: str
    question: Mapping[str, Any]
    target_time: float | None = None
    target_memory: float | None = None

    @property
    def data_gib(self) -> float:
        """The training set that the process holds in memory, beside what /predict counts."""
        side = self.question.get("image_size")
        values = 3 * side * side if side else self.question["n_features"]
        return float(self.question["n_train"] * values * 4 / GIB)


def images(
    name: str, model: str, layout: str, n_train: int, batch: int, target: bool = False
) -> PlanningProblem:
    asked = {"image_size": 64, "batch_size": batch, "n_train": n_train, "layout": layout}
    goals = (0.25, 0.2) if target else (None, None)
    return PlanningProblem(name, model, f"{model}, 64 px, batch {batch}, {layout}", asked, *goals)


CASES: tuple[PlanningProblem, ...] = (
    images("small-cnn", "small-cnn", "nchw", 3200, 32, target=True),
    PlanningProblem(
        "mlp", "mlp", "MLP 3 x 512, 200 000 x 50, batch 1024",
        {"n_features": 50, "batch_size": 1024, "n_train": 200_000}, 0.25, 0.2,
    ),
    PlanningProblem(
        "lightgbm", "lightgbm", "LightGBM, 200 000 x 50, 300 trees",
        {"n_features": 50, "n_train": 200_000, "rounds": 300}, 0.25,
    ),
    images("small-cnn-128", "small-cnn", "nchw", 3200, 128),
    images("small-cnn-nhwc", "small-cnn", "nhwc", 3200, 32),
    images("resnet18", "resnet18", "nchw", 800, 32),
    images("resnet18-nhwc", "resnet18", "nhwc", 800, 32),
    images("mobilenetv3", "mobilenetv3_small_100", "nchw", 1600, 32),
    images("mobilenetv3-nhwc", "mobilenetv3_small_100", "nhwc", 1600, 32),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """Seconds of an epoch (LightGBM: of the whole fit) and GiB of the training process at its peak."""

    case: PlanningProblem
    predicted_seconds: float
    low_seconds: float
    high_seconds: float
    measured_seconds: float
    predicted_gib: float
    measured_gib: float

    @property
    def time_ratio(self) -> float:
        return self.predicted_seconds / self.measured_seconds

    @property
    def memory_ratio(self) -> float:
        return self.predicted_gib / self.measured_gib

    @property
    def met(self) -> bool:
        """Whether both figures are as close as they are meant to be."""
        goals = ((self.time_ratio, self.case.target_time), (self.memory_ratio, self.case.target_memory))
        return all(goal is None or abs(ratio - 1.0) <= goal for ratio, goal in goals)


@dataclass(frozen=True)
class Outcome:
    """calibration: what GET /calibrations/{id} said at its end; wall_seconds: from the POST to that."""

    calibration: Mapping[str, Any]
    wall_seconds: float
    rows: Sequence[Row]


def measure(budget_seconds: float = BUDGET_SECONDS, names: Sequence[str] = ()) -> Outcome:
    """Calibrate, predict, train: all with every core, one thing after the other."""
    cases = [case for case in CASES if not names or case.name in names]
    with tempfile.TemporaryDirectory() as folder:
        own = {"MEMORY_DATABASE_URL": f"sqlite:///{folder}/epochs.sqlite3", "MEMORY_LOG_LEVEL": "WARNING"}
        with serving(os.environ | own, pin=False) as (port, *_):
            server = Connection(port)
            calibration, seconds = calibrate(server, budget_seconds)
            predicted = [_predicted(server, case) for case in cases]
    rows = []
    for case, answer in zip(cases, predicted, strict=True):
        told = _trained(case)
        time_of = answer.get("epoch_seconds") or answer["fit_seconds"]
        rows.append(
            Row(
                case, time_of["value"], time_of["low"], time_of["high"], told["seconds"],
                answer["peak_memory_gib"]["value"] + case.data_gib, told["peak_gib"],
            )
        )  # fmt: skip
    return Outcome(calibration, seconds, rows)


def calibrate(server: Connection, budget_seconds: float) -> tuple[Mapping[str, Any], float]:
    """(the ended calibration, seconds from the request to its end)."""
    began = time.perf_counter()
    body = {"name": "cpu", "device": "cpu", "calibrate": True, "budget_seconds": budget_seconds}
    device = json.loads(server.taken("POST", "/gpus", {**body, "force": True})[1])
    key = device["calibration"]["id"]
    while time.perf_counter() - began < PATIENCE_SECONDS:
        told = json.loads(server.get(f"/calibrations/{key}"))
        if told["status"] not in ("queued", "running"):
            return told, time.perf_counter() - began
        time.sleep(0.25)
    raise TimeoutError(f"calibration {key} did not end within {PATIENCE_SECONDS:.0f} s")


def _predicted(server: Connection, case: PlanningProblem) -> Mapping[str, Any]:
    query = urllib.parse.urlencode({"model": case.model, "gpu": "cpu", **case.question})
    answer: dict[str, Any] = json.loads(server.get(f"/predict?{query}"))
    return answer


def _trained(case: PlanningProblem) -> Mapping[str, float]:
    """What a fresh process said that trained the case for one epoch."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cpu_epochs", "--train", case.name],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def train(case: PlanningProblem) -> dict[str, float]:
    """Seconds of one epoch as a plain script trains it, and the peak of this process."""
    seconds = _boost(case) if case.model == "lightgbm" else _epoch(case)
    return {"seconds": seconds, "peak_gib": peak_gib()}


def _boost(case: PlanningProblem) -> float:
    """LightGBM as `make_classification` tables train it, binning included."""
    import lightgbm
    from sklearn.datasets import make_classification

    table, label = make_classification(case.question["n_train"], case.question["n_features"], random_state=5)
    began = time.perf_counter()
    data = lightgbm.Dataset(table, label)
    lightgbm.train({"objective": "binary", "verbose": -1}, data, num_boost_round=case.question["rounds"])
    return time.perf_counter() - began


def _epoch(case: PlanningProblem) -> float:
    """The steps of one epoch, after WARM_STEPS that load libraries and choose kernels."""
    import torch
    from torch.nn import functional

    layout = torch.channels_last if case.question.get("layout") == "nhwc" else torch.contiguous_format
    x, module = _data_and_module(case)
    y = torch.randint(0, 2, (len(x),))
    module = module.to(memory_format=layout).train()
    optimizer: Any = torch.optim.AdamW(module.parameters())
    size = case.question["batch_size"]
    order = torch.randperm(len(x))

    def step(chosen: Any) -> None:
        batch = x[chosen]
        if batch.dim() == 4:
            batch = batch.contiguous(memory_format=layout)
        optimizer.zero_grad()
        loss: Any = functional.cross_entropy(module(batch), y[chosen])
        loss.backward()
        optimizer.step()

    for _ in range(WARM_STEPS):
        step(order[:size])
    began = time.perf_counter()
    for start in range(0, len(x), size):
        step(order[start : start + size])
    return time.perf_counter() - began


def _data_and_module(case: PlanningProblem) -> tuple[Any, Any]:
    import torch

    if "n_features" in case.question:
        from memory_service.measure.nets.tables import mlp

        columns = case.question["n_features"]
        return torch.randn(case.question["n_train"], columns), mlp(columns, 2)
    side = case.question["image_size"]
    x = torch.randn(case.question["n_train"], 3, side, side)
    if case.model == "small-cnn":
        from memory_service.measure.nets.dense import small_cnn

        return x, small_cnn(3, 2)
    import timm

    return x, timm.create_model(case.model, pretrained=False, num_classes=2)


def peak_gib() -> float:
    """Resident memory at its highest; Linux counts it from the start of this program, not of its parent."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if found:
        return int(found.group(1)) * 1024 / GIB
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / GIB if sys.platform == "darwin" else most * 1024 / GIB


def section(outcome: Outcome) -> str:
    """The part of docs/methods/performance.md between its markers."""
    told = outcome.calibration
    check = (told.get("self_check") or {}).get("median_error_percent")
    checked = "not known" if check is None else f"{check:.0f} %"
    how = (
        f"`POST /gpus` measured this machine's {os.cpu_count()} cores: {told['status']} after "
        f"{outcome.wall_seconds:.1f} s of {told['budget_seconds']:g} s, {len(told['sections'])} figures, "
        f"reference networks predicted without their own measurement: median error {checked}. Then "
        "`/predict?gpu=cpu` was asked, and each case trained for an epoch in a fresh process (LightGBM: its "
        "300 trees, binning included; the training set in memory is added to the predicted process; three "
        "steps before the clock load what a process loads once)."
    )
    heads = "case | predicted s | 80 % | measured s | ratio | predicted GiB | measured GiB | ratio | target"
    lines = [
        "## How close are predictions on a processor that was just calibrated?",
        "",
        how,
        "",
        f"| {heads} |",
        "|---|---:|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in outcome.rows:
        goals = [
            f"{word} ± {goal:.0%}"
            for word, goal in (("time", row.case.target_time), ("memory", row.case.target_memory))
            if goal is not None
        ]
        target = f"{', '.join(goals)}: {'met' if row.met else 'missed'}" if goals else ""
        name = f"**{row.case.title}**" if goals else row.case.title
        lines.append(
            f"| {name} | {row.predicted_seconds:.2f} | {row.low_seconds:.2f} to {row.high_seconds:.2f} "
            f"| {row.measured_seconds:.2f} | {row.time_ratio:.2f} | {row.predicted_gib:.2f} "
            f"| {row.measured_gib:.2f} | {row.memory_ratio:.2f} | {target} |"
        )
    off = [abs(math.log(row.time_ratio)) for row in outcome.rows]
    if off:
        lines += ["", f"Median error of the times: {math.expm1(statistics.median(off)):.0%}."]
    if told.get("contended"):
        lines += ["", "The calibration was contended: others used the processor, and it was not used."]
    return SECTION.marked("\n".join(lines))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--budget-seconds", type=float, default=BUDGET_SECONDS)
    arguments.add_argument("--cases", default="", help="names with commas; default all")
    arguments.add_argument("--train", default="", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.train:
        print(json.dumps(train(next(case for case in CASES if case.name == given.train))))
        return
    text = section(measure(given.budget_seconds, tuple(name for name in given.cases.split(",") if name)))
    print(text)
    if not given.cases:
        SECTION.keep(text)


if __name__ == "__main__":
    main()
