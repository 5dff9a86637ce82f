"""A trace counts bytes and work that a person can count by hand, and then any batch follows."""

from __future__ import annotations

from functools import partial
from typing import Literal

import pytest
import timm
import torch
from torch import Tensor, nn

from memory_service.domain.cost.bands import with_bands
from memory_service.domain.cost.profile import Profile
from memory_service.errors import InvalidInput
from memory_service.measure.trace import trace_profile
from memory_service.measure.traceable_model import BuiltModel, classification_loss, image_model, on_meta

KIB = 1024


def built(module: nn.Module, shape: tuple[int, ...], n_outputs: int = 16) -> BuiltModel:
    def inputs(batch: int, device: str = "meta") -> dict[str, Tensor]:
        return {"x": torch.zeros(batch, *shape, device=device)}

    return BuiltModel(
        "hand-made", "torch", "test", module.to("meta"), "image_size", shape[-1], shape[-1], n_outputs,
        inputs, classification_loss,
    )  # fmt: skip


def peak_bytes(profile: Profile, batch: int) -> float:
    return max(p.fixed_bytes + batch * p.per_sample_bytes for p in profile.peak)


@pytest.fixture
def mlp() -> BuiltModel:
    """256 -> 128 -> ReLU -> 16, no biases: 128 KiB + 8 KiB of weights."""
    layers = nn.Sequential(nn.Linear(256, 128, bias=False), nn.ReLU(), nn.Linear(128, 16, bias=False))
    return built(layers, (256,))


def test_activations_of_a_small_network_are_counted_to_the_byte(mlp: BuiltModel) -> None:
    profile = trace_profile(mlp, precision="fp32", channels_last=False)
    steepest = profile.peak[-1]
    # In ReLU's backward: input 1024, the ReLU output that was saved 512, its gradient 512, the new gradient
    # 512.
    assert steepest.per_sample_bytes == 1024 + 512 + 512 + 512
    assert profile.params == 256 * 128 + 128 * 16


def test_large_batches_are_ruled_by_samples_and_small_ones_by_weights(mlp: BuiltModel) -> None:
    profile = trace_profile(mlp, precision="fp32", channels_last=False)
    weights = 136 * KIB
    assert peak_bytes(profile, 1) >= 2 * weights
    assert peak_bytes(profile, 2000) - peak_bytes(profile, 1000) == pytest.approx(
        1000 * profile.peak[-1].per_sample_bytes
    )


def test_work_of_linear_layers_is_two_flops_per_weight_and_twice_that_backward(mlp: BuiltModel) -> None:
    profile = trace_profile(mlp, precision="fp32", channels_last=False)
    forward = 2 * (256 * 128 + 128 * 16)
    assert profile.forward["matmul"].flops_per_sample == forward
    # The first layer's input needs no gradient.
    assert profile.backward["matmul"].flops_per_sample == forward + 2 * 128 * 16


def test_kept_gradients_add_every_parameter_once(mlp: BuiltModel) -> None:
    profile = trace_profile(mlp, precision="fp32", channels_last=False)
    kept = profile.extra["peak_gradients_kept"]
    assert max(f + 1000 * s for f, s in kept) == pytest.approx(
        peak_bytes(profile, 1000) + 136 * KIB, rel=0.01
    )


def test_autocast_halves_the_output_of_products_and_adds_weight_copies(mlp: BuiltModel) -> None:
    single = trace_profile(mlp, precision="fp32", channels_last=False)
    amp = trace_profile(mlp, precision="amp", channels_last=False)
    assert amp.inference_peak[0].fixed_bytes >= single.inference_peak[0].fixed_bytes + 64 * KIB
    assert amp.forward["matmul"].bytes_per_sample == single.forward["matmul"].bytes_per_sample / 2


@pytest.mark.parametrize(
    ("conv", "op_class"),
    [
        (nn.Conv2d(8, 16, 3, padding=1, bias=False), "dense_conv"),
        (nn.Conv2d(8, 16, 1, bias=False), "pointwise_conv"),
        (nn.Conv2d(8, 16, 3, padding=1, groups=4, bias=False), "grouped_conv"),
        (nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), "depthwise_conv"),
    ],
)
def test_convolutions_are_classed_and_counted(conv: nn.Conv2d, op_class: str) -> None:
    model = nn.Sequential(conv, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    profile = trace_profile(built(model, (8, 32, 32)), precision="fp32")
    assert conv.weight is not None
    assert profile.forward[op_class].flops_per_sample == 2 * conv.weight.numel() * 32 * 32
    assert profile.backward[op_class].flops_per_sample == 2 * conv.weight.numel() * 32 * 32


def test_layer_norm_runs_in_single_precision_under_autocast_as_cuda_does() -> None:
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.LayerNorm(64), nn.Linear(64, 16, bias=False))
    profile = trace_profile(built(model, (64,)), precision="amp", channels_last=False)
    # input fp32 256 and fp16 128, product 128, its fp32 cast 256, normalised fp32 256 and its fp16 cast 128,
    # ...
    assert profile.peak[-1].per_sample_bytes > 256 + 128 + 256 + 128


