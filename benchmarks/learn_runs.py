"""How far do own runs correct predictions on a processor, by how many there were before?

    python -m benchmarks.learn_runs FOLDER --record                 short trainings of all cases, in turn
    python -m benchmarks.learn_runs FOLDER --record --server URL    the same, reported to a server at once
    python -m benchmarks.learn_runs FOLDER [--half tune|test]       what was predicted before each
    python -m benchmarks.learn_runs FOLDER --server URL             the same of the runs that a server has

Each training is a process of its own on one core, which reports through the client as a user's script does.
Recorded runs are told again, in turn, to a new database. Half of the cases serve to choose how learning
weighs runs; no constant was chosen on the other half.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

# fmt: off
CASES: dict[str, dict[str, Any]] = {
    "lightgbm 40k x 20": {"half": "tune", "model": "lightgbm", "rows": 40_000, "columns": 20, "rounds": 300},
    "lightgbm 10k x 60": {"half": "tune", "model": "lightgbm", "rows": 10_000, "columns": 60, "rounds": 300},
    "xgboost 20k x 30": {"half": "tune", "model": "xgboost", "rows": 20_000, "columns": 30, "rounds": 200},
    "random-forest 8k x 20": {"half": "tune", "model": "random-forest", "rows": 8_000, "columns": 20,
                              "rounds": 100},
    "mlp 12k x 50": {"half": "tune", "model": "mlp", "rows": 12_000, "columns": 50, "batch": 512,
                     "epochs": 5},
    "mobilenetv3 at 64": {"half": "tune", "model": "mobilenetv3_small_100", "rows": 640, "pixels": 64,
                          "batch": 64, "epochs": 4},
    "resnet18 at 64, decoded": {"half": "tune", "model": "resnet18", "rows": 160, "pixels": 64, "stored": 700,
                                "batch": 32, "epochs": 4},
    "lightgbm 80k x 12": {"half": "test", "model": "lightgbm", "rows": 80_000, "columns": 12, "rounds": 200},
    "lightgbm 20k x 40": {"half": "test", "model": "lightgbm", "rows": 20_000, "columns": 40, "rounds": 300},
    "catboost 20k x 20": {"half": "test", "model": "catboost", "rows": 20_000, "columns": 20, "rounds": 300},
    "extra-trees 15k x 12": {"half": "test", "model": "extra-trees", "rows": 15_000, "columns": 12,
                             "rounds": 150},
    "mlp 20k x 25": {"half": "test", "model": "mlp", "rows": 20_000, "columns": 25, "batch": 256,
                     "epochs": 4},
    "resnet18 at 64": {"half": "test", "model": "resnet18", "rows": 320, "pixels": 64, "batch": 32,
                       "epochs": 4},
    "mobilenetv3 at 96, decoded": {"half": "test", "model": "mobilenetv3_small_100", "rows": 320,
                                   "pixels": 96, "stored": 500, "batch": 32, "epochs": 4},
}
# fmt: on
REPEATS, FOLDS = 6, 5


def train(name: str, seed: int) -> None:
    """One training of a case in this process."""
    from memory_service.client import watch

    case, rng = CASES[name], np.random.default_rng(seed)
    facts = {"gpu": "cpu", "model": case["model"], "n_train": case["rows"], "folds": 1, "n_classes": 2}
    if "pixels" in case:
        shape = case["rows"], 3, case["pixels"], case["pixels"]
        facts |= {"task": "image-classification", "image_size": case["pixels"], "num_workers": 0}
        x: Any = rng.standard_normal(shape, dtype=np.float32)
        y: Any = rng.integers(0, 2, case["rows"])
    else:
        facts |= {"task": "tabular-classification", "n_features": case["columns"]}
        x = rng.standard_normal((case["rows"], case["columns"]))
        y = (x[:, :5].sum(1) + rng.standard_normal(case["rows"]) > 0).astype(int)
    rounds = case.get("rounds")
    facts |= {"epochs": rounds} if rounds else {"epochs": case["epochs"], "batch_size": case["batch"]}
    with watch(**facts) as run:
        cut = case["rows"] - case["rows"] // FOLDS
        (_trees if rounds else _network)(run, case, (x[:cut], y[:cut]), (x[cut:], y[cut:]))


def _trees(run: Any, case: dict[str, Any], train: Any, valid: Any) -> None:
    from memory_service.client import boosting

    model, rounds = case["model"], case["rounds"]
    if model == "lightgbm":
        import lightgbm

        data = lightgbm.Dataset(*train)
        settings = {"objective": "binary", "verbosity": -1, "learning_rate": 0.05, "num_threads": 1}
        callbacks = [boosting.lightgbm_callback(run)]
        lightgbm.train(settings, data, rounds, [data.create_valid(*valid)], callbacks=callbacks)
    elif model == "xgboost":
        import xgboost

        data, held = xgboost.DMatrix(*train), xgboost.DMatrix(*valid)
        settings = {"objective": "binary:logistic", "max_leaves": 31, "grow_policy": "lossguide",
                    "max_depth": 0, "nthread": 1}  # fmt: skip
        callbacks = [boosting.xgboost_callback(run)]
        xgboost.train(settings, data, rounds, [(held, "valid")], callbacks=callbacks, verbose_eval=False)
    elif model == "catboost":
        import catboost

        callback = boosting.CatBoostCallback(run)
        fit = catboost.CatBoostClassifier(rounds, verbose=False, thread_count=1, allow_writing_files=False)
        fit.fit(*train, eval_set=valid, callbacks=[callback])
    else:
        from sklearn import ensemble

        kind = {"random-forest": "RandomForestClassifier", "extra-trees": "ExtraTreesClassifier"}[model]
        with run.fitting(rows=len(train[0]), columns=train[0].shape[1], rounds=rounds) as told:
            forest = getattr(ensemble, kind)(rounds, n_jobs=1).fit(*train)
        told["metric"] = float(forest.score(*valid))


def _network(run: Any, case: dict[str, Any], train: Any, valid: Any) -> None:
    import torch

    torch.set_num_threads(1)
    if "pixels" in case:
        import timm

        model = timm.create_model(case["model"], num_classes=2)
    else:
        from memory_service.measure.nets.tables import mlp

        model = mlp(case["columns"], 2)
    parts: list[Any] = [_Samples(case, *part) for part in (train, valid)]
    fed, held = (torch.utils.data.DataLoader[Any](part, None, sampler=part.batches()) for part in parts)
    optimizer, loss = torch.optim.AdamW(model.parameters()), torch.nn.CrossEntropyLoss()
    for epoch in range(case["epochs"]):
        model.train()
        for x, y in run.loader(fed):
            optimizer.zero_grad(set_to_none=True)
            loss(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            losses = [float(loss(model(x), y)) for x, y in held]
        run.epoch(epoch, valid_loss=statistics.fmean(losses))


class _Samples:
    """Batches of samples; decoded from a JPEG each, where the case says how large pictures are stored."""

    def __init__(self, case: dict[str, Any], x: Any, y: Any) -> None:
        import torch

        self._x, self._y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y).long()
        self._case, self._stored = case, b""
        if "stored" in case:
            from PIL import Image

            side, rng, file = case["stored"], np.random.default_rng(0), io.BytesIO()
            noise = rng.integers(0, 255, (side // 4, side // 4, 3), dtype=np.uint8)
            Image.fromarray(noise).resize((side, side)).save(file, "JPEG")
            self._stored = file.getvalue()

    def batches(self) -> list[list[int]]:
        step = self._case["batch"]
        return [list(range(at, min(at + step, len(self._y)))) for at in range(0, len(self._y), step)]

    def __getitem__(self, places: list[int]) -> Any:
        return (self._decoded(places) if self._stored else self._x[places]), self._y[places]

    def _decoded(self, places: list[int]) -> Any:
        import torch
        from PIL import Image

        size = (self._case["pixels"],) * 2
        pictures = [np.asarray(Image.open(io.BytesIO(self._stored)).resize(size)) for _ in places]
        return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float() / 255.0


def record(folder: Path, server: str | None, names: Iterable[str], repeats: int) -> None:
    """Each case so many times, in turn: a spool of the client each."""
    told = {"MEMORY_MODE": "online", "MEMORY_SERVER": server} if server else {"MEMORY_MODE": "offline"}
    cores = min(os.sched_getaffinity(0))
    for repeat in range(repeats):
        for place, name in enumerate(names):
            home = folder / f"{repeat:02}-{place:02}"
            home.mkdir(parents=True)
            (home / "case").write_text(name)
            child = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\n"
            child += "from benchmarks.learn_runs import train; train(sys.argv[2], int(sys.argv[3]))"
            command = [sys.executable, "-c", child, str(cores), name, str(repeat)]
            threads = {"OMP_NUM_THREADS": "1", "MEMORY_FLUSH_SECONDS": "60"}
            env = os.environ | told | threads | {"MEMORY_HOME": str(home.resolve())}
            subprocess.run(command, check=True, env=env)


def recorded(folder: Path, half: str | None) -> list[dict[str, Any]]:
    """case, start, events and finish of each recorded run, in the order they ran."""
    runs = []
    for home in sorted(folder.iterdir()):
        name = (home / "case").read_text()
        if half in (None, CASES[name]["half"]):
            lines = [json.loads(line) for file in home.glob("spool/*.jsonl") for line in file.open()]
            of = {key: line[key] for line in lines for key in ("run", "finish") if key in line}
            runs.append({"case": name, "events": [line for line in lines if "kind" in line], **of})
    return runs


def replay(runs: list[dict[str, Any]], *, poisoned: bool = True) -> dict[str, list[dict[str, Any]]]:
    """case -> pages of its runs, each with what was predicted before it; "poisoned" -> see `_poison`."""
    from memory_service.services.database.transactions import Database
    from memory_service.services.editorial import seeding
    from memory_service.services.operations.database import upgrade

    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/learn.db")
        upgrade(database)
        seeding.seed(database)
        for run in runs:
            found[run["case"]].append(_tell(database, run))
        if poisoned:
            found["poisoned"] = [_poison(database, runs)]
        database.close()
    return found


def told_to(server: str) -> dict[str, list[dict[str, Any]]]:
    """case -> pages of the runs that were reported to a server, in the order they began."""
    import httpx2

    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    cases = {(case["model"], case["rows"]): name for name, case in CASES.items()}
    with httpx2.Client(base_url=server, timeout=60.0) as client:
        items = client.get("/runs", params={"limit": 200}).json()["items"]
        for run in sorted(items, key=lambda run: str(run["started_at"])):
            name = cases[run["model"].split(".")[0], run["n_train"]]
            found[name].append(client.get(f"/runs/{run['id']}").json())
    return found


def _tell(database: Any, run: dict[str, Any]) -> dict[str, Any]:
    """The run's page after it was told."""
    from memory_service.services.runs import telemetry
    from memory_service.services.runs.runs import begin_run, finish_run

    run_id = str(begin_run(database, run["run"])[0]["run_id"])
    asyncio.run(telemetry.take_events(database, run_id, {"events": run["events"]}))
    return finish_run(database, run_id, run["finish"])


