"""One winning solution, as votes read it, and the scores that ranks reached in the very competition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BASIS_WEIGHT = {"read": 1.0, "second-hand": 0.8, "recalled": 0.5}
"""How much a solution counts by how it became known."""

RANK_DECAY = 0.1
"""A solution of rank r counts 1 / (1 + 0.1 (r - 1)). Rates of 0 to 0.3 do alike (docs/methods/memory.md)."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A solution's row without what no vote reads; empty and None: not known.

    id      `<competition>#<rank>`; split, by, folds: how it validated; private: its score on the hidden part
    year    of its competition
    """

    id: str
    competition: str
    rank: int
    basis: str
    families: tuple[str, ...]
    techniques: tuple[str, ...]
    loss: tuple[str, ...]
    split: str | None = None
    by: str | None = None
    folds: int | None = None
    image_size: int | None = None
    seq_len: int | None = None
    private: float | None = None
    features: tuple[str, ...] = ()
    what_mattered: tuple[str, ...] = ()
    what_failed: tuple[str, ...] = ()
    year: int | None = None

    @property
    def weight(self) -> float:
        """How much it counts among the solutions of its competition."""
        return BASIS_WEIGHT.get(self.basis, 0.5) / (1.0 + RANK_DECAY * (self.rank - 1))

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Solution:
        """From a row of `solutions`, with the `year` of its competition."""
        validation, score = row.get("validation") or {}, row.get("score") or {}
        split = validation.get("split")
        listed: dict[str, Any] = {name: tuple(row.get(name) or ()) for name in _LISTS}
        return cls(
            id=str(row["id"]),
            competition=str(row["competition"]),
            rank=int(row["rank"]),
            basis=str(row["basis"]),
            split=split if split != "unknown" else None,
            by=validation.get("by"),
            folds=validation.get("folds"),
            image_size=row.get("image_size"),
            seq_len=row.get("seq_len"),
            private=score.get("private"),
            year=row.get("year"),
            **listed,
        )


_LISTS = ("families", "techniques", "loss", "features", "what_mattered", "what_failed")


def targets_of(record: Mapping[str, Any] | None, solutions: Sequence[Solution]) -> dict[str, Any] | None:
    """{"metric", "direction", "by_rank"} of a known competition; None for others, or where no score is
    known. A neighbour's scores say nothing of another test set."""
    scored = [one for one in solutions if one.private is not None]
    if record is None or not record.get("metric") or not scored:
        return None
    return {
        "metric": record["metric"],
        "direction": record.get("metric_direction"),
        "by_rank": [{"rank": one.rank, "score": one.private, "from": one.id} for one in scored],
    }
