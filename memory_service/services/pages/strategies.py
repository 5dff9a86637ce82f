"""Pages of the strategy tables: rows beside what is computed now, one row, and what an edit would change."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memory_service.errors import InvalidInput
from memory_service.schemas.recommend import plan_request
from memory_service.services.conflicts.claims import CLAIMED_N_TRAIN, REFERENCE_MODEL, computed_now
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.outcomes import with_steering
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.planning.planning_problem import case_of
from memory_service.services.planning.recommend import planned
from memory_service.services.planning.request_text import read_request_text
from memory_service.services.tables.table_rows import every_row, get_row, history_of

_REFERENCES = {"image": REFERENCE_MODEL, "segmentation_tile": "unet/resnet34"}
"""Of rows that name a kind of input and no model: what they are computed for."""

EXAMPLES = tuple(
    {"task": task, "size": size, "gpu": gpu, "minutes": minutes}
    for task, size, minutes in (
        ("image", "small", "30"), ("image", "medium", "30"), ("image", "large", "60"),
        ("image-segmentation", "medium", "60"), ("text", "medium", "60"), ("tabular", "medium", "20"),
    )
    for gpu in ("a10", "a100")
)  # fmt: skip
"""Questions whose plans show what an edit changes."""

Examples = list[tuple[dict[str, Any], frozenset[str]]]


def rows(database: Database, asked: Mapping[str, str]) -> list[dict[str, Any]]:
    """Those that plans are made with first; each with `steers_plans`, `use`, `read_by` and `now`
    (`computed_beside`).

    use      "read by plans"; "fallback only": read where no example plan is; "informs"; "rejected"; None: one
             of the first two, where example plans are not made yet and `counted=no` waits for none
    read_by  example plans that are made with it; None where they are not made yet
    """
    wanted = {*asked, asked.get("group"), asked.get("sort", "").removeprefix("-")}
    wait = asked.get("counted") != "no" or not wanted.isdisjoint(("use", "read_by", "read_by_min"))
    knowledge = knowledge_of(database)
    with database.read() as transaction:
        every = with_steering(transaction, every_row(transaction, "strategies"))
    plans = examples(database, knowledge) if every and wait else None
    plans = plans or database.caches.known(examples, _state(knowledge))
    told = [{**_used(plans, row), "now": computed_beside(knowledge, row)} for row in every]
    return sorted(told, key=lambda row: (not row["followed"], not row["steers_plans"], row["id"]))


def _used(plans: Examples | None, row: Mapping[str, Any]) -> dict[str, Any]:
    if plans is None and row["steers_plans"] and row["followed"]:
        return {**row, "use": None, "read_by": None}
    read_by = sum(row["id"] in read for _, read in plans or ()) if row["steers_plans"] else 0
    read = "read by plans" if read_by else "fallback only" if row["steers_plans"] else "informs"
    return {**row, "use": read if row["followed"] else "rejected", "read_by": read_by}


def more(_: Database, asked: Mapping[str, str], grid: Mapping[str, Any]) -> dict[str, Any]:
    """`{"own", "matrix", "example_plans", "counted"}`; counted: the example plans are made.

    own      of one table (`table=`): fields of keys and values that several of its rows have
    matrix   of one table whose rows name several cards: the rows by card (`_by_card`); else None
    """
    items = grid["items"]
    fields = Counter(
        f"{part}.{name}" for row in items for part in ("key", "value") for name in row[part] or {}
    )
    least = max(2, len(items) // 10)
    own = [field for field, n in fields.items() if n >= least] if "table" in asked else []
    cards = _by_card(items) if "table" in asked and grid["next"] is None else None
    counted = all(row["read_by"] is not None for row in items)
    return {"own": own, "matrix": cards, "example_plans": len(EXAMPLES), "counted": counted}


def _by_card(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """`{"cards", "lines": [{"of", "cells"}]}`: the rest of the key, and for each card the rows of that key,
    with the `figure` that each states; None where not two cards are named."""
    cards = sorted({str(row["key"]["gpu"]) for row in rows if (row["key"] or {}).get("gpu")})
    if len(cards) < 2:
        return None
    lines: dict[str, dict[str, Any]] = {}
    for row in rows:
        of = {name: value for name, value in (row["key"] or {}).items() if name != "gpu"}
        line = lines.setdefault(json.dumps(of, sort_keys=True), {"of": of, "cells": [[] for _ in cards]})
        if card := (row["key"] or {}).get("gpu"):
            line["cells"][cards.index(card)].append({**row, "figure": _figure(row["value"] or {})})
    found = [line for line in lines.values() if any(line["cells"])]
    ordered = sorted(found, key=lambda line: [str(part) for part in line["of"].values()])
    return {"cards": cards, "lines": ordered}


def _figure(value: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """(name, least, most) of the one figure that a row states: what can be computed, else its first number;
    what it may be raised to is its most."""
    stated = next((names for _, names in _STATED if all(_is_number(value.get(n)) for n in names)), None)
    first = tuple(name for name in value if _is_number(value[name]))[:1]
    names = stated or first or tuple(value)[:1] or ("",)
    raised = value.get("raise_to_if_it_fits") if names == ("batch_size",) else None
    return names[0], value.get(names[0]), raised or value.get(names[-1])


def strategy_page(database: Database, key: str) -> dict[str, Any]:
    """`{"strategy", "beside", "claims", "stale_numbers", "history"}`; NotFound.

    beside   the other rows of its rule
    claims   what was claimed of the same thing and is named in the row: `[{"id", "statement", "source"}]`
    stale_numbers   numbers of the sentence that the row's values lack since a correction of either
    """
    knowledge = knowledge_of(database)
    with database.read() as transaction:
        (row,) = with_steering(transaction, [get_row(transaction, "strategies", key)])
        history = history_of(transaction, "strategies", key)
    row = _used(examples(database, knowledge), row)
    named = row["value"].get("claims", ()) if isinstance(row["value"], Mapping) else ()
    known = {str(claim["id"]): claim for claim in knowledge.claims}
    earlier = [one["before"] for one in history if one["before"] and one["after"]]
    return {
        "strategy": {**row, "now": computed_beside(knowledge, row)},
        "beside": [
            {name: other[name] for name in ("id", "key", "value", "followed")}
            for other in knowledge.strategies
            if other["rule"] == row["rule"] and other["id"] != key
        ],
        "claims": [
            {"id": str(name)} | {part: known[str(name)][part] for part in ("statement", "source")}
            for name in named
            if str(name) in known
        ],
        "stale_numbers": _stale_numbers(row, earlier[-1] if earlier else row),
        "history": history,
    }


def _stale_numbers(row: Mapping[str, Any], was: Mapping[str, Any]) -> list[str]:
    """Numbers of the sentence alone now, whichever of sentence and values was corrected."""
    return sorted(_of_sentence_alone(row) - _of_sentence_alone(was), key=float)


def _of_sentence_alone(row: Mapping[str, Any]) -> set[str]:
    said, stated = (set(re.findall(r"\d+(?:\.\d+)?", str(of))) for of in (row["statement"], row["value"]))
    return said - stated


def computed_beside(knowledge: Knowledge, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is computed now for the figure that a row states: a Number with `model` and `verdict` ("agrees",
    of a batch "fits" or "may fit", "differs"); None where it states none that can be computed."""
    key, value = (row[name] if isinstance(row[name], Mapping) else {} for name in ("key", "value"))
    facts = {**key, **value}
    model = facts.get("model") or _REFERENCES.get(str(key.get("input_kind")))
    stated: dict[str, Any] = {"gpu": facts.get("gpu"), "model": model, "image_size": key.get("image_size")}
    found = next((each for each in _STATED if all(_is_number(value.get(name)) for name in each[1])), None)
    if found is None or (found[0] == "amp_speedup_factor" and not value.get("mixed_precision")):
        return None
    quantity, names = found
    low, high = value[names[0]], value[names[-1]]
    if quantity != "feasible_batch" and _is_number(facts.get("batch_size")):
        stated["batch_min"] = facts["batch_size"]
    now = computed_now(knowledge, {**stated, "quantity": quantity, "value_min": low})
    if now is None:
        return None
    if quantity == "feasible_batch":
        verdict = "fits" if high <= now.low else "may fit" if low <= now.high else "differs"
    else:
        verdict = "agrees" if now.low <= high and low <= now.high else "differs"
    basis = f"{now.basis}; {CLAIMED_N_TRAIN:,} images" if quantity == "epoch_minutes" else now.basis
    return {**now.as_dict(), "basis": basis, "model": model, "quantity": quantity, "verdict": verdict}


