"""Folds: how rows are split, trained fold after fold, and the mean of those that count."""

import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from memory_service.train.budget import agreed, plan, prediction_deadline, report, state
from memory_service.train.reading import WARNED, Data, tell_unread
from memory_service.train.writing import (
    load_result,
    save_result,
    write_answers,
    write_baseline,
    write_submission,
)


def split(data: Data) -> list[tuple[np.ndarray, np.ndarray]]:
    """(rows to train on, rows that validate) of each fold, once for each seed; by time only the latest is
    repeated, for older ones are not submitted."""
    if data.times is not None:
        latest, *older = split_by_time(data)
        return [latest] * plan.SEEDS + older
    seeds = range(plan.SEED, plan.SEED + plan.SEEDS)
    return [fold for seed in seeds for fold in split_once(data, seed)[: plan.FOLDS]]


def split_by_time(data: Data) -> list[tuple[np.ndarray, np.ndarray]]:
    """The latest fold first. As many periods validate as the test has, a tenth where it has no dates, but a
    fiftieth to a fifth of them; rows of a period are on one side."""
    moments, periods = np.unique(np.asarray(data.times), return_inverse=True)
    asked = len(moments) / 10 if data.test_times is None else len(np.unique(data.test_times))
    most = len(moments) // (max(plan.FOLDS, 4) + 1)
    length = max(1, int(min(max(asked, len(moments) / 50), most)))
    order, folds = np.argsort(periods, kind="stable"), []
    for end in range(len(moments), length, -length)[: plan.FOLDS]:
        train = order[periods[order] < end - length]
        valid = np.flatnonzero((periods >= end - length) & (periods < end))
        folds.append((train[: max(1, len(train) - plan.GAP)], valid))
    return folds


