"""What a run is measured by while it is watched: facts and expectations, frozen when it begins.

They come from what the run said, the prediction made for it, the catalogue, its competition and, where this
process made it, the plan it follows. Frozen, so that a replay is judged as the live run was, whatever has
been learned since.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.multi_gpu import profile_on, step_on
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.throughput_knee import BATCH_LADDER, throughput_knee
from memory_service.domain.description.metrics import direction_of_name
from memory_service.domain.monitoring.event import number_of
from memory_service.domain.monitoring.state import Expectation, RunFacts
from memory_service.domain.planning.fits import fits_of, split_of
from memory_service.domain.planning.hyperparameters import DEFAULT_POLICY, TREE_LEARNING_RATE
from memory_service.domain.prediction.device_memory import largest_batch, observed_bounds
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.domain.quality.boosting_rounds import (
    ROWS_EXPONENT,
    best_round,
    patience_rounds,
    rounds_trained,
)
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.prediction.predict import LARGEST_SHOWN
from memory_service.services.runs.run_configuration import RunCase, facts_of, splits_by_time
from memory_service.store.tables.runs import Run

Watch = tuple[RunFacts, Expectation]
Rounds = tuple[float, float, float]
"""Of a fold of boosted trees: low, median, high."""

MOST_TRIED = 16
USUAL_FEATURES = 20

_ESTIMATES = {
    "driver_gib": "peak_memory_gib",
    **{n: n for n in ("samples_per_second", "epoch_seconds", "inference_minutes", "best_epoch")},
}
"""Each with its name in a plan."""
_INTERVAL = ("value", "low", "high")
_PAIRS = ("curve", "tried")
_SAID = (
    "task", "batch_size", "folds", "epochs", "n_train", "minutes", "num_workers", "image_size",
    "learning_rate", "grad_accumulation", "reserve_minutes",
)  # fmt: skip


def frozen_watch(
    knowledge: Knowledge, case: RunCase, prediction: Mapping[str, Any], plan: Mapping[str, Any] | None
) -> dict[str, Any]:
    """`{"facts", "expected"}` as it is kept. `plan`: the answer of /recommend that the run follows, where it
    is at hand."""
    facts = _facts(knowledge, case, plan)
    expected = ({} if plan is None else _promised(case, plan)) | _predicted(prediction)
    best = expected_best_round(case, plan)
    expected |= {} if best is None else {"best_epoch": asdict(best)}
    expected |= {
        name: value
        for name in ("reserve_share", "target_percent", "kill_percent")
        if (value := getattr(knowledge.policy, name)) != getattr(DEFAULT_POLICY, name)
    }
    if case.profile is not None and case.mode == "train":
        expected |= _sized(knowledge, case, case.profile)
    reported = {k: v for k, v in expected.items() if v is not None and v not in ([], ())}
    return {"facts": facts, "expected": reported}


def expected_of(run: Run) -> Watch:
    """What a verdict about this run needs beside its events; a run that began before these were kept has what
    it said and what was predicted."""
    stored = run.watch or {"facts": _facts_of_row(run), "expected": _predicted(run.prediction or {})}
    facts = {f.name for f in fields(RunFacts)}
    known = {name: value for name, value in stored["facts"].items() if name in facts}
    reported = {f.name for f in fields(Expectation)}
    expected = {name: value for name, value in stored["expected"].items() if name in reported}
    for name in _ESTIMATES:
        if expected.get(name) is not None:
            expected[name] = Estimate(**expected[name])
    for name in _PAIRS:
        expected[name] = tuple((int(b), float(rate)) for b, rate in expected.get(name, ()))
    if "target_percent" in expected:
        expected["target_percent"] = tuple(expected["target_percent"])
    return RunFacts(**known | {"status": run.status, "submission": bool(run.submission)}), Expectation(
        **expected
    )


def _facts(knowledge: Knowledge, case: RunCase, plan: Mapping[str, Any] | None) -> dict[str, Any]:
    reported, row, gpu = case.reported, case.row, case.gpu
    competition = knowledge.competitions.get(reported.get("competition") or "")
    planned = plan or {}
    planned_gib = number_of((planned.get("gpu") or {}).get("memory_gib"), most=1e6)
    params_m = row.params_m if row is not None and row.params_m else 0.0
    if case.profile is not None:
        params_m = case.profile.params / 1e6
    return {
        **{name: reported[name] for name in _SAID if name in reported},
        "model": case.model,
        "params_m": params_m,
        "device_kind": gpu.kind,
        "memory_gib": planned_gib or gpu.memory_gib,
        "cpu_count": case.cpu_count,
        "precision": case.precision,
        "optimizer": case.optimizer,
        "metric_direction": reported.get("metric_direction")
        or direction_of_name(reported.get("metric"))
        or (planned.get("metric") or {}).get("direction")
        or (competition or {}).get("metric_direction"),
        **({} if row is None else {"pretrained": bool(row.pretrained)}),
    }


def _facts_of_row(run: Run) -> dict[str, Any]:
    given: Mapping[str, Any] = run.given or {}
    reported = {name: given[name] for name in _SAID if name in given}
    return {**reported, "model": run.model, "precision": run.precision, "optimizer": run.optimizer}


def expected_best_round(case: RunCase, plan: Mapping[str, Any] | None) -> Estimate | None:
    """Of boosted trees the round at which they are expected to be best, as the plan says, else by the rows
    and columns that were said; None for networks and where nothing was."""
    said = case.reported
    if not case.is_trees or not said.get("n_train"):
        return None
    promised = {} if plan is None else _promised(case, plan)
    if "best_epoch" in promised:
        return Estimate(**promised["best_epoch"])
    rows, _ = split_of(int(said["n_train"]), int(said.get("folds") or 1))
    return best_round(TREE_LEARNING_RATE, rows, said.get("n_features") or USUAL_FEATURES, case.model)


def expected_rounds(case: RunCase, plan: Mapping[str, Any] | None) -> Rounds | None:
    """(low, median, high) rounds of a fold until early stopping ends it; None as above, and without a cap."""
    best, cap = expected_best_round(case, plan), case.reported.get("epochs")
    if best is None or not cap:
        return None
    promised = {} if plan is None else _promised(case, plan)
    return rounds_trained(best, int(promised.get("patience") or patience_rounds(TREE_LEARNING_RATE)), cap)


def _predicted(prediction: Mapping[str, Any]) -> dict[str, Any]:
    """At the run's own batch: what was predicted when it began goes before what its plan said."""
    timed: Mapping[str, Any] = prediction if prediction.get("step_seconds") else {}
    rate, epoch = timed.get("samples_per_second"), prediction.get("epoch_seconds")
    found = {"batch_size": prediction.get("batch_size"), "driver_gib": timed.get("peak_memory_gib")}
    found |= {"samples_per_second": rate, "epoch_seconds": epoch}
    return {name: value for name, value in found.items() if value is not None}


