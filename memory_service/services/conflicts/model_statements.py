"""What sources claimed and runs showed of one model on one card, each beside what is computed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memory_service.domain.cost.step_config import precision_class
from memory_service.domain.learning.observation import Observation
from memory_service.domain.prediction.device import TargetDevice
from memory_service.services.conflicts.claims import Checked, check_claims
from memory_service.services.conflicts.conflicts import conflicts_in
from memory_service.services.conflicts.statements import estimate_statement
from memory_service.services.knowledge.snapshot import Knowledge

Item = dict[str, Any]

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
