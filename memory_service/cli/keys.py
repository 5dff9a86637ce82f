"""`memory-service keys create | list | revoke | rotate`: manage API keys."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from memory_service.cli.common.databases import DatabaseUrl, caller, open_at_head
from memory_service.cli.common.output import JSON_OPTION, emit, table

keys = typer.Typer(no_args_is_help=True, help="Keys: make, list, take back, exchange.")

Name = Annotated[str, typer.Argument(help="Name or id.")]


@keys.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Whose it is: it signs every change made with it.")],
    scope: Annotated[
        list[str], typer.Option(help="read, tell, edit, admin; several by comma or by repeating it.")
    ],
    expires_days: Annotated[
        float | None, typer.Option(help="Days it is valid; without: until revoked.")
    ] = None,
    database: DatabaseUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Make a key. It is shown this once: only a hash of it is kept."""
    from memory_service.services.access.keys import create_key

    scopes = [part for each in scope for part in each.split(",")]
    with open_at_head(database) as opened:
        key = create_key(opened, name, scopes, expires_days=expires_days, who=caller())
    emit(key, json, _new_key)


@keys.command("list")
def list_all(database: DatabaseUrl = None, json: bool = JSON_OPTION) -> None:
    """All keys, the latest first, with their last use; never the keys themselves."""
    from memory_service.services.access.keys import list_keys

    with open_at_head(database) as opened:
        found = list_keys(opened)
    emit({"items": found}, json, lambda _: _listed(found))


@keys.command("revoke")
def revoke(name: Name, database: DatabaseUrl = None, json: bool = JSON_OPTION) -> None:
    """Take a key back: it ends within seconds, and so do its sessions."""
    from memory_service.services.access.keys import revoke_key

    with open_at_head(database) as opened:
        gone = revoke_key(opened, name, who=caller())
    emit(gone, json, lambda _: f"Key {gone['id']} ({gone['name']}) is revoked.")


@keys.command("rotate")
def rotate(name: Name, database: DatabaseUrl = None, json: bool = JSON_OPTION) -> None:
    """Make another key of the same name, scopes and length of life; the one before ends within seconds."""
    from memory_service.services.access.keys import rotate_key

    with open_at_head(database) as opened:
        key = rotate_key(opened, name, who=caller())
    emit(key, json, _new_key)


def _new_key(key: dict[str, Any]) -> RenderableType:
    ends = f"until {key['expires_at'][:10]}" if key["expires_at"] else "until it is revoked"
    line = f"Key {key['id']} ({key['name']}): {', '.join(key['scopes'])}, {ends}. It is shown this once:"
    return Group(Text(line), Text(key["key"], style="bold", no_wrap=True))


def _listed(keys: Sequence[dict[str, Any]]) -> RenderableType:
    if not keys:
        return "No keys. Make one: memory-service keys create NAME --scope read,tell"
    rows = [(key["id"], key["name"], ", ".join(key["scopes"]), key["status"], *_days(key)) for key in keys]
    return table(None, ("id", "name", "scopes", "status", "made", "expires", "last used"), rows)


def _days(key: dict[str, Any]) -> tuple[str, str, str]:
    """When it was made, when it ends, when it was used last."""
    used = (key["last_used_at"] or "never")[:16].replace("T", " ")
    return key["created_at"][:10], (key["expires_at"] or "never")[:10], used
