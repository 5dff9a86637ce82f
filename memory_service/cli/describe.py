"""`memory-service describe DATA_DIR`: what a folder of data says of its problem."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from memory_service.cli.common.output import JSON_OPTION, emit
from memory_service.errors import InvalidInput, NotInstalled

FOLDER = typer.Argument(help="The folder with train.csv and test.csv or sample_submission.csv.", exists=True)


TARGET = typer.Option(
    metavar="COLUMN", help="The column of train.csv to predict, if the sample does not say."
)


def facts_of(folder: Path, target: str = "") -> dict[str, Any]:
    """The facts; InvalidInput where the folder cannot be read."""
    try:
        from memory_service.train.look import describe as look
    except ImportError as error:
        raise NotInstalled(f"To look at data: {error}") from error
    try:
        with redirect_stdout(sys.stderr):  # its notes are no part of the answer
            return look(folder, target)
    except (OSError, ValueError) as error:
        raise InvalidInput(str(error)) from error


def question_of(folder: Path, target: str = "") -> dict[str, str]:
    """What a question of /recommend takes of the facts."""
    facts = facts_of(folder, target)
    from memory_service.train.look import FIELDS

    if facts.get("numbered"):  # the metric says whether they are classes or values
        facts["task"] = facts["task"].removesuffix("-classification")
    return {name: str(facts[name]) for name in FIELDS if facts.get(name)}


def describe(
    folder: Annotated[Path, FOLDER], target: Annotated[str, TARGET] = "", json: bool = JSON_OPTION
) -> None:
    """Task, target, rows, classes, groups, times, sizes of a folder of data; it stays on this machine."""

    def table(facts: dict[str, Any]) -> Table:
        shown = Table("fact", "value", box=None)
        for name, value in facts.items():
            text = ", ".join(f"{k}: {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
            shown.add_row(name, text)
        return shown

    emit(facts_of(folder, target), json, table)
