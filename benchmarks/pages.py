"""Do pages stay as quick over a hundred thousand runs as over a hundred, and how much must a browser fetch?

    python -m benchmarks.pages

Two servers on the same core, over databases of 100 and of 100 000 runs with 10 000 competitions each; every
page of tests/web/paths.py is asked of both in turns, so that what else runs on the machine meets both alike.
First paint is the page and every script and stylesheet it names, as they are sent (gzip), icons included.
`make bench` writes the table into docs/methods/performance.md; run alone it replaces the table there.
"""

from __future__ import annotations

import multiprocessing
import re
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from benchmarks.fill import COMPETITIONS, RUNS, fill_big
from benchmarks.page import Section
from benchmarks.servers import Connection, pin_client, server_environment, serving
from memory_service.services.database.transactions import Database
from memory_service.services.editorial.seeding import seed
from memory_service.services.operations.database import upgrade
from tests.web.paths import PAGES, Page

__all__ = ["SECTION", "first_paint", "main", "section"]

FEW = 100
ROUNDS = 9
MOST_RATIO = 3.0
MOST_BYTES = 300 * 1024
LEAST_SECONDS = 0.003
"""Below this a ratio tells of the machine, not of the page: it counts as this."""

SECTION = Section("pages")
_FILES = re.compile(r'(?:src|href)="(/static/[^"]+)"')


@dataclass(frozen=True)
class Figure:
    """One page: median seconds over few and many runs, bytes of its first paint over many."""

    page: str
    few: float
    many: float
    paint_bytes: int

    @property
    def ratio(self) -> float:
        return max(self.many, LEAST_SECONDS) / max(self.few, LEAST_SECONDS)


class Reader:
    """A browser without a screen: one kept connection, gzip."""

    def __init__(self, port: int) -> None:
        self._connection = Connection(port, "Accept-Encoding: gzip\r\n")
        self._plain = Connection(port)

    def get(self, path: str) -> tuple[float, bytes]:
        """(seconds, bytes as they are sent); AssertionError when it is not there."""
        return self._connection.taken("GET", path)

    def html(self, path: str) -> str:
        """The page's text."""
        return self._plain.get(path).decode()

    def address(self, page: Page) -> str:
        """Where the page lies in this database."""
        if not page.via:
            return page.path
        html = self.html(page.path).partition("<main")[2]
        found = re.search(rf'href="({re.escape(page.via)}[^"]+)"', html)
        assert found, f"{page}: no such link"
        return unescape(found[1])

    def close(self) -> None:
        self._connection.close()
        self._plain.close()


def first_paint(reader: Reader, path: str) -> int:
    """Bytes of a page and of every file that it names."""
    page = reader.get(path)[1]
    names = dict.fromkeys(_FILES.findall(reader.html(path)))
    return len(page) + sum(len(reader.get(unescape(name))[1]) for name in names)


def measured(few: Reader, many: Reader) -> list[Figure]:
    """Every page, asked of both in turns; the first answer of each is not counted."""
    figures = []
    for page in PAGES:
        readers = [(reader, reader.address(page)) for reader in (few, many)]
        seconds: list[list[float]] = [[], []]
        for _ in range(ROUNDS + 1):
            for place, (reader, path) in enumerate(readers):
                seconds[place].append(reader.get(path)[0])
        few_seconds, many_seconds = (statistics.median(each[1:]) for each in seconds)
        figures.append(Figure(str(page), few_seconds, many_seconds, first_paint(*readers[1])))
    return figures


def filled(folder: Path, runs: int) -> str:
    """The URL of a database with so many runs, and 10 000 competitions."""
    url = f"sqlite:///{folder}/pages-{runs}.sqlite3"
    with Database(url) as database:
        upgrade(database)
        seed(database)
        fill_big(database, runs=runs, competitions=COMPETITIONS)
    return url


def section() -> str:
    """Measure, and the table as docs/methods/performance.md has it."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        readers = []
        for runs in (FEW, RUNS):
            # In a process of its own: its memory is given back before anything is timed.
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                url = process.submit(filled, Path(folder), runs).result()
            environment = server_environment(url) | {"MEMORY_SEED_ON_START": "false"}
            port, *_ = held.enter_context(serving(environment))
            readers.append(held.enter_context(closing(Reader(port))))
        return SECTION.marked(page(measured(*readers)))


def page(figures: list[Figure]) -> str:
    """The section."""
    rows = "\n".join(
        f"| `{f.page}` | {f.few * 1000:.1f} | {f.many * 1000:.1f} | {f.ratio:.2f} |"
        f" {f.paint_bytes / 1024:.0f} |"
        for f in figures
    )
    worst = max(figures, key=lambda f: f.ratio)
    heaviest = max(figures, key=lambda f: f.paint_bytes)
    return f"""\
## Pages

The widest ratio is {worst.ratio:.2f} (`{worst.page}`, target ≤ {MOST_RATIO:g}); the heaviest first paint
{heaviest.paint_bytes / 1024:.0f} KiB compressed (`{heaviest.page}`, target ≤ {MOST_BYTES / 1024:.0f}).

| page | ms at {FEW} runs | ms at {RUNS:,} runs | ratio | first paint, KiB |
|---|---:|---:|---:|---:|
{rows}

- SQLite, {COMPETITIONS:,} competitions in both databases; medians of {ROUNDS} answers in turns. If a filter
  matches less than a page of the {FEW} runs, there is less work there, and the ratio means little. In a
  ratio, times below {LEAST_SECONDS * 1000:g} ms count as {LEAST_SECONDS * 1000:g} ms.
- First paint: the page and all its files, as sent; for the next page the files come from the browser's cache.
"""


def main() -> None:
    """Measure and replace the table of docs/methods/performance.md."""
    pin_client()
    text = section()
    print(text)
    SECTION.keep(text)


if __name__ == "__main__":
    main()
