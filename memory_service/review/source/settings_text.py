"""Settings in a text within a script: flat and nested `key: value` of YAML, and JSON."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

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
    return _literal(found, place, 0) if isinstance(found, dict) and found else None


def _yaml(text: str) -> dict[str, Any] | None:
    out: dict[str, Any] = {}
    open_at: list[tuple[int, dict[str, Any]]] = [(-1, out)]
    for line in text.splitlines():
        stated = re.sub(r"(^|\s)#.*$", "", line).rstrip()
        if not stated or stated.lstrip().startswith(("-", "---")):
            continue
        entry = _ENTRY.match(stated)
        if entry is None:
            return None
        depth, key, value = len(entry[1]), entry[2], entry[3]
        while open_at[-1][0] >= depth:
            open_at.pop()
        if value:
            open_at[-1][1][key] = _scalar(value)
        else:
            inner: dict[str, Any] = {}
            open_at[-1][1][key] = inner
            open_at.append((depth, inner))
    return out


def _scalar(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _literal(value: Any, place: ast.AST, deep: int) -> Any:
    """A value as an expression; lists of scalars stay lists."""
    if isinstance(value, dict):
        keys = [str(key) for key in value]
        entries = [_literal(inner, place, deep + 1) if deep < 8 else None for inner in value.values()]
        known = [(k, v) for k, v in zip(keys, entries, strict=True) if v is not None]
        node: ast.expr = ast.Dict(keys=[ast.Constant(k) for k, _ in known], values=[v for _, v in known])
    elif isinstance(value, list):
        items = [_literal(inner, place, deep + 1) if deep < 8 else None for inner in value]
        node = ast.List(elts=[i for i in items if i is not None], ctx=ast.Load())
    else:
        node = ast.Constant(value)
    return ast.copy_location(node, place)
