"""`memory-service rank FILE.csv`: which of these models is expected to be best on each data set?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.output import JSON_OPTION, emit, table
from memory_service.domain.common.units import percent, spread


def rank(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV with the columns of POST /rank; others are left.")
    ],
    database: AnotherUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Rank candidates by expected quality; rows of one `dataset` compete."""
    from memory_service.services.planning.rank import rank as ask
    from memory_service.services.prediction.evaluate import read_rows

    emit({"rows": ask(open_ready(database), read_rows(file))}, json, _table)


def _table(answer: Mapping[str, Any]) -> Any:
    rows = sorted(answer["rows"], key=lambda row: (str(row.get("dataset") or ""), row["rank"] or 10**9))
    lines = [
        (row.get("dataset"), row.get("model"), row["rank"], spread(row["quality"]), percent(row["p_best"]))
        if row["quality"]
        else (row.get("dataset"), row.get("model"), "", row["why"], "")
        for row in rows
    ]
    return table(None, ("data set", "model", "rank", "expected quality", "best"), lines)
