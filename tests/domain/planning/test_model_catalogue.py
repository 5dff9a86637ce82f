"""Does every name reach its model, and does every task have models to plan with?"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from memory_service.domain.common.vocabulary import TASKS
from memory_service.domain.cost.families import family_of
from memory_service.domain.planning.model_catalogue import CatalogueModel, models_for_task, resolve_model
from memory_service.errors import InvalidInput
from tests.every_row import of_every

SEEDS = Path(__file__).parents[3] / "seeds"
FACTS = Path(__file__).parents[3].parent / "shared" / "facts" / "vision_models.csv"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (SEEDS / "models.jsonl").read_text(encoding="utf-8").splitlines()
]
MODELS = {row["name"]: CatalogueModel.from_dict(row) for row in ROWS}

NAMES = {
    "resnet50.a1_in1k": "resnet50.a1_in1k",
    "timm/resnet50.a1_in1k": "resnet50.a1_in1k",
    "tf_efficientnet_b4_ns": "tf_efficientnet_b4.ns_jft_in1k",
    "tf_efficientnet_b4.ns_jft_in1k": "tf_efficientnet_b4.ns_jft_in1k",
    "convnext_large_384_in22ft1k": "convnext_large.fb_in22k_ft_in1k_384",
    "efficientnet_b4": "efficientnet_b4.ra2_in1k",
    "EfficientNet-B4": "efficientnet_b4.ra2_in1k",
    "microsoft/deberta-v3-base": "deberta-v3-base",
    "google-bert/bert-base-uncased": "bert-base-uncased",
    "bert_large": "bert-large-uncased",
    "answerdotai/ModernBERT-base": "modernbert-base",
    "FacebookAI/xlm-roberta-base": "xlm-roberta-base",
    "opt_13": "opt-1.3b",
    "gpt2_large": "gpt2-large",
    "gpt3_xl": "gpt3-xl",
    "lgbm": "lightgbm",
    "unet/efficientnet_b3": "unet/efficientnet_b3",
    "ssd300-r50": "ssd/resnet50",
    "mask_rcnn R50-FPN 1x": "maskrcnn/resnet50",
    "unet-medical(TF2)": "unet",
    "google/flan-t5-base": "flan-t5-base",
    "Qwen/Qwen2.5-Math-7B-Instruct": "qwen2.5-7b",
    "BAAI/bge-m3": "bge-m3",
    "Qwen2.5": "qwen2.5-7b",
}


@pytest.mark.parametrize(("name", "expected"), NAMES.items())
def test_spellings_of_hubs_benchmarks_and_old_releases_resolve(name: str, expected: str) -> None:
    assert resolve_model(name, MODELS).name == expected


def test_an_unlisted_tag_is_the_same_architecture() -> None:
    assert resolve_model("efficientnet_b3.some_new_recipe", MODELS).name.startswith("efficientnet_b3.")


def test_an_untagged_name_prefers_weights_free_to_use() -> None:
    assert "cc-by-nc" not in resolve_model("resnet50", MODELS).licence


def test_a_typo_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(InvalidInput) as refused:
        resolve_model("efficientnett_b4", MODELS)
    assert any("efficientnet" in name for name in refused.value.errors[0].nearest)


def test_a_version_behind_a_point_is_no_tag_of_weights() -> None:
    with pytest.raises(InvalidInput):
        resolve_model("qwen2.5-of-nobody", MODELS)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_three_models_and_two_with_a_cost(task: str) -> None:
    serving = models_for_task(task, MODELS.values())
    assert len(serving) >= 3
    priced = [m for m in serving if m.can_be_profiled or m.config.get("cost") == "boosted-trees"]
    assert len(priced) >= 2
    assert [m.quality_score for m in serving] == sorted((m.quality_score for m in serving), reverse=True)


@of_every(ROWS, lambda row: row["name"])
def test_a_row_is_complete(row: dict[str, Any]) -> None:
    model = CatalogueModel.from_dict(row)
    assert set(row) == set(CatalogueModel.__slots__)
    assert CatalogueModel.from_dict(json.loads(json.dumps(model.as_dict()))) == model
    assert set(model.tasks) <= set(TASKS)
    assert model.tasks
    assert 0 < model.quality_score < 100
    assert model.default_input_size in model.input_sizes
    assert list(model.input_sizes) == sorted(set(model.input_sizes))
    assert model.input_kind in ("image_size", "seq_len", "n_features")
    assert model.good_for
    assert len(model.source) > 8
    assert model.grade in ("claimed", "estimated")
    assert model.licence or model.licence_note
    assert model.params_m > 0 or not model.can_be_profiled
    if "nc" in model.licence.split("-"):
        assert model.licence_note


def test_no_alias_means_two_models() -> None:
    owners: dict[str, str] = {}
    for model in MODELS.values():
        for alias in model.aliases:
            assert owners.setdefault(alias.lower(), model.name) == model.name, alias


def test_the_320_vision_models_carry_their_figures_and_the_stated_score() -> None:
    scored = [model for model in MODELS.values() if "imagenet_real_top1" in model.quality]
    assert len(scored) == 320
    for model in scored:
        top1, real, matched = (model.quality[f"imagenet_{kind}top1"] for kind in ("", "real_", "v2_"))
        assert model.quality_score == pytest.approx(0.4 * top1 + 0.3 * real + 0.3 * matched, abs=0.01)
        assert matched < top1 < real
    if not FACTS.exists():  # beside the checkout only where the project is made
        return
    with FACTS.open(encoding="utf-8", newline="") as file:
        for fact in csv.DictReader(file):
            model = MODELS[fact["timm_name"]]
            assert model.quality == {key: float(fact[key]) for key in model.quality}
            assert model.default_input_size == int(fact["image_size"])


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("tf_efficientnetv2_s.in1k", "efficientnetv2"),
        ("efficientnetv2_rw_m", "efficientnetv2"),
        ("tf_efficientnet_b0", "efficientnet"),
        ("seresnext50_32x4d", "resnext"),
        ("vit_base_patch16_224", "vit"),
        ("swinv2_tiny_window8_256", "swin"),
        ("regnety_032", "regnet"),
        ("mobilenetv4_conv_small", "mobilenet"),
        ("something_entirely_new_224", "something"),
    ],
)
def test_family_follows_from_the_name(name: str, family: str) -> None:
    assert family_of(name) == family
