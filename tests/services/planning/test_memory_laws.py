"""Which laws hold for plans that memory steers, and what does each mode keep from a question?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service import resources
from memory_service.domain.planning.candidates import price_candidates
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.schemas.recommend import plan_request
from memory_service.services.database.transactions import Database
from memory_service.services.editorial import seeding
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.operations import database as databases
from memory_service.services.planning.memory import split_read
from memory_service.services.planning.planning_problem import case_of
from memory_service.services.planning.recommend import recommend
from memory_service.services.planning.request_text import read_request_text
from tests.domain.planning.test_planner_properties import faster
from tests.knowledge.seed_files import rows
from tests.reading import read_alone

SALT = {"competition": "tgs-salt-identification-challenge", "gpu": "t4", "minutes": 60}
CARD = st.sampled_from(["t4", "a10", "a100", "h100", "rtx3090"])
TASK = st.sampled_from(
    ["image-classification", "image-segmentation", "text-classification", "tabular-regression"]
)
N_TRAIN = st.integers(200, 500_000)
MINUTES = st.floats(2, 600)
OBJECTIVE = st.sampled_from(["fast", "balanced", "quality"])
YEARS = {row["slug"]: row["year"] for row in rows("competitions")}
FEW = settings(max_examples=6, deadline=None)


def remembered(database: Database, **asked: Any) -> PlanningProblem:
    """The case with all that memory says of it."""
    question = plan_request(asked)
    case = case_of(knowledge_of(database), question, read_request_text(database, question))
    assert case.recipe is not None
    assert case.preferences.families
    return case


def quality_of(database: Database, **asked: Any) -> float:
    case = remembered(database, **asked)
    found = price_candidates(case, knowledge_of(database)).best(
        case.question.objective, case.question.minutes
    )
    if found is None:
        return -1.0
    return found.quality


def test_families_are_those_of_winners_of_the_last_years_and_none_is_cut(seeded_sqlite: Database) -> None:
    asked = {"task": "image-classification", "n_train": 40_000, "gpu": "a100", "minutes": 120}
    today, then = (remembered(seeded_sqlite, **asked, **year).preferences for year in ({}, {"as_of": 2018}))
    assert len(today.families) > 8, "more than are shown"
    assert today.family_points(("convnext",)) > today.family_points(("resnet",))
    assert then.family_points(("resnet",)) > then.family_points(("convnext",)), "nobody knew it then"


def test_a_recognised_old_competition_is_planned_with_the_models_of_today(seeded_sqlite: Database) -> None:
    asked = {"gpu": "a100", "minutes": 25, "competition": "dog-breed-identification"}
    with_memory, without = (
        recommend(seeded_sqlite, asked),
        recommend(seeded_sqlite, {**asked, "mode": "blind"}),
    )
    assert "resnet" not in with_memory["model"]
    reason = next(line for line in with_memory["rationale"] if line.startswith("Memory "))
    assert re.search(
        r"expected \d+\.\d (higher|lower) by its quality alone.*\d+ % \([+-]\d\.\d points\)", reason
    )
    assert not [line for line in without["rationale"] if "winners of the last" in line]


def test_decoders_are_planned_where_winners_of_similar_problems_tuned_them(seeded_sqlite: Database) -> None:
    chats = {
        "task": "text",
        "n_train": 57_000,
        "n_classes": 3,
        "gpu": "h100",
        "minutes": 540,
        "description": "Predict which of two chatbot answers a human preferred (A wins, B wins, tie) given "
        "prompt and both responses, up to 4000 tokens. Log loss.",
    }
    essays = {
        "n_train": 17_307,
        "gpu": "h100",
        "minutes": 180,
        "description": "Score student-written argumentative essays, holistic scores 1 to 6; essays have 150 "
        "to 1600 words. Quadratic weighted kappa.",
    }
    chosen = recommend(seeded_sqlite, chats)
    assert chosen["method"] in ("lora", "qlora")
    assert any(line.startswith("Tuned language models:") for line in chosen["rationale"])
    assert "deberta-v3-large" in {run["model"] for run in recommend(seeded_sqlite, essays)["portfolio"]}
    small = recommend(seeded_sqlite, {**chats, "gpu": "t4", "minutes": 30})
    assert "method" not in small, "what a small card cannot carry is not planned"


@FEW
@given(TASK, CARD, N_TRAIN, MINUTES, MINUTES, OBJECTIVE)
def test_more_minutes_never_lower_the_expected_quality(
    seeded_sqlite: Database, task: str, gpu: str, n_train: int, first: float, second: float, objective: str
) -> None:
    asked = {"task": task, "gpu": gpu, "n_train": n_train, "objective": objective}
    less, more = sorted((first, second))
    assert quality_of(seeded_sqlite, **asked, minutes=more) >= quality_of(
        seeded_sqlite, **asked, minutes=less
    )


def indices(database: Database, **asked: Any) -> dict[tuple[str, int, int, int], float]:
    """(model, input size, epochs, folds) -> quality index of all that was priced."""
    sets = price_candidates(remembered(database, **asked), knowledge_of(database)).sets
    return {
        (option.model.name, option.input_size, epochs, folds): float(each.grid.quality[row, e, k])
        for each in sets
        for row, option in enumerate(each.table.options)
        for e, epochs in enumerate(each.grid.epochs)
        for k, folds in enumerate(each.grid.folds)
    }


@pytest.mark.parametrize("task", ["image-classification", "image-segmentation", "object-detection"])
def test_the_same_settings_have_the_same_index_whoever_chose_them(seeded_sqlite: Database, task: str) -> None:
    asked = {"task": task, "gpu": "t4", "n_train": 3_000, "minutes": 120}
    free = indices(seeded_sqlite, **asked)
    best = max(free, key=lambda settings: free[settings])
    pins = dict(zip(("model", "image_size", "epochs", "folds"), best, strict=True))
    for names in (["model"], ["model", "image_size"], ["folds"], list(pins)):
        pinned = indices(seeded_sqlite, **asked, **{name: pins[name] for name in names})
        assert pinned[best] == pytest.approx(free[best])


@FEW
@given(CARD, N_TRAIN, st.floats(4, 90), st.floats(4, 90), st.sampled_from(["resnet50", "convnext_tiny"]))
def test_more_memory_never_lowers_the_batch_of_a_size_of_a_model(
    seeded_sqlite: Database, gpu: str, n_train: int, first: float, second: float, model: str
) -> None:
    batches: list[dict[int, int]] = []
    for vram in sorted((first, second)):
        case = remembered(
            seeded_sqlite, task="image", gpu=gpu, n_train=n_train, model=model, vram_gib=vram, minutes=10_000
        )
        grid = price_candidates(case, knowledge_of(seeded_sqlite)).sets[0]
        sizes = grid.table.columns.input_size
        batches.append(dict(zip(map(int, sizes), map(int, grid.grid.batches.batch_size), strict=True)))
    assert batches[0]
    assert all(batch <= batches[1][size] for size, batch in batches[0].items())


@FEW
@given(TASK, CARD, N_TRAIN, st.floats(1, 4), st.floats(1, 4))
def test_a_faster_card_never_takes_longer(
    seeded_sqlite: Database, task: str, gpu: str, n_train: int, speed: float, bandwidth: float
) -> None:
    case = remembered(
        seeded_sqlite, task=task, gpu=gpu, n_train=n_train, batch_size=16, folds=1, epochs=3, minutes=10_000
    )
    better = replace(case, cards=(faster(case.cards[0], speed, bandwidth),))
    knowledge = knowledge_of(seeded_sqlite)
    slow, fast = (price_candidates(each, knowledge).least_minutes() for each in (case, better))
    assert fast <= slow * (1 + 1e-9)


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The seeds without patterns and solutions."""
    folder = tmp_path_factory.mktemp("forgetful")
    seeds = folder / "seeds"
    seeds.mkdir()
    for file in filter(Path.is_file, resources.path("seeds").iterdir()):
        empty = file.name in ("patterns.jsonl", "solutions.jsonl")
        (seeds / file.name).write_bytes(b"" if empty else file.read_bytes())
    database = Database(f"sqlite:///{folder}/memory.sqlite3")
    databases.upgrade(database)
    seeding.seed(database, seeds)
    yield database
    database.close()


