"""Runs systems on the sets of the arena, each in a child process for the set's minutes, and prints the table.

python -m benchmarks.arena --sets cancer,digits --systems ours,plain,library,constant --core 1
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.arena.scoring import score, table
from benchmarks.arena.sets import PACKAGED, archives, build

OURS: dict[str, list[str]] = {"ours": [], "blind": ["--mode", "blind"]}
SYSTEMS = ("constant", "library", "plain", *OURS)
GRACE = 60.0
"""Seconds past its minutes after which a child is stopped and has no submission."""
ROOT = Path(__file__).parents[2]


def child(
    words: list[str], environment: dict[str, str], log: Path, seconds: float
) -> tuple[int | None, float]:
    """(exit code, seconds); no exit code for one that was stopped, with all that it started."""
    started = time.monotonic()
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, *words],
            env=environment,
            cwd=log.parent,
            stdout=out,
            stderr=out,
            process_group=0,
        )
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return code, time.monotonic() - started


def run(name: str, system: str, about: dict[str, Any], root: Path, work: Path) -> dict[str, Any]:
    """One system on a built set: its row of results. `work`, an empty folder, gets log and submission."""
    minutes, log, out = float(about["minutes"]), work / "log.txt", work / "out"
    environment = {
        **os.environ, "DATA_DIR": str(root / "sets" / name), "OUT_DIR": str(out), "MINUTES": f"{minutes:g}",
        "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1",
        "ARENA_SET": json.dumps({field: about[field] for field in ("task", "metric", "target")}),
    }  # fmt: skip
    code: int | None = 0
    if system in OURS:
        words = ["-m", "memory_service", "recommend", "--description", about["description"], "--gpu", "cpu"]
        words += ["--cpu-count", "1", "--minutes", f"{minutes:g}", "--weights", "none", *OURS[system]]
        words += (
            [] if os.environ.get("MEMORY_SERVER") else ["--database", f"sqlite:///{root / 'arena.sqlite3'}"]
        )
        code, _ = child([*words, "--script", str(work)], environment, log, 300)
        words = [str(work / "train.py")]
    else:
        words = ["-m", f"benchmarks.arena.{'plain' if system == 'plain' else 'systems'}"]
        words.append(name if system == "plain" else system)
    seconds = 0.0
    if code == 0:
        code, seconds = child(words, environment, log, minutes * 60 + GRACE)
    value, why = None, "stopped: too late" if code is None else f"exit code {code}"
    if code == 0:
        try:
            value, why = (
                score(
                    about["metric"],
                    *(_read(f) for f in (root / "answers" / f"{name}.csv", out / "submission.csv")),
                ),
                "",
            )
        except (OSError, ValueError, KeyError) as error:
            why = f"{type(error).__name__}: {error}"[:200]
    return {
        "set": name, "system": system, "metric": about["metric"], "value": value,
        "seconds": round(seconds, 1), "minutes": minutes, "share": round(seconds / 60 / minutes, 3),
        "why": why, "at": time.strftime("%Y-%m-%dT%H:%M:%S"),
    }  # fmt: skip


def _read(file: Path) -> pd.DataFrame:
    return pd.read_csv(file, keep_default_na=False, na_values=["nan", "NaN", ""], dtype={"id": str})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.arena", description=__doc__)
    every = [*PACKAGED, *archives()]
    parser.add_argument("--sets", default=",".join(every), help="of " + ", ".join(every))
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="of " + ", ".join(SYSTEMS))
    parser.add_argument("--minutes", type=float, help="of each set in place of its own")
    parser.add_argument("--core", type=int, help="the one processor core that all runs are held to")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "arena" / "results.jsonl")
    given = parser.parse_args()
    systems = given.systems.split(",")
    for asked, known in ((systems, SYSTEMS), (given.sets.split(","), every)):
        if unknown := set(asked) - set(known):
            parser.error(f"no {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if given.core is not None:
        os.sched_setaffinity(0, {given.core})
    given.results.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="arena-") as folder:
        for name in given.sets.split(","):
            about = build(name, Path(folder))
            about["minutes"] = given.minutes or about["minutes"]
            for system in systems:
                if system == "plain" and name not in PACKAGED:
                    continue
                work = Path(tempfile.mkdtemp(prefix=f"{name}-{system}-", dir=given.results.parent))
                row = run(name, system, about, Path(folder), work)
                with given.results.open("a", encoding="utf-8") as results:
                    results.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)
    print("\n" + table(json.loads(line) for line in given.results.read_text("utf-8").splitlines()))


if __name__ == "__main__":
    main()
