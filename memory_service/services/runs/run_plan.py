"""The plan of a run: what it configures where the run names only the plan, and what was advised.

Questions write nothing: a plan is known while its answer is cached
(`services.planning.recommend.cached_plan`). A restarted server gives the same plan, under the same id, to the
same question over the same knowledge; or the run brings its plan in `plan`.
"""

from collections.abc import Mapping
from typing import Any

from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.recipe.recipe_text import split_setting
from memory_service.domain.runs.advice_outcome import advice_of, brief_of, place_of
from memory_service.errors import FieldError, InvalidInput, wrong_value
from memory_service.schemas.plan import BroughtPlan
from memory_service.schemas.predict import SIZE_FIELDS
from memory_service.schemas.runs import fitting_start
from memory_service.schemas.validation_errors import checked
from memory_service.services.database.transactions import WriteTransaction
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.runs.run_configuration import RunCase
from memory_service.store.queries import outcomes

NEEDED = ("task", "gpu", "model")
"""Without these nobody can say what a run runs."""

_OF_THE_PLAN = ("task", "minutes", "folds", "epochs", "precision", "n_gpus")
_OF_ITS_MODEL = ("batch_size", "grad_accumulation", "learning_rate", "optimizer")
_OF_THE_DATA = ("n_train", "n_test", "n_classes")


def with_plan(
    knowledge: Knowledge, reported: Mapping[str, Any], plan: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What the run said, completed from the plan it follows (None: it is not known here).

    A run of another model takes over the plan's budget, folds and epochs, not its batch and sizes; one on
    other cards not their number. A run that names the GPU model of a plan that was made for a registered
    device runs on that device. InvalidInput names what is still not known.
    """
    if plan is not None and plan.get("feasible") is not False:
        planned, card = _planned(reported, plan), _known(knowledge, reported.get("gpu"))
        if reported.get("gpu") and (card is None or card.slug != part_of(plan, "gpu").get("slug")):
            planned.pop("n_gpus", None)
        reported = fitting_start(planned) | dict(reported)
        reported["gpu"] = _card(knowledge, reported.get("gpu"), plan)
    lacking = [name for name in NEEDED if not reported.get(name)]
    if lacking:
        hint = "is required"
        if "plan_id" in reported:
            hint += f": plan {reported['plan_id']} is not known here (any more); bring it along in `plan`"
        message = f"This cannot begin a run: {', '.join(lacking)} {hint}"
        raise InvalidInput(message, [FieldError(name, hint) for name in lacking])
    return {name: value for name, value in reported.items() if value is not None}


def splits_by_time(task: str, plan: Mapping[str, Any] | None) -> bool:
    """As the plan says, else as is usual of the task."""
    return split_setting({**(plan or {}), "task": task})[0] == "time"


def facts_of(plan: Mapping[str, Any], *, assumed: bool) -> dict[str, Any]:
    """What the plan was made with, by name, with what was `assumed` or without it; plans of before have a
    mapping of them."""
    facts = plan.get("facts") or ()
    if isinstance(facts, Mapping):
        return dict(facts)
    rows = [row for row in facts if isinstance(row, Mapping) and (assumed or row.get("from") != "usual")]
    return {str(row.get("name")): row.get("value") for row in rows}


def _planned(reported: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: plan.get(name) for name in _OF_THE_PLAN}
    found["num_workers"] = part_of(plan, "data_loader").get("num_workers")
    facts = facts_of(plan, assumed=False)
    found |= {name: facts.get(name) for name in _OF_THE_DATA}
    if facts.get("cpu_count"):
        found["host"] = {"cpu_count": facts["cpu_count"]}
    model = part_of(plan, "model")
    if reported.get("model") in (None, model.get("name")):
        found |= {name: plan.get(name) for name in _OF_ITS_MODEL}
        if not any(name in reported for name in SIZE_FIELDS):
            found |= {name: model.get(name) for name in SIZE_FIELDS}
        found["model"] = model.get("name")
        found["seeds"] = plan.get("seeds") if plan.get("seeds") != 1 else None
        found["compiled"] = plan.get("compile") or None
        found["checkpointing"] = plan.get("gradient_checkpointing") or None
        if plan.get("channels_last") is not None:
            found["layout"] = "nhwc" if plan["channels_last"] else "nchw"
    return {name: value for name, value in found.items() if value is not None}


def _card(knowledge: Knowledge, reported: str | None, plan: Mapping[str, Any]) -> str | None:
    planned = part_of(plan, "gpu")
    device, slug = planned.get("device"), planned.get("slug")
    if reported is None:
        return device or slug
    known = _known(knowledge, device)
    if known is None or not known.device:
        return reported
    named = _known(knowledge, reported)
    return device if named is not None and not named.device and named.slug == known.slug else reported


def _known(knowledge: Knowledge, name: str | None) -> TargetDevice | None:
    try:
        return knowledge.gpu(name) if name else None
    except InvalidInput:
        return None


def part_of(plan: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of a plan that came with a run: empty where it is none."""
    part = plan.get(name)
    return part if isinstance(part, Mapping) else {}


def plan_brought(said: dict[str, Any]) -> dict[str, Any] | None:
    """Take the plan that a run brought out of what it stated; `plan_id` is then said too. InvalidInput
    where it is no answer of /recommend with a plan, or not the one that plan_id names."""
    given: Mapping[str, Any] | None = said.pop("plan", None)
    if given is None:
        return None
    plan = checked(BroughtPlan, given, "This is no plan of /recommend", at="plan").model_dump(
        exclude_none=True
    )
    if said.setdefault("plan_id", plan["plan_id"]) != plan["plan_id"]:
        raise wrong_value("plan_id", "names another plan than the one in `plan`", said["plan_id"])
    return plan


def advised(knowledge: Knowledge, case: RunCase, plan: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a run that begins was advised, and whether it does so; None where its plan is not known.

    plan   the answer of /recommend that it follows
    """
    if plan is None or plan.get("feasible") is False:
        return None
    patterns = {row["id"]: row for row in knowledge.patterns}
    runs_it = {"model": case.model, "precision": case.precision, case.input_kind: case.input_size}
    runs_it |= {name: case.reported.get(name) for name in ("batch_size", "folds", "epochs")}
    return advice_of(brief_of(plan, patterns), patterns, runs_it)


def begin_outcome(
    transaction: WriteTransaction, run_id: str, case: RunCase, told_by: str, advice: Mapping[str, Any] | None
) -> None:
    """Keep with a new run what it was advised."""
    said = case.reported
    place = place_of(said.get("competition"), said["task"], said.get("n_train"))
    outcomes.begin(transaction.session, run_id, place, told_by, advice, transaction.now)