def _poison(database: Any, runs: list[dict[str, Any]]) -> dict[str, float]:
    """By how much six runs that are wrong move each figure that is predicted, in percent."""
    from memory_service.services.runs.runs import begin_run

    first: dict[str, dict[str, Any]] = {}
    for run in runs:
        first.setdefault(run["case"], run)

    def now() -> dict[str, float]:
        begun = {name: begin_run(database, run["run"])[0]["prediction"] for name, run in first.items()}
        return {
            f"{name}, {figure}": told[figure]["value"]
            for name, told in begun.items() for figure in FIGURES if told.get(figure)
        }  # fmt: skip

    before = now()
    crowd = {"kind": "gpu", "cpu_percent": 50.0, "cpu_wait_percent": 45.0}
    trees = [name for name in first if "rounds" in CASES[name]]
    nets = [name for name in first if "rounds" not in CASES[name]]
    wrong = ((trees[0], 5.0, 0), (trees[0], 1.8, 40), (trees[1], 1.8, 40), (trees[-1], 6.0, 0),
             (nets[0], 5.0, 0), (nets[0], 0.02, 0))  # fmt: skip
    for name, times, crowded in wrong:
        run = first[name]
        events = [
            event | {key: event[key] * times for key in ("seconds", "valid_seconds") if key in event}
            for event in run["events"]
        ]
        last, at = max(event["seq"] for event in events), run["finish"]["at"]
        events += [crowd | {"seq": last + 1 + n, "at": at} for n in range(crowded)]
        began = dt.datetime.fromisoformat(run["run"]["started_at"])
        took = (dt.datetime.fromisoformat(at) - began) * max(times, 1.0)
        finish = run["finish"] | {"at": (began + took).isoformat()}
        _tell(database, {**run, "events": events, "finish": finish})
    after = now()
    return {figure: 100.0 * (after[figure] / value - 1.0) for figure, value in before.items()}


