"""Rows of competitions, solutions and patterns as fact files and exports write them, made rows of tables.

Fact files (`competitions_more.jsonl`, `solutions.jsonl`) say "other" and "unknown" where a table has null,
name families of metrics more finely, and know pictures of no one size.
"""

import re
from collections.abc import Mapping
from typing import Any

from memory_service.domain.description.metrics import metric_named
from memory_service.domain.runs.pattern_effect import Tally
from memory_service.errors import InvalidInput
from memory_service.store.queries.rows import BOOKKEEPING

_KEYS: Mapping[str, tuple[str, ...]] = {
    "competitions": ("slug", "description"),
    "solutions": ("competition", "rank"),
    "patterns": ("statement", "kind"),
}
TABLES = tuple(_KEYS)
"""What can be imported, in the order in which rows name one another."""

_MADE = {
    "competitions": ("size", "inferred"),
    "solutions": ("id",),
    "patterns": ("outcomes", *Tally().as_dict()),
}
"""What exports carry and nobody gives."""

_UNUSED = {"competitions": ("prize", "basis")}
_FAMILIES = {
    **dict.fromkeys(("rmse", "rmsle", "mae", "mape-smape", "pinball"), "error-regression"),
    "gini": "auc",
    "levenshtein": "edit-distance",
}
_OF_PICTURES = ("image-segmentation", "object-detection")


def table_of(raw: Any) -> str:
    """The table that a row of a file belongs to; InvalidInput for what is none."""
    if isinstance(raw, dict):
        for table, names in _KEYS.items():
            if all(name in raw for name in names):
                return table
    known = ", ".join(f"{table} ({' and '.join(names)})" for table, names in _KEYS.items())
    raise InvalidInput(f"is none of the rows that can be imported: {known}")


def as_row(table: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row of the table; what is wrong with them `schemas.rows.validate` says."""
    left_out = (*BOOKKEEPING, *_MADE[table], *_UNUSED.get(table, ()))
    values = {name: value for name, value in raw.items() if name not in left_out}
    if table == "competitions":
        for name, word in (("task", "other"), ("modality", "other"), ("split", "unknown")):
            if values.get(name) == word:
                values[name] = None
        if isinstance(size := values.get("image_size"), str):
            square = re.fullmatch(r"^(\d{1,6})x\1\b.*", size)
            values["image_size"] = int(square[1]) if square else None
        if "metric_family" in values:
            values["metric_family"] = _metric_family(values)
    if table == "solutions" and not values.get("source"):
        where = values.get("read_at") or values.get("url") or "general knowledge, recalled"
        values["source"] = where
    return values


def _metric_family(values: Mapping[str, Any]) -> Any:
    """Families that finer names belong to; "map" is three: of boxes and masks, of rankings, of classes."""
    family, metric = values["metric_family"], str(values.get("metric") or "")
    if family == "map":
        if values.get("task") in _OF_PICTURES or "IoU" in metric:
            return "map-detection"
        return "ranking" if re.search(r"\bat \d|@\d|precision at", metric) else "auc"
    if family == "other":
        named = metric_named(metric)
        return named.family if named else None
    return _FAMILIES.get(family, family)
