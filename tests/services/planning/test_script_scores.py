"""Do the scores of scripts mean what their metrics mean? Against other libraries, and every cut tried."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memory_service.train import answers, detection, metrics, retrieval
from memory_service.train.budget import plan

SEEDS = range(3)


def of_script(function: str, k: int = 0, form: str = "", **words: Any) -> dict[str, Any]:
    """The names that a script with this score has."""
    ending = function.rpartition("_")[2]
    module = {"matches": retrieval, "boxes": detection, "iou": detection, "coco": detection}
    score = getattr(metrics if function == "iou" else module.get(ending, metrics), f"score_{function}")
    labelled = words.get("labels", True)

    def score_of(*given: Any) -> float:
        plan.K, plan.SCORE, plan.ANSWER = k, function, "labels" if labelled else "values"
        return float(score(*given))

    names: dict[str, Any] = {"score_of": score_of}
    plan.score_of = score_of
    graded = answers.graded_classes if labelled else answers.graded_values
    if form == "thresholds":
        names["classes_of"] = plan.classes_of = answers.cut_classes
        names |= {"default_thresholds": answers.cut_defaults, "best_thresholds": answers.cut_thresholds}
    elif form == "grades":
        names["classes_of"] = plan.classes_of = graded
        names |= {"default_thresholds": answers.grade_defaults, "best_thresholds": answers.grade_thresholds}
    plan.K, plan.SCORE, plan.ANSWER = k, function, "labels" if labelled else "values"
    return names


def labels(seed: int, rows: int = 60, width: int = 3) -> tuple[Any, Any]:
    """(0/1 matrix, chances that know something of it and are often equal)."""
    rng = np.random.default_rng(seed)
    truth = (rng.random((rows, width)) < [0.5, 0.1, 0.9][:width]).astype(np.float32)
    return truth, (0.3 * truth + 0.7 * rng.random((rows, width))).round(2)


def classes(seed: int, width: int = 4) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.ones(width), 80)
    return np.r_[np.arange(width), rng.integers(0, width, 80 - width)], chances


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_are_those_of_other_libraries(seed: int):
    from sklearn import metrics as reference

    truth, chances = labels(seed)
    truth = truth.astype(float)
    score = {
        name: of_script(name)["score_of"] for name in ("auc", "gini", "average_precision", "kappa", "r2")
    }
    each = [reference.roc_auc_score(truth[:, i], chances[:, i]) for i in range(3)]
    assert score["auc"](truth, chances) == pytest.approx(np.mean(each))
    assert score["gini"](truth, chances) == pytest.approx(2 * np.mean(each) - 1)
    wanted = reference.average_precision_score(truth, chances, average="macro")
    assert score["average_precision"](truth, chances) == pytest.approx(wanted)
    grades, others = classes(seed)[0], np.random.default_rng(seed).integers(0, 4, 80)
    wanted = reference.cohen_kappa_score(grades, others, weights="quadratic")
    assert score["kappa"](grades, others) == pytest.approx(wanted)
    assert score["r2"](truth, chances) == pytest.approx(reference.r2_score(truth, chances))
    values = np.expm1(3 * chances)
    wanted = np.mean([reference.root_mean_squared_log_error(v, 2 * v) for v in values.T])
    found = of_script("rmsle")["score_of"](np.log1p(values), np.log1p(2 * values))
    assert found == pytest.approx(wanted)


def test_an_f_of_beta_two_weighs_what_is_missed_four_times():
    truth, found = np.array([1, 1, 1, 0, 0, 0]), np.array([1, 0, 0, 1, 0, 0])  # 1 right, 2 missed, 1 false
    assert of_script("f_beta", 200)["score_of"](truth, found) == pytest.approx(5 / (5 + 4 * 2 + 1))
    assert of_script("f_beta", 50)["score_of"](truth, found) == pytest.approx(1.25 / (1.25 + 0.25 * 2 + 1))
    rows, several = np.array([[1, 1, 0], [0, 0, 1]]), np.array([[1, 0, 0], [0, 1, 1]])
    each = [5 / (5 + 4), 5 / (5 + 1)]
    assert of_script("f_beta_samples", 200)["score_of"](rows, several) == pytest.approx(np.mean(each))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_mean_average_precision_of_the_likeliest_is_that_of_its_definition(seed: int):
    def precision(true: set[int], ranked: list[int], k: int) -> float:
        hits = [(at, one) for at, one in enumerate(ranked[:k], 1) if one in true]
        return sum(n / at for n, (at, _) in enumerate(hits, 1)) / min(k, max(len(true), 1))

    score_of = of_script("map_at_k", 3)["score_of"]
    truth, chances = classes(seed, 6)
    ranked = (-chances).argsort(axis=1).tolist()
    pairs = zip(truth.tolist(), ranked, strict=True)
    assert score_of(truth, chances) == pytest.approx(np.mean([precision({t}, r, 3) for t, r in pairs]))
    several = np.random.default_rng(seed).integers(0, 2, chances.shape)
    each = [precision(set(np.flatnonzero(t)), r, 3) for t, r in zip(several, ranked, strict=True)]
    assert score_of(several, chances) == pytest.approx(np.mean(each))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "function", ["f1", "mcc", "f1_macro", "f1_micro", "f_beta", "f_beta_macro", "f_beta_micro"]
)
def test_no_other_cut_would_score_better_on_the_rows_that_chose_it(function: str, seed: int):
    alike = function.endswith("_micro")
    words = {"two_sided": function.endswith("_macro"), "one_cut": alike}
    names = of_script(function, k=200, form="thresholds", **words)
    score_of, classes_of, best_thresholds = (names[n] for n in ("score_of", "classes_of", "best_thresholds"))
    truth, chances = labels(seed)
    two = truth[:, 0].astype(int)
    pair = np.column_stack([1 - chances[:, 0], chances[:, 0]])
    if not alike:  # of one column it is accuracy
        data = SimpleNamespace(targets=two, outputs=["a", "b"])
        best = score_of(two, classes_of(pair, best_thresholds(data, two, pair)))
        tried = [score_of(two, classes_of(pair, [cut])) for cut in np.linspace(0.005, 0.995, 34)]
        assert best >= max(tried) - 1e-9
    data = SimpleNamespace(targets=truth, outputs=["a", "b", "c"])
    best = score_of(truth, classes_of(chances, best_thresholds(data, truth, chances)))
    some = np.linspace(0.2, 0.8, 4)
    grid = zip(some, some, some, strict=True) if alike else itertools.product(some, repeat=3)
    assert best >= max(score_of(truth, classes_of(chances, np.array(cuts))) for cuts in grid) - 1e-9


@pytest.mark.parametrize("of", ["labels", "values"])
def test_cuts_of_grades_score_better_than_rounding_and_stay_between_the_grades(of: str):
    names = of_script("kappa", form="grades", labels=of == "labels")
    rng = np.random.default_rng(1)
    grades = rng.integers(2, 7, 400)
    shrunken = 3.4 + 0.4 * (grades - 4) + rng.normal(0, 0.2, 400)  # as squared error makes them
    if of == "labels":
        truth, known = grades - 2, ["a", "b", "c", "d", "e"]
        low = np.floor(shrunken - 2).clip(0, 3).astype(int)
        share = (shrunken - 2 - low).clip(0, 1)
        predictions = np.zeros((400, 5))
        predictions[np.arange(400), low] += 1 - share
        predictions[np.arange(400), low + 1] += share
    else:
        truth, known, predictions = grades[:, None].astype(np.float32), ["points"], shrunken[:, None]
    data = SimpleNamespace(targets=truth, outputs=known)
    usual, best = names["default_thresholds"](data), names["best_thresholds"](data, truth, predictions)
    score = {
        name: names["score_of"](truth, names["classes_of"](predictions, cuts))
        for name, cuts in (("usual", usual), ("best", best))
    }
    assert score["best"] > score["usual"] + 0.05
    assert best == sorted(best)
    answered = names["classes_of"](predictions, best)
    assert set(np.unique(answered)) <= set(np.unique(truth))


def test_masks_are_scored_image_by_image_or_all_together():
    common, found, true = np.array([6.0, 0.0, 0.0]), np.array([10.0, 0.0, 4.0]), np.array([8.0, 0.0, 0.0])
    score = {name: of_script(name)["score_of"](common, found, true) for name in ("dice", "iou")}
    assert score["dice"] == pytest.approx((12 / 18 + 1 + 0) / 3)
    assert score["iou"] == pytest.approx((6 / 12 + 1 + 0) / 3)
    assert of_script("dice_global")["score_of"](common, found, true) == pytest.approx(12 / 22)
    assert of_script("f05")["score_of"](common, found, true) == pytest.approx(7.5 / 16)


def script_of_matches(function: str, tuned: bool = True, k: int = 0) -> dict[str, Any]:
    """The names of a retrieval script, on the processor."""
    names = of_script(function, k) | {"neighbors": retrieval.neighbors, "CUTS": retrieval.CUTS}
    plan.MOST_MATCHES, plan.HIGHER_IS_BETTER, plan.best_thresholds = 8, True, tuned
    matches = {"classes_of": retrieval.match_classes, "best_thresholds": retrieval.match_cuts}
    return names | matches | {"submission_of": retrieval.match_table}


@pytest.mark.parametrize("seed", SEEDS)
def test_matches_are_scored_against_the_other_images_of_the_group(seed: int):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 12, 50)
    embeddings = rng.normal(0, 1, (12, 16))[groups] + rng.normal(0, 0.8, (50, 16))
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    cosines = unit @ unit.T
    near = [[i, *(j for j in np.argsort(-cosines[i]) if j != i)] for i in range(50)]

    def f1(cut: float) -> float:
        each = []
        for i in range(50):
            found = {j for j in near[i][:8] if j == i or cosines[i, j] >= cut}
            true = set(np.flatnonzero(groups == groups[i]))
            each.append(2 * len(found & true) / (len(found) + len(true)))
        return float(np.mean(each))

    names = script_of_matches("f1_matches")
    matches = names["classes_of"](embeddings, [0.4])
    assert names["score_of"](groups, matches) == pytest.approx(f1(0.4))
    missed = of_script("missed_matches")["score_of"]
    assert missed(groups, matches) == pytest.approx(1 - f1(0.4))
    [best] = script_of_matches("f1_matches")["best_thresholds"](None, groups, embeddings)
    assert f1(best) == pytest.approx(max(f1(cut) for cut in names["CUTS"]))

    average = []
    for i in range(50):
        others = int((groups == groups[i]).sum()) - 1
        hits = [at for at, j in enumerate(near[i][1:6], 1) if groups[j] == groups[i]]
        if others:
            average.append(sum(n / at for n, at in enumerate(hits, 1)) / min(others, 5))
    nearest = script_of_matches("map_matches", tuned=False, k=5)
    assert nearest["score_of"](groups, embeddings) == pytest.approx(np.mean(average))


def test_grades_are_the_values_that_training_rows_have_also_where_folds_are_resumed():
    names = of_script("kappa", form="grades", labels=False)
    plan.default_thresholds, plan.GRADES = names["default_thresholds"], (0, 1)
    truth = np.array([0.0, 2.0, 2.0, 4.0, 10.0])[:, None]
    data = SimpleNamespace(targets=truth, outputs=["points"], thresholds=[[1.1, 3.2, 7.0]])
    cuts = answers.thresholds_of(data)  # type: ignore[arg-type]
    assert plan.classes_of(truth + 0.4, cuts).ravel().tolist() == [0, 2, 2, 4, 10]
