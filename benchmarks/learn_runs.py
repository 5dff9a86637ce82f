"""How far do own runs correct predictions on a processor, by how many there were before?

    python -m benchmarks.learn_runs --train runs.jsonl     some 30 short trainings, one thread each, in turn
    python -m benchmarks.learn_runs runs.jsonl             what was predicted before each, in a new database

Times are of the processor, not of the clock, so that other work on the machine changes them less. Each run
is told as the client tells it: rounds or epochs, and the most memory that the process held. The runs of all
cases take turns.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

# fmt: off
CASES: dict[str, dict[str, Any]] = {
    "lightgbm 40k x 20": {"model": "lightgbm", "rows": 40_000, "columns": 20, "rounds": 150, "repeats": 7},
    "lightgbm 10k x 60": {"model": "lightgbm", "rows": 10_000, "columns": 60, "rounds": 150, "repeats": 7},
    "random-forest 8k x 20": {"model": "random-forest", "rows": 8_000, "columns": 20, "rounds": 60,
                              "repeats": 7},
    "mlp 12k x 50": {"model": "mlp", "rows": 12_000, "columns": 50, "batch": 512, "repeats": 7},
}
# fmt: on
FOLDS, EPOCHS = 5, 4
STARTED = dt.datetime(2026, 11, 29, tzinfo=dt.UTC)


def train(name: str, into: Path) -> None:
    """Repeats of a case in this process: a line of the file has the events of each."""
    case = CASES[name]
    run = _trees if "rounds" in case else _network
    for repeat in range(case["repeats"]):
        Path("/proc/self/clear_refs").write_text("5")
        began = time.process_time()
        events = run(case, np.random.default_rng(repeat))
        held = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
        events.append({"kind": "gpu", "host_gib": int(held.split()[1]) / 2**20})
        told = {"case": name, "events": events, "seconds": time.process_time() - began}
        with into.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(told) + "\n")


class _Recorder:
    """Takes what a callback reports."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def epoch(self, number: int, **figures: Any) -> None:
        self.events.append({"kind": "epoch", "epoch": number, **figures})

    def score(self, *_: Any, **__: Any) -> None:
        """The scores do not matter here."""


