"""The plan that a run was advised, stored with it and compared with what it runs.

Questions write nothing: a plan is known while its answer is cached
(`services.planning.recommend.cached_plan`). A restarted server gives the same plan, under the same id, to the
same question over the same knowledge; or the run brings its plan in `plan`.
"""

from collections.abc import Mapping
from typing import Any

from memory_service.domain.runs.advice_outcome import advice_of, brief_of, place_of
from memory_service.errors import wrong_value
from memory_service.schemas.plan import BroughtPlan
from memory_service.schemas.validation_errors import checked
from memory_service.services.database.transactions import WriteTransaction
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.runs.run_configuration import RunCase
from memory_service.store.queries import outcomes


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
    transaction: WriteTransaction, run_id: str, case: RunCase, advice: Mapping[str, Any] | None
) -> None:
    """Keep with a new run what it was advised."""
    said = case.reported
    place = place_of(said.get("competition"), said["task"], said.get("n_train"))
    outcomes.begin(transaction.session, run_id, place, advice, transaction.now)
