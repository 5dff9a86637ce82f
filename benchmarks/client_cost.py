"""What does watching cost the training thread? `OMP_NUM_THREADS=1 python -m
benchmarks.client_cost` writes its part of docs/methods/performance.md, as `make bench` does.

Loops of 5 ms steps (array arithmetic and plain Python, as a training step of a small network is) take turns:
one that tells a service, one whose service is down, one that only keeps a spool, and before and after each of
them one that tells nothing. A figure is a ratio to the mean of the two silent neighbours, so that what else
the machine does, and its drift, meet all alike; of many such ratios the median is told, with its 95 %
interval. The processor time of the client's threads bounds the same from above: they hold the interpreter no
longer than they compute.
"""

from __future__ import annotations

import logging
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.page import Section
from memory_service.client import Run, watch

__all__ = ["Cost", "drawn", "measure"]

SECTION = Section("client_cost")
STEPS, STEP_SECONDS, ROUNDS = 400, 0.005, int(os.environ.get("ROUNDS", "10"))
WARM_STEPS = 60
CALLS = 200_000
FACTS: dict[str, Any] = {"task": "image", "model": "resnet18", "batch_size": 32, "epochs": 10}
WAYS = ("up", "down", "offline")
NAMES = {"up": "service reachable", "down": "service down", "offline": "spooled only"}


@dataclass(frozen=True)
class Cost:
    """batch_us, epoch_us: of one call, net of the bare loop; loader_us: of a step through `run.loader`.

    loops            way -> loop / mean of its silent neighbours, by round
    threads_percent  way -> processor time of the client's threads, of the loop's time
    end_seconds      way -> of `finish`
    """

    batch_us: float
    loader_us: float
    epoch_us: float
    loops: dict[str, list[float]]
    threads_percent: dict[str, float]
    end_seconds: dict[str, float]


def main() -> None:
    """Measure, print, and keep the table in docs/methods/performance.md."""
    logging.getLogger("memory_service.client").setLevel(logging.ERROR)
    text = drawn(measure())
    print(text)
    SECTION.keep(text)


def measure(rounds: int = ROUNDS, steps: int = STEPS) -> Cost:
    """All figures; takes about `rounds` x 7 x `steps` x 5 ms."""
    from benchmarks.servers import server_environment, serving

    with tempfile.TemporaryDirectory() as folder:
        os.environ["MEMORY_HOME"] = f"{folder}/client"
        with serving(server_environment(f"sqlite:///{folder}/cost.sqlite3")) as (port, *_):
            servers = {"up": f"http://127.0.0.1:{port}", "down": "http://127.0.0.1:9", "offline": None}
            step = _step()
            loops: dict[str, list[float]] = {way: [] for way in WAYS}
            ends: dict[str, list[float]] = {way: [] for way in WAYS}
            beside = dict.fromkeys(WAYS, 0.0)
            total = dict.fromkeys(WAYS, 0.0)
            before, _ = _loop(step, steps, lambda: None)
            for n in range(rounds * len(WAYS)):
                way = WAYS[n % len(WAYS)]
                mode = "offline" if way == "offline" else "online"
                run = watch(server=servers[way], mode=mode, **FACTS)
                _loop(step, WARM_STEPS, run.batch)
                taken, others = _loop(step, steps, run.batch)
                beside[way] += others
                total[way] += taken
                run.epoch(0, train_loss=0.5)
                began = time.perf_counter()
                run.finish()
                ends[way].append(time.perf_counter() - began)
                after, _ = _loop(step, steps, lambda: None)
                loops[way].append(2.0 * taken / (before + after))
                before = after
        calls = _calls()
    return Cost(
        *calls,
        loops,
        {way: 100.0 * beside[way] / total[way] for way in WAYS},
        {way: statistics.median(taken) for way, taken in ends.items()},
    )


