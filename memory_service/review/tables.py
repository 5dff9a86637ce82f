"""Words of code that the review looks for, and patterns of names: `tables.toml`, by the module that asks.

    _RE = patterns("folds")        _RE.loads.match("load_model")
    _SET = name_sets("folds")      "save" in _SET.saves
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from memory_service.domain.common.tables import shipped_table

_TABLES = shipped_table(__package__, "tables.toml")
Entry = TypeVar("Entry")


class Section(Generic[Entry]):
    """Entries of one section by attribute, each made once."""

    def __init__(self, name: str, made: Callable[[Any], Entry]) -> None:
        self._name, self._made = name, made

    def __getattr__(self, key: str) -> Entry:
        try:
            found = self._made(_TABLES[self._name][key])
        except KeyError:
            raise AttributeError(key) from None
        self.__dict__[key] = found
        return found


def patterns(section: str) -> Section[re.Pattern[str]]:
    """Regular expressions; parts of one stand one behind the other."""
    return Section(section, lambda parts: re.compile("".join(parts)))


def name_sets(section: str) -> Section[frozenset[str]]:
    return Section(section, lambda text: frozenset(text.split()))


def name_lists(section: str) -> Section[tuple[str, ...]]:
    """Names in their order."""
    return Section(section, lambda text: tuple(text.split()))


def name_maps(section: str) -> Section[Mapping[str, str]]:
    return Section(section, dict)
