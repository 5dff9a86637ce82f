"""What won similar competitions, as one recipe: validation, families, techniques, loss, lessons."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.recipe.neighbourhood import Neighbourhood
from memory_service.domain.recipe.validation import Validation
from memory_service.domain.recipe.vocabulary import STAGE_OF, TECHNIQUES
from memory_service.domain.recipe.votes import Vote, refuted, sentences, typical, votes

MOST_FAMILIES, MOST_TECHNIQUES, MOST_LOSSES = 8, 12, 3
MOST_SENTENCES = 5
FIELDS = ("families", "techniques", "loss")
ENGINEERED = ("tabular", "time-series", "recommendation")
"""Modalities whose features are made by hand."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How those who won similar competitions did it.

    image_size, seq_len   (usual size, number of solutions that say one); None where none does
    pitfalls              of similar competitions: [{"text", "from"}]
    """

    validation: Validation
    families: tuple[Vote, ...]
    techniques: tuple[Vote, ...]
    loss: tuple[Vote, ...]
    features: tuple[Mapping[str, Any], ...]
    mattered: tuple[Mapping[str, Any], ...]
    failed: tuple[Mapping[str, Any], ...]
    pitfalls: tuple[Mapping[str, Any], ...]
    image_size: tuple[int, int] | None
    seq_len: tuple[int, int] | None
    basis: str

    def as_dict(self, planned: Mapping[str, str]) -> dict[str, Any]:
        """The wire form; whether a script does a technique is for those who know the script to say.
        planned: family -> the model of it that is planned."""
        return {
            "validation": self.validation.as_dict(),
            "families": [{**_shown(one), "planned": planned.get(one.name)} for one in self.families],
            "techniques": [
                _shown(vote) | {"stage": STAGE_OF[name], "in_script": False, "setting": TECHNIQUES[name]}
                for name, vote in ((vote.name, vote) for vote in self.techniques)
            ],
            "loss": [_shown(one) for one in self.loss],
            **{name: list(map(dict, getattr(self, name))) for name in _TOLD},
            "basis": self.basis,
        }


def make_recipe(
    near: Neighbourhood,
    validation: Validation,
    task: str,
    base: Mapping[str, Mapping[str, float]],
    pitfalls: Sequence[tuple[str, str]],
    of_other_tasks: Collection[str] = (),
) -> Recipe:
    """The recipe of a neighbourhood.

    base             field -> name -> share among all solutions of the modality (`votes.base_rates`)
    pitfalls         (slug, text) of similar competitions, nearest first
    of_other_tasks   families that are not named: a U-Net among detectors
    """
    found = {field: [v for v in votes(near, field, base.get(field, {})) if v.n] for field in FIELDS}
    found["families"] = [vote for vote in found["families"] if vote.name not in of_other_tasks]
    said = {field: tuple(sentences(near, field, MOST_SENTENCES)) for field in _SENTENCES}
    return Recipe(
        validation=validation,
        families=refuted(near, found["families"][:MOST_FAMILIES]),
        techniques=refuted(near, found["techniques"][:MOST_TECHNIQUES]),
        loss=refuted(near, found["loss"][:MOST_LOSSES]),
        features=said["features"] if modality_of(task) in ENGINEERED else (),
        mattered=said["what_mattered"],
        failed=said["what_failed"],
        pitfalls=tuple({"text": text, "from": [slug]} for slug, text in pitfalls[:MOST_SENTENCES]),
        image_size=typical(near, "image_size"),
        seq_len=typical(near, "seq_len"),
        basis=f"{len(near.solutions)} of {near.known} known solutions, from {len(near.competitions)} similar "
        "competitions",
    )


_SENTENCES = ("features", "what_mattered", "what_failed")
_TOLD = ("features", "mattered", "failed", "pitfalls")


def _shown(vote: Vote) -> dict[str, Any]:
    return {
        "name": vote.name,
        "share": round(vote.share, 3),
        "lift": None if vote.lift is None else round(vote.lift, 2),
        "n": vote.n,
        "from": list(vote.sources),
        "runs": vote.runs,
        "confirmed": vote.confirmed,
        "refuted_by": list(vote.refuted_by),
    }