def split_once(data: Data, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(rows to train on, rows that validate) of each fold; a single fold holds out a fifth."""
    rows, folds = np.arange(len(data.targets)), plan.FOLDS if plan.FOLDS > 1 else 5
    folds = min(folds, len(rows) if data.groups is None else len(set(data.groups)))
    if ("group" in plan.SPLIT and data.groups is None) or plan.SPLIT == "time":
        column = plan.GROUP_BY or "see the settings"
        told = f"no column says {plan.SPLIT} ({column}), so rows that belong together may be on both sides"
        print(f"WARNING: {told} and scores too good: name it in read_data", flush=True)
    strata = strata_of(data, folds)
    stratified = strata is not None and np.bincount(strata).max() >= folds
    if data.groups is not None:
        stratified = stratified and data.groups is not data.targets
        splitter = StratifiedGroupKFold(folds) if stratified else GroupKFold(folds)
        return list(splitter.split(rows, strata, data.groups))
    splitter = StratifiedKFold if stratified else KFold
    return list(splitter(folds, shuffle=True, random_state=seed).split(rows, strata))


def strata_of(data: Data, folds: int) -> np.ndarray | None:
    """What each fold has its share of: classes; where SPLIT says so, fifths of values and combinations of
    labels, rare ones with the most frequent. None: nothing."""
    targets = data.targets if data.strata is None else data.strata
    if targets.ndim == 1:
        return targets if np.issubdtype(targets.dtype, np.integer) else None
    if "stratified" not in plan.SPLIT:
        return None
    fifths = np.ceil(5 * pd.DataFrame(targets).rank(pct=True).to_numpy())
    _, numbers, counts = np.unique(fifths, axis=0, return_inverse=True, return_counts=True)
    return np.where(counts[numbers.ravel()] < folds, counts.argmax(), numbers.ravel())


def train_folds(data: Data, run) -> list[float]:
    """Fold after fold, as many as the time allows; each is predicted with as it ends. Their scores. What an
    earlier start cut off comes last, if there is more time now than it had."""
    scores, found, first = [], split(data), plan.RANK == 0
    folds = len(found)
    if folds != plan.FOLDS:
        report(run, "set", folds=folds)
    there = {path.name for path in checkpoints()}
    names = {fold: plan.CHECKPOINT.format(fold) for fold in range(1, folds + 1)}
    known: list[Any] = [load_result(fold) if name in there else None for fold, name in names.items()]
    cut = [result is not None and not result["done"] for result in known]
    for place in sorted(range(folds), key=lambda place: cut[place]):
        fold, (train_rows, valid_rows) = place + 1, found[place]
        if known[place] is not None and not cut[place]:
            print(f"Fold {fold} is done already: {plan.METRIC}={known[place]['score']:.4f}", flush=True)
            scores.append(float(known[place]["score"]))
            continue
        more = not cut[place] or state.seconds_left() > known[place].get("seconds", 0.0)
        if not agreed(more and state.fold_fits()):
            print(f"NOTE: no time for fold {fold}{' but what it had' if cut[place] else ''}", flush=True)
            if cut[place]:
                continue
            break
        fold_start = time.monotonic()
        print(f"=== Fold {fold}/{folds} ===", flush=True)
        report(run, "fold", fold, folds)
        try:
            result = plan.train_fold(fold, data, train_rows, valid_rows, run)
            state.fold_seconds.append(time.monotonic() - fold_start)
            if result is not None and first:
                result["seconds"] = state.fold_seconds[-1]
                finish_fold(fold, data, {"rows": valid_rows, **result}, run)
        except Exception as error:  # it must not cost what other folds have learned
            if not checkpoints() or plan.WORLD > 1:  # other cards would wait for this one
                raise
            print(f"WARNING: fold {fold} failed", flush=True)
            traceback.print_exc()
            report(run, "note", f"fold {fold} failed: {error!r:.300}", error=True)
            continue
        if result is not None:
            scores.append(result["score"])
            report(run, "fold", fold, folds, done=True, **metric_of(result["score"]))
    return scores


def metric_of(score: float) -> dict[str, float]:
    """The score as the service is told of it; nothing where it is not the plan's metric."""
    return {} if plan.METRIC == "validation loss" else {"metric": score}


def mean_of(parts) -> np.ndarray:
    """The mean of several predictions, (parts, rows, outputs); boxes are fused."""
    return plan.fuse(parts) if plan.fuse else sum(parts) / len(parts)


def score_predictions(data: Data, truth: np.ndarray, predictions: np.ndarray) -> tuple[float, dict]:
    """The metric of held-out predictions; with the best thresholds, where it judges classes."""
    if not plan.best_thresholds:
        return plan.score_of(truth, predictions), {}
    thresholds = plan.best_thresholds(data, truth, predictions)
    return plan.score_of(truth, plan.classes_of(predictions, thresholds)), {"thresholds": thresholds}


def baseline_score(data: Data, train_rows: np.ndarray, valid_rows: np.ndarray) -> float:
    """What one answer for all scores on the rows that validate."""
    constant = np.tile(plan.prior_of(data.targets[train_rows], len(data.outputs)), (len(valid_rows), 1))
    if plan.default_thresholds:
        constant = plan.classes_of(constant, plan.default_thresholds(data))
    return plan.score_of(data.targets[valid_rows], constant)


def is_worse(result: dict) -> bool:
    """Than the best baseline, on validation; a score that is no number is."""
    score, constant = float(result["score"]), float(result["constant"])
    return not (score >= constant if plan.HIGHER_IS_BETTER else score <= constant)


def why_left_out(result: dict, others) -> str:
    """Of the mean with these: a fold that the time cut off counts only if it gains nearly what whole ones do
    over the best baseline, for a model that is half trained spoils the mean. Empty: it counts."""
    if is_worse(result):
        return "worse than the baseline on validation"
    whole = [one for one in others if one is not None and one.get("done") and not is_worse(one)]
    gain, *gains = (abs(float(one["score"]) - float(one["constant"])) for one in (result, *whole))
    short = not result.get("done") and gains and gain < 0.9 * np.mean(gains)
    return "cut off by the time, and it gains less than 0.9 of what whole folds gain" if short else ""


def checkpoints() -> list[Path]:
    return sorted(state.out_dir.glob(plan.CHECKPOINT.format("*")))


def by_recency(data: Data, names) -> list[list[str]]:
    """Folds whose mean is submitted, all. By time the first of these groups that has a good one: fits to all
    rows, the latest folds, each older one; but none behind one that the baseline beats."""
    groups: dict[int, list[str]] = {}
    for name in sorted(names):
        recency = 0 if data.times is None else max(1, int(name) - plan.SEEDS + 1)
        groups.setdefault(recency, []).append(name)
    return [groups[recency] for recency in sorted(groups)]


def latest_checkpoints(data: Data) -> list[Path]:
    """Of the first group of which not all are known to be worse than the constant."""
    paths = {path.stem.removeprefix("fold_"): path for path in checkpoints()}
    for names in by_recency(data, paths):
        results = [load_result(name) for name in names]
        if not all(result is not None and is_worse(result) for result in results):
            return [paths[name] for name in names]
    return checkpoints()


def finish_fold(fold: int | str, data: Data, result: dict, run) -> None:
    """Predict with the fold, keep its predictions in answers_K.npz, and write the submission so far."""
    if plan.predict_masks:  # too large to be kept but as run lengths
        save_result(fold, result)
        predict(data, run)
        plan.write_held_out(fold, data, result["rows"], run)
        return
    path = state.out_dir / plan.CHECKPOINT.format(fold)
    result |= {**plan.predict_fold(data, path, prediction_deadline(), run), "test_set": data.test_set}
    if result["complete"]:
        save_result(fold, result)
    else:
        state.unfinished[str(fold)] = result
    predict(data, run)
    if result["complete"] and not plan.neighbors:  # embeddings are no answers
        (plan.write_held_out or write_out_of_fold)(data)


def predict(data: Data, run) -> int:
    """Write the mean of the folds there are, less those that `why_left_out` names. How many were used."""
    state.predicted = True
    if plan.predict_masks:
        used = plan.predict_masks(data, prediction_deadline(), run)
        tell_unread(data, [row for row, path in enumerate(data.test_inputs) if path in WARNED])
    else:
        used, paths = 0, {path.stem.removeprefix("fold_"): path for path in checkpoints()}
        for names in by_recency(data, paths):
            used = average([paths[name] for name in names], data, run)
            if used or any((result := load_result(name)) and is_worse(result) for name in names):
                break  # what older rows taught is no better on the latest
    if not used and state.interim:
        print("NOTE: the submission stays that of an earlier epoch of the first fold", flush=True)
    elif not used:
        print("WARNING: NO FOLD CAN BE USED: the submission is only the BASELINE", flush=True)
        if not (state.out_dir / "submission.csv").exists():
            write_baseline(data)
    return used


def average(paths: list[Path], data: Data, run) -> int:
    """Write the mean of those that can be used. How many."""
    results: dict[Path, dict] = {}
    found: list[Any] = []
    data.thresholds = []
    for path in paths:
        try:
            name = path.stem.removeprefix("fold_")
            known = load_result(name) or state.unfinished.get(name)
            stale = known is not None and known.get("test_set", data.test_set) != data.test_set
            if stale:
                print(f"NOTE: {path.name} predicts again: its answers are of another test set", flush=True)
            if known is None or stale:
                predicted = plan.predict_fold(data, path, prediction_deadline(), run)
                known = {**(known or {}), **predicted, "test_set": data.test_set}
            if stale and known["complete"]:
                save_result(name, known)
            results[path] = known
        except Exception as error:  # one bad checkpoint must not cost the others
            print(f"WARNING: {path.name} cannot be used: {error!r:.300}", flush=True)
    for path, result in results.items():
        if why := why_left_out(result, results.values()):
            print(f"WARNING: {path.name} is left out: {why}", flush=True)
            continue
        if not result["complete"]:
            print(f"NOTE: no time to predict all rows with {path.name}", flush=True)
            if found or state.interim:
                continue
        tell_unread(data, result.get("unread", ()))
        found.append(result["test"])
        if "thresholds" in result:
            data.thresholds.append(result["thresholds"])
    if found:
        write_submission(data, plan.submission_of(data, mean_of(found)), state.out_dir)
        print(f"Submission written from {len(found)} folds", flush=True)
    return len(found)


def write_out_of_fold(data: Data) -> None:
    """Held-out means over the folds, and test means over those that are submitted."""
    names = [path.stem.removeprefix("answers_") for path in state.out_dir.glob("answers_*.npz")]
    known = {name: load_result(name) for name in names}
    groups = [[known[name] for name in group] for group in by_recency(data, names)]
    good = [[result for result in group if not why_left_out(result, group)] for group in groups]
    folds = [result for result in known.values() if "rows" in result]
    submitted = next(filter(None, good), folds)
    total, counts = np.zeros((len(data.targets), len(data.outputs))), np.zeros(len(data.targets))
    for result in folds:
        total[result["rows"]] += result["valid"]
        counts[result["rows"]] += 1
    rows = np.flatnonzero(counts)
    test = np.mean([result["test"] for result in submitted], axis=0)
    write_answers(data, rows, total[rows] / counts[rows, None], test)
