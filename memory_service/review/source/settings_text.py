"""Settings in a text within a script: flat and nested `key: value` of YAML, and JSON."""

from __future__ import annotations

import ast
import json
import re
from typing import Any, cast

_LONGEST = 20_000
_ENTRY = re.compile(r"^( *)([A-Za-z_][\w.-]*)\s*:(?:\s+(.*?))?\s*$")
_WORDS = {"true": True, "false": False, "yes": True, "no": False, "null": None, "none": None, "~": None}


def settings_of(text: str, place: ast.AST) -> ast.Dict | None:
    """The settings as a literal dict that stands at a place of the script; None for any other text.

    Of YAML: scalars, and mappings within mappings; what else a key holds is left out of the dict.
    """
    if len(text) > _LONGEST:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = _yaml(text)
    return _literal(found, place) if isinstance(found, dict) and found else None


def _yaml(text: str) -> dict[str, Any] | None:
    out: dict[str, Any] = {}
    open_at: list[tuple[int, dict[str, Any]]] = [(-1, out)]
    for line in text.splitlines():
        stated = re.sub(r"(^|\s)#.*$", "", line).rstrip()
        if not stated or stated.lstrip().startswith("-"):
            continue
        entry = _ENTRY.match(stated)
        if entry is None:
            return None
        depth, key, value = len(entry[1]), entry[2], entry[3]
        while open_at[-1][0] >= depth:
            open_at.pop()
        open_at[-1][1][key] = inner = _scalar(value) if value else {}
        open_at += [(depth, inner)] if not value else []
    return out


def _scalar(text: str) -> Any:
    """A number, a list, a quoted text or a word of YAML; else the text as it stands."""
    try:
        return _WORDS[text.lower()] if text.lower() in _WORDS else ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError):
        return text


def _literal(value: dict[str, Any], place: ast.AST) -> ast.Dict:
    """The settings as an expression, all of it at one place of the script."""
    found = ast.parse(repr(value), mode="eval").body
    for node in ast.walk(found):
        ast.copy_location(node, place)
    return cast("ast.Dict", found)
