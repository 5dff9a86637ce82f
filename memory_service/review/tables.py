"""Words of code that the review looks for, and patterns of names: `tables.toml`, by the module that asks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from memory_service.domain.common.tables import shipped_table

_TABLES = shipped_table(__package__, "tables.toml")
_OTHER = re.compile(r"\{([a-z]\w*)\}")


def _written(entries: Mapping[str, Any], key: str) -> str:
    return _OTHER.sub(lambda other: _written(entries, other[1]), "".join(entries[key]))


_SECTIONS = _TABLES["patterns"].items()
PATTERNS = {section: {key: re.compile(_written(all_, key)) for key in all_} for section, all_ in _SECTIONS}
Entry = TypeVar("Entry")


class Section(Generic[Entry]):
    """The entries of one section by attribute."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self.__dict__.update(entries)

    def __getattr__(self, key: str) -> Entry:
        raise AttributeError(key)


def patterns(section: str) -> Section[re.Pattern[str]]:
    """Regular expressions; `{name}` in one stands for another."""
    return Section(PATTERNS[section])


def name_sets(section: str) -> Section[frozenset[str]]:
    return Section({key: frozenset(text.split()) for key, text in _TABLES["sets"][section].items()})


def name_lists(section: str) -> Section[tuple[str, ...]]:
    """Names in their order."""
    return Section({key: tuple(text.split()) for key, text in _TABLES["lists"][section].items()})


def name_maps(section: str) -> Section[Mapping[str, str]]:
    return Section(_TABLES["maps"][section])