@pytest.mark.parametrize(
    "asked",
    [
        SALT,
        {"task": "text-classification", "gpu": "a10", "minutes": 45, "n_train": 9_000},
        {"task": "tabular", "gpu": "cpu"},
    ],
)
def test_blind_answers_as_if_nothing_had_ever_been_told(
    seeded_sqlite: Database, forgetful: Database, asked: dict[str, Any]
) -> None:
    blind = recommend(seeded_sqlite, {**asked, "mode": "blind"})
    assert (blind["recipe"], blind["targets"], blind["similar"]) == (None, None, [])
    assert blind == recommend(forgetful, {**asked, "mode": "blind"})
    assert recommend(seeded_sqlite, asked)["recipe"] is not None


def named(answer: dict[str, Any]) -> set[str]:
    """Stored competitions that the answer names where it tells what it rests on."""
    told = json.dumps([answer[name] for name in ("similar", "evidence", "recipe", "targets")])
    words = set(re.findall(r"[A-Za-z0-9][\w.-]*", told))
    return {slug for slug in YEARS if slug in words or any(word.startswith(f"{slug}-") for word in words)}


@pytest.mark.parametrize("slug", ["tgs-salt-identification-challenge", "siim-isic-melanoma-classification"])
def test_family_never_names_the_competition_that_was_asked_about(seeded_sqlite: Database, slug: str) -> None:
    asked = {"competition": slug, "gpu": "a100", "minutes": 60}
    assert slug in named(recommend(seeded_sqlite, asked))
    held_back = recommend(seeded_sqlite, {**asked, "mode": "family"})
    assert slug not in named(held_back)
    assert held_back["targets"] is None
    assert held_back["recipe"]["families"], "others are still remembered"


