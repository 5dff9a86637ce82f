"""Plans over the knowledge that ships, without a database: what the planner's tests ask."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from memory_service.domain.parallel.parallel import with_parallel_sets
from memory_service.domain.planning.candidates import Candidate, price_candidates
from memory_service.domain.planning.model_catalogue import model_index
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.portfolio.portfolio_plan import plan_portfolio
from memory_service.schemas.recommend import plan_request
from memory_service.services.knowledge.cards import cards_of
from memory_service.services.knowledge.cost_cache import PricedCatalogue
from memory_service.services.knowledge.profile_library import ProfileLibrary
from memory_service.services.knowledge.snapshot import CATALOGUE, Knowledge, assemble
from memory_service.services.planning.planning_problem import case_of
from memory_service.services.tables.usable_rows import usable
from tests.catalogue import shipped_seeds

CARDS = (
    "t4", "p100", "v100", "v100-32gb", "a10", "a10g", "l4", "l40s", "a40", "rtxa6000", "a100", "a100-80gb",
    "h100", "h100-pcie", "h200", "b200", "rtx2080ti", "rtx3060", "rtx3080", "rtx3090", "rtx4070", "rtx4080",
    "rtx4090", "rtx5090", "rtx6000ada", "mps", "cpu",
)  # fmt: skip

MINUTES = (3, 11, 20, 37, 60, 240)


@lru_cache(maxsize=1)
def seed_knowledge() -> Knowledge:
    """The snapshot of the seed files alone."""
    rows = {table: [seed.values for seed in seeds.values()] for table, seeds in shipped_seeds().items()}
    models, profiles = (usable(name, rows[name])[0] for name in CATALOGUE)
    sheets = {sheet.slug: sheet for sheet in usable("gpus", rows["gpus"])[0]}
    priced = PricedCatalogue({model.name: model for model in models}, ProfileLibrary(profiles))
    return assemble(0, priced, model_index(priced.models), cards_of(sheets), rows)


def case(**asked: Any) -> PlanningProblem:
    return case_of(seed_knowledge(), plan_request(asked))


def plan(**asked: Any) -> dict[str, Any]:
    """The answer of /recommend without similar competitions."""
    problem, knowledge = case(**asked), seed_knowledge()
    candidate_sets = price_candidates(problem, knowledge)
    return with_parallel_sets(plan_portfolio(problem, knowledge, candidate_sets), candidate_sets).as_dict()


def best(**asked: Any) -> Candidate | None:
    """The chosen plan without writing it out; None when nothing fits."""
    asked_case = case(**asked)
    return price_candidates(asked_case, seed_knowledge()).best(
        asked_case.question.objective, asked_case.question.minutes
    )


def promises_kept(answer: dict[str, Any]) -> list[str]:
    """What a feasible plan breaks; empty for a sound one."""
    broken = []
    minutes, expected = answer["minutes"], answer["expected"]
    if expected["peak_memory_gib"]["high"] > answer["gpu"]["usable_gib"] + 0.01:
        broken.append("p90 memory does not fit")
    if answer["timetable"][-1]["deadline_minute"] > minutes + 0.01:
        broken.append("the timetable ends after the budget")
    if expected["total_minutes"]["high"] > minutes * 1.0005:
        broken.append("p90 of the total is over the budget")
    if answer["reserve_minutes"] < 0.15 * minutes - 0.01:
        broken.append("the reserve is under 15 %")
    clock = 0.0
    for stage in answer["timetable"]:
        if not clock - 0.011 <= stage["start_minute"] <= stage["deadline_minute"]:
            broken.append(f"stage {stage['stage']} is out of order")
        clock = stage["deadline_minute"]
    whole = (
        "batch_size",
        "grad_accumulation",
        "effective_batch_size",
        "folds",
        "epochs",
        "early_stopping_patience",
    )
    broken.extend(
        f"{name} is no whole number"
        for name in whole
        if type(answer[name]) is not int or answer[name] < (name != "early_stopping_patience")
    )
    broken.extend(
        f"{name} is not ordered"
        for name, value in expected.items()
        if isinstance(value, dict) and not value["low"] <= value["value"] <= value["high"]
    )
    return broken
