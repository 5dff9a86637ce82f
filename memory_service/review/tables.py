"""Words of code that the review looks for, and patterns of names: `tables.toml`, by the module that asks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from memory_service.domain.common.tables import shipped_table

_TABLES = shipped_table(__package__, "tables.toml")
_OTHER = re.compile(r"\{([a-z]\w*)\}")


def _written(entries: Mapping[str, Any], key: str) -> str:
    return _OTHER.sub(lambda other: _written(entries, other[1]), "".join(entries[key]))


_SECTIONS = _TABLES["patterns"].items()
PATTERNS = {section: {key: re.compile(_written(all_, key)) for key in all_} for section, all_ in _SECTIONS}
_USUAL = {"kinds": "", "needs": "", "without": "(?!)"}
KINDS = {case: _USUAL | stated for case, stated in _TABLES["kinds"].items()}
Entry = TypeVar("Entry")


class Section(Generic[Entry]):
    """The entries of one section by attribute."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self.__dict__.update(entries)

    def __getattr__(self, key: str) -> Entry:
        raise AttributeError(key)


class Words(NamedTuple):
    """What one module looks for: patterns, sets of names, names in order, names -> what belongs to each."""

    patterns: Section[re.Pattern[str]]
    sets: Section[frozenset[str]]
    lists: Section[tuple[str, ...]]
    maps: Section[Mapping[str, str]]


def words_of(section: str) -> Words:
    sets, lists = (_TABLES[kind].get(section, {}).items() for kind in ("sets", "lists"))
    return Words(
        Section(PATTERNS.get(section, {})),
        Section({key: frozenset(text.split()) for key, text in sets}),
        Section({key: tuple(text.split()) for key, text in lists}),
        Section(_TABLES["maps"].get(section, {})),
    )
