"""Are the counts, metrics, splits and tasks of short requests read by their kind, and nothing else told?"""

from __future__ import annotations

import pytest

from memory_service.domain.description.languages import in_english, language_of
from memory_service.domain.description.metrics import metric_named
from memory_service.domain.description.stated_facts import stated_in
from memory_service.domain.description.stated_split import split_in
from memory_service.domain.description.task_inference import facts_and_tasks


@pytest.mark.parametrize(
    ("text", "name", "direction"),
    [
        ("MASE against last week", "MASE", "min"),
        ("mean absolute scaled error", "MASE", "min"),
        ("ANLS", "ANLS", "max"),
        ("Harrell's C-index", "concordance index", "max"),
        ("c-statistic", "concordance index", "max"),
        ("NME by the inter-ocular distance", "keypoint error", "min"),
        ("HR@5", "hit rate@k", "max"),
        ("hit ratio", "hit rate@k", "max"),
        ("Precision@10", "precision@k", "max"),
        ("Recall@20", "recall@k", "max"),
        ("pinball at 0.9", "quantile loss", "min"),
        ("AUUC", "uplift gain", "max"),
        ("Qini", "uplift gain", "max"),
        ("top decile lift", "lift", "max"),
        ("UAR", "balanced accuracy", "max"),
        ("mask AP", "mean average precision", "max"),
        ("NWRMSLE", "RMSLE", "min"),
        ("top-1", "accuracy", "max"),
        ("top-1 error", "top-k error", "min"),
        ("用字错误率评价。", "character error rate", "min"),
        ("用二次加权kappa打分。", "quadratic weighted kappa", "max"),
        ("スピアマンの順位相関で評価します。", "Spearman correlation", "max"),
        ("Bewertet wird der mittlere absolute prozentuale Fehler der Tabelle.", "MAPE", "min"),
        ("On est noté par la perte pinball.", "quantile loss", "min"),
    ],
)
def test_a_usual_metric_is_known_in_any_of_its_forms(text: str, name: str, direction: str) -> None:
    metric = metric_named(in_english(text, language_of(text)))
    assert metric is not None
    assert (metric.name, metric.direction) == (name, direction)


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("18 orchards so far, next year they are other orchards.", ("group", "orchard")),
        ("Three months later: renewed or not? Score on a random 20%.", ("random", None)),
        ("Predict the load of the plants two weeks ahead.", ("time", None)),
    ],
)
def test_other_places_later_are_groups_and_a_later_outcome_is_no_split(
    text: str, split: tuple[str, str | None]
) -> None:
    stated = split_in(text)
    assert (stated["split"][0], stated.get("group_by", (None,))[0]) == split


def test_several_columns_of_a_customer_make_no_group() -> None:
    told = "Rows have several {} per customer. 10,000 customers, churn yes or no."
    assert "split" not in stated_in(told.format("features"))
    assert stated_in(told.format("orders"))["split"][0] == "group"


@pytest.mark.parametrize(
    ("text", "likeliest", "task"),
    [
        ("For each tool: name, maker, weight, price, length. Predict its grade.", "text", "tabular"),
        ("Name the shell from 40 measurements of it.", "image", "tabular"),
        ("Columns: title, tempo, key, loudness, year. Is it a hit?", "audio", "tabular"),
        ("900 photos of shells. For each photo: place, camera, date, finder.", "image", "image"),
        ("Shells on wav files. For each shell: place, size, date, finder.", "audio", "audio"),
        ("4,000 letters in full text. For each letter: place, date, writer, age.", "text", "text"),
        ("900 rows. Columns: number, maker_a, maker_b, prompt, response_a, price.", "text", "text"),
        ("Columns: number, maker, prompt rate, response time, price. Is it sold?", "text", "tabular"),
        ("A picture of each shell, and columns: place, size, date, finder, weight.", "image", "image"),
    ],
)
def test_what_is_listed_of_each_sample_is_a_table_unless_pictures_sounds_or_texts_are_read(
    text: str, likeliest: str, task: str
) -> None:
    """Where the table is the second likeliest, whose plan reads words and numbers."""
    odds = {f"{likeliest}-classification": 0.48, "tabular-classification": 0.42, "untold": 0.1}
    facts, tasks = facts_and_tasks(text, lambda axes, words: odds)
    assert facts.task == f"{task}-classification"
    assert facts.tells_task == (task == "tabular")
    assert max(tasks.values()) == tasks[facts.task] == 0.48
