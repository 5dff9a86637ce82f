"""The prediction for a run when it began, with all it was made from, to be scored later.

What is frozen is what /predict would have answered at that moment for exactly this case, by the same domain
functions, and the epoch and the whole run that follow from it.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from memory_service import __version__
from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.in_context import context_laws
from memory_service.domain.cost.memory import GIB, allocated_bytes
from memory_service.domain.cost.multi_gpu import profile_on, step_on
from memory_service.domain.cost.profile import Profile
from memory_service.domain.learning.observation import Observation
from memory_service.domain.planning.boosting_plan import over_rounds
from memory_service.domain.planning.fits import fits_of, split_of
from memory_service.domain.planning.run_seconds import (
    EPOCH_OVERHEAD_S,
    TREE_FOLD_OVERHEAD,
    RunSeconds,
    Seconds,
    run_seconds,
    setup_seconds,
    spread,
)
from memory_service.domain.prediction.device_memory import largest_batch, peak_memory
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.domain.runs.learned_figures import NO_ROWS
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.prediction.predict import predict
from memory_service.services.runs.expectations import Rounds
from memory_service.services.runs.run_configuration import RunCase

MOST_UNBOUNDED = 10**9


def frozen_prediction(
    database: Database,
    knowledge: Knowledge,
    case: RunCase,
    rounds: Rounds | None = None,
    *,
    on_card: bool = False,
    by_time: bool = False,
) -> dict[str, Any]:
    """The prediction as it is kept: figures (each a Number or null), `inputs`, `why_not` where something kept
    it from being made, and `case`: what an observation of this run is of (null: it can teach nothing).

    rounds    of boosted trees a fold, (low, median, high); on_card: where they grow by the plan; by_time: how
              rows are split
    """
    figures: dict[str, Any] = {}
    why_not = case.why_not
    if case.is_trees:
        figures, why_not = _trees(database, case, rounds, on_card=on_card, by_time=by_time)
    elif case.profile is not None and not case.reported.get("batch_size"):
        why_not = "no batch size was said"
    elif case.profile is not None:
        figures = _network(case, case.profile, int(case.reported["batch_size"]), by_time=by_time)
    if case.reported.get("reserve_minutes") is not None:  # the minutes decide: nothing was predicted of them
        figures = {**figures, "total_minutes": None}
    of = None if on_card and case.is_trees else case.observation()
    inputs, kept = _inputs(knowledge, case, figures), None if of is None else of.as_dict()
    known = 0 if of is None else len({o.run_id for o in knowledge.observations if _same_case(o, of)})
    return {**figures, "why_not": why_not, "inputs": inputs, "case": kept, "own_runs": known}


def _same_case(one: Observation, of: Observation) -> bool:
    return (one.part, one.model, one.device, one.gpu) == (of.part, of.model, of.device, of.gpu) and (
        one.input_size == of.input_size and one.run_id != ""
    )


def _network(case: RunCase, profile: Profile, batch: int, *, by_time: bool) -> dict[str, Any]:
    infer = case.mode == "infer"
    step = step_on(prepare(profile, case.gpu, case.config), profile, case.cards).step_seconds(batch)
    held = profile_on(profile, case.cards)
    peak = peak_memory(held, batch, case.gpu, case.config)
    most = largest_batch(held, case.gpu, case.config, ladder=None, confidence="p50")
    run = None if infer else _run(case, profile, batch, step, by_time=by_time)
    return {
        "batch_size": batch,
        "fits": batch <= most,
        "peak_memory_gib": peak.driver_gib.as_dict(),
        "peak_reserved_gib": peak.reserved_gib.as_dict(),
        "peak_allocated_gib": peak.allocated_gib.as_dict(),
        "step_seconds": step.as_dict(),
        "samples_per_second": step.reciprocal(batch * case.cards.n).as_dict(),
        "epoch_seconds": None
        if run is None
        else _number(_own_time(run.epoch), _epoch_basis(case, profile, batch, step)),
        "loader_samples_per_second": None if infer else case.loader_rate(profile.input_size).as_dict(),
        "setup_seconds": None if run is None else _number(run.setup, step),
        "total_minutes": _minutes(case, run, step),
        "naive": _naive(profile, batch, infer),
    }


def _own_time(epoch: Seconds) -> Seconds:
    """What an epoch reports of itself: its steps and its validation, without what lies between two epochs."""
    between = spread(EPOCH_OVERHEAD_S)
    parts = ((epoch.low, between.low), (epoch.value, between.value), (epoch.high, between.high))
    return Seconds(*(max(whole - rest, 0.0) for whole, rest in parts))


def _epoch_basis(case: RunCase, profile: Profile, batch: int, step: Estimate) -> Estimate:
    """What an epoch stands on: its steps, or the input pipeline that they wait for."""
    loader = case.loader_rate(profile.input_size)
    if loader.value >= batch * case.cards.n / step.value:
        return step
    return replace(
        loader, basis=f"steps wait for the input pipeline ({loader.value:.3g} samples/s): {loader.basis}"
    )


def _run(case: RunCase, profile: Profile, batch: int, step: Estimate, *, by_time: bool) -> RunSeconds | None:
    """The stages of the run; None when it did not say its data and its folds."""
    reported = case.reported
    if not reported.get("n_train") or not reported.get("folds"):
        return None
    evaluation = replace(case.config, optimizer="none", mode="infer")
    together = batch * case.cards.n
    forward = prepare(profile, case.gpu, evaluation).step_seconds(batch).scaled(1.0 / together)
    rate = case.loader_rate(profile.input_size)
    loader = Seconds(1.0 / rate.high, 1.0 / rate.value, 1.0 / rate.low)
    params_m = profile.params / 1e6
    once = run_seconds(
        setup_seconds(
            params_m,
            reported["n_train"],
            gpu=case.gpu.kind != "cpu",
            pretrained=float(case.row.pretrained if case.row is not None else False),
            files=case.reads_files,
        ),
        Seconds.of(step).at_least(loader.times(together)),
        together,
        Seconds.of(forward).at_least(loader),
        n_train=reported["n_train"],
        n_test=reported.get("n_test", 0),
        folds=reported["folds"],
        epochs=reported.get("epochs", 1),
        by_time=by_time,
    )
    told = reported["n_train"], reported.get("n_test", 0), reported["folds"]
    return once.repeated(fits_of(*told, seeds=reported.get("seeds") or 1, by_time=by_time))


def _minutes(case: RunCase, run: RunSeconds | None, step: Estimate) -> dict[str, Any] | None:
    """The whole run; inference only where n_test was said."""
    if run is None or not case.reported.get("epochs"):
        return None
    whole = run.total_end if case.reported.get("n_test") else run.training_end
    return _number(whole.times(1.0 / 60.0), step)


def _trees(
    database: Database, case: RunCase, rounds: Rounds | None, *, on_card: bool, by_time: bool
) -> tuple[dict[str, Any], str | None]:
    """One fit of the model to the rows of a fold, and all fits of the run; None of it where the rows are not
    said.

    rounds   of a fold, (low, median, high): early stopping ends it
    """
    reported = case.reported
    if not reported.get("n_train"):
        return {}, NO_ROWS
    whole, folds = reported["n_train"], reported.get("folds")
    law = context_laws().get(case.model)
    forecasts = law is not None and law.of_series  # each fit reads all series
    rows = int(split_of(whole, folds)[0]) if folds and not (on_card or forecasts) else whole
    gpu = "cpu" if case.why_not else reported["gpu"]
    most = None if rounds is None else max(1, round(rounds[1]))
    requested = {"model": case.model, "gpu": gpu, "n_train": min(rows, MOST_UNBOUNDED)}
    requested |= {name: reported.get(name) for name in ("n_features", "n_classes")}
    requested |= {"cpu_count": case.cpu_count, "rounds": most}
    answer = predict(database, {name: value for name, value in requested.items() if value is not None})
    fit = answer["fit_seconds"]
    if on_card and "card_fit_seconds" in answer:
        fit = answer["card_fit_seconds"]
    setup = setup_seconds(0.0, whole, gpu=False, pretrained=0.0, files=False)
    total = None
    if folds:
        one = Estimate(fit["value"], fit["low"], fit["high"])
        to_all = Seconds.of(one) if rounds is None else over_rounds(one, rounds)
        seeds, n_test = reported.get("seeds") or 1, reported.get("n_test", 0)
        fits = fits_of(whole, n_test, folds, seeds=seeds, by_time=by_time, trees=True)
        often = float(fits.models) if forecasts else fits.rows_read / rows
        training = to_all.times(often) + TREE_FOLD_OVERHEAD.times(float(fits.models))
        of_fit = Estimate(0, 0, 0, fit["grade"], fit["n"], fit["basis"])
        total = _number(training.and_independent(setup).times(1.0 / 60.0), of_fit)
    peak, rate = answer["peak_memory_gib" if on_card else "host_memory_gib"], answer["samples_per_second"]
    figures = {"fits": answer["fits"], "peak_memory_gib": peak, "fit_seconds": fit}
    return figures | {"samples_per_second": rate, "total_minutes": total}, None


def _naive(profile: Profile, batch: int, infer: bool) -> dict[str, float]:
    """What the baselines of /accuracy need."""
    phases = (profile.forward,) if infer else (profile.forward, profile.backward)
    flops = sum(work.flops_per_sample for phase in phases for work in phase.values())
    return {"gflops_per_sample": flops / 1e9, "traced_gib": allocated_bytes(profile, batch, "none") / GIB}


_OF_PROFILE = ("model", "family", "input_kind", "input_size", "precision", "checkpointing")


def _inputs(knowledge: Knowledge, case: RunCase, figures: dict[str, Any]) -> dict[str, Any]:
    """All that the figures were made from: enough to know why they were what they were."""
    profile, gpu = case.profile, case.gpu
    step, peak = figures.get("step_seconds"), figures.get("peak_memory_gib")
    return {
        "gpu": gpu.slug,
        "device": gpu.device or None,
        "calibration": gpu.provenance.as_dict() if gpu.provenance is not None else None,
        "profile": None
        if profile is None
        else {name: getattr(profile, name) for name in _OF_PROFILE}
        | {"torch_version": profile.torch_version or None},
        "time": step and {name: step[name] for name in ("n", "grade", "basis")},
        "memory": peak and {name: peak[name] for name in ("n", "grade", "basis")},
        **{name: getattr(case, name) for name in ("precision", "layout", "optimizer", "mode", "cpu_count")},
        "knowledge_revision": knowledge.revision,
        "version": __version__,
    }


def _number(seconds: Seconds, of: Estimate) -> dict[str, Any]:
    """A time that follows from a step's, in the wire form."""
    low, value, high = (float(np.asarray(part)) for part in (seconds.low, seconds.value, seconds.high))
    return Estimate(max(value, 0.0), max(low, 0.0), max(high, 0.0), of.grade, of.n, of.basis).as_dict()
