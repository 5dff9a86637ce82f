"""Is a metric in somebody's words taken for what it is, and never for one that it only resembles?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.description.metric_resolution import (
    ANSWERS,
    MEASURES,
    Answer,
    answer_of,
    first_words,
    measure_of,
    quantile_words,
    resolve_metric,
)
from memory_service.domain.description.metrics import METRICS, metric_named
from memory_service.domain.planning.explanation.plan_text import MOST_TOKENS, plan_markdown, rough_tokens
from memory_service.schemas.recommend import plan_request
from memory_service.services.competitions.similar import Found, Hit
from memory_service.services.planning.planning_problem import case_of
from memory_service.services.planning.request_text import RequestText
from memory_service.services.planning.script_kinds import SCRIPTED
from tests.answers import warnings_of
from tests.planning import plan, seed_knowledge
from tests.reading import read_alone

APTOS = "aptos2019-blindness-detection"
KNOWN = {metric.name: metric for metric in METRICS}


def test_what_a_script_answers_is_known_for_every_task_that_has_one():
    assert set(ANSWERS) == set(SCRIPTED)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda m: f"{m.name} of {m.answer}")
def test_a_measure_is_found_by_its_own_name(measure):
    beta = "F0.5" if measure.of == "F-beta of pixels" else "F2"
    name = (
        measure.name.replace("@k", "@5")
        .replace("F-beta", beta)
        .replace("top-k", "top-5")
        .replace("top k", "top 5")
    )
    found = measure_of(name, measure.answer)
    assert found is not None
    assert (found.name, found.function) == (name, measure.function)


@pytest.mark.parametrize(
    ("said", "answer", "name"),
    [
        ("mean column-wise ROC AUC", "labels", "ROC AUC"),
        ("macro-averaged F1-score", "labels", "macro F1"),
        ("quadratic weighted kappa", "values", "quadratic weighted kappa"),
        ("Mean Average Precision @ 5 (MAP@5)", "labels", "MAP@5"),
        ("column-wise root mean squared logarithmic error", "values", "RMSLE"),
        ("RMSE between the logarithm of the predicted and of the true price", "values", "RMSE of logarithms"),
        ("mean per-class accuracy", "labels", "balanced accuracy"),
        ("balanced multiclass accuracy", "labels", "balanced accuracy"),
        ("balanced multi-class accuracy", "labels", "balanced accuracy"),
        ("macro multi-label F1", "labels", "macro F1"),
        ("multi-class accuracy", "labels", "accuracy"),
        ("weighted ROC AUC", "labels", None),
        ("weighted multi-label log loss", "labels", None),
        ("log of MAE, averaged over types", "values", None),
        ("MAPE", "values", "MAPE"),
        ("RMSPE", "values", "RMSPE"),
        ("top-3 accuracy", "labels", "top-3 accuracy"),
        ("pinball loss at the 0.9 quantile", "values", "quantile loss at 0.9"),
        ("quantile loss of the 95th percentile", "values", "quantile loss at 0.95"),
        ("mean pinball loss over the quantiles 0.1, 0.5 and 0.9", "values", "quantile loss"),
        ("pinball loss of logarithms at the 0.9 quantile", "values", "quantile loss of logarithms at 0.9"),
        ("continuous ranked probability score", "values", None),
        ("median absolute error", "values", "median absolute error"),
        ("WAPE", "values", "WAPE"),
        ("quantile loss. About 30 percent of the test set is public", "values", "quantile loss"),
        ("quantile loss at the 97.5 percentile", "values", "quantile loss at 0.975"),
        ("quantile loss. See the discussion log, or log in", "values", "quantile loss"),
        ("weighted absolute percentage error", "values", "WAPE"),
        ("weighted mean absolute percentage error", "values", "WAPE"),
        ("weighted WAPE", "values", None),
        ("accuracy; the top 3 teams win", "labels", "accuracy"),
        ("top 3 accuracy", "labels", "top-3 accuracy"),
        ("accuracy at 3", "labels", "top-3 accuracy"),
        ("accuracy: the true kind is among the 3 likeliest", "labels", "top-3 accuracy"),
        ("top-5 error", "labels", None),
        ("recall@20", "labels", None),
        ("MAP@k", "labels", None),
        ("F2 score", "labels", "F2"),
        ("micro F-beta with beta 5", "labels", "micro F5"),
        ("are scored by mean F0.5", "labels", "mean F0.5 of samples"),
        ("F-beta", "labels", None),
        ("Mean average precision at IoU 0.4", "boxes", "mAP@0.4"),
        ("Mean average precision at IoU 0.5 to 0.75", "boxes", None),
        ("mean average precision at iou 0 5 to 0 75", "boxes", None),
        ("probabilistic F1", "labels", None),
        ("0.5 * AUC + 0.5 * F1", "labels", None),
        ("the average of normalized Gini and recall at 4 %", "labels", None),
        ("mean average precision over IoU thresholds", "masks", None),
        ("RMSE", "labels", None),
        ("ROC AUC", "values", None),
        ("nothing known", "labels", None),
    ],
)
def test_only_exactly_what_is_said_is_computed(said: str, answer: Answer, name: str | None):
    found = measure_of(said, answer)
    assert (found.name if found else None) == name


@given(st.text(max_size=60), st.sampled_from(list(ANSWERS)))
def test_any_words_are_a_metric_of_which_nothing_wrong_is_said(said: str, task: str):
    judged = resolve_metric(said, "as asked", task)
    assert judged.in_script is (judged.note is None)
    if judged.in_script:
        answer = answer_of(task, judged.name)
        measure = measure_of(judged.name, answer) if answer else None
        assert measure is not None
        assert judged.direction == KNOWN[measure.of].direction


def metric_of(hits: tuple[Hit, ...] = (), described: str | None = None, **asked: Any) -> Any:
    """Name and source in the case of this question, as if its text described that competition."""
    question = plan_request({"gpu": "a100", **asked})
    facts = read_alone(question.description) if question.description else None
    remembered = RequestText(facts, facts, described, Found(hits))
    judged = case_of(seed_knowledge(), question, remembered).metric
    return judged and (judged.name, judged.source)


def test_what_is_asked_goes_before_the_record_and_the_record_before_the_text():
    said = "Grade photographs of eyes. Submissions are evaluated on macro F1."
    named: dict[str, Any] = {"task": "image", "competition": APTOS}
    assert metric_of(**named, description=said, metric="log loss") == ("log loss", "as asked")
    assert metric_of(task="image", description=said) == ("macro F1", "the description")
    assert metric_of(**named, description=said) == ("quadratic weighted kappa", f"the record of {APTOS}")
    assert metric_of(**named) == ("quadratic weighted kappa", f"the record of {APTOS}")
    of_it = f"the record of {APTOS}, which the description is of"
    quiet = "Grade photographs of eyes, with more accuracy than before."
    assert metric_of(task="image", description=quiet, described=APTOS) == ("quadratic weighted kappa", of_it)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("900 patients in a table, predict survival, C-index", "concordance index"),
        ("Suggest next items of 500,000 sessions; recall@10", "recall@10"),
        ("Classify pictures of 50 birds, 9,000 images; macro ROC AUC", "macro ROC AUC"),
        ("Classify photos into 5 kinds; weighted log loss", "weighted log loss"),
    ],
)
def test_a_metric_of_a_text_keeps_what_the_host_says_and_none_of_the_words_about_it(said: str, name: str):
    assert metric_of(description=said) == (name, "the description")


def test_an_f_score_of_labelled_words_is_of_whole_entities():
    for said in ("F1", "micro F1", "entity-level F1", "seqeval"):
        judged = resolve_metric(said, "as asked", "token-classification")
        assert (judged.name, judged.in_script) == ("entity F1", True)
    for said in ("micro F5", "weighted F1", "token-level F1"):
        assert not resolve_metric(said, "as asked", "token-classification").in_script
    assert not resolve_metric("entity F1", "as asked", "text-classification").in_script
    assert resolve_metric("macro F1", "as asked", "token-classification").in_script


def test_a_neighbour_and_a_competition_that_may_not_be_read_say_no_metric():
    near = (Hit(APTOS, "Eyes", "image-classification", 0.99, {}, "the same in all but name"),)
    assert metric_of(task="image", description="Grade photographs of eyes.", hits=near) is None
    assert metric_of(task="image", competition=APTOS, mode="blind") is None
    assert metric_of(task="image", description="Grade eyes.", described=APTOS, mode="family") is None
    assert metric_of(task="tabular-regression", description="Predict prices with accuracy.") is None


def test_a_plan_says_its_metric_in_one_line_of_its_text():
    bare, told = plan(task="image", gpu="a100"), plan(task="image", gpu="a100", metric="auc")
    assert bare["metric"] is None
    assert told["metric"] == {
        "name": "ROC AUC", "family": "auc", "direction": "max", "from": "as asked", "in_script": True,
        "note": None,
    }  # fmt: skip
    assert bare["plan_id"] != told["plan_id"]
    assert "judged" not in plan_markdown(bare)
    assert "judged by ROC AUC (higher is better)\n" in plan_markdown(told)
    long = plan(task="image", gpu="a100", metric="my " * 60 + "score")
    assert rough_tokens(plan_markdown(long)) <= MOST_TOKENS
    assert long["metric"]["note"] in warnings_of(long)


def test_a_metric_of_the_other_kind_of_answer_names_the_task_to_ask_for():
    of_values = resolve_metric("RMSLE", "as asked", "tabular-classification")
    assert of_values.in_script is False
    assert str(of_values.note).endswith("ask with task=tabular-regression.")
    assert "ask with" not in str(
        resolve_metric("MAP@5 of retrieval", "as asked", "image-classification").note
    )


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("Scored by the pinball loss at the 0.9 quantile.", " at the 0.9 quantile"),
        ("The 95th percentile is asked for: quantile loss.", " at the 0.95 quantile"),
        ("With d = log1p(y) - log1p(p) the pinball loss is 0.8 d above and -0.2 d below.\n\nUse 0.5.",
         " at the 0.8 quantile of logarithms"),
        ("Mean pinball loss over the quantiles 0.1, 0.5 and 0.9.", ""),
        ("Scored by RMSE of logarithms, 0.9.", ""),
        ("Scored by quantile loss. About 30 percent of the test set is public.", ""),
        ("Quantile loss at the 97.5 percentile.", " at the 0.975 quantile"),
        ("Quantile loss, tau = 0.7. The 99th percentile of incomes was cut.", " at the 0.7 quantile"),
        ("Quantile loss. See the discussion log, or log in.", ""),
        ("Quantile loss of log(price).", " of logarithms"),
        ("Pinball loss, with a weight of 0.2 for late and 0.8 for early.", " at the 0.2 quantile"),
        ("Pinball loss, with a weight of 0.2 for early and 0.8 for late.", " at the 0.8 quantile"),
        ("Pinball loss. Overestimates cost 0.3 and underestimates 0.7 each.", " at the 0.7 quantile"),
        ("Pinball loss: 0.15 where y < p, 0.85 where y > p.", " at the 0.85 quantile"),
        ("Pinball loss: -0.15 d where d is negative, 0.85 d where it is positive.", " at the 0.85 quantile"),
        ("Pinball loss. With d = p - y it is 0.2 d where d is positive and 0.8 d where negative.", ""),
        ("Pinball loss; 0.3 of the rows are public and 0.7 are private.", ""),
    ],
)  # fmt: skip
def test_the_one_quantile_of_a_page_is_found(page: str, words: str):
    assert quantile_words(page) == words


@pytest.mark.parametrize(
    ("formula", "name"),
    [
        (r"$$\sqrt{\frac{1}{6n}\sum_{k=1}^{6}\sum_{i=1}^{n}(y_{ik}-\hat{y}_{ik})^2}$$", "RMSE"),
        (r"$\epsilon = \sqrt{\frac{1}{n} \sum_{i=1}^n (\log(p_i + 1) - \log(a_i+1))^2 }$", "RMSLE"),
        (r"$$S = -\frac{1}{N}\sum_{i=1}^{N}\ln p_{i,b_i}$$", "log loss"),
        (r"a forecast costs $\max(\tau (y-q), (\tau-1)(y-q))$", "quantile loss"),
        (r"$$\sqrt{(x - 3)} + \max(a, b - 1)$$", None),
        (r"$$y = \sum_i \log x_i - 4$$", None),
    ],
)
def test_a_formula_names_its_metric(formula: str, name: str | None):
    found = metric_named(formula)
    assert (found and found.name) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "Scored by the number of buyers among the first 400 of your list of 2 000.",
            "precision at the top 400",
        ),
        ("Metric: precision@500 over all customers.", "precision at the top 500"),
        ("We use recall at the top 1,000 rows.", "recall at the top 1000"),
        ("Judged by the lift in the top decile.", "lift at the top 10%"),
        ("Judged by lift at the top 5 % of the rows.", "lift at the top 5%"),
        ("Judged by precision@5 of the classes.", ""),
        ("Judged by recall at 95% precision.", ""),
    ],
)
def test_rows_that_are_the_first_are_counted_or_a_share(text: str, name: str) -> None:
    metric = metric_named(text)
    found = metric and measure_of(metric.name + first_words(text, metric.name), "labels")
    assert (found.name if found else "") == name
    assert not found or measure_of(name, "labels") == found
