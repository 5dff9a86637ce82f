"""What a run that ended changed of predictions, or why it changed nothing, in sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

from memory_service.domain.common.sentences import sentence
from memory_service.domain.learning.scoring import own_observation

CHANGED = 0.01
"""Relative change of a figure that is worth a sentence."""

FAR = 0.35
"""An observation that far off counts once others agree with it (`domain.learning.shrinkage`)."""

NO_ROWS = "no n_train was said"
"""Why nothing was predicted for trees: nothing would be learned of them with it either."""

_FIGURES = (
    ("step_seconds", 1000.0, "ms"),
    ("samples_per_second", 1.0, "a second"),
    ("loader_samples_per_second", 1.0, "samples a second"),
    ("peak_allocated_gib", 1.0, "GiB"),
    ("peak_memory_gib", 1.0, "GiB"),
)
_SPEEDS = ("step_seconds", "samples_per_second")


def learned_figures(
    prediction: Mapping[str, Any],
    now: Mapping[str, Any] | None,
    observations: Sequence[Mapping[str, Any]],
    excluded: str | None,
    batch_size: int | None,
    *,
    others: bool = False,
) -> list[str]:
    """Of a run that has ended; never empty.

    prediction   when it began; now: the same prediction today, None where it cannot be made any more
    excluded     why its speed says nothing of the device
    others       whether it fitted other models, too, in all its minutes
    """
    why = _why_nothing(prediction, bool(observations), excluded)
    why = "other-models" if others and why == "not-measured" else why
    if why is not None:
        return [sentence("not-taught", what="prediction", why=why.rstrip("."))]
    found: list[str] = [
        sentence("in-quarantine", doubt=one["doubt"]) for one in observations if one.get("doubt")
    ]
    observations = [one for one in observations if not one.get("doubt")]
    if found and not observations:
        return found
    excluded = None if excluded == "implausible" else excluded
    if any(one["out_of_memory"] for one in observations):
        most = min(one["batch_size"] for one in observations if one["out_of_memory"])
        found.append(sentence("kept-below", batch=most))
    if excluded is not None:
        found.append(sentence("not-taught", what="speed", why=excluded))
    measured = _measured(observations, batch_size)
    for name, unit, symbol in _FIGURES:
        actual = measured.get(name)
        before, after = prediction.get(name), (now or {}).get(name)
        if not (actual and before and after) or (excluded is not None and name in _SPEEDS):
            continue
        amounts = [unit * value for value in (before["value"], after["value"], actual)]
        shown = [f"{value:,.0f} {symbol}" if value >= 1000 else f"{value:.3g} {symbol}" for value in amounts]
        figures = dict(zip(("before", "now", "measured"), shown, strict=True))
        how = "later" if abs(actual / before["value"] - 1.0) > FAR else "same"
        if abs(after["value"] / before["value"] - 1.0) >= CHANGED:
            away = abs(after["value"] - actual) > abs(before["value"] - actual)
            how = "with-others" if away else "changed"
        found.append(sentence("taught", what=name, how=how, **figures))
    return found or [sentence("not-taught", what="prediction", why="no-step")]


def _measured(observations: Sequence[Mapping[str, Any]], batch_size: int | None) -> dict[str, float | None]:
    """Figures of the run by the names of its prediction."""
    found: dict[str, float | None] = {}
    for one in observations:
        if one.get("part") == "loader":
            found["loader_samples_per_second"] = 1.0 / (one["step_seconds"] or one["at_most_seconds"])
    mine = own_observation(observations, batch_size) or {}
    found |= {name: mine.get(name) for name in ("step_seconds", "peak_allocated_gib")}
    if mine.get("part") == "fit":
        found |= {"step_seconds": None, "samples_per_second": mine["batch_size"] / mine["step_seconds"]}
    if mine.get("cores") is not None:
        found["peak_memory_gib"] = mine["peak_driver_gib"]
    return found


def _why_nothing(prediction: Mapping[str, Any], observed: bool, excluded: str | None) -> str | None:
    """Why it could teach nothing, a word of the sentence or a text; None where it could. What would have kept
    a longer run from it as well goes before its shortness."""
    if excluded == "no_card":
        return excluded
    why = prediction.get("why_not")
    unknown = prediction.get("case") is None
    if unknown and why not in (None, NO_ROWS):
        return str(why)
    if excluded == "too_short":
        return excluded
    if unknown:
        return "not-learned"
    return None if observed else "not-measured"
