"""Outcome of a run's advice: what was advised, whether it was followed, what came of it.

brief = brief_of(answer of /recommend, ids of patterns)       what of a plan a run is compared with
advice = advice_of(brief, patterns, what the run runs)        when it begins
outcome_of_run(what it runs, advice, summary, finish, ...)    when it has ended
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from math import isfinite
from statistics import median
from typing import Any

from memory_service.domain.common.vocabulary import size_of
from memory_service.domain.planning.model_catalogue import normal_model_name
from memory_service.domain.recipe.vocabulary import TECHNIQUES
from memory_service.domain.runs.run_outcome import best_of

FOLLOWED = ("model", "batch_size", "precision", "folds", "epochs")
"""Parts of a plan that a run's settings show to be followed."""

DECIDING: Mapping[str, tuple[str, ...]] = {
    "model": ("models",),
    "schedule": ("epochs", "batch_size"),
    "validation": ("folds",),
    "input": ("image_size", "seq_len", "batch_size"),
}
"""Kind of pattern -> what of its advice a run shows. The other kinds (losses, augmentation ...) are followed
where the run says so."""

MOST_NAMED = 24
"""Patterns, and techniques, that count of a plan: one names some ten; what a run brings may name all."""

EPOCHS_NEAR = 0.25
"""Epochs within a quarter of a pattern's follow it: it speaks of a kind, not of this run."""


def brief_of(plan: Mapping[str, Any], pattern_ids: Collection[str]) -> dict[str, Any]:
    """The part of a plan that is stored with a run. Of the techniques of its recipe those of the vocabulary:
    whether the plan's script does them.

    A memory that the plan shows as ranked down (`demoted`) was not advised.
    """
    model, total = plan["model"], (plan.get("expected") or {}).get("total_minutes")
    served = {row["id"] for row in plan.get("evidence") or () if not row.get("demoted")}
    named = (plan.get("recipe") or {}).get("techniques") or ()
    techniques = {one["name"]: one["in_script"] for one in named if one["name"] in TECHNIQUES}
    return {
        "plan_id": plan["plan_id"],
        "model": model["name"],
        "trees": not (model.get("image_size") or model.get("seq_len")),
        **{name: plan.get(name) or None for name in ("batch_size", "folds", "epochs")},
        **{name: plan.get(name) for name in ("precision", "minutes")},
        "expected_minutes": total and total["value"],
        "served": sorted(served.intersection(pattern_ids))[:MOST_NAMED],
        "techniques": dict(islice(techniques.items(), MOST_NAMED)),
    }


def is_listed(subject: str) -> bool:
    """Whether it may count. A plan that a run brings may name any technique; those of no vocabulary, or of an
    older one, count nowhere."""
    kind, _, name = subject.partition(":")
    return kind != "technique" or name in TECHNIQUES


def advice_of(
    brief: Mapping[str, Any], patterns: Mapping[str, Mapping[str, Any]], run: Mapping[str, Any]
) -> dict[str, Any]:
    """The plan, `followed`: part -> true, false or null (not stated), the patterns it served, and the
    `techniques` of its recipe: true where the plan's script does one, else null.

    patterns        id -> row
    run             what it runs: model, batch_size, folds, epochs, image_size ...
    """
    plan = {name: brief.get(name) for name in ("plan_id", *FOLLOWED, "minutes", "expected_minutes")}
    compared = dict(plan)
    if brief.get("trees"):  # their batch is all rows, whatever a run says
        compared["batch_size"] = None
    known = {key: patterns[key] for key in brief.get("served", ()) if key in patterns}
    served = [
        {"pattern": key, "competition": row.get("competition"), "followed": _pattern_followed(row, run)}
        for key, row in known.items()
    ]
    followed = {name: _same(name, compared.get(name), run.get(name)) for name in FOLLOWED}
    techniques = {name: scripted or None for name, scripted in (brief.get("techniques") or {}).items()}
    return {"plan": plan, "followed": followed, "served": served, "techniques": techniques}


def place_of(competition: str | None, task: str, n_train: int | None) -> str:
    """Where a run may be compared with others: its competition, else its kind."""
    if competition:
        return f"competition:{competition}"
    return f"kind:{task}/{size_of(n_train) if n_train else 'unsaid'}"


