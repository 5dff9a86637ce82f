"""Does a server stay as it is under everything at once?

    python -m benchmarks.soak [minutes=30] [--workers 1] [--clients 40]

The clients of `benchmarks.many_clients`, each with a pause between two requests, who also edit, export, send
logs and call a tool of MCP. Prints times by kind of request, and the server's memory, threads and files over
the time. Exit status 1 for an acknowledged event that is missing or doubled, for a request that failed (any
answer but 2xx and 429), and for memory that grew by more than MOST_GROWTH over the second half.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.client_life import MixedClient
from benchmarks.many_clients import Outcome, errors_of, measure, times_of

__all__ = ["MOST_GROWTH", "failures", "growth", "page"]

MOST_GROWTH = 0.1
"""Of memory, last tenth of the time over the tenth after the middle (medians): caches are full by then."""
PARTS = 10


def parts_of(outcome: Outcome) -> list[tuple[float, ...]]:
    """Of each tenth of the time the medians of (seconds, MiB, threads, files)."""
    looks, last = outcome.memory, outcome.memory[-1][0]
    parts = [[look for look in looks if n <= look[0] * PARTS / (last or 1) <= n + 1] for n in range(PARTS)]
    return [tuple(map(statistics.median, zip(*part, strict=True))) for part in parts if part]


def growth(outcome: Outcome) -> float:
    """Share by which memory grew over the second half."""
    parts = parts_of(outcome)
    return parts[-1][1] / parts[len(parts) // 2][1] - 1


def failures(outcome: Outcome) -> list[str]:
    """What no soak may show, in words."""
    broken = sum(count for (_, result), count in outcome.errors.items() if result != "429")
    share = growth(outcome)
    return [
        *([f"{outcome.lost} acknowledged events are lost"] if outcome.lost else []),
        *([f"{outcome.doubled} events are stored twice"] if outcome.doubled else []),
        *([f"{broken} requests failed: {errors_of(outcome)}"] if broken else []),
        *([f"memory grew by {share:.0%} over the second half"] if share > MOST_GROWTH else []),
    ]


def page(outcome: Outcome) -> str:
    """What is printed."""
    told, kept = sum(outcome.told.values()), sum(rows for rows, _ in outcome.kept.values())
    rows = [f"| {s / 60:.1f} | {m:.0f} | {t:.0f} | {f:.0f} |" for s, m, t, f in parts_of(outcome)]
    return f"""\
{outcome.clients} clients for {outcome.seconds / 60:.1f} minutes: {len(outcome.asked):,} requests.
Errors: {errors_of(outcome)}. Events: {told:,} acknowledged, {kept:,} stored; {outcome.lost} lost,
{outcome.doubled} doubled. Memory over the second half: {growth(outcome):+.1%}.

{times_of(outcome)}

| minute | memory, MiB | threads | files |
|---:|---:|---:|---:|
{chr(10).join(rows)}"""


def main() -> None:
    """Print the tables; exit 1 where something failed."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("minutes", type=float, nargs="?", default=30.0)
    reader.add_argument("--workers", type=int, default=1, help="processes of the server")
    reader.add_argument("--clients", type=int, default=40)
    given = reader.parse_args()
    with tempfile.TemporaryDirectory() as name:
        url, scopes = f"sqlite:///{name}/soak.sqlite3", ("read", "tell", "edit")
        outcome = measure(
            url, "SQLite", given.clients, given.minutes, Path(name), given.workers, MixedClient, scopes
        )
    print(page(outcome))
    sys.exit("\n".join(failures(outcome)) or 0)


if __name__ == "__main__":
    main()
