"""An answer of /recommend as it is sent: what an agent acts on, and on request the rest.

The whole answer has all that was weighed; `answer_view` leaves out what only explains it, so that the default
is at most 12 kB: docs/http.md lists the parts.
"""

from collections.abc import Collection, Mapping
from typing import Any

from memory_service.domain.planning.explanation.plan_text import folded_stages
from memory_service.errors import unknown_name

PARTS = ("evidence", "alternatives", "recipe", "similar", "reasons", "parallel", "curves")
"""What `include` names."""

COMPUTED = frozenset(("parallel", "curves"))
"""Parts that are computed only when they are asked for."""

WHOLE = frozenset(PARTS) - COMPUTED
"""What `detail=full` is."""


def parse_parts(text: str) -> str:
    """Names of parts between commas. InvalidInput for an unknown one, with the nearest."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in PARTS:
            raise unknown_name("include", name, PARTS)
    return ",".join(names)


_OF_RECIPE = {
    "families": 3, "techniques": 3, "loss": 1, "features": 0, "mattered": 1, "failed": 1, "pitfalls": 1,
}  # fmt: skip
_FEWEST = {**dict.fromkeys(_OF_RECIPE, 0), "families": 2, "techniques": 2, "mattered": 1}
_NEIGHBOURS, _REASONS = 3, 3
MOST_BYTES = 12_000
"""Of the default answer, above which it is short."""

_LONGEST = 160


def answer_view(
    answer: Mapping[str, Any], include: Collection[str], *, short: bool = False
) -> dict[str, Any]:
    """The answer with the parts named by `include`; of recipe, neighbours and reasons a few without that, and
    the fewest where it must be `short`, then with the folds' stages as one."""
    out = {name: part for name, part in answer.items() if name in include or name not in _LEFT_OUT}
    if "similar" not in include:
        lessons = 0 if short else 1
        out["similar"] = [
            {**hit, "lessons": [_cut(each) for each in hit["lessons"][:lessons]]}
            for hit in answer["similar"][:_NEIGHBOURS]
        ]
    if "recipe" not in include and answer["recipe"]:
        out["recipe"] = _short_recipe(answer["recipe"], _FEWEST if short else _OF_RECIPE)
    if "reasons" not in include and answer["feasible"]:
        out |= {name: answer[name][:_REASONS] for name in ("reasons", "rationale")}
    if short and answer["feasible"]:
        out["timetable"] = list(folded_stages(answer["timetable"]))
    return out


_LEFT_OUT = ("evidence", "alternatives", "parallel", "curves")


def _short_recipe(recipe: Mapping[str, Any], most: Mapping[str, int]) -> dict[str, Any]:
    """The split, and the weightiest of each kind with one source."""
    validation = {**recipe["validation"], "from": recipe["validation"]["from"][:1]}
    parts = {name: [_short(row) for row in recipe[name][:n]] for name, n in most.items()}
    return {**recipe, "validation": validation, **parts}


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: _cut(row[name]) for name in ("text", "setting") if name in row}
    firsts = {name: row[name][:1] for name in ("from", "refuted_by") if name in row}
    return {**row, **texts, **firsts}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"
