"""What was written about one competition: models that did well there, sizes, folds, split.

A pattern says it in typed `advice`; a person's sentence ("convnext_base at 512, 5 folds beat tiny_vit at 384;
group folds by site matched the leaderboard") is read for the same things.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from memory_service.domain.recipe.validation import MOST_FOLDS, SPLITS_ADVISED

_BEATS = re.compile(
    r"\b(?:beats?|beaten|outperform(?:s|ed)?|(?:was |is |were |did )?better than|ahead of|won over)\b",
    re.IGNORECASE,
)
_LOSES = re.compile(r"\b(?:lost to|loses to|worse than|beaten by|behind)\b", re.IGNORECASE)
_DENIES = re.compile(
    r"\b(?:not|never|no|cannot|without|avoid|fail\w*|diverg\w*|overfit\w*|poor\w*|bad\w*)\b|n['’]t\b",
    re.IGNORECASE,
)
"""A sentence with one of these prefers nothing: what it says of a model is not that it won."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]{0,120}[A-Za-z0-9]")
_SIZE = re.compile(
    r"\b(?:at|size)\s+(\d{2,4})(?:\s?(?:x|×)\s?\d{2,4})?(?:\s?(?:px|pixels|tokens))?\b", re.IGNORECASE
)
_FOLDS = re.compile(r"\b(\d{1,2})[\s-]?folds?\b", re.IGNORECASE)
_GROUPED = re.compile(r"\bgroup(?:ed|s)?[\s-]?(?:k[\s-]?)?folds?(?:\s+by\s+([A-Za-z_]+))?", re.IGNORECASE)
_GROUPED_BY = re.compile(r"\b(?:grouped|groups?|split|folds?)\s+by\s+([A-Za-z_]+)", re.IGNORECASE)
_IN_TIME = re.compile(r"\b(?:time[\s-]?(?:based )?split|time[\s-]series split|later months)\b", re.IGNORECASE)
_TIMES = ("time", "date", "day", "week", "month", "year")


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that was written down, and where.

    prefer, avoid   catalogue names, the best first; size: pixels or tokens of the input
    here            written here by a person, not shipped; own: of the very competition
    """

    source: str
    text: str
    prefer: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    size: int | None = None
    folds: int | None = None
    split: str | None = None
    by: str | None = None
    here: bool = False
    own: bool = True


def note_of_pattern(row: Mapping[str, Any], catalogue_name: Callable[[str], str | None], here: bool) -> Note:
    """From a row of `patterns`; what a person wrote is read from the sentence where the advice is silent.

    catalogue_name   the catalogue's name that a word means, None where it means no model
    """
    advice = row.get("advice") or {}
    said = read_sentence(str(row["statement"]), catalogue_name) if here else Note("", "")
    models, split, by = advice.get("models"), advice.get("split"), advice.get("group_by")
    named = [catalogue_name(str(name)) for name in models] if isinstance(models, list) else []
    return Note(
        source=str(row["id"]),
        text=str(row["statement"]),
        prefer=_known(named) or said.prefer,
        avoid=said.avoid,
        size=_count(advice.get("image_size"), 8, 4096) or _count(advice.get("seq_len"), 8, 8192) or said.size,
        folds=_count(advice.get("folds"), 2, MOST_FOLDS) or said.folds,
        split=(split if split in SPLITS_ADVISED else None) or said.split,
        by=(by if isinstance(by, str) else None) or said.by,
        here=here,
    )


def beside_runs(notes: Iterable[Note], results: Mapping[str, float]) -> tuple[list[Note], dict[str, str]]:
    """The notes without the models that runs of the very competition refute, and source -> why.

    results   model -> index points of its best run there; a claim that a model is the best, or the worse one,
              falls where a measured run beats it by `REFUTED` or more
    """
    best = max(results, key=lambda model: results[model], default="")
    kept, why = [], {}
    for note in notes:
        beaten = (
            {name for name in note.prefer if results[best] - results.get(name, inf) >= REFUTED}
            if best
            else ()
        )
        own = replace(
            note,
            prefer=tuple(name for name in note.prefer if name not in beaten),
            avoid=tuple(name for name in note.avoid if name != best),
        )
        kept.append(own)
        if own != note:
            why[note.source] = f"runs of the competition here reached most with {best}. It says: {note.text}"
    return kept, why


REFUTED = 1.5
"""Index points: more than two standard deviations of a run's result (`quality.conditioning.RUN_NOISE`)."""


def read_sentence(text: str, catalogue_name: Callable[[str], str | None]) -> Note:
    """The models, size, folds and split that a sentence speaks of."""
    prefer: list[str | None] = []
    avoid: list[str | None] = []
    sizes: list[str] = []
    for sentence in re.split(r"(?<=[.;!?])\s+|\n", text):
        if _DENIES.search(sentence):
            continue
        lost = _LOSES.search(sentence)
        cut = lost or _BEATS.search(sentence)
        before, after = (sentence[: cut.start()], sentence[cut.end() :]) if cut else (sentence, "")
        good, bad = (after, before) if lost else (before, after)
        named = _models(good, catalogue_name)
        prefer += named
        avoid += _models(bad, catalogue_name)
        sizes += [size for size in _SIZE.findall(good) if int(size) >= 32] if named else []
    folds, grouped = _FOLDS.search(text), _GROUPED.search(text)
    by = (grouped.group(1) if grouped else None) or next(iter(_GROUPED_BY.findall(text)), None)
    in_time = by in _TIMES or (not by and not grouped and _IN_TIME.search(text))
    split = "time" if in_time else "group" if grouped or by else None
    return Note(
        "", text, _known(prefer), _known(avoid), int(sizes[0]) if sizes else None,
        _count(int(folds.group(1)), 2, MOST_FOLDS) if folds else None, split,
        None if by in _TIMES else by, True,
    )  # fmt: skip


def _models(text: str, catalogue_name: Callable[[str], str | None]) -> list[str | None]:
    """Names of the catalogue in a text; a plain word ("linear") is no model's name in a sentence."""
    words = (word for word in _NAME.findall(text) if re.search(r"[\d_\-/]|boost|gbm", word.lower()))
    return [catalogue_name(word) for word in words]


def _count(value: Any, low: int, high: int) -> int | None:
    """A whole number within bounds; advice is free JSON, and a plan must not rest on anything else."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and low <= value <= high else None


def _known(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))
