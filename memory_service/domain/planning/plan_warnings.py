"""What of a plan is not what its words suggest: cards that bring little, pictures in place of volumes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.cost.layout import layout_of
from memory_service.domain.cost.step_config import StepConfig, precision_class
from memory_service.domain.planning.candidates import CandidateSet
from memory_service.domain.planning.plan_search import GridIndex, loader_rate
from memory_service.domain.prediction.device_step_time import prepare

WORTH = 0.6
"""Share of n times the speed of one card, under which a plan says what n cards bring."""

_VOLUMES = re.compile(
    r"\b(volumetric|voxels?|nifti|tomograms?|tomograph\w+|mri|volumes"
    r"|(?:3-?d|ct|mr|pet)[ -](?:scans?|images?|volumes?|stacks?|series|data))\b",
    re.IGNORECASE,
)
"""How a description of pictures says that they are volumes."""

_IN_DEPTH = {"image-segmentation": "model=unet3d", "image-classification": "task=video (r3d_18 and others)"}


def further_warnings(candidates: CandidateSet, pick: GridIndex, settings: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each."""
    if settings.get("n_gpus"):
        yield from _little_gained(candidates, pick, settings)
    problem, model = candidates.problem, candidates.table.options[pick.row].model
    for name in ("image_size", "seq_len"):
        if name != model.input_kind and getattr(problem.question, name) is not None:
            yield f"{name} has no meaning for {model.name} and was not used."
    said = _VOLUMES.search(problem.question.description or "")
    if said is not None and modality_of(problem.task) == "image" and model.family != "conv3d":
        other = _IN_DEPTH.get(problem.task)
        ask = f"; for a network in three dimensions ask for {other}" if other else ""
        yield (
            f"The text speaks of volumes ({said[0]}); {model.name} is planned on slices of two dimensions, "
            f"each a sample, neighbouring ones as channels{ask}."
        )


def _little_gained(candidates: CandidateSet, pick: GridIndex, settings: Mapping[str, Any]) -> Iterator[str]:
    """Where several cards are hardly faster than one: the loader, or gradients that are exchanged."""
    problem, option, n = candidates.problem, candidates.table.options[pick.row], settings["n_gpus"]
    batches = candidates.grid.batches
    saving = bool(batches.checkpointing[pick.row])
    profile = (option.checkpointed if saving else option.profile)[precision_class(candidates.precision)]
    batch = int(batches.batch_size[pick.row])
    alone = max(
        prepare(
            profile,
            card,
            StepConfig(candidates.precision, layout_of(profile, card), option.defaults.optimizer),
        ).seconds(batch)
        for card in problem.cards
    )
    rate = loader_rate(problem, option.input_size, int(candidates.loader["num_workers"]))
    gained = max(alone, batch / rate.value) / float(candidates.grid.step.value[pick.row])
    if gained < WORTH * n:
        fed = bool(candidates.grid.loader_bound[pick.row])
        why = "the input pipeline feeds no more" if fed else "exchanging gradients takes the rest"
        times = "no faster than one" if gained < 1.05 else f"only {gained:.1f} times as fast as one"
        yield f"{n} cards are {times}: {why}."
