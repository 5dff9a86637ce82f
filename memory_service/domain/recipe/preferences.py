"""What memory says about the choice of a plan, in points of the quality index.

Families break ties: points for each e-fold between the share of a model's family among similar winners of the
last years and that of a usual winner's family, at most one point to either side. Winners of the past say what
was tried, not what is best now: measured results and published scores choose the model. Sizes: what similar
solutions used and what the data have. What runs of the very competition showed outweighs both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.recipe.notes import Note

FAMILY_WEIGHT, MOST_FAMILY_POINTS = 0.5, 1.0
"""Points for each e-fold of the share, and at most."""

SHARE_FLOOR = 0.02
"""Share of a family that nobody used."""

DECODERS = "llm-decoder"
DECODER_POINTS, FULL_SIZE_M, LEAST_SIZE_M = 6.0, 7_000.0, 500.0
"""Points more for tuned language models at a share of one and 7 billion parameters; none at half a billion,
for winners took large ones. No public table has them beside encoders: what is
known of their order is where winners who could take either took them. Judged: of chat preferences,
misconceptions and rules of communities (2024-25) all known winners tuned them, of essays, summaries and
personal data (2023-24) nearly none; with 6 points plans agree with both, with 4 and less with the latter."""

FAMILY_YEARS = 3
"""Years before the one asked about whose winners say which families are in use."""

NOTED, SHOWN_BY_RUNS, LOST = 1.0, 8.0, -8.0
"""Points for a model that shipped notes of the very competition name, that many runs here showed to be the
best, and that a person noted here as the worse one. What a person noted as the best is planned wherever it
fits (`services.planning.recommend`)."""

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

    slack   doublings to either side that are as good; own: pixels or tokens that the data have, past which
    no larger size is"""

    usual: int | None
    most: int | None
    why: str
    slack: float = ANY_OCTAVE
    own: int | None = None


@dataclass(frozen=True, slots=True)
class Preferences:
    """models: catalogue name -> points; families: expected share of each among winners of the last years;
    image_size, seq_len: by kind of input; folds: number -> points."""

    models: Mapping[str, ModelPreference] = field(default_factory=dict)
    families: Mapping[str, float] = field(default_factory=dict)
    image_size: SizePreference | None = None
    seq_len: SizePreference | None = None
    folds: Mapping[int, float] = field(default_factory=dict)

    def family_points(self, families: Sequence[str]) -> float:
        """Above 0 for a family of a larger share than that of a usual winner, below for others; of several
        (an encoder and its decoder) the one that was used most counts."""
        total = sum(self.families.values())
        if not total:
            return 0.0
        usual = sum(share * share for share in self.families.values()) / total + SHARE_FLOOR
        points = FAMILY_WEIGHT * log((self.family_share(families) + SHARE_FLOOR) / usual)
        return max(-MOST_FAMILY_POINTS, min(MOST_FAMILY_POINTS, points))

    def decoder_points(self, params_m: Any) -> Any:
        """Points of tuned language models of so many millions of parameters."""
        size = np.log(np.maximum(params_m, 1.0) / LEAST_SIZE_M) / log(FULL_SIZE_M / LEAST_SIZE_M)
        return DECODER_POINTS * self.families.get(DECODERS, 0.0) * np.clip(size, 0.0, 1.0)

    def winner_points(self, families: Sequence[str], params_m: float) -> float:
        """All that winners' families say of one model."""
        decoder = float(self.decoder_points(params_m)) if DECODERS in families else 0.0
        return self.family_points(families) + decoder

    def family_share(self, families: Sequence[str]) -> float:
        """Of the one that was used most."""
        return max(self.families.get(name, 0.0) for name in families)

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
    families: Mapping[str, float],
    notes: Sequence[Note],
    by_runs: Mapping[str, ModelPreference],
    usual: Mapping[str, tuple[int, int] | None],
    own_size: Mapping[str, int | None],
    folds: int,
    unit: str = "tokens",
) -> Preferences:
    """Everything memory prefers.

    families     share of each among similar winners of the last years
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
        families=families,
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
        most, read = max(most, noted[0]) if most else None, own if kind == "seq_len" else None
        return SizePreference(noted[0], most, why, slack=0.0, own=read)
    if kind == "seq_len" and own:
        return SizePreference(own, None, f"they have up to {own} {unit}", slack=0.0, own=own)
    if usual is None:
        return SizePreference(None, most, f"the images have {own} pixels a side") if most else None
    size, n = (min(usual[0], most), usual[1]) if most else usual
    why = f"{n} similar solutions used about {usual[0]} {unit}"
    if not most:
        return SizePreference(size, None, why)
    return SizePreference(size, most, f"{why}; the images have {own} a side", own=own)
