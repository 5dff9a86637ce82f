"""What the quality model says of models: measured and not, in any language, alone and in pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service.domain.common.vocabulary import TASKS
from memory_service.domain.quality.conditioning import given_runs
from memory_service.domain.quality.quality_index import learning_of, size_points
from memory_service.domain.quality.quality_model import (
    DIFFERENCE_SD,
    NO_FIGURES,
    SAME_MODEL_SHARE,
    Effect,
    Kind,
    ModalityFigures,
    QualityModel,
    quality_kind,
)
from memory_service.domain.quality.ranking import (
    Candidate,
    expected_best,
    probability_better,
    rank_candidates,
)
from memory_service.services.knowledge.snapshot import shipped_quality

MODEL = shipped_quality()


def points(task: str, names: list[str], scores: list[float], **facts: str | int) -> list[float]:
    kind = quality_kind(task, **facts)  # type: ignore[arg-type]
    found: list[float] = MODEL.expected(kind, names, np.array(scores)).points.tolist()
    return found


@pytest.mark.parametrize("language", ["hi", "sv", "multi"])
def test_a_multilingual_encoder_is_expected_to_be_better_where_the_text_is_not_english(language: str) -> None:
    names, scores = ["xlm-roberta-large", "roberta-large", "modernbert-large"], [89.1, 90.2, 90.8]
    multilingual, *english = points("text-classification", names, scores, language=language)
    assert multilingual > max(english)
    assert (
        points("text-classification", names, scores, language="en")[0]
        < points("text-classification", names, scores, language="en")[1]
    )


def test_a_model_that_nobody_measured_has_its_published_score_and_a_wider_interval() -> None:
    kind = quality_kind("image-classification")
    known = MODEL.expected(kind, ["resnet50.tv_in1k", "nobody"], np.array([78.0, 78.0]))
    assert known.points[1] == pytest.approx(78.0, abs=0.05)
    assert known.sd[1] > known.sd[0]
    assert known.measured.tolist() == [True, False]


@pytest.mark.parametrize("pretrained", [True, False])
def test_images_at_64_pixels_lose_half_of_what_resnets_lose_on_imagenet(pretrained: bool) -> None:
    """github.com/sndnyang/imagenet64x64: ResNet-18 and -50 lose 26.8 and 24.2 points beside 224 pixels."""
    at = size_points([32 / 224, 64 / 224, 112 / 224, 1.0], learning_of("image-classification", pretrained))
    assert 24.2 / 2 - 1 < -at[1] < 26.8 / 2 + 1
    assert at[2:].tolist() == [-3.0, 0.0], "the first halving is cheap"
    assert at[0] < at[1] - 10


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_judged_and_untested_ones_keep_the_published_score(task: str) -> None:
    expected = MODEL.expected(quality_kind(task), ["nobody"], np.array([80.0]))
    assert np.isfinite(expected.points).all()
    assert (expected.sd > 0).all()
    untested = NO_FIGURES.expected(quality_kind(task), ["nobody"], np.array([80.0]))
    assert (untested.points[0], untested.measured[0]) == (80.0, False)


@given(st.floats(50, 90), st.floats(50, 90), st.floats(0.1, 8))
def test_the_best_of_two_is_no_worse_than_either(a: float, b: float, sd: float) -> None:
    assert expected_best(a, b, sd) >= max(a, b) - 1e-6
    assert expected_best(a, b, sd) == pytest.approx(float(expected_best(b, a, sd)), abs=1e-5)
    assert probability_better(a, b, sd) + probability_better(b, a, sd) == pytest.approx(1.0, abs=1e-6)
    assert expected_best(a, b, 2 * sd) >= expected_best(a, b, sd) - 1e-6


NETS = st.lists(
    st.tuples(st.sampled_from(["catboost", "lightgbm", "tabm", "mlp"]), st.floats(60, 90)),
    min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(NETS)
def test_a_ranking_follows_the_index_and_its_probabilities_sum_to_one(found: list[tuple[str, float]]) -> None:
    family = {"catboost": "gbdt", "lightgbm": "gbdt", "tabm": "tabm", "mlp": "mlp"}
    ranking = rank_candidates([Candidate(n, family[n], x, 0.5) for n, x in found], MODEL, "tabular")
    assert sum(ranking.p_best) == pytest.approx(1.0)
    by_rank = sorted(range(len(found)), key=lambda i: ranking.rank[i])
    assert [found[i][1] for i in by_rank] == sorted((x for _, x in found), reverse=True)
    assert ranking.rank[ranking.run_order[0]] == 1
    assert len(set(ranking.run_order)) == len(ranking.run_order) == min(5, len(found))


def test_the_second_run_is_of_another_kind_where_two_are_nearly_as_good() -> None:
    found = [Candidate("lightgbm", "gbdt", 80.0, 0.5), Candidate("xgboost", "gbdt", 79.5, 0.5),
             Candidate("tabm", "tabm", 79.4, 0.5)]  # fmt: skip
    assert rank_candidates(found, MODEL, "tabular").run_order[:2] == (0, 2)


TREES = [("catboost", "gbdt"), ("lightgbm", "gbdt"), ("xgboost", "gbdt"), ("mlp", "mlp")]


def test_runs_of_a_competition_move_models_that_err_alike() -> None:
    """LightGBM 3 points above an MLP here: CatBoost gains, too, and less than LightGBM itself."""
    prior = np.array([80.0, 80.0, 80.0, 80.0])
    after = given_runs(prior, TREES, {"lightgbm": 3.0, "mlp": 0.0}, MODEL, "tabular")
    gain = after - after[3]
    assert gain[1] > gain[0] > 0.3
    assert gain[1] < 3.0


def test_runs_of_one_model_say_nothing_of_the_others() -> None:
    prior = np.array([80.0, 79.0, 78.0, 77.0])
    assert given_runs(prior, TREES, {"lightgbm": 3.0}, MODEL, "tabular").tolist() == prior.tolist()


@pytest.mark.parametrize("table", ["tabular", "text", "image", "video"])
def test_the_matrix_of_differences_holds_what_each_two_models_say(table: str) -> None:
    models = [("catboost", "gbdt"), ("lightgbm", "gbdt"), ("mlp", "mlp"), ("tabm", "tabm"), ("nobody", "mlp"),
              ("xlm-roberta-large", "roberta"), ("multilingual-e5-base", "xlm-roberta")]  # fmt: skip
    each = [[MODEL.difference_sd(table, a, b) for b in models] for a in models]
    assert MODEL.difference_sds(table, models) == pytest.approx(np.array(each))
    assert MODEL.difference_sds(table, []).shape == (0, 0)


@pytest.mark.parametrize(
    ("model", "mean", "sd"),
    [
        ("both", 0.5, 0.3),  # known of the finest group
        ("group", 0.4, np.hypot(0.3, 2.0)),  # of the group above it: what subtasks differ by is not known
        ("general", 0.2, np.sqrt(0.1**2 + 1.0**2 + 2.0**2)),
        ("unet/new", 0.7, np.sqrt(0.6**2 + 3.0**2 + 1.0**2 + 2.0**2)),  # of its decoder alone
        ("nobody", 0.0, np.sqrt(3.0**2 + 1.0**2 + 2.0**2)),
    ],
)
def test_what_is_measured_of_a_coarser_group_is_known_less_well(model: str, mean: float, sd: float) -> None:
    effects = {
        "both": {"": Effect(0.2, 0.1), "en": Effect(0.4, 0.3), "en/reading": Effect(0.5, 0.3)},
        "group": {"": Effect(0.2, 0.1), "en": Effect(0.4, 0.3)},
        "general": {"": Effect(0.2, 0.1)},
        "unet": {"": Effect(0.7, 0.6)},
    }
    figures = ModalityFigures(80.0, 2.0, {"all": 0.0}, {}, effects, (1.0, 2.0), 3.0, {})
    kind = Kind("text", "all", ("en", "en/reading"))
    expected = QualityModel({"text": figures}).expected(kind, [model], np.array([80.0]))
    assert expected.points[0] == pytest.approx(80.0 + 2.0 * mean)
    assert expected.sd[0] == pytest.approx(2.0 * sd)


def test_a_second_training_of_a_model_differs_less_than_another_model() -> None:
    again, other = NO_FIGURES.difference_sds("video", [("a", "cnn"), ("b", "cnn")])[0]
    assert (again, other) == (SAME_MODEL_SHARE * DIFFERENCE_SD, DIFFERENCE_SD)


PAIRS = {"catboost|lightgbm": 0.25, "catboost|ghost": 9.0, "gbdt|network": 1.0, "network|network": 0.5,
         "family|family": 0.4}  # fmt: skip


def test_two_models_differ_by_what_is_measured_of_them_or_of_their_kinds() -> None:
    """Half of the variance of a difference is each one's own."""
    figures = ModalityFigures(80.0, 2.0, {}, {}, {"mlp": {"": Effect(0.0, 0.3)}}, (), 3.0, PAIRS)
    model = QualityModel({"tabular": figures})
    catboost, lightgbm, mlp, tabm = [(n, n if n in ("mlp", "tabm") else "gbdt") for n in
                                     ("catboost", "lightgbm", "mlp", "tabm")]  # fmt: skip
    found = model.difference_sds("tabular", [catboost, lightgbm, mlp, tabm])
    itself = SAME_MODEL_SHARE * DIFFERENCE_SD
    assert found == pytest.approx(
        np.array([[itself, 0.5, 2, 2], [0.5, itself, 2, 2], [2, 2, itself, 1], [2, 2, 1, itself]])
    )
    assert model.difference_sd("tabular", lightgbm, ("xgboost", "gbdt")) == DIFFERENCE_SD
    assert model.data_set_sd("tabular", mlp) == pytest.approx(0.8 / np.sqrt(2))
    assert model.data_set_sd("video", mlp) == pytest.approx(DIFFERENCE_SD / np.sqrt(2))
    sd, measured = model.interval_sd(Kind("tabular", "all", ()), mlp, 80.0)
    assert measured
    assert sd == pytest.approx(np.hypot(0.6, 0.8 / np.sqrt(2)))