def _sized(knowledge: Knowledge, case: RunCase, profile: Profile) -> dict[str, Any]:
    """The curve over the batch as the loader allows it, its knee, and the limits of the batch."""
    gpu = case.gpu
    step = step_on(prepare(profile, gpu, case.config), profile, case.cards)
    profile = profile_on(profile, case.cards)
    most = largest_batch(profile, gpu, case.config)
    loader = case.loader_rate(profile.input_size)
    rungs = [b for b in BATCH_LADDER if b <= min(most, LARGEST_SHOWN)]
    out: dict[str, Any] = {"largest_batch": most or None}
    if rungs:
        rates = [case.cards.n * b / s for b, s in zip(rungs, step.seconds_many(rungs), strict=True)]
        curve = zip(rungs, rates, strict=True)
        out["curve"] = [[b, float(f"{min(rate, loader.value):.4g}")] for b, rate in curve]
        out["knee_batch_size"] = throughput_knee(step.seconds_many, most)
    batch = case.reported.get("batch_size")
    if batch:
        device = step.step_seconds(batch).reciprocal(batch * case.cards.n)
        out["samples_per_second"] = asdict(_slower(device, loader))
    out["refused_batch"] = observed_bounds(profile, gpu, case.config).refused
    out["tried"] = _tried(knowledge, case)
    return out


