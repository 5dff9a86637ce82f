"""Does a plan count what several cards, decoders, answers that are written and masks of many classes take?"""

from __future__ import annotations

import pytest

from memory_service.domain.planning.explanation.plan_text import plan_markdown
from memory_service.errors import InvalidInput
from memory_service.services.database.transactions import Database
from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.recommend import recommend
from memory_service.services.planning.script_choice import has_script
from memory_service.services.prediction.predict import predict
from tests.answers import warnings_of


def test_masks_of_many_classes_cost_in_a_plan_what_predict_says(seeded_sqlite: Database) -> None:
    asked = {
        "task": "image-segmentation",
        "n_train": 20_000,
        "gpu": "a100",
        "minutes": 300,
        "image_size": 512,
    }
    plans = [
        recommend(seeded_sqlite, {**asked, "model": "unet/resnet34", **classes, "batch_size": 16})
        for classes in ({}, {"n_classes": 2}, {"n_classes": 150})
    ]
    unsaid, few, many = (plan["expected"] for plan in plans)
    assert unsaid["peak_memory_gib"] == few["peak_memory_gib"]
    for name, factor in (("peak_memory_gib", 2.0), ("epoch_seconds", 1.5)):
        assert many[name]["value"] > factor * few[name]["value"]
    question = {
        "model": "unet/resnet34",
        "gpu": "a100",
        "image_size": 512,
        "batch_size": 16,
        "n_classes": 150,
    }
    told = predict(seeded_sqlite, question)
    for name in ("peak_memory_gib", "samples_per_second"):
        assert many[name]["value"] == pytest.approx(told[name]["value"], rel=1e-3)


def test_a_decoder_that_a_card_cannot_hold_in_half_precision_is_planned_with_qlora(
    seeded_sqlite: Database,
) -> None:
    asked = {"task": "text", "model": "qwen2.5-7b", "n_train": 5000, "minutes": 600}
    small, large = (recommend(seeded_sqlite, {**asked, "gpu": gpu}) for gpu in ("t4", "a100-80gb"))
    assert (small["method"], small["lora_rank"]) == ("qlora", 16)
    assert large["method"] == "lora"
    assert large["expected"]["peak_memory_gib"]["value"] > 15  # 7.6 billion weights in half precision
    assert any("weak evidence" in warning for warning in warnings_of(small))
    pinned = recommend(seeded_sqlite, {**asked, "gpu": "a100-80gb", "method": "qlora", "lora_rank": 64})
    assert (pinned["method"], pinned["lora_rank"]) == ("qlora", 64)
    with pytest.raises(InvalidInput, match="no decoder"):
        recommend(seeded_sqlite, {**asked, "gpu": "t4", "model": "deberta-v3-base", "method": "lora"})


def test_predicting_counts_the_tokens_of_answers_that_are_written(seeded_sqlite: Database) -> None:
    asked = {"task": "seq2seq", "model": "flan-t5-base", "gpu": "a100", "n_train": 2_000, "folds": 1}
    asked["seq_len"] = 256
    few, many = (recommend(seeded_sqlite, {**asked, "n_test": n}) for n in (100, 1_100))
    more = [answer["expected"]["inference_minutes"]["value"] for answer in (few, many)]
    a_text = 60 * (more[1] - more[0]) / 1_000
    assert 0.02 < a_text < 1, "tens of passes a text, sixteen texts at once"
    assert any("64 tokens written" in warning for warning in warnings_of(many))


def test_answers_are_as_short_as_the_texts_are(seeded_sqlite: Database) -> None:
    asked = {"task": "seq2seq", "model": "qwen2.5-7b", "method": "qlora", "gpu": "t4", "n_train": 5000}
    asked |= {"n_test": 10_000, "minutes": 3000, "folds": 1, "epochs": 1, "seq_len": 1024}
    short, long, unsaid = (
        recommend(seeded_sqlite, asked | said) for said in ({"text_tokens": 40}, {"text_tokens": 1024}, {})
    )
    assert any("Predicting counts 10 tokens" in warning for warning in warnings_of(short))
    assert any("Predicting counts 256 tokens" in warning for warning in warnings_of(long))
    minutes = [plan["expected"]["inference_minutes"]["value"] for plan in (short, long, unsaid)]
    assert minutes[0] < 0.2 * minutes[1]
    assert minutes[1] == pytest.approx(minutes[2], rel=0.01)


def test_gradients_are_exchanged_once_a_step_of_the_optimizer(seeded_sqlite: Database) -> None:
    """Scripts keep them apart until then (`no_sync`): with many batches a step two cards gain, whatever joins
    them."""
    asked = {"task": "text-classification", "model": "deberta-v2-xlarge", "n_train": 3000, "n_test": 1000}
    asked |= {"minutes": 1000, "cpu_count": 8, "folds": 5, "epochs": 8, "seq_len": 512}
    one, two = (recommend(seeded_sqlite, {**asked, "gpu": gpu}) for gpu in ("rtx4090", "2xrtx4090"))
    assert two["grad_accumulation"] >= 8
    assert two["expected"]["epoch_seconds"]["value"] < 0.9 * one["expected"]["epoch_seconds"]["value"]
    assert not any("2 cards are" in warning for warning in warnings_of(two))


