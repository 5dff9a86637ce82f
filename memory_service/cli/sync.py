"""`memory-service sync`: send what runs kept on disk while the service was away."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from memory_service.cli.common.output import JSON_OPTION, emit, table


def sync(
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="Send to this one; default: where each run meant to.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder of the spools; default: `spool` in MEMORY_HOME.")
    ] = None,
    refused: Annotated[
        bool, typer.Option("--refused", help="Try again also what a service refused for good.")
    ] = False,
    json: bool = JSON_OPTION,
) -> None:
    """Send what runs kept on disk while the service was away. Each event counts once, however often it is
    sent; a run whose process is gone without reporting its end has crashed. What the service refuses for good
    is kept aside and named. Exit 1 when something is left that was not aside before."""
    from memory_service.client.delivery.sender import sync as send

    spools = [asdict(one) for one in send(server, folder, refused=refused)]
    emit({"spools": spools}, json, lambda _: _drawn(spools))
    if any(one["outcome"] in ("away", "refused", "unreadable") for one in spools):
        raise typer.Exit(1)


def _drawn(spools: Sequence[dict[str, Any]]) -> RenderableType:
    if not spools:
        return "Nothing waits to be sent."
    rows = [(one["run_id"], one["outcome"], one["events"], one["why"]) for one in spools]
    return table(None, ["run", "outcome", ">events", "why"], rows)
