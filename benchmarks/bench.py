"""How fast is the service beside what it is built on? `make bench` writes docs/methods/performance.md.

Every server runs in a process of its own, pinned to one core; the client runs on another. Each figure is a
ratio to a yardstick measured in the same run, so a slow or busy machine shifts both:

- /recommend, asked before, against a bare FastAPI `def` endpoint that returns the same bytes;
- /similar over 10 000 competitions against encoding its text alone, in the server's own setting (one core).

All of it on SQLite and on PostgreSQL with pgvector. Beside them, each with a part of the page of its own and
each to be run alone: how close are predictions on this processor once it is calibrated (cpu_epochs), what
does watching cost a training (client_cost), what does each kind of request cost (request_cost), how many
events are taken in (events), what changes over ten thousand runs
(many_runs), do pages stay quick over a hundred thousand (pages), and what do two hundred clients at once
meet (many_clients)? `make bench` writes the whole page anew, with the day and the minutes it took.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.fill import COMPETITIONS, fill
from benchmarks.page import PAGE
from benchmarks.servers import (
    ALL_CORES,
    ROOT,
    Connection,
    free_port,
    per_second,
    pin_client,
    pinned,
    postgresql,
    server_environment,
    serving,
    started,
)

QUESTION = "/recommend?task=image&size=medium&gpu=a100"
SENTENCE = (
    "Photographs of dogs, one breed each out of 120; for every test photo the probability of each breed."
)
CONNECTIONS = 4
SECONDS = 1.0
ROUNDS = 12
"""Short rounds that take turns: what else runs on the machine meets both alike."""


@dataclass(frozen=True)
class Figures:
    """One database's figures; seconds unless the name says otherwise."""

    database: str
    recommend_per_second: float
    bare_per_second: float
    similar_seconds: float
    encode_seconds: float
    short_similar_seconds: float
    short_encode_seconds: float
    first_healthz_seconds: float
    first_readyz_seconds: float
    healthz_seconds: float
    readyz_seconds: float
    rss_mib: float

    @property
    def recommend_ratio(self) -> float:
        return self.recommend_per_second / self.bare_per_second

    @property
    def similar_ratio(self) -> float:
        return self.similar_seconds / self.encode_seconds

    @property
    def short_similar_ratio(self) -> float:
        return self.short_similar_seconds / self.short_encode_seconds


def main() -> None:
    """Measure everything, print it and write the page, each part as soon as it is known."""
    began = time.monotonic()
    for part in ("cpu_epochs", "client_cost"):
        run_part(part)
    pin_client()
    with tempfile.TemporaryDirectory() as folder:
        measured = [measure("SQLite", f"sqlite:///{folder}/bench.sqlite3", Path(folder))]
        with postgresql(Path(folder)) as url:
            measured.append(measure("PostgreSQL", url, Path(folder)))
    Console().print(drawn(measured))
    for part in ("request_cost", "events", "many_runs", "pages"):
        run_part(part)
    run_part("many_clients", "--both", "--minutes", "2", "--keep")
    _, marker, parts = PAGE.read_text(encoding="utf-8").partition("<!-- ")
    whole = page(measured, (time.monotonic() - began) / 60.0)
    PAGE.write_text(f"{whole}\n{marker}{parts}", encoding="utf-8")


def run_part(name: str, *arguments: str) -> None:
    """A benchmark that writes its own part of the page, with every core."""
    began = time.monotonic()
    if ALL_CORES:
        os.sched_setaffinity(0, ALL_CORES)
    one_core = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = os.environ | (one_core if name == "client_cost" else {})
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], env=environment, check=True)
    print(f"{name}: {(time.monotonic() - began) / 60.0:.1f} minutes", flush=True)


def measure(name: str, url: str, folder: Path) -> Figures:
    """All figures of one database, from an empty one to 10 000 competitions."""
    environment = server_environment(url)
    if not url.startswith("sqlite"):
        subprocess.run([sys.executable, "-m", "memory_service", "db", "upgrade"], env=environment, check=True)
    with serving(environment) as (_, first_healthz, first_readyz, _):
        pass
    with serving(environment) as (port, healthz, readyz, process):
        recommend, bare = against_bare(port, Connection(port).get(QUESTION), folder)
        rss = psutil.Process(process.pid).memory_info().rss / 2**20
    fill(url)
    # Seeding would cut the synthetic descriptions into passages anew and encode them all.
    with serving(environment | {"MEMORY_SEED_ON_START": "false"}) as (port, _, _, _):
        similar, short_similar = similar_seconds(port, descriptions()), similar_seconds(port, sentences())
    return Figures(
        name,
        recommend,
        bare,
        similar,
        encode_seconds(descriptions()),
        short_similar,
        encode_seconds(sentences()),
        first_healthz,
        first_readyz,
        healthz,
        readyz,
        rss,
    )


