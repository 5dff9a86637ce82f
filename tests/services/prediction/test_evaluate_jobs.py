"""Rows of public tables of training jobs and boosted trees: read, predicted, refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.accuracy import summarise
from memory_service.domain.cost.decoders.decoder import Tuning
from memory_service.domain.cost.tree_seconds import best_threads, seconds_per_tree
from memory_service.domain.learning.measured_rows import parse_row
from memory_service.errors import InvalidInput
from memory_service.services.database.transactions import Database
from memory_service.services.prediction.evaluate import (
    evaluate_rows,
    open_profile_store,
    predict_trees,
    read_rows,
)
from tests.synthetic import sheets

ORACLES = Path(__file__).parents[3].parent / "shared" / "oracles"
needs_oracles = pytest.mark.skipif(not ORACLES.is_dir(), reason="../shared/oracles is not here")

LITGPT = {
    "source": "Lightning-AI/litgpt", "model": "Llama 2 7B", "method": "lora", "lora_rank": "8",
    "precision": "bf16-true", "optimizer": "AdamW", "gpu": "a100-sxm-40gb", "n_gpus": "1",
    "batch_per_gpu": "1", "seq_len_or_image_size": "alpaca max 1304", "gradient_checkpointing": "no",
    "framework_version": "torch 2.1.0 bitsandbytes 0.41.1 litgpt 8641822", "peak_gib": "19.837",
    "memory_kind": "torch max_memory_allocated, decimal GB", "notes": "",
}  # fmt: skip


def test_jobs_of_decoders_are_predicted_for_the_whole_box(seeded_sqlite: Database) -> None:
    sharded = {**LITGPT, "n_gpus": "4", "sharding": "fsdp", "method": "full", "tokens_per_s": "1"}
    cut = {**sharded, "sharding": "tp4 pp2"}
    other = {**LITGPT, "method": "prompt_tuning"}
    store, gpus = open_profile_store(seeded_sqlite)
    one, box, refused, unknown = evaluate_rows([LITGPT, sharded, cut, other], store, gpus)
    assert one.predicted["peak_gib"].value == pytest.approx(19.837, rel=0.1)
    assert "speedup" not in one.predicted
    assert 3.0 < box.predicted["speedup"].value <= 4.0
    rates = [box.predicted[name].value for name in ("tokens_per_s", "samples_per_s")]
    assert rates[0] / rates[1] == pytest.approx(110)  # tokens of a text of Alpaca on average
    assert "cut over several cards" in str(refused.why_not)
    assert "prompt_tuning" in str(unknown.why_not)


@needs_oracles
def test_memory_of_tuned_language_models_is_near_what_was_measured(seeded_sqlite: Database) -> None:
    rows = [row for row in read_rows(ORACLES / "llm_training.csv") if "vit" not in str(row["family"])]
    summary = summarise(list(evaluate_rows(rows, *open_profile_store(seeded_sqlite))))
    errors = {each.method: each for each in dict(summary.jobs)["peak memory of a card"]}
    assert errors["all"].n > 100
    assert errors["all"].median <= 0.08
    assert errors["all"].p90 <= 0.2
    assert errors["qlora, several cards"].median <= 0.08


def test_the_version_of_a_row_decides_what_attention_keeps() -> None:
    def fused(version: str) -> tuple[bool, bool]:
        row = parse_row({**LITGPT, "framework_version": version})
        return row.torch_before_2, row.fused_attention

    assert fused("torch 2.4") == (False, True)
    assert fused("OpenMMLab 2020-23, torch 1.3-1.12") == (True, False)
    assert fused("NGC pytorch 21.03") == (False, False)  # the date of a container


def test_a_row_says_how_its_framework_trains() -> None:
    def job(**columns: str) -> Tuning:
        found = parse_row({**LITGPT, **columns}).job
        assert found is not None
        return found.tuning

    hub = {"source": "Lightning-AI/litgpt config_hub/finetune/README.md", "framework_version": "litgpt 2024"}
    assert job(**hub, model="llama-3-8b").targets == "attention"
    assert job(**hub, model="phi-2").targets == "all"
    assert job(notes="targets up_proj,gate_proj,down_proj; trained").targets == "mlp"
    assert job(notes="targets v_proj,up_proj").targets == "all"
    assert job(grad_accumulation="8").accumulates
    assert not job(grad_accumulation="1").accumulates
    compiled = {"compile": "yes", "source": "pytorch/torchtitan"}
    assert job(**compiled, framework_version="torch 2.6 dev").loss == "plain"
    assert job(**compiled, framework_version="torch 2.8.0a0").loss == "compiled"
    assert job(source="unslothai/unsloth", notes="Unsloth+FA2").loss == "in_place"
    assert job(source="unslothai/unsloth", notes="HF+FA2").loss == "shifted"


def test_states_of_an_8_bit_optimizer_are_as_large_whatever_the_weights(seeded_sqlite: Database) -> None:
    full = {**LITGPT, "method": "full", "gradient_checkpointing": "yes"}
    eight = {**full, "optimizer": "bnb AdamW8bit"}
    store, gpus = open_profile_store(seeded_sqlite)
    wide, packed = evaluate_rows([{**full, "optimizer": "AdamW fused"}, eight], store, gpus)
    saved = wide.predicted["peak_gib"].value - packed.predicted["peak_gib"].value
    assert saved == pytest.approx(6.74e9 * 2 / 2**30, rel=0.02)  # two moments of two bytes, or of one


def test_writing_is_priced_by_the_launch_of_kernels_and_by_what_stands_in_memory(
    seeded_sqlite: Database,
) -> None:
    row = {**LITGPT, "mode": "generate", "method": "", "seq_len_or_image_size": "", "peak_gib": "12.591"}
    store, gpus = open_profile_store(seeded_sqlite)
    half, packed, many = evaluate_rows(
        [row, {**row, "method": "bnb.nf4"}, {**row, "batch_per_gpu": "64"}], store, gpus
    )
    assert half.predicted["peak_gib"].value == pytest.approx(12.591, rel=0.03)
    assert half.predicted["tokens_per_s"].value == pytest.approx(30.97, rel=0.1)
    assert packed.predicted["peak_gib"].value == pytest.approx(4.256, rel=0.03)
    assert packed.predicted["tokens_per_s"].value < half.predicted["tokens_per_s"].value
    assert many.predicted["tokens_per_s"].value == pytest.approx(64 * half.predicted["tokens_per_s"].value)
    assert many.predicted["peak_gib"].value > 8 + half.predicted["peak_gib"].value, "keys and values"


@pytest.mark.parametrize(
    ("named", "size", "network", "side"),
    [
        ("faster_rcnn_R_50_FPN_1x", "640-800 short, 1333 long", "fasterrcnn/resnet50", 1033),
        ("faster-rcnn_x101-32x8d_fpn_ms-3x_coco", "max1333x800", "fasterrcnn/resnext101_32x8d", 1033),
        ("retinanet_r101-caffe_fpn_1x_coco", "(800, 1333)", "retinanet/resnet101", 1033),
        ("mask_rcnn_R_50_FPN_3x", "800 short", "maskrcnn/resnet50", 924),
        ("cascade-rcnn_r50_fpn_1x_coco", "1333x800", "cascade-rcnn_r50_fpn_1x_coco", 1033),
        ("faster_rcnn_R_50_C4_1x", "", "faster_rcnn_R_50_C4_1x", None),
    ],
)
def test_a_row_of_a_detector_means_the_network_of_the_same_parts(
    named: str, size: str, network: str, side: int | None
) -> None:
    row = parse_row({"model": named, "batch_per_gpu": "2", "gpu": "v100", "seq_len_or_image_size": size})
    assert row.model == network
    assert row.input_size == (side if side is None else pytest.approx(side, abs=1))


def test_threads_that_only_start_and_stop_make_no_tree_faster() -> None:
    small, large = 10_000, 10_000_000
    assert best_threads("lightgbm", 1e-3, 31, 64) < 8 < best_threads("lightgbm", 5.0, 31, 64)
    many, few = (seconds_per_tree("lightgbm", small, 20, 512, threads=n) for n in (64, 4))
    assert many is not None
    assert few is not None
    assert many > few
    assert seconds_per_tree("lightgbm", large, 20, 512, threads=64) < seconds_per_tree(  # type: ignore[operator]
        "lightgbm", large, 20, 512, threads=4
    )


def test_rows_of_trees_are_predicted_on_processors_and_cards() -> None:
    row = {"library": "xgboost", "device": "cpu c5.metal", "threads_or_gpus": "16", "rows": "1000000",
           "features": "8", "trees": "100", "depth_or_leaves": "depth 10 (leaves 512)",
           "seconds_per_tree": "0.04"}  # fmt: skip
    cpu = predict_trees(row, sheets())
    assert cpu["seconds"].value == pytest.approx(100 * cpu["seconds_per_tree"].value)
    card = predict_trees({**row, "device": "h100-pcie-80gb"}, sheets())
    assert card["seconds_per_tree"].value < cpu["seconds_per_tree"].value
    with pytest.raises(InvalidInput, match="h2o on a card"):
        predict_trees({**row, "library": "h2o", "device": "t4"}, sheets())
