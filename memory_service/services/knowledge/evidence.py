"""The rows of the strategy tables and the claims that bear on a plan: of each deciding rule the most specific
row."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memory_service.domain.common.quoted_text import one_line
from memory_service.domain.common.vocabulary import modality_of, size_of
from memory_service.domain.planning.hyperparameters import default_batch
from memory_service.domain.planning.problem import PlanningProblem

Row = Mapping[str, Any]

ALWAYS = (
    "R01-one-integer", "R02-start", "R04-fill-as-aim", "R11-estimate", "R14-reserve", "R17-start",
    "R32-larger", "S04-updates-per-epoch", "S06-knee",
)  # fmt: skip
"""Rows that decided something in every plan of a network."""

MATCHED = ("R03", "R31", "R34")
"""Rules with a row per case: the most specific row that the case meets is shown."""

MOST_CLAIMS = 4

CLAIMS_FIRST = ("feasible_batch", "samples_per_second", "default_batch", "gpu_memory_gib", "epoch_minutes")
"""Quantities that a plan also states, what would lead it most astray first."""

_INPUT_KINDS = {"image-segmentation": "segmentation_tile", "tabular": "table", "image": "image"}


def evidence_rows(
    strategy: Mapping[str, Row],
    rules: Mapping[str, Iterable[Row]],
    located_claims: Iterable[tuple[Row, str | None, str | None]],
    case: PlanningProblem,
    model: str,
    input_size: int,
) -> tuple[Row, ...]:
    """The rules that decided, then at most four claims, as {id, grade, text, source}; rows not followed say
    why. Rows that say another number than the default, and steered the plan by it, are always there.

    The first three as in `snapshot.Knowledge`.
    """
    named = [*ALWAYS, *_policy_rows(case, input_size)]
    known = [key for key in dict.fromkeys(named) if key in strategy]
    out = [_strategy(strategy[key], corrected=key in case.policy.changed) for key in known]
    for rule in MATCHED:
        rows = [(_specific(row["key"], case, model), row) for row in rules.get(rule, ())]
        fitting = [(score, row["followed"], row["id"], row) for score, row in rows if score is not None]
        if fitting:
            row = max(fitting, key=lambda item: item[:3])[3]
            out += [] if row["id"] in named else [_strategy(row)]
    if case.visible and "R06-a100-a10" in strategy:
        out.append(_strategy(strategy["R06-a100-a10"]))
    slugs = {card.slug for card in case.cards}
    base = model.split(".", maxsplit=1)[0]
    claims = [
        row
        for row, card, resolved in located_claims
        if card in slugs and resolved is not None and resolved.split(".")[0] == base
    ]
    claims.sort(key=lambda row: (_rank(str(row["quantity"])), -(row.get("value_min") or 0.0), row["id"]))
    out.extend(_claim(row) for row in claims[:MOST_CLAIMS])
    return tuple(out)


def _policy_rows(case: PlanningProblem, input_size: int) -> list[str]:
    """The row that gave the default batch, and rows that say another number than the default."""
    tightest = min(card.usable_gib for card in case.cards)
    row = default_batch(case.task, input_size, tightest, gpu=case.on_gpu, policy=case.policy)[1]
    others = sorted(key for key in case.policy.changed if not key.startswith("R03"))
    return [*([] if row is None else [row]), *others]


def _rank(quantity: str) -> int:
    return CLAIMS_FIRST.index(quantity) if quantity in CLAIMS_FIRST else len(CLAIMS_FIRST)


def _specific(key: Mapping[str, Any], case: PlanningProblem, model: str) -> int | None:
    """How many conditions of a row's key the case meets; None when it breaks one or says nothing of the
    case."""
    minutes, size = case.question.minutes, size_of(case.n_train)
    kind = _INPUT_KINDS.get(case.task) or _INPUT_KINDS.get(modality_of(case.task))
    meets: dict[str, Callable[[Any], bool]] = {
        "gpu": lambda wanted: wanted in {card.slug for card in case.cards},
        "task": lambda wanted: wanted == case.task,
        "size": lambda wanted: wanted == size,
        "input_kind": lambda wanted: wanted == kind,
        "image_size": lambda wanted: wanted == (case.question.image_size or 224),
        "model": lambda wanted: wanted == model,
        "minutes_from": lambda wanted: minutes >= wanted,
        "minutes_to": lambda wanted: minutes <= wanted,
    }
    if not all(name in meets and meets[name](wanted) for name, wanted in key.items()):
        return None
    return len(key)


def _strategy(row: Mapping[str, Any], *, corrected: bool = False) -> dict[str, Any]:
    """corrected: the numbers of its sentence are not those that plans are made with: these are said."""
    text = one_line(row["statement"])
    if corrected:
        text = f"Corrected here: {', '.join(f'{name} {value}' for name, value in row['value'].items())}."
    if not row.get("followed", True):
        text += f" Not followed: {row.get('why_not')}"
    return {"id": row["id"], "grade": row["grade"], "text": text, "source": row["source"]}


def _claim(row: Mapping[str, Any]) -> dict[str, Any]:
    low, high = row.get("value_min"), row.get("value_max")
    value = f"{low:g}" if low == high or high is None else f"{low:g}-{high:g}"
    text = f"{row['model']} on {row['gpu']}: {row['quantity']} {value} {row.get('unit') or ''}"
    text += f" ({one_line(row['statement'])})" if row.get("statement") else ""
    return {"id": row["id"], "grade": "claimed", "text": text, "source": row["source"]}