def descriptions() -> list[str]:
    """The shipped descriptions, about 200 words each: what is asked when a competition begins."""
    lines = (ROOT / "seeds" / "competitions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["description"] for line in lines]


def sentences() -> list[str]:
    """Questions of one sentence, each another one."""
    return [f"{SENTENCE} Series {i}." for i in range(60)]


def against_bare(port: int, answer: bytes, folder: Path) -> tuple[float, float]:
    """(requests per second of /recommend, of the bare endpoint), in alternating rounds; medians."""
    file = folder / "answer.json"
    file.write_bytes(answer)
    other = free_port()
    environment = server_environment("") | {"BENCH_ANSWER": str(file)}
    command = pinned([sys.executable, "-m", "benchmarks.bare", str(other)])
    with started(command, other, environment, QUESTION, 60):
        ours, theirs = [], []
        for _ in range(ROUNDS):
            theirs.append(asked_per_second(other, answer))
            ours.append(asked_per_second(port, answer))
        return statistics.median(ours), statistics.median(theirs)


def asked_per_second(port: int, expected: bytes) -> float:
    """Requests answered a second over `CONNECTIONS` kept connections, so that the server never waits."""

    def begin(connection: Connection) -> Callable[[], int]:
        for _ in range(20):
            assert connection.get(QUESTION) == expected
        return lambda: bool(connection.get(QUESTION))

    return per_second(port, CONNECTIONS, SECONDS, begin)


def similar_seconds(port: int, texts: list[str]) -> float:
    """Median seconds of POST /similar."""
    connection = Connection(port)
    taken = []
    for text in texts:
        seconds, said = connection.taken("POST", "/similar", {"text": text})
        answer = json.loads(said)
        taken.append(seconds)
        assert answer["items"]
        assert answer["degraded"] is False
    return statistics.median(taken[10:])


def encode_seconds(texts: list[str]) -> float:
    """Median seconds of encoding the same texts in a process of its own, on the server's core."""
    code = (
        "import json,statistics,sys,time\n"
        "from memory_service.recall.encoder import load_encoder\n"
        "from memory_service.recall.passages import query_passages\n"
        "encoder=load_encoder().encoder\n"
        "taken=[]\n"
        "for text in json.load(sys.stdin):\n"
        "    began=time.perf_counter()\n"
        "    encoder.encode([p.text for p in query_passages(text)])\n"
        "    taken.append(time.perf_counter()-began)\n"
        "print(statistics.median(taken[10:]))\n"
    )
    done = subprocess.run(
        pinned([sys.executable, "-c", code]),
        env=server_environment(""),
        cwd=ROOT,
        check=True,
        input=json.dumps(texts),
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(done.stdout.split()[-1])


ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("/recommend, cached, requests/s", "recommend_per_second", ".0f", ""),
    ("bare endpoint with the same bytes, requests/s", "bare_per_second", ".0f", ""),
    ("**/recommend ÷ bare endpoint**", "recommend_ratio", ".2f", "≥ 0.8"),
    (f"/similar over {COMPETITIONS:,} competitions, a description, ms", "similar_seconds", "ms", ""),
    ("encoding the description alone, ms", "encode_seconds", "ms", ""),
    ("**/similar ÷ encoding, a description**", "similar_ratio", ".2f", "≤ 1.5"),
    ("the same with one sentence, ms", "short_similar_seconds", "ms", ""),
    ("encoding the sentence alone, ms", "short_encode_seconds", "ms", ""),
    ("/similar ÷ encoding, one sentence", "short_similar_ratio", ".2f", ""),
    ("to /healthz, seconds", "healthz_seconds", ".1f", ""),
    ("to /readyz, seconds", "readyz_seconds", ".1f", ""),
    ("to /healthz on an empty database, seconds", "first_healthz_seconds", ".1f", ""),
    ("to /readyz on an empty database (seeds, encodes), seconds", "first_readyz_seconds", ".1f", ""),
    ("memory of the process, MiB", "rss_mib", ".0f", ""),
)


def cell(figures: Figures, name: str, form: str) -> str:
    """A figure as it is shown."""
    value: Any = getattr(figures, name)
    return f"{value * 1000:.1f}" if form == "ms" else f"{value:{form}}"


def drawn(measured: list[Figures]) -> Table:
    """The table of the terminal."""
    table = Table("figure", *(f.database for f in measured), "target", title="One run, server on one core")
    for label, name, form, target in ROWS:
        table.add_row(label.replace("**", ""), *(cell(f, name, form) for f in measured), target)
    return table


def page(measured: list[Figures], minutes: float) -> str:
    """The beginning of docs/methods/performance.md."""
    rows = "\n".join(
        f"| {label} | " + " | ".join(cell(f, name, form) for f in measured) + f" | {target} |"
        for label, name, form, target in ROWS
    )
    return TEXT.format(
        machine=f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        load=f"{os.getloadavg()[0]:.1f}",
        day=f"{dt.datetime.now(dt.UTC):%Y-%m-%d}",
        minutes=f"{minutes:.0f}",
        names=" | ".join(f.database for f in measured),
        rule="---:|" * (len(measured) + 1),
        rows=rows,
        competitions=f"{COMPETITIONS:,}",
    )


TEXT = """\
# How fast is it?

Written by `make bench`; run it for the figures of your machine. Every server is a process pinned to one core,
the client runs on another, and each ratio compares figures of the same run.

Machine: {machine}; load average at the end {load}. One run of {day}, {minutes} minutes; what another command
wrote says so.

| figure | {names} | target |
|---|{rule}
{rows}

- `/recommend`: the same question over four open connections. The answer is cached by knowledge revision, and
  every request still reads the revision from the database. The bare endpoint is a FastAPI `def` route without
  parameters, middleware or database.
- `/similar`: {competitions} competitions, of which all but the shipped ones are synthetic: sentences of the
  shipped descriptions recombined at random (seed 7), four passages each, with random unit vectors in place of
  encodings. A description is a shipped one (about 200 words, as at the start of a competition); one sentence
  has about 20. Encoding alone is the same texts by the same model on the same core, without HTTP or database.
  It is a smaller part of a short question, because the search itself costs nearly the same for both.
- Memory is the resident set after the /recommend rounds: Python, the encoder and the knowledge.
"""


if __name__ == "__main__":
    main()
