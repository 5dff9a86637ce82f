"""Output of commands: JSON with `--json`, else a table; errors on stderr."""

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, NoReturn

import orjson
import typer
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from memory_service.error_document import problem_of
from memory_service.errors import MemoryServiceError

EXIT_REFUSED = 1
EXIT_USAGE = 2

PIPED_COLUMNS = 200
"""Where nobody's window says how wide a line may be: a table keeps its ids and names whole."""

FIRST_COLUMN_SHARE = 0.6

stdout = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPED_COLUMNS)
stderr = Console(stderr=True)

JSON_OPTION = typer.Option(False, "--json", help="Print one JSON document instead of tables.")
"""The `--json` flag of every command that answers: `json: bool = JSON_OPTION`."""

_JSON = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


class Spinner:
    """A sign of work on a terminal, after a second; nothing where stderr is none."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._status: Status | None = None

    def start(self) -> None:
        """Begin to wait."""
        self.stop()
        if stderr.is_terminal:
            self._status = stderr.status("working")
            self._timer = threading.Timer(SPINNER_AFTER_SECONDS, self._status.start)
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """Something is to be shown, or asked, or it is over."""
        if self._timer is not None and self._status is not None:
            self._timer.cancel()
            self._timer.join()
            self._status.stop()
        self._timer = self._status = None


SPINNER_AFTER_SECONDS = 1.0

spinner = Spinner()


def spinning(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, with the spinner until it prints or ends."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        spinner.start()
        try:
            return command(*args, **kwargs)
        finally:
            spinner.stop()

    return run


def emit(data: Any, json: bool, render: Callable[[Any], Any]) -> None:
    """Print `data` as JSON with `--json`, else what `render(data)` returns."""
    spinner.stop()
    if json:
        sys.stdout.write(orjson.dumps(data, option=_JSON | orjson.OPT_INDENT_2).decode() + "\n")
        return
    drawn = render(data)
    if drawn is not None:
        stdout.print(drawn)


def log_to_stderr(level: str) -> None:
    """The service's log; chatty libraries from warnings up."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("alembic", "mcp", "sentence_transformers", "httpx2"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLevelName(level)))


def fail(error: MemoryServiceError, json: bool = False) -> NoReturn:
    """Print a refusal on stderr (a problem document with `--json`) and exit 1."""
    if json:
        sys.stderr.write(orjson.dumps(problem_of(error)).decode() + "\n")
    else:
        stderr.print(f"[bold red]{error.code}[/]: ", end="")
        stderr.print(error.detail, markup=False, highlight=False, soft_wrap=True)
        for item in error.errors:
            hint = f" (nearest: {', '.join(item.nearest)})" if item.nearest else ""
            if item.message.lower() in error.detail.lower() and (not hint or "nearest" in error.detail):
                continue  # said already
            line = f"  {item.field}: {item.message}{hint}"
            stderr.print(line, markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(EXIT_REFUSED)


def table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A plain table; a leading `>` aligns a column right. The first column is folded only where its cells
    would leave the others no room."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    whole = max((len(row[0]) for row in cells), default=0) <= FIRST_COLUMN_SHARE * stdout.width
    drawn = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for place, name in enumerate(columns):
        side: JustifyMethod = "right" if name.startswith(">") else "left"
        drawn.add_column(name.lstrip(">"), justify=side, overflow="fold", no_wrap=whole and place == 0)
    for row in cells:
        drawn.add_row(*map(escape, row))
    return drawn