_STATED = (
    ("gpu_memory_gib", ("memory_gib",)),
    ("epoch_minutes", ("epoch_minutes_min", "epoch_minutes_max")),
    ("feasible_batch", ("batch_size",)),
    ("feasible_batch", ("batch_size_min", "batch_size_max")),
    ("amp_speedup_factor", ("speedup_factor_min", "speedup_factor_max")),
    ("speed_ratio_to_a10", ("speed_ratio",)),
)
"""Quantity of a claim -> the fields of a row that state it, the first that are there."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def examples(database: Database, knowledge: Knowledge) -> Examples:
    """Of each example question the plan's figures, and the rows that it is made with: seconds in a new
    process."""

    def make() -> Examples:
        return [_planned(database, knowledge, example) for example in EXAMPLES]

    return database.caches.stored(examples, _state(knowledge), make, 16)


def _state(knowledge: Knowledge) -> tuple[Any, ...]:
    policy = knowledge.policy
    numbers = repr(replace(policy, steering=frozenset(), changed=frozenset()))
    return (knowledge.state, numbers, *sorted(policy.steering))


def effect_on_plans(
    database: Database, knowledge: Knowledge, changes: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """`{"of", "plans", "read_by"}`: how many example plans there are, those that differ with the changed rows
    (key -> what changes): `[{"question", "changes": [{"field", "before", "after"}]}]`, how many are made
    with one of these rows, as it is or changed, and `stale`: key -> numbers that its sentence alone would
    say."""
    rows = tuple({**row, **changes.get(row["id"], {})} for row in knowledge.strategies)
    before = examples(database, knowledge)
    after = examples(database, replace(knowledge, strategies=rows))
    plans = []
    for example, (was, _), (now, _) in zip(EXAMPLES, before, after, strict=True):
        apart = [{"field": name, "before": was.get(name), "after": now.get(name)} for name in was]
        apart = [each for each in apart if each["before"] != each["after"]]
        if apart:
            plans.append({"question": dict(example), "changes": apart})
    both = [was | now for (_, was), (_, now) in zip(before, after, strict=True)]
    read_by = sum(not changes.keys().isdisjoint(read) for read in both)
    pairs = zip(rows, knowledge.strategies, strict=True)
    stale = {row["id"]: _stale_numbers(row, was) for row, was in pairs if row["id"] in changes}
    stale = {key: numbers for key, numbers in stale.items() if numbers}
    return {"of": len(EXAMPLES), "plans": plans, "read_by": read_by, "stale": stale}


def _planned(
    database: Database, knowledge: Knowledge, example: Mapping[str, str]
) -> tuple[dict[str, Any], frozenset[str]]:
    question = plan_request(example)
    try:
        case = case_of(knowledge, question, read_request_text(database, question))
    except InvalidInput:  # its card is not known here
        return {"feasible": "no"}, frozenset()
    plan = planned(knowledge, case).plan.as_dict()
    steering = knowledge.policy.steering
    batches = {row for row in steering if row.startswith("R03-")}
    named = {row["id"] for row in plan.get("evidence", ())}
    read = frozenset((steering - batches) | (batches & named))  # of batches its own card's and size's
    if not plan["feasible"]:
        return {"feasible": "no"}, read
    names = ("batch_size", "folds", "epochs", "early_stopping_patience", "reserve_minutes")
    checks = ("target_percent", "kill_below_percent", "every_seconds")
    shown = {name: plan[name] for name in names} | {name: plan["checks"][name] for name in checks}
    return {"model": plan["model"]["name"], **shown, "runs": len(plan["portfolio"])}, read
