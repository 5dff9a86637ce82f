"""The source that a row names: where it can be opened, and the notes that ship."""

import csv
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from memory_service import resources
from memory_service.errors import nothing_named
from memory_service.services.database.transactions import Database


def source_page(_: Database, name: str) -> dict[str, Any]:
    """`{"name", "lines"}` of a shipped note; NotFound with the nearest names."""
    notes = {note.name: note for note in resources.path("seeds", "sources").iterdir()}
    if name not in notes:
        raise nothing_named("source", name, notes)
    return {"name": name, "lines": notes[name].read_text("utf-8").splitlines()}


def linked(source: str, claim: str = "") -> Iterator[tuple[str, str]]:
    """Each part of the text with its address, or "". claim: the id of the claim whose source it is."""
    addresses, lines = _table("addresses.csv"), _table("claim_lines.csv")
    end = 0
    for found in re.finditer(rf"(?<!\w)(?:{'|'.join(addresses)})", source):
        yield source[end : found.start()], ""
        end, name = found.end(), found[0]
        to = next(re.sub(shape, to, name) for shape, to in addresses.items() if re.fullmatch(shape, name))
        yield name, f"{to}#L{lines[claim]}" if claim in lines and to.endswith(".txt") else to
    yield source[end:], ""


@lru_cache(maxsize=2)
def _table(name: str) -> dict[str, str]:
    text = resources.path("seeds", "sources", name).read_text("utf-8")
    return {row[0]: row[1] for row in csv.reader(text.splitlines()[1:])}