FIGURES = ("samples_per_second", "epoch_seconds", "peak_memory_gib")
MOST_SHOWN = 4


def report(found: dict[str, list[dict[str, Any]]]) -> str:
    """Errors by how many runs of the case there were, then intervals, then what wrong runs move."""
    poisoned = found.pop("poisoned", None)
    heads = " | ".join(f"{n} before" for n in range(MOST_SHOWN))
    lines = [f"| case, figure | {heads} | worst of later |", "|---" * (MOST_SHOWN + 2) + "|"]
    inside: dict[str, list[bool]] = defaultdict(list)
    settled: dict[str, list[float]] = defaultdict(list)
    for name, pages in found.items():
        for figure in FIGURES:
            pairs = {
                n: pair for n, page in enumerate(pages) for pair in page["comparison"]
                if pair["quantity"] == figure and pair["excluded"] is None
            }  # fmt: skip
            errors = {n: pair["error_percent"] for n, pair in pairs.items()}
            if not errors:
                continue
            first = " | ".join(f"{errors[n]:+.0f} %" if n in errors else "-" for n in range(MOST_SHOWN))
            later = max((e for n, e in errors.items() if n >= MOST_SHOWN), key=abs, default=float("nan"))
            lines.append(f"| {name}, {figure} | {first} | {later:+.0f} % |")
            inside[figure] += [pair["inside"] for n, pair in pairs.items() if n]
            kind = CASES[name]["model"] if "rounds" in CASES[name] else "network"
            settled[f"{kind}, {figure}"] += [abs(e) for n, e in errors.items() if n >= 2]
    lines += ["", "| after two runs of the case | median | worst | of |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {statistics.median(errors):.1f} % | {max(errors):.1f} % | {len(errors)} |"
        for name, errors in settled.items()
    ]
    lines += ["", "| interval of | inside | of |", "|---|---|---|"]
    lines += [f"| {name} | {sum(of)} ({sum(of) / len(of):.0%}) | {len(of)} |" for name, of in inside.items()]
    why = Counter(page["excluded"] for pages in found.values() for page in pages if page["excluded"])
    lines += ["", f"Runs named as not comparable: {dict(why) or 'none'}."]
    if poisoned:
        name, moved = max(poisoned[0].items(), key=lambda item: abs(item[1]))
        lines += ["", f"Six wrong runs move {name} most, by {moved:+.1f} %."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--server")
    parser.add_argument("--half", choices=("tune", "test"))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    asked = parser.parse_args()
    names = [name for name, case in CASES.items() if asked.half in (None, case["half"])]
    if asked.record:
        record(asked.folder, asked.server, names, asked.repeats)
    else:
        found = told_to(asked.server) if asked.server else replay(recorded(asked.folder, asked.half))
        print(report(found))


if __name__ == "__main__":
    main()
