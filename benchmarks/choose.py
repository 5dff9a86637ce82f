"""What does choosing cost, and how often is a comparison right? Writes docs/methods/choose.md.

    python -m benchmarks.choose

- /choose for 12 offers, not asked before, beside one /recommend, not asked before either: processor time and
  wall time of the service call, in one process.
- /compare of two plans.
- Pairs of models on public results whose data set was left out of the fit: how often the one expected to be
  better is, beside a coin and "the model of more parameters".
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.page import Section
from benchmarks.quality import families, fitted
from benchmarks.quality_check import difference
from memory_service import resources
from memory_service.cli.common.databases import open_ready
from memory_service.domain.quality.ranking import probability_better
from memory_service.schemas.choose import ChooseRequest, CompareRequest
from memory_service.schemas.validation_errors import checked
from memory_service.services.choice.choose import choose_offer
from memory_service.services.choice.compare import compare_trainings
from memory_service.services.planning.recommend import recommend

SECTION = Section("figures", Path(__file__).parents[1] / "docs" / "methods" / "choose.md")
ROUNDS = 9
BOXES = (
    ("t4", 4, 0.4), ("t4", 8, 0.6), ("l4", 8, 0.8), ("a10g", 4, 1.0), ("a10g", 12, 1.5), ("l40s", 8, 1.8),
    ("a100", 12, 2.0), ("a100-80gb", 12, 2.5), ("h100", 26, 4.0), ("h200", 23, 5.0), ("rtx4090", 16, 0.7),
    ("2xt4", 4, 0.0),
)  # fmt: skip
OFFERS = [
    {"name": f"{gpu}-{cores}", "gpu": gpu, "cpu_count": cores, "price_per_hour": price}
    for gpu, cores, price in BOXES
]
TASKS = ("image", "text", "tabular-classification")


def spent(call: Callable[[int], Any]) -> tuple[float, float]:
    """(processor, wall) milliseconds of a call, median; its argument makes each question a new one."""
    call(0)
    found = []
    for number in range(1, ROUNDS + 1):
        cpu, wall = time.process_time(), time.perf_counter()
        call(number)
        found.append((1e3 * (time.process_time() - cpu), 1e3 * (time.perf_counter() - wall)))
    return statistics.median(cpu for cpu, _ in found), statistics.median(wall for _, wall in found)


def costs() -> Iterator[tuple[str, str, tuple[float, float]]]:
    """(task, what, (processor, wall) milliseconds)."""
    with tempfile.TemporaryDirectory() as folder:
        database = open_ready(f"sqlite:///{folder}/choose.sqlite3")
        for task in TASKS:
            asked = {"task": task, "deadline_minutes": 240.0, "offers": OFFERS}

            def choose(n: int, asked: dict[str, Any] = asked) -> Any:
                return choose_offer(database, checked(ChooseRequest, {**asked, "n_train": 20_000 + n}))

            def plan(n: int, task: str = task) -> Any:
                return recommend(database, {"task": task, "gpu": "a100", "n_train": 30_000 + n})

            yield task, "/choose, 12 offers", spent(choose)
            yield task, "/recommend, one card", spent(plan)
            sides = checked(CompareRequest, {"plans": [plan(100 + n) for n in range(2)]})

            def beside(_: int, sides: CompareRequest = sides) -> Any:
                return compare_trainings(database, sides)

            yield task, "/compare, two plans", spent(beside)
        database.close()


def right() -> Iterator[tuple[str, int, list[float]]]:
    """(kind of data, pairs, shares right in % and the mean probability): by the index left out, by parameters
    (of pairs where these differ), expected; pairs whose probability is 80 % and more, and how often right."""
    rows = [json.loads(line) for line in resources.path("seeds", "models.jsonl").read_text().splitlines()]
    params, known = {row["name"]: row.get("params_m") or 0.0 for row in rows}, families()
    fits, figures = fitted()
    for name, fit in fits.items():
        won, larger, said, sure = list[float](), list[float](), list[float](), list[float]()
        for table, expected in zip(fit.evidence.tables, fit.left_out(), strict=True):
            for a, b in combinations(table.values, 2):
                if table.regret[a] == table.regret[b]:
                    continue
                better = table.regret[a] < table.regret[b]
                sd = difference(a, b, figures[name]["difference_sd"], known)
                ahead = float(probability_better(expected[a], expected[b], sd))
                won.append((ahead >= 0.5) == better)
                said.append(max(ahead, 1.0 - ahead))
                sure += [won[-1]] if said[-1] >= 0.8 else []
                if params.get(a, 0.0) != params.get(b, 0.0):
                    larger.append((params.get(a, 0.0) > params.get(b, 0.0)) == better)
        shares = [float(np.mean(part)) if part else np.nan for part in (won, larger, said, sure)]
        yield name, len(won), [*(100.0 * each for each in shares), 100.0 * len(sure) / len(won)]


def main() -> None:
    """Measure, print, and write the two tables of the page."""
    lines = ["| task | question, not asked before | processor, ms | wall, ms |", "|---|---|---|---|"]
    lines += [f"| {task} | {what} | {cpu:.0f} | {wall:.0f} |" for task, what, (cpu, wall) in costs()]
    heads = (
        "kind of data", "pairs", "right", "more parameters", "a coin", "said on average",
        "said 80 % and more (share of pairs)", "right of these",
    )  # fmt: skip
    lines += ["", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for name, pairs, (won, larger, said, sure, share) in right():
        cells = [f"{each:.0f} %" if np.isfinite(each) else "-" for each in (larger, 50.0, said, share, sure)]
        lines.append(f"| {name} | {pairs} | **{won:.0f} %** | {' | '.join(cells)} |")
    text = "\n".join(lines)
    print(text)
    SECTION.keep(SECTION.marked(text))


if __name__ == "__main__":
    main()