@pytest.mark.parametrize(
    "asked",
    [
        {"task": "image-classification"},
        {"task": "text-classification"},
        {"task": "tabular-regression"},
        {"competition": "siim-isic-melanoma-classification"},
        {"description": "Find salt below the earth in seismic images: label every pixel."},
    ],
    ids=str,
)
def test_as_of_a_year_nothing_later_is_named(seeded_sqlite: Database, asked: dict[str, Any]) -> None:
    answer = recommend(seeded_sqlite, {**asked, "gpu": "a100", "minutes": 60, "as_of": 2018})
    later = {slug: YEARS[slug] for slug in named(answer) if not (YEARS[slug] or 9999) <= 2018}
    assert later == {}
    assert answer["recipe"]["families"]
    assert asked.get("competition") != "siim-isic-melanoma-classification" or answer["targets"] is None


def test_asking_twice_gives_the_same_plan(seeded_sqlite: Database, forgetful: Database) -> None:
    first = recommend(seeded_sqlite, SALT)
    again = Database(seeded_sqlite.url)
    assert recommend(again, dict(reversed(SALT.items())))["plan_id"] == first["plan_id"]
    again.close()
    assert recommend(forgetful, SALT)["recipe"] != first["recipe"]


def test_small_images_are_not_planned_far_beyond_their_own_pixels(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {**SALT, "objective": "quality", "minutes": 240})
    assert answer["model"]["image_size"] <= 256, "the images have 101 pixels a side"
    assert answer["recipe"]["validation"]["why"]
    assert answer["targets"]["direction"] == "max"
    ranks = [entry["rank"] for entry in answer["targets"]["by_rank"]]
    assert ranks == sorted(ranks)
    assert all(0.8 < entry["score"] < 0.9 for entry in answer["targets"]["by_rank"])


@pytest.mark.parametrize(
    ("text", "split", "by"),
    [
        ("Regress airway pressure at every time step; 75,000 breaths of 300 patients.", "group", "patient"),
        ("Forecast daily sales of 1,500 products in 22 shops for the next 42 days.", "time", "shop"),
        ("Hourly load of a grid, RMSE.", None, None),
    ],
)  # fmt: skip
def test_series_that_come_from_groups_are_split_by_them_unless_the_future_is_asked(
    text: str, split: str | None, by: str | None
) -> None:
    said = read_alone(text)
    assert said.task == "time-series-regression"
    fact = split_read(said)
    assert (fact and fact.split, fact and fact.by) == (split, by)
