"""Tables of words that lie beside the code that reads them, as TOML."""

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any


def shipped_table(package: str | None, name: str) -> dict[str, Any]:
    """The table of a file in a package (`__package__` of who asks)."""
    return tomllib.loads(files(package or "").joinpath(name).read_text(encoding="utf-8"))


def with_parts(text: str, parts: Mapping[str, str]) -> str:
    """The text with each `@name` in it replaced by that part, which may name others."""
    return re.sub(r"@(\w+)", lambda named: with_parts(parts[named[1]], parts), text)
