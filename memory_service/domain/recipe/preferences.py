"""What memory says about the choice of a plan, in points of the quality index.

Families: points for each e-fold of the share that similar solutions give a model's family; the most used
family stands at 0. The weight is the exchange rate between index and log share in a conditional logit of what
winners since 2020 used (docs/methods/memory.md): 3.2 for images, 4.1 for all, 0 for texts, and for tables the
index said nothing. The weights stay below: winners were not bound by minutes. Texts have few competitions:
theirs is drawn a quarter of the way to the others'. Sizes: what similar solutions used and what the data
have. What runs of the very competition showed outweighs both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.recipe.notes import Note
from memory_service.domain.recipe.votes import Vote

FAMILY_WEIGHT, FAMILY_WEIGHT_TEXT = 2.7, 0.7
SHARE_FLOOR = 0.02
"""Share of a family that no similar solution used."""

LEAST_SOLUTIONS = 10
"""Fewer say nothing of a family's share."""

NOTED, SHOWN_BY_RUNS, LOST = 1.0, 8.0, -8.0
"""Points for a model that shipped notes of the very competition name, that the best run here used, and that a
person noted here as the worse one. What a person noted as the best is planned wherever it fits
(`services.planning.noted_plan`)."""

OCTAVE_SHORT, OCTAVE_LONG, ANY_OCTAVE = 1.5, 2.0, 0.5
"""Points per doubling that an input is smaller or larger than usual, past half a doubling where only votes
say what is usual. Judged: more than the quality index gives a doubling of the size (0.8 to 1.5)."""

MOST_UPSAMPLED, MOST_UPSAMPLED_TINY, TINY = 2.0, 3.0, 128
"""An image is not planned at more than this many times its own pixels a side: of 48 solutions on larger
images 46 went no further than twice. Tiny ones went to 2.5 times (101 to 256) and more, and Big Transfer
trains images under 96 pixels at 128 (google-research/big_transfer, bit_hyperrule.py): that is always open."""

FAR = 50.0

FOLDS_USUAL, FOLDS_NOTED = 0.5, 4.0

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ModelPreference:
    """Points for one model, and why."""

    points: float
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class SizePreference:
    """The usual size of an input (pixels or tokens), the largest that makes sense, and why.

    slack   doublings to either side that are as good; own: pixels that the images have, past which no larger
    size is"""

    usual: int | None
    most: int | None
    why: str
    slack: float = ANY_OCTAVE
    own: int | None = None


@dataclass(frozen=True, slots=True)
class Preferences:
    """models: catalogue name -> points; families: expected share of each; image_size, seq_len: by kind of
    input; folds: number -> points."""

    models: Mapping[str, ModelPreference] = field(default_factory=dict)
    families: Mapping[str, float] = field(default_factory=dict)
    image_size: SizePreference | None = None
    seq_len: SizePreference | None = None
    folds: Mapping[int, float] = field(default_factory=dict)
    family_weight: float = FAMILY_WEIGHT

    def family_points(self, families: Sequence[str]) -> float:
        """0 for the family that was used most, less for others; of several (an encoder and its decoder) the
        one that was used most counts."""
        if not self.families:
            return 0.0
        best = max(self.families.values()) + SHARE_FLOOR
        share = max(self.families.get(name, 0.0) for name in families) + SHARE_FLOOR
        return self.family_weight * log(share / best)

    def size_points(self, kind: str, sizes: NDArray[np.int64], *, pinned: bool = False) -> Array:
        """Points of input sizes [option]: 0 within the slack of the usual one; `FAR` below beyond what the
        data have, unless somebody pinned it."""
        said = {"image_size": self.image_size, "seq_len": self.seq_len}.get(kind)
        points = np.zeros(len(sizes))
        if said is None:
            return points
        if said.usual:
            octaves = np.log2(sizes / said.usual)
            over = np.maximum(np.abs(octaves) - said.slack, 0.0)
            if said.own:
                larger = np.maximum(np.log2(sizes / max(said.own, said.usual)), 0.0)
                over = np.where(octaves > 0, larger, over)
            points = -np.where(octaves < 0, OCTAVE_SHORT, OCTAVE_LONG) * over
        if said.most and len(sizes) and not pinned:
            points = np.where(sizes <= max(said.most, int(sizes.min())), points, -FAR)
        return points


NO_PREFERENCES = Preferences()


def preferences_of(
    families: Sequence[Vote],
    solutions: int,
    notes: Sequence[Note],
    by_runs: Mapping[str, ModelPreference],
    usual: Mapping[str, tuple[int, int] | None],
    own_size: Mapping[str, int | None],
    folds: int,
    family_weight: float = FAMILY_WEIGHT,
    unit: str = "tokens",
) -> Preferences:
    """Everything memory prefers.

    families     the vote; solutions: how many it rests on
    notes        of the very competition or one much like it, the weightiest first
    by_runs      model of the best run of the very competition here -> why it is preferred
    usual        "image_size", "seq_len" -> (usual size, number of solutions); own_size: what the data have
    folds        that the recipe validates by
    unit         of seq_len
    """
    models: dict[str, ModelPreference] = {}
    for note in notes:
        for place, name in enumerate(note.prefer):
            models.setdefault(name, ModelPreference(NOTED / (1 + place), note.source, note.text))
        for name in note.avoid:
            models.setdefault(name, ModelPreference(LOST, note.source, note.text))
    models |= by_runs
    noted_folds = next((note.folds for note in notes if note.folds and note.here), None)
    noted_size = next(((note.size, note) for note in notes if note.size and note.here), None)
    noted_size = noted_size or next(((note.size, note) for note in notes if note.size), None)
    sizes = {
        kind: _size(kind, usual.get(kind), own_size.get(kind), noted_size, said)
        for kind, said in (("image_size", "pixels"), ("seq_len", unit))
    }
    return Preferences(
        models=models,
        families={vote.name: vote.share for vote in families} if solutions >= LEAST_SOLUTIONS else {},
        family_weight=family_weight,
        folds={noted_folds: FOLDS_NOTED} if noted_folds else {folds: FOLDS_USUAL},
        **sizes,
    )


def _size(
    kind: str,
    usual: tuple[int, int] | None,
    own: int | None,
    noted: tuple[int | None, Note] | None,
    unit: str,
) -> SizePreference | None:
    most = None
    if own and kind == "image_size":
        most = max(int(MOST_UPSAMPLED_TINY * own), TINY) if own < TINY else int(MOST_UPSAMPLED * own)
    if noted is not None and noted[0]:
        why = f"{noted[0]} {unit}: noted of this kind of data ({noted[1].source})"
        return SizePreference(noted[0], max(most, noted[0]) if most else None, why, slack=0.0)
    if kind == "seq_len" and own:
        return SizePreference(own, None, f"the texts have up to {own} tokens", slack=0.0)
    if usual is None:
        return SizePreference(None, most, f"the images have {own} pixels a side") if most else None
    size, n = (min(usual[0], most), usual[1]) if most else usual
    why = f"{n} similar solutions used about {usual[0]} {unit}"
    if not most:
        return SizePreference(size, None, why)
    return SizePreference(size, most, f"{why}; the images have {own} a side", own=own)
