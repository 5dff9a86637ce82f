"""Pages of the strategy tables: rows beside what is computed now, one row, and what an edit would change."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from memory_service.domain.planning.candidates import price_candidates
from memory_service.domain.planning.policy import policy_of
from memory_service.schemas.lists import MAX_LIMIT
from memory_service.schemas.recommend import plan_request
from memory_service.services.conflicts.claims import CLAIMED_N_TRAIN, REFERENCE_MODEL, computed_now
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.knowledge.outcomes import with_steering
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.planning.noted_plan import plan_with_note
from memory_service.services.planning.planning_problem import case_of
from memory_service.services.planning.request_text import read_request_text
from memory_service.services.tables.paging import page_behind
from memory_service.services.tables.table_rows import get_row, history_of, list_requested

MOST_ROWS = 100

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


def strategies_page(database: Database, requested: Mapping[str, str]) -> dict[str, Any]:
    """`{"items", "next", "choices", "own"}`; each row with `steers_plans` and `now` (`computed_beside`).
    Those that plans are made with come first, unless another order or number is asked for.

    choices   filter -> [[value, rows]]
    own       of one table (`table=`): `[(part, field)]` of keys and values that several of its rows have
    matrix    of one table whose rows name several cards: the rows by card (`_by_card`); else None
    """
    requested = {name: value for name, value in requested.items() if name != "view"}  # the page's own
    knowledge = knowledge_of(database)
    rows: Sequence[dict[str, Any]]
    with database.read() as transaction:
        if "sort" in requested or "limit" in requested:
            usual = {"limit": MOST_ROWS, "sort": "-followed", **requested}
            page = list_requested(transaction, "strategies", usual)
            rows, behind = with_steering(transaction, page.items), page.next
        else:
            every = with_steering(transaction, _all_rows(transaction, requested))
            every.sort(key=lambda row: (not row["followed"], not row["steers_plans"], row["id"]))
            rows, behind = page_behind(every, itemgetter("id"), requested.get("cursor"), MOST_ROWS)
    items = [{**row, "now": computed_beside(knowledge, row)} for row in rows]
    filters = ("rule", "table", "followed", "grade", "corrected")
    counts = {name: Counter(_word(row.get(name)) for row in knowledge.strategies) for name in filters}
    choices = {name: [[value, n] for value, n in sorted(found.items())] for name, found in counts.items()}
    fields = Counter((part, name) for row in items for part in ("key", "value") for name in row[part] or {})
    least = max(2, len(items) // 10)
    own = [field for field, rows in fields.items() if rows >= least] if "table" in requested else []
    cards = _by_card(items) if "table" in requested and behind is None else None
    return {"items": items, "next": behind, "choices": choices, "own": own, "matrix": cards}


def _by_card(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """`{"cards", "lines": [{"of", "cells"}]}`: the rest of the key, and for each card the rows of that key;
    None where not two cards are named."""
    cards = sorted({str(row["key"]["gpu"]) for row in rows if (row["key"] or {}).get("gpu")})
    if len(cards) < 2:
        return None
    lines: dict[str, dict[str, Any]] = {}
    for row in rows:
        of = {name: value for name, value in (row["key"] or {}).items() if name != "gpu"}
        line = lines.setdefault(json.dumps(of, sort_keys=True), {"of": of, "cells": [[] for _ in cards]})
        if card := (row["key"] or {}).get("gpu"):
            line["cells"][cards.index(card)].append(row)
    found = [line for line in lines.values() if any(line["cells"])]
    ordered = sorted(found, key=lambda line: [str(part) for part in line["of"].values()])
    return {"cards": cards, "lines": ordered}


def _all_rows(transaction: ReadTransaction, requested: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every row that the filters let through."""
    asked = {**requested, "limit": MAX_LIMIT, "cursor": None}
    page = list_requested(transaction, "strategies", asked)
    rows = page.items
    while page.next is not None:
        page = list_requested(transaction, "strategies", asked | {"cursor": page.next})
        rows += page.items
    return rows


def _word(value: Any) -> str:
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def strategy_page(database: Database, key: str) -> dict[str, Any]:
    """`{"strategy", "beside", "claims", "stale_numbers", "history"}`; NotFound.

    beside   the other rows of its rule
    claims   what was claimed of the same thing and is named in the row: `[{"id", "statement", "source"}]`
    stale_numbers   numbers of the sentence that a correction took out of the row's values
    """
    knowledge = knowledge_of(database)
    with database.read() as transaction:
        (row,) = with_steering(transaction, [get_row(transaction, "strategies", key)])
        history = history_of(transaction, "strategies", key)
    named = row["value"].get("claims", ()) if isinstance(row["value"], Mapping) else ()
    known = {str(claim["id"]): claim for claim in knowledge.claims}
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
        "stale_numbers": _stale_numbers(row, history),
        "history": history,
    }


def _stale_numbers(row: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> list[str]:
    earlier = [entry["before"]["value"] for entry in history if entry["before"] and entry["after"]]
    gone = {number for value in earlier for number in _numbers(value)} - _numbers(row["value"])
    return sorted(gone & _numbers(row["statement"]), key=float)


def _numbers(value: Any) -> set[str]:
    return set(re.findall(r"\d+(?:\.\d+)?", str(value)))


def computed_beside(knowledge: Knowledge, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is computed now for the figure that a row states: a Number with `model` and `verdict` ("agrees",
    of a batch "fits" or "may fit", "differs"); None where it states none that can be computed."""
    key, value = row["key"] or {}, row["value"] or {}
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


def effect_on_plans(
    database: Database, knowledge: Knowledge, changes: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """`{"of", "plans"}`: how many example plans were made with the changed rows (key -> what changes), and
    those that differ: `[{"question", "changes": [{"field", "before", "after"}]}]`."""
    rows = tuple({**row, **changes.get(row["id"], {})} for row in knowledge.strategies)
    if replace(policy_of(rows), steering=frozenset(), changed=frozenset()) == replace(
        knowledge.policy, steering=frozenset(), changed=frozenset()
    ):
        return {"of": len(EXAMPLES), "plans": []}
    edited = replace(knowledge, strategies=rows)
    plans = []
    for example in EXAMPLES:
        before, after = (_figures(database, one, example) for one in (knowledge, edited))
        apart = [{"field": name, "before": before.get(name), "after": after.get(name)} for name in before]
        apart = [each for each in apart if each["before"] != each["after"]]
        if apart:
            plans.append({"question": dict(example), "changes": apart})
    return {"of": len(EXAMPLES), "plans": plans}


def _figures(database: Database, knowledge: Knowledge, example: Mapping[str, str]) -> dict[str, Any]:
    question = plan_request(example)
    case = case_of(knowledge, question, read_request_text(database, question))
    plan = plan_with_note(knowledge, case, price_candidates(case, knowledge))[1].as_dict()
    if not plan["feasible"]:
        return {"feasible": "no"}
    names = ("batch_size", "folds", "epochs", "early_stopping_patience", "reserve_minutes")
    checks = ("target_percent", "kill_below_percent", "every_seconds")
    shown = {name: plan[name] for name in names} | {name: plan["checks"][name] for name in checks}
    return {"model": plan["model"]["name"], **shown, "runs": len(plan["portfolio"])}
