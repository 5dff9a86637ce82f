"""Does /recommend's service fill in what was not said, say so, remember answers and write nothing?"""

from __future__ import annotations

import re

import pytest

from memory_service.domain.planning.plan_text import plan_markdown
from memory_service.errors import InvalidInput, NotFound
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.planning.recommend import recommend

DOGS = {"competition": "dog-breed-identification", "gpu": "a100", "minutes": 11}


def test_task_and_size_of_a_known_competition_are_read_and_said(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, DOGS)
    assert answer["task"] == "image-classification"
    assert any("record of dog-breed-identification" in sentence for sentence in answer["warnings"])
    assert answer["similar"][0]["slug"] == "dog-breed-identification"


def test_family_mode_leaves_the_competition_itself_out(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {**DOGS, "mode": "family"})
    assert "dog-breed-identification" not in {hit["slug"] for hit in answer["similar"]}
    assert not any(row["id"].startswith("dog-breed") for row in answer["evidence"])


def test_blind_mode_uses_neither_neighbours_nor_patterns(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {**DOGS, "mode": "blind"})
    assert answer["similar"] == []
    assert any("Mode blind" in sentence for sentence in answer["rationale"])
    open_rows = {row["id"] for row in recommend(seeded_sqlite, DOGS)["evidence"]}
    assert open_rows - {row["id"] for row in answer["evidence"]}


def test_the_task_is_inferred_from_a_description(seeded_sqlite: Database) -> None:
    text = "Tell whether a movie review is positive or negative. The training set holds 25000 labelled texts."
    answer = recommend(seeded_sqlite, {"description": text, "gpu": "t4", "minutes": 60})
    assert answer["task"] == "text-classification"
    assert any("inferred from the description" in sentence for sentence in answer["warnings"])
    assert any("25000" in sentence for sentence in answer["warnings"])


def test_what_is_said_overrules_what_is_inferred(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {**DOGS, "n_train": 120_000})
    assert answer["size"] == "large"


def test_a_contradiction_of_size_and_count_is_said(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {"task": "image", "gpu": "a100", "size": "large", "n_train": 500})
    assert any("contradicts" in sentence for sentence in answer["warnings"])


def test_asking_writes_nothing_and_answers_alike(seeded_sqlite: Database) -> None:
    before = seeded_sqlite.knowledge_revision()
    first = recommend(seeded_sqlite, {"task": "image", "size": "medium", "gpu": "a100"})
    assert (
        recommend(seeded_sqlite, {"task": "IMAGE", "size": "medium", "gpu": "A100", "minutes": "30"}) == first
    )
    assert seeded_sqlite.knowledge_revision() == before


def test_a_description_of_a_stored_competition_brings_its_record_and_says_so(seeded_sqlite: Database) -> None:
    text = (
        "TGS salt identification: find salt deposits below the surface of the earth by labelling every pixel "
        "of seismic images of 101 x 101 pixels, 4,000 with masks. Judged by mean average precision at IoU "
        "thresholds."
    )
    asked = {"description": text, "gpu": "t4", "minutes": 60}
    known = recommend(seeded_sqlite, asked)
    assert known["task"] == "image-segmentation"
    assert known["similar"][0]["slug"] == "tgs-salt-identification-challenge"
    assert any("record of tgs-salt-identification-challenge" in said for said in known["warnings"])
    blind = recommend(seeded_sqlite, {**asked, "mode": "blind"})
    assert blind["task"] == "image-segmentation"
    assert not any("tgs-salt" in said for said in blind["warnings"])


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"task": "image", "gpu": "a1000"}, "gpu"),
        ({"task": "image", "gpu": "a100", "model": "resnot50"}, "model"),
        ({"task": "image", "gpu": "a100", "model": "bert-base-uncased"}, "model"),
        ({"gpu": "a100", "description": "hello"}, "task"),
    ],
)
def test_unknown_names_are_refused(seeded_sqlite: Database, asked: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        recommend(seeded_sqlite, asked)
    assert caught.value.errors[0].field == field


def test_an_unknown_competition_is_not_found(seeded_sqlite: Database) -> None:
    with pytest.raises(NotFound) as caught:
        recommend(seeded_sqlite, {"competition": "dog-breed-identificaton", "gpu": "a100"})
    assert "dog-breed-identification" in caught.value.errors[0].nearest


def test_a_pinned_model_that_no_row_names_is_built_and_offered_to_nobody_else(
    seeded_sqlite: Database,
) -> None:
    asked = {"task": "image", "size": "small", "gpu": "a10", "minutes": 60}
    before = recommend(seeded_sqlite, asked)
    pinned = recommend(seeded_sqlite, {**asked, "model": "ghostnet_050"})
    assert pinned["model"]["name"] == "ghostnet_050"
    assert any("Not in the catalogue" in said for said in pinned["warnings"])
    knowledge = knowledge_of(seeded_sqlite)
    assert "ghostnet_050" not in knowledge.models
    assert recommend(seeded_sqlite, {**asked, "objective": "fast"})["model"]["name"] != "ghostnet_050"
    assert recommend(seeded_sqlite, asked) == before


def test_the_text_of_boosted_trees_and_of_a_processor_says_nothing_of_loaders_and_fill(
    seeded_sqlite: Database,
) -> None:
    trees = plan_markdown(recommend(seeded_sqlite, {"task": "tabular", "gpu": "a100"}))
    assert "an epoch is a round" in trees
    assert not {"DataLoader", "samples/s", "alarm", "warmup", "batch_size="} & set(
        re.findall(r"[\w/]+=?", trees)
    )
    network = plan_markdown(recommend(seeded_sqlite, {"task": "image", "size": "small", "gpu": "cpu"}))
    assert "DataLoader: num_workers" in network
    assert "alarm" not in network
    pinned = recommend(seeded_sqlite, {"task": "image", "gpu": "a100", "batch_size": 100_000})
    assert "None" not in plan_markdown(pinned)
