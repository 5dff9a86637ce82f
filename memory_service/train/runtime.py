"""A run: its folder, its data, training and predicting as train.py says."""

import argparse
import json
import os
import random
import sys
import time
import zlib
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from memory_service.train.budget import agreed, begin, end_in_time, plan, report, state, usable_cores
from memory_service.train.folder import opened, tables_in
from memory_service.train.folds import checkpoints, metric_of, predict, train_folds
from memory_service.train.reading import Data
from memory_service.train.writing import write_baseline

try:
    from memory_service.client import watch  # reports the run to the service, and brings its advice
except ImportError:
    watch = None  # type: ignore[assignment]


def arguments_of(module) -> argparse.Namespace:
    """What the command line says; --help prints what train.py says of itself, and a word that is not known
    ends the run with status 2. A notebook has none."""
    form: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = argparse.ArgumentParser(description=module.__doc__, **form)
    parser.add_argument("command", nargs="?", choices=["predict"], help="nothing: train, then predict")
    parser.add_argument("--deadline", help="when the budget ends, in place of MINUTES: see MEMORY_DEADLINE")
    parser.add_argument("--run", metavar="N", help="start run_N.py, which lies beside this file")
    return parser.parse_args([] if "ipykernel" in sys.modules else None)


def own_settings() -> dict[str, Any]:
    """What a folder's run must have in common with this one to be gone on with: settings, text, tables."""
    code = zlib.crc32(Path(plan.__file__).read_bytes()) if plan.__file__ else 0
    read = [one.path for one in tables_in(plan.DATA_DIR)]
    tables = {path.name: digest_of(path) for path in read}
    facts = {"the script's text": code, "the tables": tables, **plan.SETTINGS}
    return json.loads(json.dumps(facts, default=str))


