"""Models that people name and nobody gave a cost here: what each is, and what is nearest in kind and priced.

The table is `unpriced_models.toml`.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from memory_service.domain.common.tables import shipped_table

MOST_OF_A_NAME = 400
"""Characters that are read: the patterns here are of names."""


class Kind(NamedTuple):
    """what: "a protein language model"; kin: rows of the catalogue nearest to it, none for some."""

    what: str
    names: tuple[str, ...]
    kin: tuple[str, ...]
    pattern: re.Pattern[str]


def _kind(what: str, kin: list[str], names: str = "", like: Sequence[str] = ()) -> Kind:
    starts = "|".join(re.escape(name) for name in sorted(names.split(), key=len, reverse=True))
    named = [rf"^(?:.*/)?(?:{starts})(?:[a-z]?$|[\W_\d])"] if names else []
    return Kind(what, tuple(names.split()), tuple(kin), re.compile("|".join([*named, *like])))


KINDS = [_kind(**row) for row in shipped_table(__package__, "unpriced_models.toml")["kind"]]


def kind_of(name: str) -> Kind | None:
    """The kind of a model that is known and not priced, by its name as `normal_model_name` writes it."""
    return next((kind for kind in KINDS if kind.pattern.search(name[:MOST_OF_A_NAME])), None)
