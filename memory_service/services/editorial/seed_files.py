"""The seed files, read strictly (a wrong row is named by file and line), and the form in which facts
are written."""

import csv
import gzip
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_service.domain.cost.profile import Profile
from memory_service.domain.description.metrics import metric_named
from memory_service.domain.runs.pattern_effect import Tally
from memory_service.errors import InvalidInput
from memory_service.schemas import rows as values_of_rows
from memory_service.store.queries import rows
from memory_service.store.queries.rows import BOOKKEEPING

FILES: Mapping[str, str] = {
    "competitions": "competitions.jsonl",
    "solutions": "solutions.jsonl",
    "patterns": "patterns.jsonl",
    "models": "models.jsonl",
    "profiles": "profiles.jsonl.gz",
    "gpus": "gpus.jsonl",
    "claims": "claims.csv",
    "strategies": "strategies.jsonl",
}
"""Table -> its file in `seeds/`, parents first."""

OF_COMPETITIONS = ("patterns", "solutions")
"""Tables whose rows may name a competition."""

_CSV_WHOLE = ("image_size", "batch_min", "batch_max", "folds")
_CSV_NUMBERS = ("vram_gib", "value_min", "value_max")


@dataclass(frozen=True, slots=True)
class Seed:
    """A row as its file gives it, checked; `digest` changes when any value does."""

    key: str
    values: Mapping[str, Any]
    digest: str
    line: int


def files_digest(folder: Path) -> str:
    """Changes when any seed file does."""
    out = hashlib.sha256()
    for name in FILES.values():
        path = folder / name
        out.update(f"{name} {path.is_file()}\n".encode())
        if path.is_file():
            out.update(hashlib.sha256(path.read_bytes()).digest())
    return out.hexdigest()[:32]


def read_seeds(folder: Path) -> dict[str, dict[str, Seed]]:
    """Table -> key -> row, all files. InvalidInput names file and line of the first thing wrong."""
    found: dict[str, dict[str, Seed]] = {}
    for table, name in FILES.items():
        path = folder / name
        if not path.is_file():
            raise InvalidInput(f"the seeds lack {name} in {folder}")
        found[table] = _read(table, path)
    for table in OF_COMPETITIONS:
        for seed in found[table].values():
            competition = seed.values["competition"]
            if competition is not None and competition not in found["competitions"]:
                raise InvalidInput(f"{FILES[table]}:{seed.line}: no competition is called {competition!r}")
    return found


def _read(table: str, path: Path) -> dict[str, Seed]:
    out: dict[str, Seed] = {}
    key_name = rows.key_of(rows.ENTITIES[table])
    for line, raw in read_lines(path):
        try:
            values = _checked(table, raw)
        except (InvalidInput, TypeError, KeyError) as error:
            errors = getattr(error, "errors", ())
            nearest = ", ".join(name for wrong in errors for name in wrong.nearest)
            hint = f"; nearest: {nearest}" if nearest else ""
            raise InvalidInput(f"{path.name}:{line}: {error}{hint}", errors) from error
        key = values[key_name]
        if key in out:
            raise InvalidInput(f"{path.name}:{line}: {key!r} stands in line {out[key].line} already")
        text = json.dumps(values, sort_keys=True, ensure_ascii=False)
        out[key] = Seed(key, values, hashlib.sha256(text.encode()).hexdigest()[:32], line)
    return out


def _checked(table: str, raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise InvalidInput("is not an object")
    if table == "solutions":
        return values_of_rows.validate(table, as_row(table, raw))
    for name in ("source", "grade"):
        if not raw.get(name):
            raise InvalidInput(f"lacks its {name}")
    return _profile(raw) if table == "profiles" else values_of_rows.validate(table, raw)


def read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """(number of the line, row) of a `.jsonl`, `.jsonl.gz` or `.csv` file; InvalidInput where it cannot be
    read."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path.name} cannot be read: {error}") from error
    if path.suffix == ".csv":
        reader = csv.DictReader(io.StringIO(text, newline=""))
        for row in reader:
            yield reader.line_num, _typed(row, path.name, reader.line_num)
        return
    for line, content in enumerate(text.split("\n"), 1):
        if content.strip():
            try:
                yield line, json.loads(content)
            except ValueError as error:
                raise InvalidInput(f"{path.name}:{line}: is not JSON: {error}") from error


def _typed(row: Mapping[str | None, Any], name: str, line: int) -> dict[str, Any]:
    if None in row or None in row.values():
        raise InvalidInput(f"{name}:{line}: has another number of cells than the header")
    out: dict[str, Any] = {}
    for key, cell in row.items():
        try:
            out[str(key)] = _cell(str(key), cell)
        except ValueError as error:
            raise InvalidInput(f"{name}:{line}: {key}: {cell!r} is not a number") from error
    return out


def _cell(key: str, cell: str) -> Any:
    if not cell.strip():
        return None
    if key in _CSV_WHOLE:
        return int(cell)
    return float(cell) if key in _CSV_NUMBERS else cell


def _profile(raw: Mapping[str, Any]) -> dict[str, Any]:
    profile = {key: value for key, value in raw.items() if key not in ("source", "grade")}
    return values_of_rows.profile_values(Profile.from_dict(profile), raw["source"], raw["grade"])


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
