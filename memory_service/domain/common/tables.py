"""Tables of words that lie beside the code that reads them, as TOML."""

import tomllib
from importlib.resources import files
from typing import Any


def shipped_table(package: str | None, name: str) -> dict[str, Any]:
    """The table of a file in a package (`__package__` of who asks)."""
    return tomllib.loads(files(package or "").joinpath(name).read_text(encoding="utf-8"))