def drawn(cost: Cost) -> str:
    """The figures as a table in Markdown."""
    lines = [
        "## What does watching cost a training?",
        "",
        f"`memory_service.client` in a loop of {STEP_SECONDS * 1000:.0f} ms steps; ratios are to the loops",
        "before and after without the client: median of the rounds, and its 95 % interval.",
        "",
        "| figure | value | target |",
        "|---|---:|---:|",
        f"| one `run.batch()`, µs | {cost.batch_us:.2f} | ≤ 20 |",
        f"| one step through `run.loader(...)`, µs | {cost.loader_us:.2f} | ≤ 20 |",
        f"| one `run.epoch(...)`, µs | {cost.epoch_us:.0f} |  |",
    ]
    for way, ratios in cost.loops.items():
        low, middle, high = _median(ratios)
        spread = f"{middle:.4f} ({low:.4f}–{high:.4f})"
        lines.append(f"| **loop ÷ loop without the client, {NAMES[way]}** | {spread} | ≤ 1.01 |")
    for way, share in cost.threads_percent.items():
        lines.append(
            f"| processor time of the client's threads, {NAMES[way]}, % of the loop | {share:.2f} | ≤ 1 |"
        )
    for way, taken in cost.end_seconds.items():
        lines.append(f"| end of the run, {NAMES[way]}, s | {taken:.3f} |  |")
    return SECTION.marked("\n".join(lines))


def _median(values: list[float]) -> tuple[float, float, float]:
    """(low, median, high): the interval that holds the true median with 95 %, by ranks (sign test)."""
    found, n = sorted(values), len(values)
    rank, beyond = 0, 0.5**n
    while beyond + math.comb(n, rank + 1) * 0.5**n <= 0.025:
        rank += 1
        beyond += math.comb(n, rank) * 0.5**n
    return found[rank], statistics.median(found), found[n - 1 - rank]


def _step() -> Callable[[], None]:
    """Work of about 5 ms: most of it outside the interpreter's lock, some of it in Python."""
    matrix = np.random.default_rng(0).normal(size=(160, 160)).astype(np.float32)
    state = {"matrix": matrix}

    def work(times: int) -> None:
        for _ in range(times):
            state["matrix"] = np.tanh(matrix @ state["matrix"])
            sum(range(500))

    times = 1
    for _ in range(12):
        began = time.perf_counter()
        work(times)
        taken = time.perf_counter() - began
        times = max(1, round(times * STEP_SECONDS / taken))
    return lambda: work(times)


def _loop(step: Callable[[], None], steps: int, tell: Callable[[], None]) -> tuple[float, float]:
    """(seconds, processor seconds of all other threads meanwhile)."""
    process, thread, began = time.process_time(), time.thread_time(), time.perf_counter()
    for _ in range(steps):
        step()
        tell()
    taken = time.perf_counter() - began
    return taken, (time.process_time() - process) - (time.thread_time() - thread)


def _calls() -> tuple[float, float, float]:
    """Microseconds of one call of batch, of a step through the loader, of epoch: the best of five tries."""
    run: Run = watch(mode="offline", **FACTS)
    empty = min(_loop(lambda: None, CALLS, lambda: None)[0] for _ in range(5))
    batch = min(_loop(lambda: None, CALLS, run.batch)[0] for _ in range(5))
    bare = min(_over(range(CALLS)) for _ in range(5))
    through = min(_over(run.loader(range(CALLS))) for _ in range(5))
    epoch = min(_loop(lambda: None, 500, lambda: _epoch(run))[0] / 500 for _ in range(5))
    run.finish()
    return (batch - empty) / CALLS * 1e6, (through - bare) / CALLS * 1e6, epoch * 1e6


def _over(batches: Any) -> float:
    began = time.perf_counter()
    for _ in batches:
        pass
    return time.perf_counter() - began


def _epoch(run: Run) -> None:
    run.epoch(0, train_loss=0.5, valid_loss=0.4, metric=0.9)


if __name__ == "__main__":
    main()