def _trees(case: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    rows, columns = case["rows"], case["columns"]
    x = rng.standard_normal((rows, columns))
    y = (x[:, :5].sum(1) + rng.standard_normal(rows) > 0).astype(int)
    cut = rows - rows // FOLDS
    if case["model"] == "lightgbm":
        import lightgbm

        from memory_service.client import boosting

        time.perf_counter = time.process_time  # what the callback reads
        recorder = _Recorder()
        data = lightgbm.Dataset(x[:cut], y[:cut])
        valid = data.create_valid(x[cut:], y[cut:])
        settings = {"objective": "binary", "num_threads": 1, "verbosity": -1, "learning_rate": 0.05}
        callbacks = [boosting.lightgbm_callback(recorder)]  # type: ignore[arg-type]
        lightgbm.train(settings, data, case["rounds"], [valid], callbacks=callbacks)
        return recorder.events
    from sklearn.ensemble import RandomForestClassifier

    began = time.process_time()
    RandomForestClassifier(case["rounds"], n_jobs=1, random_state=0).fit(x[:cut], y[:cut])
    facts = {"rows": cut, "columns": columns, "rounds": case["rounds"]}
    return [{"kind": "note", "fit": "fit", "seconds": time.process_time() - began, **facts}]


def _network(case: dict[str, Any], _: np.random.Generator) -> list[dict[str, Any]]:
    import torch

    torch.set_num_threads(1)
    rows, batch = case["rows"], case["batch"]
    from memory_service.measure.nets.tables import Mlp

    model, x = Mlp(case["columns"], 2), torch.randn(rows, case["columns"])
    y = torch.randint(0, 2, (rows,))
    cut = rows - rows // FOLDS
    optimizer, loss = torch.optim.AdamW(model.parameters()), torch.nn.CrossEntropyLoss()
    events = []
    for epoch in range(EPOCHS):
        began = time.process_time()
        model.train()
        for start in range(0, cut, batch):
            optimizer.zero_grad(set_to_none=True)
            loss(model(x[start : start + batch]), y[start : start + batch]).backward()
            optimizer.step()
        middle = time.process_time()
        model.eval()
        with torch.no_grad():
            for start in range(cut, rows, batch):
                model(x[start : start + batch])
        now = time.process_time()
        events.append(
            {"kind": "epoch", "epoch": epoch, "seconds": now - began, "valid_seconds": now - middle}
        )
    return events


def replay(runs: list[dict[str, Any]], poisoned: bool = True) -> dict[str, list[dict[str, float]]]:
    """case -> by repeat, each figure as it was predicted before and as it came (value, low, high, actual)."""
    from memory_service.services.database.transactions import Database
    from memory_service.services.editorial import seeding
    from memory_service.services.operations.database import upgrade
    from memory_service.services.runs.runs import run_page

    by_case: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        by_case[run["case"]].append(run)
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/learn.db"
        database = Database(url)
        upgrade(database)
        seeding.seed(database)
        for turn in range(max(map(len, by_case.values()))):
            for name, some in by_case.items():
                if turn < len(some):
                    page = run_page(database, _tell(database, name, some[turn]))
                    found[name].append(
                        {"excluded": page["excluded"], "learned": page["learned"],
                         "own_runs": page["prediction"]["own_runs"]}
                        | {c["quantity"]: c["predicted"] | {"actual": c["actual"]}
                           for c in page["comparison"]}
                    )  # fmt: skip
        if poisoned:
            found["poisoned"] = _poison(database, by_case)
        database.close()
    return found


def _poison(database: Any, by_case: dict[str, list[dict[str, Any]]]) -> list[dict[str, float]]:
    """By how much six runs that are wrong move each case's prediction, in percent."""

    def now() -> dict[str, float]:
        from memory_service.services.runs.runs import begin_run

        begun = {name: begin_run(database, _body(name))[0]["prediction"] for name in by_case}
        return {
            f"{name}, {figure}": value["value"]
            for name, told in begun.items() for figure, value in told.items()
            if figure in ("samples_per_second", "epoch_seconds", "peak_memory_gib") and value
        }  # fmt: skip

    before = now()
    first = {name: some[0] for name, some in by_case.items()}
    crowd = [{"kind": "gpu", "cpu_percent": 50.0, "cpu_wait_percent": 45.0} for _ in range(9)]
    wrong: tuple[tuple[str, float, list[dict[str, Any]]], ...] = (
        ("lightgbm 40k x 20", 5.0, []), ("lightgbm 40k x 20", 1.8, crowd), ("mlp 12k x 50", 5.0, []),
        ("mlp 12k x 50", 0.02, []), ("lightgbm 10k x 60", 1.8, crowd), ("random-forest 8k x 20", 6.0, []),
    )  # fmt: skip
    for name, times, more in wrong:
        slow = [
            event | ({"seconds": event["seconds"] * times} if "seconds" in event else {})
            for event in first[name]["events"]
        ]
        slow = [{k: v * times if k == "valid_seconds" else v for k, v in event.items()} for event in slow]
        _tell(database, name, {"events": slow + more, "seconds": first[name]["seconds"] * max(times, 1.0)})
    after = now()
    return [{figure: 100.0 * (after[figure] / value - 1.0) for figure, value in before.items()}]


def _body(name: str) -> dict[str, Any]:
    case = CASES[name]
    body = {
        "task": "tabular-classification", "gpu": "cpu",
        "model": case["model"], "n_train": case["rows"], "folds": 1, "precision": "fp32", "n_classes": 2,
        "host": {"cpu_count": 1, "hostname": "bench"}, "started_at": STARTED.isoformat(),
    }  # fmt: skip
    body |= {"n_features": case["columns"]}
    rounds = case.get("rounds")
    return body | ({"epochs": rounds} if rounds else {"epochs": EPOCHS, "batch_size": case["batch"]})


def _tell(database: Any, name: str, run: dict[str, Any]) -> str:
    import asyncio

    from memory_service.services.runs import telemetry
    from memory_service.services.runs.runs import begin_run, finish_run

    run_id = str(begin_run(database, _body(name))[0]["run_id"])
    seconds = float(run["seconds"])
    at = [
        (STARTED + dt.timedelta(seconds=part)).isoformat()
        for part in np.linspace(0, seconds, len(run["events"]))
    ]
    told = [{k: v for k, v in event.items() if v is not None} for event in run["events"]]
    events = [event | {"seq": n, "at": at[n]} for n, event in enumerate(told)]
    asyncio.run(telemetry.take_events(database, run_id, {"events": events}))
    end = (STARTED + dt.timedelta(seconds=seconds)).isoformat()
    finish_run(database, run_id, {"status": "completed", "at": end})
    return run_id


FIGURES = ("samples_per_second", "epoch_seconds", "peak_memory_gib")


def table(found: dict[str, list[dict[str, Any]]]) -> str:
    """Errors by how many runs of the case there were, then intervals, then what wrong runs move."""
    poisoned = found.pop("poisoned", None)
    most = 4
    lines = [
        f"| case, figure | {' | '.join(f'{n} before' for n in range(most))} | last |",
        "|---" * (most + 2) + "|",
    ]
    inside: list[bool] = []
    for name, pages in found.items():
        for figure in FIGURES:
            errors = [100.0 * (p[figure]["value"] / p[figure]["actual"] - 1.0) for p in pages if figure in p]
            if errors:
                shown = " | ".join(f"{error:+.0f} %" for error in (*errors[:most], errors[-1]))
                lines.append(f"| {name}, {figure} | {shown} |")
            if figure != "epoch_seconds":
                inside += [p[figure]["low"] <= p[figure]["actual"] <= p[figure]["high"]
                           for p in pages[1:] if figure in p]  # fmt: skip
    lines += [
        "",
        f"{100 * sum(inside) / max(len(inside), 1):.0f} % of {len(inside)} measured figures are inside.",
    ]
    if poisoned:
        worst = max(poisoned[0].items(), key=lambda item: abs(item[1]))
        lines += ["", f"Six wrong runs move {worst[0]} most, by {worst[1]:+.1f} %."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="?", type=Path)
    parser.add_argument("--train", type=Path)
    parser.add_argument("--case")
    asked = parser.parse_args()
    if asked.case:
        train(asked.case, asked.runs)
    elif asked.train:
        command = [sys.executable, "-m", "benchmarks.learn_runs", str(asked.train), "--case"]
        for name in CASES:
            subprocess.run([*command, name], check=True)
    else:
        print(table(replay([json.loads(line) for line in asked.runs.read_text().splitlines()])))


if __name__ == "__main__":
    main()
