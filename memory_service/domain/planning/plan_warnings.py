"""Warnings of a plan: what the asker should know and did not ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_service.domain.cost.step_config import precision_class
from memory_service.domain.planning.candidates import CandidateSet
from memory_service.domain.planning.plan import Expected
from memory_service.domain.planning.plan_search import GridIndex
from memory_service.domain.planning.rationale import is_cut_short
from memory_service.domain.prediction.device import provenance_warnings
from memory_service.domain.quality.boosting_rounds import MOST_ROUNDS

LEAST_UPDATES = 200
LARGE_HOST_GIB = 16.0


def warnings(
    candidates: CandidateSet, pick: GridIndex, settings: Mapping[str, Any], expected: Expected
) -> tuple[str, ...]:
    """What the asker should know and did not ask."""
    problem, option = candidates.problem, candidates.table.options[pick.row]
    out = (
        _tree_warnings(candidates, settings, expected)
        if option.is_trees
        else _network_warnings(candidates, pick, settings)
    )
    out.extend(provenance_warnings(problem.cards))
    if settings.get("n_gpus"):
        out.append(
            f"The figures are for {settings['n_gpus']} cards that train one model by "
            "DistributedDataParallel; a generated script starts torchrun for them by itself."
        )
    if option.method:
        out.append(
            f"{option.model.name} is rated by size beside encoders, not by measurements: weak evidence."
        )
    if settings["folds"] > 3 and settings["folds"] not in problem.preferences.folds:
        out.append(f"{settings['folds']} folds: R17 advises 3 at most before a first submission.")
    if option.model.licence_note:
        out.append(f"Licence of {option.model.name}: {option.model.licence_note}")
    out.extend(
        f"The visible card {card.key} ({card.memory_gib:g} GiB) is too small for this plan."
        for card in problem.visible
        if expected.peak_memory_gib.high > card.usable_gib
    )
    idle = {"image_size", "seq_len"} - {option.model.input_kind}
    out.extend(
        f"{name} has no meaning for {option.model.name} and was not used."
        for name in sorted(idle)
        if getattr(problem.question, name) is not None
    )
    return tuple(out)


def _network_warnings(candidates: CandidateSet, pick: GridIndex, settings: Mapping[str, Any]) -> list[str]:
    defaults = candidates.table.options[pick.row].defaults
    batch, epochs = settings["batch_size"], settings["epochs"]
    updates = candidates.problem.n_train * 0.8 / max(settings["effective_batch_size"], 1)
    out = []
    if updates < candidates.problem.policy.updates_per_epoch * 0.9:
        out.append(
            f"Only about {updates:.0f} updates an epoch: the data is small for batch {batch}; early "
            "stopping may come late, watch the validation loss."
        )
    if updates * epochs < LEAST_UPDATES:
        out.append(
            f"Only about {updates * epochs:.0f} updates in all: the learning rate matters more than usual."
        )
    profile = candidates.table.options[pick.row].profile.get(precision_class(candidates.precision))
    if profile is not None and "bounded_from" in profile.extra:
        out.append("Memory and time in fp32 are upper bounds made from the mixed-precision profile.")
    if batch < 16 <= defaults.least_batch:
        out.append(
            f"Batch {batch} is small for batch normalisation: freeze its statistics or use group norm."
        )
    return out


def _tree_warnings(candidates: CandidateSet, settings: Mapping[str, Any], expected: Expected) -> list[str]:
    problem, out = candidates.problem, []
    best = expected.best_epoch
    if best is not None and is_cut_short(settings, best):
        why = "that many rounds were asked for" if problem.question.epochs else "the minutes allow no more"
        why = f"{MOST_ROUNDS} are the most that is planned" if settings["epochs"] == MOST_ROUNDS else why
        out.append(
            f"Boosting may be cut short at round {settings['epochs']}: {why}, and validation is expected to "
            f"be best at round {best.value:.0f} ({best.low:.0f}-{best.high:.0f})."
        )
    memory = expected.host_memory_gib
    if memory is not None and memory.high > LARGE_HOST_GIB:
        out.append(f"The fit needs about {memory.value:.0f} GiB of host memory (p90 {memory.high:.0f}).")
    out.extend(
        f"{name} has no meaning for boosted trees and is passed through."
        for name in ("batch_size", "precision")
        if getattr(problem.question, name) is not None
    )
    if problem.on_gpu:
        out.append("This plan leaves the card idle: the fit runs on the processor's cores.")
    return out
