"""Conflicts between claims, estimates and measurements, and which of them a plan uses; and all
that was said of one model on one card.

Statements speak of the same thing: model, card, input size, batch, precision, quantity. They are in conflict
when two of them leave no number that both allow. Nothing is averaged: the higher grade decides, the lower
one stays visible, and what was set aside is shown as such.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.step_config import precision_class
from memory_service.domain.learning.observation import Observation
from memory_service.domain.prediction.device import TargetDevice
from memory_service.errors import unknown_name
from memory_service.schemas.lists import DEFAULT_LIMIT
from memory_service.services.conflicts.claims import Checked, Subject, check_claims, estimate_of, fits
from memory_service.services.conflicts.statements import (
    Shown,
    Statement,
    claim_statement,
    divergence,
    estimate_statement,
    shown_by_runs,
)
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.tables.paging import page_behind

Row = Mapping[str, Any]
Item = dict[str, Any]


def conflicts(database: Database) -> list[Item]:
    """Every disagreement for whoever asks, the widest first; kept per knowledge revision. The list is shared:
    do not change it."""
    knowledge = knowledge_of(database)
    of = (knowledge.claims, knowledge.cards.untaught, len(knowledge.profiles))

    def make() -> list[Item]:
        checked = knowledge.priced.caches.latest(Checked, of, lambda: check_claims(knowledge))
        return conflicts_in(knowledge, checked)

    return knowledge.cards.caches.latest(conflicts, knowledge.state, make)


def conflicts_in(knowledge: Knowledge, checked: Sequence[Checked]) -> list[Item]:
    """The same of a snapshot and its checked claims."""
    shown = list(shown_by_runs(knowledge))
    found = [
        *_of_claims(knowledge, checked, shown),
        *_among_claims(knowledge, {each.claim["id"] for each in checked}),
        *_of_runs(shown),
    ]
    found.sort(key=lambda item: (-item["apart"], item["id"]))
    return found


def _of_claims(knowledge: Knowledge, checked: Sequence[Checked], shown: Sequence[Shown]) -> Iterator[Item]:
    """Claims that what is computed, or what runs showed, contradicts."""
    for each in checked:
        row, subject = each.claim, each.subject
        runs = [one for one in shown if _same_thing(row, subject, one)]
        measured = [_in_units_of(row, subject, side) for one in runs if (side := one.measured) is not None]
        aside = [_in_units_of(row, subject, side) for one in runs for side in one.aside]
        claim, estimate = claim_statement(row), estimate_statement(each.estimate, row.get("unit"))
        width = divergence([claim, estimate, *measured])
        if width <= 1.0:
            continue
        others = [claim_statement(other) for other in _others(knowledge.claims, row)]
        now = (estimate_of(knowledge, each) if measured else None) or each.estimate
        yield _item(
            row["id"], str(row["quantity"]), [claim, *others, *measured, *aside, estimate], width, now,
            _why_claim(subject, now, len(measured)), unit=row.get("unit"), gpu=subject.gpu.slug,
            model=subject.option.model.name, input_kind="image_size", input_size=subject.option.input_size,
            batch_size=subject.batch_size, precision=subject.precision, assumed=list(subject.assumed),
            statement=row.get("statement"), fits=fits(subject),
        )  # fmt: skip


def _same_thing(row: Row, subject: Subject, one: Shown) -> bool:
    quantity = {"default_batch": "feasible_batch", "gpu_memory_percent": "gpu_memory_gib"}.get(
        str(row["quantity"]), str(row["quantity"])
    )
    model, o = subject.option.model, one.what
    return (
        one.quantity == quantity
        and o.gpu == subject.gpu.slug
        and o.cores == subject.gpu.cores
        and o.mode == "train"
        and o.model == model.architecture
        and o.input_size == subject.option.input_size
        and precision_class(o.precision) == precision_class(subject.precision)
        and one.batch_size in (None, subject.batch_size)
    )


def _in_units_of(row: Row, subject: Subject, side: Statement) -> Statement:
    if row["quantity"] != "gpu_memory_percent":
        return side
    share = 100.0 / subject.gpu.memory_gib
    high, value = (None if x is None else x * share for x in (side.high, side.value))
    return replace(side, low=side.low * share, high=high, unit="percent", value=value)


def _why_claim(subject: Subject, now: Estimate, measured: int) -> str:
    about = f"{subject.option.model.name} at {subject.option.input_size} px"
    batch = f" at batch {subject.batch_size}" if subject.batch_size else ""
    if measured:
        return (
            f"Plans use what runs of {about} showed on {subject.gpu.name}{batch}: a measurement outranks an "
            f"estimate, and an estimate a claim ({now.basis})."
        )
    rates = "the calibrated rates" if subject.gpu.calibrated else "the data sheet"
    return (
        f"Plans use the estimate: it is computed from the traced profile of {about} and {rates} of "
        f"{subject.gpu.name}{batch}, and an estimate outranks a claim; a measurement would outrank both."
    )


def _others(claims: Sequence[Row], row: Row) -> list[Row]:
    """Claims about the same model, card, batch and quantity."""
    same = ("gpu", "model", "quantity", "batch_min")
    stated = (other for other in claims if other["id"] != row["id"] and other.get("value_min") is not None)
    return [other for other in stated if all(other.get(name) == row.get(name) for name in same)]


_ABOUT = (
    "task", "size", "image_size", "batch_min", "batch_max", "folds", "epochs", "precision", "quantity",
    "vram_gib",
)  # fmt: skip


def _among_claims(knowledge: Knowledge, computed: set[Any]) -> Iterator[Item]:
    """Claims that contradict one another where nothing can be computed for them."""
    groups: dict[tuple[Any, ...], list[tuple[Row, str | None, str | None]]] = {}
    for row, card, model in knowledge.located_claims:
        if row.get("value_min") is not None and row["id"] not in computed:
            about = (card or row.get("gpu"), model or row.get("model"), *(row.get(n) for n in _ABOUT))
            groups.setdefault(about, []).append((row, card, model))
    for rows in groups.values():
        statements = [claim_statement(row) for row, _, _ in rows]
        width = divergence(statements)
        if width <= 1.0:
            continue
        row, card, model = rows[0]
        yield _item(
            row["id"], str(row["quantity"]), statements, width, None,
            "Plans use none of them: nothing is computed or measured for it, and no claim outranks another.",
            unit=row.get("unit"), gpu=card or row.get("gpu"), model=model or row.get("model"),
            input_size=row.get("image_size"), batch_size=row.get("batch_min"),
            precision=row.get("precision"), statement=row.get("statement"),
        )  # fmt: skip


def _of_runs(shown: Sequence[Shown]) -> Iterator[Item]:
    """What runs showed against what was computed without them."""
    for one in shown:
        baseline = estimate_statement(one.baseline, one.unit)
        measured = [] if one.measured is None else [one.measured]
        width = _width([baseline, *measured, *one.aside])
        if width <= 1.0:
            continue
        o = one.what
        where = (o.device or o.gpu) + (f"/{o.cores} cores" if o.cores else "")
        batch = f"/b{one.batch_size}" if one.batch_size else ""
        yield _item(
            f"{o.model}@{o.input_size}/{o.precision}/{o.layout}/{o.optimizer}/{o.mode}{batch}/{where}/{one.quantity}",
            one.quantity, [*measured, *one.aside, baseline], width, one.now, _why_run(one),
            unit=one.unit, gpu=o.gpu, device=o.device or None, model=o.model, input_kind=o.input_kind,
            input_size=o.input_size, batch_size=one.batch_size, precision=o.precision, assumed=[],
        )  # fmt: skip


def _why_run(one: Shown) -> str:
    if one.measured is None:
        used = "what other runs showed" if one.now.grade == "measured" else "the estimate"
        return f"Plans use {used}: what was observed here is set aside ({one.aside[0].set_aside})."
    beside = " What is set aside is not used." if one.aside else ""
    if one.now.grade != "measured":
        return f"Plans use the estimate as corrected by what was measured ({one.now.basis}).{beside}"
    return f"Plans use what was measured: it outranks what was computed without it ({one.now.basis}).{beside}"


def _width(sides: Sequence[Statement]) -> float:
    """How far apart those are that count; with what is set aside only where they agree."""
    counting = divergence([side for side in sides if side.set_aside is None])
    return counting if counting > 1.0 else divergence(sides)


def _item(
    key: str,
    quantity: str,
    statements: Sequence[Statement],
    width: float,
    now: Estimate | None,
    why: str,
    *,
    input_kind: str = "image_size",
    input_size: int | None = None,
    **facts: Any,
) -> Item:
    """A row of the list, the same fields in each. uses: the number a plan takes now; used: its grade."""
    return {
        "id": key,
        "quantity": quantity,
        **{name: facts.get(name) for name in ("unit", "gpu", "device", "model")},
        "image_size": input_size if input_kind == "image_size" else None,
        "input_size": input_size,
        "batch_size": facts.get("batch_size"),
        "precision": facts.get("precision"),
        "assumed": facts.get("assumed", []),
        "statement": facts.get("statement"),
        "sides": [side.as_dict() for side in statements],
        "apart": round(width, 3),
        "used": _grade_used(statements, now),
        "uses": None if now is None else now.as_dict(),
        "why": why,
        "fits": facts.get("fits"),
    }


def _grade_used(statements: Sequence[Statement], now: Estimate | None) -> str:
    """The grade of what a plan's number follows. An estimate that runs have corrected is nearer to these than
    to the one without them."""
    if now is None or now.grade != "estimated":
        return "claimed" if now is None else now.grade
    counting = [side for side in statements if side.set_aside is None and side.grade != "claimed"]
    mine = Statement("", now.grade, now.value, now.value, None, "")
    return min((divergence([side, mine]), side.grade) for side in counting)[1]


_FILTERS = ("gpu", "device", "model", "quantity")
_SORTS = ("apart", "id")


def conflicts_page(database: Database, requested: Mapping[str, Any]) -> dict[str, Any]:
    """`{"items", "next"}`; `next` names the last row shown. InvalidInput for a cursor that names none of
    the list."""
    filters = {name: value for name, value in requested.items() if name not in ("sort", "limit", "cursor")}
    found = narrowed_conflicts(database, filters, requested.get("sort"))
    limit = int(requested.get("limit", DEFAULT_LIMIT))
    page, behind = page_behind(found, itemgetter("id"), requested.get("cursor") or None, limit)
    return {"items": page, "next": behind}


def narrowed_conflicts(
    database: Database, filters: Mapping[str, Any], sort: str | None = None
) -> list[dict[str, Any]]:
    """All that match, the widest first unless sorted otherwise. InvalidInput with the nearest names for an
    unknown filter or sort."""
    wanted_sort = sort or "-apart"
    name = wanted_sort.removeprefix("-")
    if name not in _SORTS:
        raise unknown_name("sort", name, _SORTS)
    for field in filters:
        if field not in _FILTERS:
            raise unknown_name("filter", field, _FILTERS)
    wanted = {field: value for field, value in filters.items() if value is not None}
    rows = [row for row in conflicts(database) if all(row[field] == value for field, value in wanted.items())]
    rows.sort(key=lambda row: row["id"])
    return sorted(rows, key=lambda row: row[name], reverse=wanted_sort.startswith("-"))


MOST_SHOWN = 200

_NOT_COMPUTED = {
    "gpu_utilization_percent": "Utilisation says how busy the card was, not what fits or how fast it is.",
    "best_epoch": "How many epochs help is a matter of the data, not of the card.",
    "cpu_cores": "Nothing of the card is claimed.",
}


def about(knowledge: Knowledge, card: TargetDevice, model: str) -> Knowledge:
    """The same knowledge with the claims and observations of one model on one card alone; weights of one
    architecture cost the same, so all of them count."""
    own_kin = kin(model)
    claims = tuple(
        row
        for row, slug, name in knowledge.located_claims
        if slug == card.slug and name is not None and kin(name) == own_kin
    )
    observed = knowledge.observed.get((card.slug, kin(model, keep_maker=True)), ())
    own = tuple(o for o in observed if not card.device or o.device in ("", card.device))
    return replace(knowledge, claims=claims, observations=own)


def claimed(here: Knowledge) -> list[Item]:
    """Each claim with its estimate and whether they agree; where not, the conflict that says what is followed
    and why.

    here   as `about` narrows it
    """
    computed = check_claims(here)
    checked = {str(each.claim["id"]): each for each in computed}
    conflicts = {str(item["id"]): item for item in conflicts_in(here, computed) if item["model"]}
    sided = {side["id"]: item for item in conflicts.values() for side in item["sides"]}
    return [
        _claim(row, card, checked.get(str(row["id"])), conflicts.get(str(row["id"])) or sided.get(row["id"]))
        for row, card, _ in here.located_claims
    ]


def _claim(row: Mapping[str, Any], card: str | None, checked: Checked | None, conflict: Item | None) -> Item:
    out: Item = {
        "id": row["id"],
        "quantity": row["quantity"],
        "statement": row.get("statement"),
        "low": row.get("value_min"),
        "high": row.get("value_max"),
        "unit": row.get("unit"),
        "batch_size": row.get("batch_min"),
        "batch_most": row.get("batch_max"),
        "image_size": row.get("image_size"),
        "precision": row.get("precision"),
        "gpu": card,
        "grade": row.get("grade", "claimed"),
        "source": row["source"],
        "assumed": [],
        "estimate": None,
        "agrees": None,
        "apart": None,
        "times": None,
        "fits": conflict["fits"] if conflict and conflict["id"] == row["id"] else None,
        "conflict": conflict and conflict["id"],
    }
    if checked is None and conflict and conflict["id"] != row["id"]:
        says = f"it says the same thing as {conflict['id']}"
        return out | {"why": f"It leaves out what a computation needs; {says}."}
    if checked is None:
        return out | {"why": conflict["why"] if conflict else _why_nothing(row)}
    subject = checked.subject
    out |= {
        "estimate": estimate_statement(checked.estimate, row.get("unit")).as_dict(),
        "agrees": not checked.disagrees,
        "apart": round(checked.apart, 2) if checked.disagrees else None,
        "image_size": subject.option.input_size,
        "assumed": list(subject.assumed),
    }
    if not checked.disagrees:
        return out | {"why": "Plans use the computed value, which says how sure it is."}
    middle = (row["value_min"] + (row.get("value_max") or row["value_min"])) / 2.0
    times = float(f"{middle / max(checked.estimate.value, 1e-9):.2g}")
    return out | {"times": times, "why": conflict["why"] if conflict else ""}


def _why_nothing(row: Mapping[str, Any]) -> str:
    quantity = str(row["quantity"])
    if quantity in _NOT_COMPUTED:
        return _NOT_COMPUTED[quantity]
    if row.get("value_min") is None:
        return "It names no number."
    if quantity == "total_minutes":
        return "It leaves out folds or epochs, so nothing can be computed to compare it with."
    if row.get("batch_min") is None:
        return "It names no batch, so nothing can be computed to compare it with."
    return "Nothing is computed for this quantity."


def shown(
    here: Knowledge, answer: Mapping[str, Any], input_size: int | None, cores: int | None
) -> list[Item]:
    """What runs showed, newest first, `same` where it is of the very case that was answered: the same input
    size, class of precision and mode, of a processor with as many cores."""
    wanted = (input_size, precision_class(str(answer["precision"])), answer["mode"], cores)
    found = [
        _seen(o) | {"same": (o.input_size, precision_class(o.precision), o.mode, o.cores) == wanted}
        for o in here.observations[-MOST_SHOWN:]
    ]
    return found[::-1]


def _seen(o: Observation) -> Item:
    peaks = {name: getattr(o, f"peak_{name}_gib") for name in ("driver", "reserved", "allocated")}
    kind = next((name for name, value in peaks.items() if value is not None), None)
    return {
        "run_id": o.run_id or None,
        "source": o.source or None,
        "at": o.at or None,
        "device": o.device or None,
        "batch_size": o.batch_size,
        "image_size": o.input_size,
        **{name: getattr(o, name) for name in ("precision", "layout", "optimizer", "mode")},
        "samples_per_second": o.batch_size / o.step_seconds if o.step_seconds else None,
        "peak_gib": peaks.get(str(kind)),
        "peak_of": kind,
        **{name: getattr(o, name) for name in ("out_of_memory", "excluded", "n")},
    }


def kin(model: str, *, keep_maker: bool = False) -> str:
    """The architecture of a name: without the tag of the weights and, unless kept, of who ported it."""
    plain = model.split(".", 1)[0] if "/" not in model else model
    return plain if keep_maker else plain.removeprefix("tf_")