def digest_of(path: Path, piece: int = 2**25) -> list[int]:
    """Size and checksum, of a large file that of its beginning and end."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        code = zlib.crc32(file.read(piece))
        file.seek(max(piece, size - piece))
        return [size, zlib.crc32(file.read(piece), code)]


def settings_of(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    return json.loads(path.read_text()) if path.exists() else {}


def folder_of_run() -> Path:
    """Where `predict` finds the run: of OUT_DIR, OUT_DIR-2, -3 ... the one whose settings differ least."""
    folders = [plan.OUT_DIR, *sorted(plan.OUT_DIR.parent.glob(f"{plan.OUT_DIR.name}-*"))]
    own, found = own_settings(), {folder: settings_of(folder) for folder in folders}
    differ = {one: [name for name in own if own[name] != found[one].get(name)] for one in folders}
    best = min(folders, key=lambda one: len(differ[one]))
    if found[best] and differ[best]:
        print(f"NOTE: {best} is of other settings ({', '.join(differ[best][:5])})", flush=True)
    return best


def choose_folder() -> Path:
    """OUT_DIR; where that holds checkpoints of other settings, the next of OUT_DIR-2, OUT_DIR-3 ... that does
    not. What is there of the same settings is resumed."""
    own, number, folder = own_settings(), 1, plan.OUT_DIR
    while True:
        path, other = folder / "run.json", settings_of(folder)
        kept = [*folder.glob("fold_*"), *folder.glob("answers_*")]
        files = sorted(file.name for file in kept if file.suffix != ".tmp")
        if other == own or not files:
            break
        differ = [name for name in own if own[name] != other.get(name)]
        print(f"NOTE: {folder} is of other settings ({', '.join(differ[:5])}); not touched there:", end=" ")
        print(", ".join(["submission.csv", *files]), flush=True)
        number += 1
        folder = plan.OUT_DIR.with_name(f"{plan.OUT_DIR.name}-{number}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.tmp").write_text(json.dumps(own))
    os.replace(folder / "run.tmp", path)
    if number > 1:
        print(f"NOTE: this run writes to {folder}", flush=True)
    return folder


def run_facts(data: Data) -> dict[str, Any]:
    """What the service is told of this run."""
    facts = {"plan_id": plan.PLAN_ID, "task": plan.TASK, "model": plan.MODEL, "folds": plan.FOLDS}
    facts |= {"seeds": plan.SEEDS, "minutes": state.minutes}
    began = time.gmtime(time.time() - state.elapsed())  # the minutes count from there
    facts |= {"started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", began)}
    own = min(state.reserve_minutes, 0.03 * state.minutes + 0.03)  # all else is used, on other models too
    facts |= {"reserve_minutes": own} if plan.train else {"epochs": plan.EPOCHS}
    facts |= {"n_train": data.samples or len(data.targets), "n_test": len(data.test_ids)}
    facts |= {"server": plan.SERVER}
    names = ("BATCH_SIZE", "PRECISION", "IMAGE_SIZE", "SEQ_LEN")
    return facts | {name.lower(): vars(plan)[name] for name in names if name in vars(plan)}


def main(module) -> None:
    """Train and predict as train.py says, which is `module`; with --run N as run_N.py beside it does."""
    asked, own = arguments_of(module), Path(sys.argv[0])
    other = own.with_name(f"run_{asked.run}.py")
    if asked.run is not None and other.name != own.name:
        if not other.exists():
            raise SystemExit(f"there is no script for run {asked.run}: {other.name} is missing here")
        os.execv(sys.executable, [sys.executable, str(other), *sys.argv[1:]])
    begin(module, asked.deadline)
    plan.DATA_DIR = opened(plan.DATA_DIR)
    random.seed(plan.SEED)
    np.random.seed(plan.SEED)
    if asked.command == "predict":
        state.out_dir = folder_of_run()
        state.out_dir.mkdir(parents=True, exist_ok=True)
        state.stop = True  # what there is is blended
        data = read_or_other()
        (plan.train or predict)(data, None)
        return
    if plan.start_together:
        plan.start_together()
    first = plan.RANK == 0
    state.out_dir = agreed(choose_folder() if first else None)
    timer = end_in_time()
    try:
        train_and_predict(first)
    finally:
        timer.cancel()  # in a notebook the process goes on


def read_or_other() -> Data:
    """What the script reads; where DATA_DIR holds rows of a table in place of the files that the plan was
    made for, these: they are learned by `memory_service.train`, if it is installed."""
    try:
        return plan.read_data()
    except (FileNotFoundError, KeyError, ValueError) as error:
        with suppress(ImportError):
            package = import_module("memory_service.train.budget")
            vars(package).update(plan=plan, state=state)  # this text may be in a script of one file
        try:  # by name: it is no part of a script in one file
            other_data = import_module("memory_service.train" + ".columns").other_data
        except ImportError:
            raise error from None
        if (data := other_data()) is None:
            raise
        print(f"WARNING: the plan was made for other data ({error}): learning the table", flush=True)
        report(state.run, "note", f"other data than the plan was made for: {error!r:.200}")
        return data


def train_and_predict(first: bool) -> None:
    """first: of several cards' processes the one that writes and reports; the others help to train."""
    data = read_or_other()
    if not first:
        train_folds(data, None)
        return
    counts = f"n_train={len(data.targets)}, n_test={len(data.test_ids)}, outputs={len(data.outputs)}"
    print(f"Data: {counts}, to predict: {', '.join(data.target_columns)}", flush=True)
    if not checkpoints() and not (plan.train and (state.out_dir / "submission.csv").exists()):
        write_baseline(data)
    if plan.print_devices:
        plan.print_devices()
    else:
        print(f"RESOURCES: {usable_cores()} CPU cores, GPU=none, Mixed Precision=OFF", flush=True)
    with watch(**run_facts(data)) if watch is not None else nullcontext() as run:  # type: ignore[redundant-expr]
        state.run = run
        scores = (plan.train or train_folds)(data, run)
        if not plan.train and (not state.predicted or len(scores) < len(checkpoints())):
            predict(data, run)
        behind = "a blend of fits" if plan.train else f"{len(scores)} folds"
        report(run, "note", f"submission.csv written behind {behind}", submission=True)
        best = float(np.mean(scores)) if scores else None
        facts = {"best_metric": best} if metric_of(0.0) else {}
        report(run, "result", submission=True, **facts)
        if state.stop:
            report(run, "finish", "stopped")
    print(f"VALIDATION: {plan.METRIC}={best} over {behind}; {state.elapsed() / 60:.1f} min")