def outcome_of_run(
    run: Mapping[str, Any],
    advice: Mapping[str, Any] | None,
    summary: Mapping[str, Any],
    finish: Mapping[str, Any],
    minutes: float | None,
    direction: str | None,
    families: Collection[str] = (),
) -> dict[str, Any]:
    """What came of a run, as it is stored and shown.

    run         model, gpu, batch_size, precision, folds, epochs, minutes as it said when it began
    summary     wire form of `domain.runs.run_outcome.Outcome`
    minutes     how long it took; direction: max or min, where the metric's is known
    families    of the model that ran, as `domain.recipe.vocabulary` names them
    """
    epochs = [one for one in summary.get("epochs") or () if isinstance(one, Mapping)]
    folds: dict[int, list[Mapping[str, Any]]] = {}
    for epoch in epochs:
        folds.setdefault(int(epoch.get("fold") or 0), []).append(epoch)
    best = [best_of((_number(e.get("metric")) for e in fold), direction) for fold in folds.values()]
    scored = [one for one in best if one is not None]
    stated = finish.get("best_metric")
    mean = sum(m for m, _ in scored) / len(scored) if scored else None
    metric = mean if stated is None else stated
    first = _number(summary.get("first_submission_seconds"))
    status, submission = str(finish["status"]), finish.get("submission")
    return {
        "status": status,
        "succeeded": succeeded(status, submission),
        "submission": submission,
        "metric": metric,
        "metric_from": None if metric is None else "epochs" if stated is None else "finish",
        "test_metric": finish.get("test_metric"),
        "direction": direction,
        "epochs_to_best": _to_best(finish.get("best_epoch"), scored),
        "epochs_done": summary.get("epochs_done", 0),
        "folds_done": _folds_done(folds, run.get("epochs"), status),
        "minutes": None if minutes is None else round(minutes, 3),
        "minutes_to_submission": round(first / 60.0, 3) if first else minutes if submission else None,
        "submission_timed": first is not None,
        "budget_percent": _share(minutes, run.get("minutes")),
        **{name: run.get(name) for name in ("model", "gpu", "batch_size", "precision", "folds", "epochs")},
        "budget_minutes": run.get("minutes"),
        "followed": dict(advice["followed"]) if advice and advice.get("followed") else None,
        "served": _served(advice, finish.get("followed") or (), families),
    }


def _served(
    advice: Mapping[str, Any] | None, acted_on: Collection[str], families: Collection[str]
) -> dict[str, bool | None]:
    """Memory -> whether it was followed (null: cannot be known). A remembered competition is followed where
    one of its patterns is; a technique of the recipe ("technique:mixup") where the plan's script does it or
    the run says so. The families of the model that ran ("family:convnext") count with or without a plan."""
    out: dict[str, bool | None] = {}
    for one in (advice or {}).get("served", ()):
        followed = True if one["pattern"] in acted_on else one["followed"]
        out[f"pattern:{one['pattern']}"] = followed
        if one["competition"]:
            whole = f"competition:{one['competition']}"
            known = [value for value in (out.get(whole), followed) if value is not None]
            out[whole] = any(known) if known else None
    for name, followed in ((advice or {}).get("techniques") or {}).items():
        choice = f"technique:{name}"
        out[choice] = True if choice in acted_on else followed
    return {**out, **{f"family:{name}": True for name in families}}


def succeeded(status: str, submission: bool | None) -> bool | None:
    """Whether it left something to score; null for a stopped run that did not state it."""
    if submission is not None:
        return submission
    return {"completed": True, "stopped": None}.get(status, False)


def _pattern_followed(pattern: Mapping[str, Any], configuration: Mapping[str, Any]) -> bool | None:
    advice = pattern.get("advice") or {}
    names = [name for name in DECIDING.get(str(pattern.get("kind")), ()) if advice.get(name) is not None]
    if names == ["models"]:
        return any(_same("model", name, configuration.get("model")) for name in advice["models"])
    matches = [_near(name, advice[name], configuration.get(name)) for name in names]
    if not matches or None in matches:
        return False if False in matches else None
    return all(matches)


def _same(name: str, advised: Any, done: Any) -> bool | None:
    if advised is None or done is None:
        return None
    if name == "model":
        return _base(advised) == _base(done)
    return bool(advised == done)


def _near(name: str, advised: Any, done: Any) -> bool | None:
    if name == "epochs" and isinstance(advised, int) and isinstance(done, int):
        return abs(done - advised) <= EPOCHS_NEAR * advised
    return _same(name, advised, done)


def _base(model: Any) -> str:
    """The name without timm's tag of the weights."""
    return normal_model_name(str(model).split(".", maxsplit=1)[0])


def _to_best(best_epoch: int | None, scored: Sequence[tuple[float, int]]) -> float | None:
    """Epochs it took, counted from one; the median over folds."""
    if best_epoch is not None:
        return float(best_epoch + 1)
    return float(median(n for _, n in scored)) if scored else None


def _folds_done(folds: Mapping[int, Sequence[Any]], epochs: int | None, status: str) -> int:
    """Every fold before the last one begun, and that one when its epochs are made or the run completed."""
    if not folds:
        return 0
    last = folds[max(folds)]
    whole = status == "completed" or (epochs is not None and len(last) >= epochs)
    return len(folds) if whole else len(folds) - 1


def _share(minutes: float | None, budget: float | None) -> float | None:
    return round(100.0 * minutes / budget, 2) if minutes is not None and budget else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if isfinite(value) else None
