"""Opens a database: one engine per URL, with its backend's settings."""

import json
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Engine, create_engine

from memory_service.errors import Unavailable
from memory_service.store import dialects


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are not there, for its owner alone."""
    for missing in [*reversed(folder.parents), folder]:
        if not missing.is_dir():
            missing.mkdir(mode=0o700, exist_ok=True)


class Unreadable(str):
    """The text of a JSON column that is none: a file was damaged, or something else wrote to it."""

    __slots__ = ()


def is_readable(*values: Any) -> bool:
    return not any(isinstance(value, Unreadable | dialects.Damaged) for value in values)


def _read_json(text: str | bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return Unreadable(text if isinstance(text, str) else text.decode("utf-8", "replace"))


def read_object(text: str | None) -> dict[str, Any]:
    """The JSON object that a stored text is; an empty one, which is `Damaged`, for anything else."""
    found = _read_json(text or "")
    return found if isinstance(found, dict) else dialects.Damaged()


def _as_json(value: Any) -> str:
    """JSON has no infinite number: null stands for it, so that no figure keeps its row from being written."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return orjson.dumps(value).decode()


def make_engine(url: str) -> Engine:
    """An engine for `sqlite:///file` or `postgresql://…`; the folder of a file is made.

    InvalidInput for another URL; Unavailable when the folder cannot be made.
    """
    parsed = dialects.parse_url(url)
    dialect = dialects.for_url(parsed)
    if dialect.embedded and parsed.database:
        file = Path(parsed.database).expanduser()
        try:
            make_private_folder(file.parent)
        except OSError as error:
            raise Unavailable(f"the folder {file.parent} for the database cannot be made: {error}") from error
        parsed = parsed.set(database=str(file))
    engine = create_engine(
        parsed,
        json_serializer=_as_json,
        json_deserializer=_read_json,
        hide_parameters=True,  # errors go to the log with their statement: what people wrote stays out
        **dialect.engine_options(),
    )
    dialect.install(engine)
    return engine
