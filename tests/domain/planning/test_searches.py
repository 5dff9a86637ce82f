"""Rankings of passages: a retriever and a reranker in one plan; phones and speakers by models for them."""

from __future__ import annotations

from typing import Any

import pytest

from memory_service.domain.description.searches import Search, search_in
from tests.planning import plan

PASSAGES = "Rank passages for a query. NDCG@10, MRR and recall@k. 8 000 queries, 200 000 passages."


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
