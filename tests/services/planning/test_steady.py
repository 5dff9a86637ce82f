"""The kind of a plan does not hang on a synonym, a sample or a minute, nor on slug against text."""

from __future__ import annotations

from typing import Any

import pytest

from memory_service.domain.planning.candidates import price_candidates
from memory_service.recall.encoder import load_encoder
from memory_service.schemas.recommend import plan_request
from memory_service.services.competitions.signals import read_text
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.planning.memory import split_read
from memory_service.services.planning.planning_problem import case_of
from memory_service.services.planning.request_text import read_request_text
from tests.knowledge.seed_files import rows

PARAPHRASES = [
    (
        "Predict the sale price of houses from 79 columns; 1,460 rows. RMSE of log price.",
        "Predict the sale price of houses from 79 columns; 1,460 rows. RMSE of the logarithm of the price.",
    ),
    (
        "Find ears of wheat in 3,400 field images of 1024 pixels; boxes; mean average precision over IoU.",
        "Locate ears of wheat in 3,400 field images of 1024 pixels; boxes; mean average precision over IoU.",
    ),
    (
        "Group listings that show the same product: 34,000 photos with titles; F1.",
        "Match listings that show the same product: 34,000 photos with titles; F1.",
    ),
    (
        "Classify 21,397 photos of cassava leaves into five diseases. Accuracy.",
        "Categorise 21,397 pictures of cassava leaves into five illnesses. Accuracy.",
    ),
    (
        "Will a borrower default? 300,000 applications with 120 columns. AUC.",
        "Does a client fail to repay? 300,001 loan applications with 120 features. AUC.",
    ),
    (
        "Forecast daily sales of 500 items in ten stores for three months; five years known; SMAPE.",
        "Predict the daily sales of 500 products in ten shops for three months; five years known; SMAPE.",
    ),
    (
        "Segment salt in 4,000 seismic images of 101 pixels; masks; mean average precision over IoU.",
        "Mark the salt in 4,001 seismic pictures of 101 px; masks; mean average precision over IoU.",
    ),
    (
        "Score 17,307 student essays from 1 to 6; quadratic weighted kappa.",
        "Grade 17,307 essays of students from one to six; quadratic weighted kappa.",
    ),
    (
        "Which bird sings? 24,000 recordings of 182 species; macro ROC AUC.",
        "Which bird calls? 24,000 sound clips of 182 species; macro ROC AUC.",
    ),
    (
        "Decide whether two questions mean the same; 400,000 pairs; log loss.",
        "Tell whether two questions have the same meaning; 400,000 pairs; log loss.",
    ),
    (
        "X-rays of 200 patients, 2,000 images: pneumonia or not; test patients are others. AUC.",
        "Radiographs of 200 patients, 2,000 pictures: pneumonia or not; test patients are different. AUC.",
    ),
    (
        "Name the person entities in 6,800 essays, one tag a token; F5.",
        "Tag names of persons in 6,800 essays, a label for each token; F5.",
    ),
]


def read(text: str) -> tuple[str | None, str | None, str | None]:
    """Task, metric and kind of split."""
    facts = read_text(text, load_encoder().encoder).facts
    split = split_read(facts)
    return facts.task, facts.metric, split.split if split else None


@pytest.mark.parametrize("pair", PARAPHRASES)
def test_a_paraphrase_is_read_as_the_same(pair: tuple[str, str]) -> None:
    assert read(pair[0]) == read(pair[1])


def kind(database: Database, **asked: Any) -> tuple[str, str, str, str | None]:
    """Task, library of the best single run, split and column."""
    question, knowledge = plan_request({"gpu": "t4", **asked}), knowledge_of(database)
    case = case_of(knowledge, question, read_request_text(database, question))
    best = price_candidates(case, knowledge).best(question.objective, question.minutes)
    assert best is not None
    return case.task, best.option.model.library, *case.split


@pytest.mark.parametrize(
    "asked",
    [
        {"task": "tabular-classification", "n_train": 10_000, "minutes": 60},
        {"task": "image-classification", "n_train": 10_000, "minutes": 60},
        {"task": "text-classification", "n_train": 100_000, "minutes": 120},
        {"competition": "tgs-salt-identification-challenge", "minutes": 120, "n_train": 4_000},
    ],
)
def test_one_sample_or_minute_more_or_less_changes_no_kind(
    seeded_sqlite: Database, asked: dict[str, Any]
) -> None:
    own = kind(seeded_sqlite, **asked)
    for name in ("n_train", "minutes"):
        for step in (-1, 1):
            assert kind(seeded_sqlite, **{**asked, name: asked[name] + step}) == own, (name, step)


@pytest.mark.parametrize(
    "slug", ["siim-isic-melanoma-classification", "learning-agency-lab-automated-essay-scoring-2"]
)
def test_slug_and_own_description_give_one_plan(seeded_sqlite: Database, slug: str) -> None:
    text = next(row["description"] for row in rows("competitions") if row["slug"] == slug)
    by_slug = kind(seeded_sqlite, competition=slug, minutes=60)
    assert kind(seeded_sqlite, competition=slug, description=text, minutes=60) == by_slug
