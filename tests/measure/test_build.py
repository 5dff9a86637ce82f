"""Can every kind of model be built without memory, run, and be trained for one step?

torch is imported where it is used: every worker imports this file, and one runs it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memory_service.domain.planning.model_catalogue import side_step
from memory_service.errors import InvalidInput
from memory_service.measure.build_model import build_model

SEEDS = Path(__file__).parents[2] / "seeds"
ROWS: dict[str, dict[str, Any]] = {
    row["name"]: row
    for row in map(json.loads, (SEEDS / "models.jsonl").read_text(encoding="utf-8").splitlines())
}

BATCH = 3

ONE_OF_EACH_KIND = (
    "resnet18.a1_in1k",
    "vit_small_patch16_224.augreg_in21k_ft_in1k",
    "unet/efficientnet_b0",
    "fpn/resnet50",
    "deeplabv3plus/resnet50",
    "upernet/swin_tiny_patch4_window7_224",
    "unet",
    "nnunet-2d",
    "restoration-unet",
    "retinanet/resnet50",
    "fcos/resnet50",
    "maskrcnn/resnet50",
    "ssd/resnet50",
    "retinanet/efficientnet_b3",
    "bert-base-uncased",
    "roberta-base",
    "deberta-v3-small",
    "modernbert-base",
    "distilbert-base-uncased",
    "electra-small-discriminator",
    "albert-base-v2",
    "all-mpnet-base-v2",
    "t5-small",
    "byt5-small",
    "bart-base",
    "opus-mt",
    "gpt2",
    "gpt-neo-125m",
    "qwen2.5-0.5b",
    "spec/efficientnet_b0",
    "ast",
    "wav2vec2-base",
    "mlp",
    "tabular-resnet",
    "ft-transformer",
    "tabm",
    "realmlp",
    "resnet1d",
    "inceptiontime",
    "gru",
    "lstm",
    "patchtst",
    "two-tower",
    "sasrec",
    "r2plus1d_18",
    "frames/efficientnet_b0",
    "caption/efficientnet_b0",
    "pointnet",
    "dgcnn",
    "point-transformer",
    "image+tabular/resnet50",
)


def build_row(name: str, **changes: Any) -> Any:
    row = ROWS[name]
    return build_model(name, library=row["library"], config=row["config"], family=row["family"], **changes)


@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_each_kind_takes_one_training_step_without_memory(name: str) -> None:
    import torch

    built = build_row(name)
    inputs = built.inputs(BATCH)
    assert next(iter(inputs.values())).shape[0] == BATCH
    assert all(tensor.is_meta for tensor in inputs.values())
    assert all(parameter.is_meta for parameter in built.module.parameters())
    loss = built.loss(built.forward(inputs), inputs)
    assert loss.shape == ()
    torch.autograd.backward(loss)
    trained = [p for p in built.module.parameters() if p.requires_grad]
    assert sum(p.grad is not None for p in trained) > 0.9 * len(trained)
    assert built.input_kind == ROWS[name]["input_kind"]
    assert built.params / 1e6 == pytest.approx(ROWS[name]["params_m"], rel=0.12, abs=0.1)


@pytest.mark.parametrize(
    ("given", "current"),
    [
        ("resnet50", "resnet50"),
        ("timm/resnet50.a1_in1k", "resnet50.a1_in1k"),
        ("hf-hub:timm/resnet50.a1_in1k", "resnet50.a1_in1k"),
        ("resnet50.nobody_has_this", "resnet50"),
        ("gluon_resnet18_v1b", "resnet18.gluon_in1k"),
        ("tf_efficientnet_b4_ns", "tf_efficientnet_b4.ns_jft_in1k"),
        ("convnext_large_384_in22ft1k", "convnext_large.fb_in22k_ft_in1k_384"),
        ("regnety_040s_gn", "regnety_040_sgn"),
        ("efficientnet-b4", "efficientnet_b4"),
        ("bert-base-uncased", None),
    ],
)
def test_timm_names_of_every_age_are_understood(given: str, current: str | None) -> None:
    from memory_service.measure.vision import timm_name

    assert timm_name(given) == current


def test_params_of_known_networks_are_exact() -> None:
    assert build_model("resnet50").params == 25_557_032
    assert build_row("bert-base-uncased").params == 109_483_778
    assert build_model("efficientnet_b4", n_outputs=120).params == 17_548_616 + 1792 * 120 + 120


@pytest.mark.parametrize("name", ["mnasnet1_0", "googlenet", "vit_b_16", "efficientnet_v2_s"])
def test_classifiers_that_only_torchvision_has_are_built(name: str) -> None:
    import torch

    built = build_model(name)
    assert built.library == "torchvision"
    inputs = built.inputs(BATCH)
    torch.autograd.backward(built.loss(built.forward(inputs), inputs))


def test_a_vision_transformer_is_rebuilt_for_another_size() -> None:
    built = build_model("vit_small_patch16_224", input_size=384)
    assert built.forward(built.inputs(2)).shape == (2, 1000)
    assert built.input_size == 384
    assert built.default_input_size == 224


def test_audio_sizes_are_frames_of_ten_milliseconds() -> None:
    assert build_row("spec/efficientnet_b0", input_size=1024).inputs(2)["x"].shape == (2, 1, 128, 1024)
    assert build_row("wav2vec2-base", input_size=500).inputs(2)["input_values"].shape == (2, 80_000)


def test_building_leaves_the_default_device_alone() -> None:
    import torch

    build_model("resnet18")
    assert torch.zeros(1).device.type == "cpu"


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("resnet51", {}),
        ("nothing/resnet50", {}),
        ("unet/vit_base_patch16_224", {}),
        ("fpn/resnet34", {"input_size": 500}),
        ("resnet50", {"input_size": 0}),
        ("lightgbm", {"config": {"cost": "boosted-trees"}}),
    ],
)
def test_what_cannot_be_built_is_refused_by_name_and_field(name: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        build_model(name, **changes)
    assert refused.value.errors


def test_too_many_tokens_are_refused_with_the_limit() -> None:
    with pytest.raises(InvalidInput, match="at most 512"):
        build_row("bert-base-uncased", input_size=513)


def test_decoders_take_the_sides_that_their_package_takes() -> None:
    import torch

    from memory_service.measure.dense_prediction import DECODERS

    for decoder in DECODERS:
        built = build_model(f"{decoder}/resnet18", input_size=128)
        side = side_step("smp", f"{decoder}/resnet18", {}) + 100
        picture = torch.zeros(1, 3, side, side, device="meta")
        if side == 101:
            assert built.module(picture).shape[-2:] == (101, 101), decoder
            continue
        with pytest.raises(RuntimeError, match="divisible by"):
            built.module.eval()(picture)
