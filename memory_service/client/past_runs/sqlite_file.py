"""SQLite databases of trackers, read only: none of the service's own."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def query(path: Path, *statements: str) -> list[list[dict[str, Any]]]:
    """Rows of each statement on a file that nothing is written to; ValueError for another file, or another
    tracker's."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=10.0)) as file:
            file.row_factory = sqlite3.Row
            return [[dict(row) for row in file.execute(statement)] for statement in statements]
    except sqlite3.Error as error:
        raise ValueError(str(error)) from error
