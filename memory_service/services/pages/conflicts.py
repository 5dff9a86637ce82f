"""Pages of conflicts: the list by kind, and one with all its statements."""

from collections.abc import Mapping
from typing import Any

from memory_service.errors import FieldError, InvalidInput, NotFound, unknown_name
from memory_service.services.conflicts.conflicts import about, claimed, conflicts
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of

Item = dict[str, Any]

KINDS = {"claim": "claim vs estimate or run", "claims": "claim vs claim", "run": "run vs estimate"}

COLUMNS: Mapping[str, type[Any]] = {
    "id": str, "kind": str, "quantity": str, "unit": str, "gpu": str, "device": str, "model": str,
    "input_size": int, "batch_size": int, "precision": str, "said": str, "apart": float, "used": str,
    "uses": object, "sides": object, "assumed": object, "statement": str, "fits": bool, "why": str,
}  # fmt: skip


def rows(database: Database, _: Mapping[str, str]) -> list[Item]:
    """The widest apart first."""
    every = [row_of(item) for item in conflicts(database)]
    return sorted(every, key=lambda row: (-(row["apart"] or 0), row["id"]))


def conflict_page(database: Database, key: str) -> dict[str, Any]:
    """One contradiction, or one claim that is in none. `{"item", "sides", "claim", "sizing", "kin"}`.

    sides   with `followed`: whether it is of the grade that plans use, and `href`: where it comes from
    kin     other contradictions about the same model on the same card
    NotFound with the nearest ids.
    """
    every = conflicts(database)
    item = next((each for each in every if each["id"] == key), None)
    knowledge = knowledge_of(database)
    row = next((row for row in knowledge.located_claims if row[0]["id"] == key), None)
    if item is None and row is None:
        known = [*(each["id"] for each in every), *(str(one[0]["id"]) for one in knowledge.located_claims)]
        near = unknown_name("conflict", key, known).errors[0].nearest
        hint = f"; nearest: {', '.join(near)}" if near else ""
        detail = f"There is no contradiction or claim {key[:200]!r}{hint}"
        raise NotFound(detail, [FieldError("id", "unknown contradiction", key[:200], near)])
    claim = None if row is None else _claim(knowledge, *row)
    facts: Mapping[str, Any] = item or claim or {}
    gpu, model = facts.get("gpu"), facts.get("model")
    kin = [row_of(e) for e in every if e["id"] != key and model and (e["gpu"], e["model"]) == (gpu, model)]
    within = next((e["id"] for e in every if any(side["id"] == key for side in e["sides"])), None)
    own = None if item is None else row_of(item)
    sides = [] if item is None else [_side(side, item) for side in item["sides"]]
    inside = within if within != key else None
    page = {"id": key, "item": own, "sides": sides, "claim": claim, "within": inside}
    return page | {"sizing": _sizing(knowledge, gpu, model, facts), "kin": kin[:50], "kinds": KINDS}


def kind_of(item: Mapping[str, Any]) -> str:
    """Which of KINDS a row of /conflicts is."""
    grades = {side["grade"] for side in item["sides"]}
    if grades == {"claimed"}:
        return "claims"
    return "claim" if "claimed" in grades else "run"


def row_of(item: Mapping[str, Any]) -> Item:
    """The row with its kind, and its sides in a word each."""
    sides = [f"{side['grade']} {_range(side)}" for side in item["sides"]]
    return {**item, "kind": kind_of(item), "said": "; ".join(sides)}


def _range(side: Mapping[str, Any]) -> str:
    low, high = side["low"], side["high"]
    ends = f"from {low:g}" if high is None else f"{low:g}" if low == high else f"{low:g} to {high:g}"
    aside = " (set aside)" if "set_aside" in side else ""
    return f"{ends} {side['unit'] or ''}".rstrip() + aside


def _side(side: Mapping[str, Any], item: Mapping[str, Any]) -> Item:
    counts = item["uses"] is not None and side.get("set_aside") is None
    followed = counts and side["grade"] == item["used"]
    kind, _, name = side["id"].partition(":")
    href = f"/browse/runs/{name}" if kind == "run" else None
    unsaid = dict.fromkeys(("value", "n", "statement", "set_aside"))
    return {**unsaid, **side, "followed": followed, "href": href}


def _claim(knowledge: Knowledge, row: Mapping[str, Any], gpu: str | None, model: str | None) -> Item:
    """The claim with what is computed for the same, where anything can be."""
    bare = {**row, "gpu": gpu or row.get("gpu"), "model": model or row.get("model"), "why": None}
    if gpu is None or model is None:
        return bare
    here = claimed(about(knowledge, knowledge.cards.sheets[gpu], model))
    found = next((each for each in here if each["id"] == row["id"]), None)
    return bare if found is None else {**bare, **found, "model": model}


def _sizing(
    knowledge: Knowledge, gpu: str | None, model: str | None, facts: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The question of the sizing page that shows the same; None where it has no card or model."""
    if not gpu or not model or gpu not in knowledge.gpus:
        return None
    try:
        model = knowledge.listed_model(model).name
    except InvalidInput:
        return None
    kind = knowledge.models[model].input_kind
    size = facts.get("image_size") if kind == "image_size" else facts.get("input_size")
    said = {kind: size, "batch_size": facts.get("batch_size") or facts.get("batch_min")}
    query = {name: value for name, value in said.items() if value}
    return {"gpu": facts.get("device") or gpu, "model": model, "query": query}