def _slower(device: Estimate, loader: Estimate) -> Estimate:
    value, low, high = (min(getattr(device, name), getattr(loader, name)) for name in _INTERVAL)
    return Estimate(value, low, high, device.grade, device.n, device.basis)


def _tried(knowledge: Knowledge, case: RunCase) -> list[list[float]]:
    """(batch, samples per second) that earlier runs of the same case measured, the latest of each batch."""
    of = case.observation()
    if of is None:
        return []
    same = (
        "device", "gpu", "model", "input_size", "precision", "layout", "mode", "optimizer", "compiled",
        "cores",
    )  # fmt: skip
    found = {
        one.batch_size: one.batch_size / one.step_seconds
        for one in knowledge.observations
        if one.step_seconds
        and one.excluded is None
        and all(getattr(one, name) == getattr(of, name) for name in same)
    }
    return [[batch, found[batch]] for batch in sorted(found)][-MOST_TRIED:]


def promised(plan: Mapping[str, Any]) -> dict[str, Any]:
    """What the plan said, as it is kept."""
    said, checks = plan.get("expected") or {}, plan.get("checks") or {}
    found = {"batch_size": plan.get("batch_size"), "patience": plan.get("early_stopping_patience")}
    found |= {name: checks.get(name) for name in ("every_seconds", "not_before_steps", "model_class")}
    found |= {"first_check_seconds": checks.get("first_after_seconds")}
    for name, planned in _ESTIMATES.items():
        if known := said.get(planned):
            plain = {part: float(known[part]) for part in _INTERVAL}
            found[name] = {**plain, "grade": "estimated", "n": 0, "basis": "the plan"}
    others = [one for one in plan.get("alternatives") or () if one.get("objective") == "smaller"]
    for other in others[:1]:
        left_out = ("objective", "expected")
        found["smaller"] = {name: value for name, value in other.items() if name not in left_out}
    return {name: value for name, value in found.items() if value}


def _promised(case: RunCase, plan: Mapping[str, Any]) -> dict[str, Any]:
    """The same for this run's own data."""
    expected, model = promised(plan), (plan.get("model") or {}).get("name")
    # With the plan's model and batch the fill is as the plan intends.
    expected["planned"] = case.reported.get("batch_size") == plan.get("batch_size") and case.model == model
    return _at_own_data(case, plan, expected)


def _at_own_data(case: RunCase, plan: Mapping[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """What the plan said of its own rows and folds, brought to those that the run states: rounds by the law
    of rows, inference in proportion to samples, models and rounds. Where the rows differ, the plan's time of
    an epoch says nothing of this run's; nor does its smaller model fit another budget."""
    said = case.reported
    facts = facts_of(plan, assumed=True)
    rows = _ratio(said.get("n_train"), number_of(facts.get("n_train"))) or 1.0
    how = {"by_time": splits_by_time(said["task"], plan), "trees": case.is_trees}
    models = _ratio(_models(said, **how), _models(plan, **how)) or 1.0
    rounds = rows**ROWS_EXPONENT if case.is_trees else 1.0
    samples = _ratio(said.get("n_test"), number_of(facts.get("n_test"))) or rows
    for name, factor in (("best_epoch", rounds), ("inference_minutes", samples * models * rounds)):
        if name in expected:
            for part in _INTERVAL:
                expected[name][part] *= factor
    if rows != 1.0:
        expected.pop("epoch_seconds", None)
    if rows != 1.0 or _ratio(said.get("minutes"), plan.get("minutes")) not in (None, 1.0):
        expected.pop("smaller", None)
    return expected


def _models(of: Mapping[str, Any], **how: bool) -> int | None:
    """How many predict the test set."""
    return fits_of(1, 1, of["folds"], seeds=of.get("seeds") or 1, **how).models if of.get("folds") else None


def _ratio(own: Any, planned: Any) -> float | None:
    return float(own) / float(planned) if own and planned else None