def test_batch_norm_keeps_half_precision_under_autocast_as_cuda_does() -> None:
    model = nn.Sequential(
        nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    profile = trace_profile(built(model, (4, 32, 32)), precision="amp")
    image = 4 * 32 * 32
    # fp32 input, its fp16 copy, convolution and normalisation in fp16, one fp16 gradient of the same size or
    # two
    assert image * (4 + 2 + 2 + 2) <= profile.peak[-1].per_sample_bytes <= image * (4 + 2 + 2 + 2 + 4) + 100


def test_dropout_saves_one_byte_per_element() -> None:
    plain = nn.Sequential(
        nn.Linear(1000, 1000, bias=False), nn.Dropout(0.0), nn.Linear(1000, 1000, bias=False)
    )
    dropped = nn.Sequential(
        nn.Linear(1000, 1000, bias=False), nn.Dropout(0.5), nn.Linear(1000, 1000, bias=False)
    )
    without = trace_profile(built(plain, (1000,)), precision="fp32").peak[-1].per_sample_bytes
    with_it = trace_profile(built(dropped, (1000,)), precision="fp32").peak[-1].per_sample_bytes
    assert with_it - without == 1000


def test_checkpointing_lowers_the_peak_and_adds_forward_work() -> None:
    timm = pytest.importorskip("timm")

    def vit() -> BuiltModel:
        with torch.device("meta"):
            return built(timm.create_model("vit_tiny_patch16_224"), (3, 224, 224), 1000)

    plain = trace_profile(vit(), precision="amp")
    saved = trace_profile(vit(), precision="amp", checkpointing=True)
    assert peak_bytes(saved, 64) < 0.5 * peak_bytes(plain, 64)
    assert sum(w.flops_per_sample for w in saved.backward.values()) > sum(
        w.flops_per_sample for w in plain.backward.values()
    )


def test_a_network_without_checkpointing_refuses_the_option_not_the_model() -> None:
    with pytest.raises(InvalidInput, match="not offered by this network") as refused:
        trace_profile(built(nn.Linear(8, 16), (8,)), precision="amp", checkpointing=True)
    assert refused.value.errors[0].field == "gradient_checkpointing"


def test_fused_attention_never_writes_the_score_matrix() -> None:
    timm = pytest.importorskip("timm")
    with torch.device("meta"):
        model = timm.create_model("vit_tiny_patch16_384")
    fused = trace_profile(built(model, (3, 384, 384), 1000), precision="amp", fused_attention=True)
    eager = trace_profile(built(model, (3, 384, 384), 1000), precision="amp", fused_attention=False)
    assert "attention" in fused.forward
    assert "attention" not in eager.forward
    assert peak_bytes(fused, 32) < 0.7 * peak_bytes(eager, 32)


def test_a_profile_survives_its_wire_form(mlp: BuiltModel) -> None:
    profile = trace_profile(mlp, precision="fp32")
    assert Profile.from_dict(profile.as_dict()) == profile


@pytest.mark.parametrize("precision", ["amp", "fp32"])
@pytest.mark.parametrize("name", ["resnet10t", "convnext_atto", "vit_tiny_patch16_224"])
def test_more_bands_cost_what_a_network_traced_with_them_costs(
    name: str, precision: Literal["amp", "fp32"]
) -> None:
    def traced(bands: int) -> Profile:
        module = on_meta(partial(timm.create_model, name, num_classes=10, in_chans=bands))
        model = image_model(name, "timm", "", module, 224, 224, 10, channels=bands)
        return trace_profile(model, precision=precision)

    law, seen = with_bands(traced(3), 13), traced(13)
    assert law.params == seen.params
    for batch in (1, 64):
        assert peak_bytes(law, batch) == pytest.approx(peak_bytes(seen, batch), rel=0.01)
    for phase in ("forward", "backward"):
        for amount in ("flops_per_sample", "bytes_per_sample"):
            one, other = (sum(getattr(w, amount) for w in getattr(p, phase).values()) for p in (law, seen))
            assert one == pytest.approx(other, rel=0.01)
    assert with_bands(seen, 3) is seen
