"""Rankings of passages: a retriever and a reranker in one plan; phones and speakers by models for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memory_service.domain.common.units import interval
from memory_service.domain.description.stated_facts import Search, search_in
from memory_service.domain.planning.candidates import price_candidates
from memory_service.domain.planning.explanation.plan_text import run_words
from memory_service.domain.portfolio.run_sets import run_sets
from tests.planning import case, plan, seed_knowledge

PASSAGES = "Rank passages for a query. NDCG@10, MRR and recall@k. 8 000 queries, 200 000 passages."

ASKED = {"task": "text-ranking", "description": PASSAGES, "gpu": "a100", "minutes": 120}


def ranked(text: str = PASSAGES, **asked: Any) -> dict[str, Any]:
    return plan(task="text-ranking", description=text, **{"gpu": "a100", "minutes": 120, **asked})


@pytest.mark.parametrize(
    ("text", "search"),
    [
        (PASSAGES, Search(8000, 200_000, None, "200 000 passages")),
        (
            "Find the paragraphs that answer a question: 1.2 million paragraphs, 40k training questions.",
            Search(40_000, 1_200_000, None, "1.2 million paragraphs"),
        ),
        (
            "Every query comes with 100 BM25 candidates, 5,000 queries.",
            Search(5000, 0, 100, "Every query comes with 100 BM25 candidates"),
        ),
        ("Retrieve passages that answer a question.", Search(None, 100_000)),
        (
            "Rank 1,000 candidate passages per query.",
            Search(None, 0, 1000, "1,000 candidate passages per query"),
        ),
        ("Order 2000 candidates per query.", Search(None, 0, 2000, "2000 candidates per query")),
        ("Retrieve passages: 0 candidates per query.", Search(None, 100_000)),
        ("Retrieve texts of up to 512 tokens for a query.", Search(None, 100_000)),
        (
            "40,000 users send queries; 3,000 abstracts are searched.",
            Search(None, 3000, None, "3,000 abstracts"),
        ),
        ("Order the code and markdown cells of 140,000 notebooks.", None),
    ],
)
def test_what_is_searched_is_read(text: str, search: Search | None) -> None:
    assert search_in(text) == search


def test_both_stages_fit_the_minutes_and_the_card() -> None:
    for gpu, minutes in (("a100", 120), ("t4", 20), ("h100", 400)):
        answer = ranked(gpu=gpu, minutes=minutes)
        first, *others = answer["portfolio"]
        assert [first["stage"]["name"], others[0]["stage"]["name"]] == ["retriever", "reranker"]
        assert others[0]["start_minute"] == first["deadline_minute"]
        assert others[-1]["deadline_minute"] <= minutes
        for run in (first, *others):
            assert run["stage"]["peak_memory_gib"]["high"] <= answer["gpu"]["usable_gib"]
            assert run["stage"]["kept"] == first["stage"]["kept"]
        assert first["stage"]["negatives"] == first["batch_size"] // 2 - 1
        assert answer["model"]["name"] != first["model"]
        assert answer["folds"] == first["folds"] == 1


def test_more_passages_take_longer_and_a_run_is_answered_with_its_own_settings() -> None:
    few, many = (
        ranked(PASSAGES.replace("200 000", n), model="bge-base-en-v1.5") for n in ("20 000", "900 000")
    )
    embedding = [ranked(text, run=1, model="bge-base-en-v1.5")["expected"]["inference_minutes"]["value"]
                 for text in (PASSAGES.replace("200 000", n) for n in ("20 000", "900 000"))]  # fmt: skip
    assert few["portfolio"][0]["model"] == many["portfolio"][0]["model"] == "bge-base-en-v1.5"
    assert embedding[1] > 10 * embedding[0]


def test_a_pinned_model_is_the_stage_that_it_can_be() -> None:
    by_retriever, by_reranker = (ranked(model=name) for name in ("bge-m3", "bge-reranker-large"))
    assert by_retriever["portfolio"][0]["model"] == "bge-m3" != by_retriever["model"]["name"]
    assert by_reranker["model"]["name"] == "bge-reranker-large" != by_reranker["portfolio"][0]["model"]


def test_given_candidates_need_no_retriever() -> None:
    answer = ranked("Every query comes with 30 candidates, 5,000 queries, NDCG@10.")
    assert {run["stage"]["name"] for run in answer["portfolio"]} == {"reranker"}
    assert answer["portfolio"][0]["stage"]["kept"] == 30
    assert "one-stage" not in [each["code"] for each in answer["warnings"]]
    pinned = ranked("Each query has 50 candidates.", n_train=5000, n_test=500, model="bge-base-en-v1.5")
    assert pinned["model"]["name"] == "bge-base-en-v1.5", "a pin holds of the only stage"


@pytest.mark.parametrize("objective", ["quality", "fast"])
def test_each_stage_has_a_budget_of_its_own(objective: str) -> None:
    whole, first, second = (ranked(run=run, objective=objective) for run in (None, 1, 2))
    runs = whole["portfolio"]
    assert first["minutes"] + second["minutes"] <= 120
    assert second["minutes"] < runs[1]["deadline_minute"], "the retriever's minutes are not in it"
    assert second["minutes"] >= runs[1]["deadline_minute"] - runs[1]["start_minute"] - 0.01


def test_budgets_hold_the_retriever_once() -> None:
    sets = price_candidates(case(**ASKED), seed_knowledge())
    assert sets.before is not None
    pick = sets.best("quality", 120)
    assert pick is not None
    assert sets.least_minutes() >= sets.before.minutes
    assert sets.before.minutes + pick.minutes <= 120
    of_sets = run_sets(sets, 240.0)
    members = of_sets.members[np.isfinite(of_sets.plain) & (of_sets.members[:, 1] >= 0)]
    plain = of_sets.plain[np.isfinite(of_sets.plain) & (of_sets.members[:, 1] >= 0)]
    assert len(members)
    share = np.append(of_sets.pool.share, 0.0)
    assert plain == pytest.approx(share[members].sum(axis=1) + sets.before.minutes)


def test_weights_are_spread_over_cards_that_hold_no_copy() -> None:
    asked = {"gpu": "a100", "n_gpus": 8, "minutes": 10_000, "model": "llama-3.1-70b", "method": "lora"}
    answer = ranked("Every query comes with 10 candidates, 500 queries.", **asked)
    assert answer["feasible"], answer["why"]
    assert answer["sharding"] == "fsdp"


def test_a_pinned_reranker_without_room_for_a_retriever_is_weighed_alone() -> None:
    asked = {"model": "ms-marco-minilm-l-12-v2", "gpu": "t4", "minutes": 14}
    answer = ranked(PASSAGES.replace("200 000", "9 000 000"), **asked)
    (run,) = answer["portfolio"]
    assert run["stage"]["name"] == "reranker"
    assert (run["stage"]["kept"], run["stage"]["pairs"]) != (10, 2), "not blindly the cheapest"


def test_a_retriever_alone_hands_on_nothing_and_its_figures_are_intervals() -> None:
    (alone,) = ranked(gpu="t4", minutes=12, model="bge-base-en-v1.5")["portfolio"]
    assert alone["stage"]["kept"] == 0
    assert "hands on" not in alone["why"]
    assert "keeps" not in run_words(alone)
    memory = interval(alone["stage"]["peak_memory_gib"], "GiB")
    assert "(" in memory
    assert memory in alone["why"]
    assert memory in run_words(alone)
    one = ranked(gpu="a100", model="bge-base-en-v1.5", batch_size=1, minutes=2000)["portfolio"][0]
    assert one["stage"]["negatives"] == 0


def test_minutes_for_one_stage_alone_say_so() -> None:
    alone = ranked(minutes=50, model="qwen2.5-7b", method="qlora")
    assert not alone["feasible"]
    answer = ranked(minutes=alone["closest"]["set"]["minutes"], model="qwen2.5-7b", method="qlora")
    warned = {each["code"]: each["text"] for each in answer["warnings"]}
    assert answer["model"]["name"] == "qwen2.5-7b"
    assert "a reranker alone is planned" in warned["one-stage"]


def test_speakers_are_told_apart_by_networks_with_a_published_error() -> None:
    asked = {"gpu": "a100", "minutes": 120, "n_train": 20_000}
    speakers = plan(task="audio-classification", subtask="speaker-verification", **asked)
    assert speakers["model"]["name"] in ("w2v-bert-2.0", "wavlm-large", "hubert-large", "wavlm-base-plus")
    assert plan(task="audio-classification", **asked)["model"]["name"] not in ("w2v-bert-2.0", "wavlm-large")


def test_phones_are_read_by_networks_with_an_answer_each_20_ms() -> None:
    asked = {"gpu": "a100", "minutes": 120, "n_train": 5_000, "task": "speech-recognition"}
    phones = {run["model"] for run in plan(subtask="phonemes", **asked)["portfolio"]}
    assert not [name for name in phones if name.startswith(("whisper", "parakeet", "distil"))]
    words = {run["model"] for run in plan(**asked)["portfolio"]}
    assert words != phones
