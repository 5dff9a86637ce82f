"""Are the counts, metrics, splits and tasks of short requests read by their kind, and nothing else told?"""

from __future__ import annotations

import pytest

from memory_service.domain.description.languages import in_english, language_of
from memory_service.domain.description.metrics import metric_named
from memory_service.domain.description.stated_facts import stated_in
from memory_service.domain.description.stated_split import split_in
from memory_service.domain.description.task_inference import facts_and_tasks


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Chat pairs: 7,400 pairs, we set aside 300 pairs.", {"n_train": 7400, "n_test": 300}),
        ("9,100 scans; 700 scans are kept back.", {"n_train": 9100, "n_test": 700}),
        ("対話のペアが7,400組、うち300組は評価用です。", {"n_train": 7400, "n_test": 300}),
        ("20 clips per singer, 30 tunes.", {"n_train": None}),
        ("Da 300 a 500 segmenti per classe, con i guasti da dire.", {"n_train": None}),
        ("Water per pixel from 9 000 tiles of 256×256 out of 11 villages.", {"n_classes": None}),
        ("18 homes wrote down what ran, 240 cycles altogether.", {"n_train": None}),
        ("We matched 1,900 questions to their paragraph.", {"n_test": None}),
        ("a_train.csv has 600 lines. a_test.csv has 200 lines. p.tar has all 800 photos.", {"n_test": 200}),
        ("7,000 games: 2.1 million ratings for training.", {"n_train": 2_100_000}),
        ("एक परीक्षण: 900 वाक्यों का टेस्ट सेट।", {"n_train": None, "n_test": 900}),
    ],
)  # fmt: skip
def test_a_count_is_of_its_own_set_and_unit_or_is_not_told(text: str, facts: dict[str, int | None]) -> None:
    stated = stated_in(in_english(text, language_of(text)))
    assert {name: stated.get(name, (None,))[0] for name in facts} == facts


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


@pytest.mark.parametrize(
    ("text", "likeliest", "task"),
    [
        ("Payment network of 9k shops; which are fake?", "tabular-classification", "graph-classification"),
        ("Graph of 70k pages and 2M links; subject of each.", "text-classification", "graph-classification"),
        ("Edge list of roads, predict the traffic.", "tabular-regression", "graph-regression"),
        ("Rank offers by query, 90 numeric features.", "text-ranking", "tabular-regression"),
        ("Rank passages by query.", "text-ranking", "text-ranking"),
        ("Posts of a social network, which are rude?", "text-classification", "text-classification"),
    ],
)
def test_nodes_and_rows_of_features_are_planned_as_such(text: str, likeliest: str, task: str) -> None:
    facts, _ = facts_and_tasks(text, lambda axes, words: {likeliest: 0.9, "untold": 0.1})
    assert facts.task == task


def test_kinds_of_what_is_pointed_at_are_no_classes_of_points() -> None:
    facts, _ = facts_and_tasks(
        "Eight points on photos of 90 breeds of sheep.", lambda axes, words: {"image-keypoints": 1.0}
    )
    assert facts.n_classes is None


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
