"""Warnings of a plan: what the asker should know and did not ask."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.common.vocabulary import modality_of, writes_text
from memory_service.domain.cost.decoders.generation import answer_tokens, text_length, writes_by_token
from memory_service.domain.cost.in_context import context_laws
from memory_service.domain.cost.step_config import precision_class
from memory_service.domain.planning.candidates import Candidate, host_memory
from memory_service.domain.planning.explanation.rationale import is_cut_short
from memory_service.domain.planning.hyperparameters import BATCH_OF_NORM
from memory_service.domain.planning.option import has_batch_norm
from memory_service.domain.planning.plan import Expected
from memory_service.domain.planning.plan_search import loader_rate
from memory_service.domain.prediction.device import provenance_warnings
from memory_service.domain.prediction.device_memory import extrapolation_warnings
from memory_service.domain.quality.boosting_rounds import MOST_ROUNDS

FEWEST = 100
LEAST_UPDATES = 200
LARGE_HOST_GIB = 16.0

WORTH = 0.6
"""Share of n times the speed of one card, under which a plan says what n cards bring."""

_VOLUMES = re.compile(
    r"\b(volumetric|voxels?|nifti|tomograms?|tomograph\w+|mri|volumes"
    r"|(?:3-?d|ct|mr|pet)[ -](?:scans?|images?|volumes?|stacks?|series|data))\b",
    re.IGNORECASE,
)
"""How a description of pictures says that they are volumes."""

_IN_DEPTH = {"image-segmentation": "model=unet3d", "image-classification": "task=video (r3d_18 and others)"}


def warnings(
    candidate: Candidate, settings: Mapping[str, Any], expected: Expected, others: bool
) -> tuple[Sentence, ...]:
    """What the asker should know and did not ask. others: whether other runs share the minutes."""
    problem, option = candidate.problem, candidate.option
    asked = candidate, settings, expected, others
    out = _tree_warnings(*asked) if option.is_trees else _network_warnings(candidate, settings)
    if problem.n_train < FEWEST:
        of_table = problem.data_kind.table == "tabular" and problem.n_features > problem.n_train
        linear = " Of more columns than rows a linear model with a penalty is the one to beat." * of_table
        out.append(sentence("few-samples", n_train=problem.n_train, linear=linear))
    if large := large_on_host(candidate):
        out.append(sentence("host-memory", model=option.model.name, gib=large.value, p90=large.high))
    out.extend(provenance_warnings(problem.cards))
    if settings.get("n_gpus"):
        how = "FSDP (fully_shard of PyTorch)" if option.sharded else "DistributedDataParallel"
        out.append(sentence("several-cards", cards=settings["n_gpus"], how=how))
    if option.method:
        out.append(sentence("decoder-rating", model=option.model.name))
    if active := settings["model"].get("active_params_m"):
        out.append(sentence("experts", total=option.model.params_m / 1e3, active=active / 1e3))
    if settings["folds"] > 3 and settings["folds"] not in problem.preferences.folds:
        out.append(sentence("many-folds", folds=settings["folds"]))
    if problem.question.batch_size is not None and (faster := candidate.faster_batch()) is not None:
        own, at, speed = faster
        named = {"batch": candidate.batch_size, "own": own, "faster": speed, "at": at}
        out.append(sentence("batch-below-knee", **named, gain=speed / own - 1.0))
    if option.model.licence_note:
        note, licence = option.model.licence_note, option.model.licence or "unknown"
        out.append(sentence("licence", model=option.model.name, name=licence, licence=note))
    out.extend(
        sentence("visible-card-small", card=card.key, gib=card.memory_gib)
        for card in problem.visible
        if expected.peak_memory_gib.high > card.usable_gib
    )
    out.extend(_further(candidate, settings))
    return tuple(out)


def large_on_host(candidate: Candidate) -> Estimate | None:
    """Host memory of a pick, GiB, where it is much."""
    memory = host_memory(candidate.problem, candidate.option, candidate.epochs)
    return None if memory is None or memory.high <= LARGE_HOST_GIB else memory


def _network_warnings(candidate: Candidate, settings: Mapping[str, Any]) -> list[Sentence]:
    batch, epochs = settings["batch_size"], settings["epochs"]
    updates = candidate.problem.n_train * 0.8 / max(settings["effective_batch_size"], 1)
    out = []
    if updates < candidate.problem.policy.updates_per_epoch * 0.9:
        out.append(sentence("few-updates", updates=updates, batch=batch))
    if updates * epochs < LEAST_UPDATES:
        out.append(sentence("few-updates-in-all", updates=updates * epochs))
    profile = candidate.option.profile.get(precision_class(candidate.precision))
    if profile is not None:
        out.extend(extrapolation_warnings(profile))
        out.extend([sentence("upper-bounds")] if "bounded_from" in profile.extra else [])
    if batch < BATCH_OF_NORM and has_batch_norm(candidate.option):
        out.append(sentence("small-batch", batch=batch))
    return out


def _tree_warnings(
    candidate: Candidate, settings: Mapping[str, Any], expected: Expected, others: bool
) -> list[Sentence]:
    problem, out = candidate.problem, []
    best = expected.best_epoch
    if best is not None and is_cut_short(settings, best):
        interval = {"best": best.value, "low": best.low, "high": best.high}
        why = _why_cut(candidate, others)
        out.append(sentence("rounds-cut", most=settings["epochs"], why=why, **interval))
    law = context_laws().get(candidate.option.model.name)
    if law is not None and law.iid and (problem.by_time or problem.by_group):
        out.append(sentence("iid-only", model=candidate.option.model.name))
    if law is not None and (seen := candidate.option.model.config.get("pretraining")):
        out.append(sentence("pretrained-on", model=candidate.option.model.name, seen=seen))
    if not candidate.on_card and all(card.kind != "cpu" for card in problem.cards):
        out.append(sentence("card-idle"))
    return out


def _why_cut(candidate: Candidate, others: bool) -> str:
    """Why boosting may end at the cap of a pick: the next one at its rate is the next schedule."""
    question, grid = candidate.problem.question, candidate.grid
    if question.epochs:
        return "asked"
    if candidate.epochs == MOST_ROUNDS:
        return "most"
    if grid.minutes[candidate.pick._replace(epoch=candidate.pick.epoch + 1)] > question.minutes:
        return "minutes"
    return "beside" if others else "worth"


def _further(candidate: Candidate, settings: Mapping[str, Any]) -> Iterator[Sentence]:
    """One sentence for each."""
    if settings.get("n_gpus"):
        yield from _little_gained(candidate, settings)
    problem, model = candidate.problem, candidate.option.model
    for name in ("image_size", "seq_len"):
        if name != model.input_kind and getattr(problem.question, name) is not None:
            yield sentence("field-not-used", name=name, model=model.name)
    if problem.question.covariates and model.only_forecasts:
        yield sentence("covariates-unread", model=model.name)
    profile = next(iter(candidate.option.profile.values()), None)
    if writes_text(problem.task) and profile and writes_by_token(profile):
        tokens = answer_tokens(text_length(profile), problem.question.text_tokens)
        yield sentence("tokens-written", tokens=tokens)
    if candidate.option.patches > 1:
        yield sentence("patches", patches=candidate.option.patches, side=candidate.option.input_size)
    said = _VOLUMES.search(problem.question.description or "")
    if said is not None and modality_of(problem.task) == "image" and not model.good_for.startswith("volumes"):
        other = _IN_DEPTH.get(problem.task)
        ask = f"; for a network in three dimensions ask for {other}" if other else ""
        yield sentence("volumes", said=said[0], model=model.name, instead=ask)


def _little_gained(candidate: Candidate, settings: Mapping[str, Any]) -> Iterator[Sentence]:
    """Where several cards are hardly faster than one: the loader, or gradients that are exchanged."""
    problem, option, n = candidate.problem, candidate.option, settings["n_gpus"]
    profile, batch = candidate.profile, candidate.batch_size
    if profile is None:
        return
    alone = max(candidate.step_on(card, profile).seconds(batch) for card in problem.cards)
    rate = loader_rate(problem, option.input_size, int(candidate.candidates.loader["num_workers"]))
    together = float(candidate.grid.step.value[candidate.pick.row])
    gained = max(alone, batch * option.texts_per_row / rate.value) / together
    if gained < WORTH * n:
        fed = candidate.loader_bound
        why = "the input pipeline feeds no more" if fed else "exchanging gradients takes the rest"
        times = "no faster than one" if gained < 1.05 else f"only {gained:.1f} times as fast as one"
        yield sentence("cards-gain-little", cards=n, times=times, why=why)