def test_a_plan_for_two_cards_is_nearly_twice_as_fast_and_says_how_it_is_started(
    seeded_sqlite: Database,
) -> None:
    asked = {"task": "image", "model": "convnext_tiny", "n_train": 20_000, "minutes": 60, "batch_size": 64}
    one, two = (recommend(seeded_sqlite, {**asked, "gpu": gpu}) for gpu in ("t4", "2xt4"))
    rates = [answer["expected"]["samples_per_second"]["value"] for answer in (one, two)]
    assert 1.8 < rates[1] / rates[0] < 2.0
    assert (two["n_gpus"], two["batch_size"], two["effective_batch_size"]) == (2, 64, 128)
    assert any("torchrun" in warning for warning in warnings_of(two))
    assert "n_gpus" not in one
    assert any("128" in line and "(125 updates an epoch)" in line for line in two["rationale"])
    text = plan_markdown(two)
    assert "on 2 x NVIDIA T4" in text
    assert "batch_size=64 x 2 cards = 128" in text
    same = recommend(seeded_sqlite, {**asked, "gpu": "t4", "n_gpus": 2})
    assert same["expected"] == two["expected"]
    with pytest.raises(InvalidInput, match="gpu must name as many"):
        recommend(seeded_sqlite, {**asked, "gpu": "2xt4,4xt4"})


def test_full_tuning_takes_a_paged_optimizer_only_where_the_state_does_not_fit_the_card(
    seeded_sqlite: Database,
) -> None:
    asked = {"task": "text", "n_train": 5_000, "minutes": 3_000, "model": "qwen2.5-3b", "method": "full"}
    tight, roomy = (recommend(seeded_sqlite, {**asked, "gpu": gpu}) for gpu in ("a100", "a100-80gb"))
    assert (tight["optimizer"], roomy["optimizer"]) == ("paged-adamw-8bit", "adamw")
    assert tight["expected"]["peak_memory_gib"]["high"] <= tight["gpu"]["usable_gib"]
    assert any("its state, at least" in sentence for sentence in tight["rationale"])
    assert "PAGED_OPTIMIZER = True" in plan_script(tight)
    assert "PAGED_OPTIMIZER = True" not in plan_script(roomy)
    assert recommend(seeded_sqlite, {**asked, "gpu": "mps"})["feasible"] is False


def test_gradients_of_several_batches_are_counted_at_the_batch_that_is_planned(
    seeded_sqlite: Database,
) -> None:
    asked = {"task": "text", "gpu": "a100-80gb", "n_train": 5_000, "minutes": 3_000, "method": "full"}
    plan = recommend(seeded_sqlite, {**asked, "model": "llama-3.1-8b"})
    assert plan["expected"]["peak_memory_gib"]["high"] <= plan["gpu"]["usable_gib"]


def test_short_texts_that_a_decoder_learns_to_write_are_packed(seeded_sqlite: Database) -> None:
    asked = {"task": "seq2seq", "model": "qwen2.5-0.5b", "gpu": "a100", "n_train": 40_000, "seq_len": 1024}
    asked |= {"folds": 1, "epochs": 1, "minutes": 600, "method": "lora"}
    alone = recommend(seeded_sqlite, asked)
    packed = recommend(seeded_sqlite, {**asked, "text_tokens": 100})
    assert packed["texts_per_row"] == 10.24
    assert packed["effective_batch_size"] == round(packed["batch_size"] * packed["grad_accumulation"] * 10.24)
    assert packed["expected"]["epoch_seconds"]["value"] < 0.2 * alone["expected"]["epoch_seconds"]["value"]
    assert any("Rows are packed: about 10.2 texts" in sentence for sentence in packed["rationale"])
    assert "10.2 texts packed a row" in plan_markdown(packed)
    for unpacked in ({"text_tokens": 600}, {"text_tokens": 100, "packing": False}):
        assert "texts_per_row" not in recommend(seeded_sqlite, {**asked, **unpacked})
    with pytest.raises(InvalidInput, match="a text with one label needs a row of its own"):
        recommend(seeded_sqlite, {**asked, "task": "text", "packing": True, "text_tokens": 100})


def test_a_decoder_that_no_card_holds_is_planned_with_its_weights_spread_over_all(
    seeded_sqlite: Database,
) -> None:
    asked = {"task": "text", "size": "medium", "gpu": "8xh100", "minutes": 400, "n_train": 8_000}
    asked |= {"model": "qwen2.5-14b", "method": "full"}
    assert not recommend(seeded_sqlite, {**asked, "sharding": "none"})["feasible"]
    spread = recommend(seeded_sqlite, asked)
    assert spread["sharding"] == "fsdp"
    assert any("no card holds a copy" in sentence for sentence in spread["rationale"])
    again = recommend(seeded_sqlite, {**asked, "sharding": "fsdp"})
    assert again["expected"] == spread["expected"]
    assert spread["expected"]["peak_memory_gib"]["high"] <= spread["gpu"]["usable_gib"]
    assert "weights spread over them" in plan_markdown(spread)
    assert "SHARDED = True" in plan_script(spread)
    for without in ({"precision": "fp16"}, {"model": spread["model"] | {"params_m": 40_000.0}}):
        assert not has_script(spread | without), "40 billion weights do not predict on one card"
    slow = recommend(seeded_sqlite, {**asked, "sharding": "fsdp", "interconnect": "pcie", "epochs": 1})
    quick = recommend(seeded_sqlite, {**asked, "sharding": "fsdp", "epochs": 1})
    assert slow["expected"]["epoch_seconds"]["value"] > quick["expected"]["epoch_seconds"]["value"]
    lora = {**asked, "method": "lora"}
    of_each, shared = (recommend(seeded_sqlite, {**lora, "sharding": way}) for way in ("none", "fsdp"))
    assert "sharding" not in of_each
    assert "sharding" not in recommend(seeded_sqlite, lora), "a copy fits"
    assert shared["expected"]["peak_memory_gib"]["value"] < of_each["expected"]["peak_memory_gib"]["value"]
