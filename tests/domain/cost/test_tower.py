"""Mixtures of experts, and decoders that see or hear: sizes as their makers publish them, laws of cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memory_service.domain.cost.decoders.decoder import Decoder, Tuning, decoder_of
from memory_service.domain.cost.decoders.tower import tower_of, tuned_profile
from memory_service.domain.cost.memory import allocated_bytes
from memory_service.domain.cost.profile import Profile
from memory_service.resources import path as resource
from memory_service.services.knowledge.profiling import catalogue_models

CATALOGUE = {row.name: row for row in catalogue_models(resource("seeds"))}
GB = 1e9


def shape_of(name: str) -> Decoder:
    shape = decoder_of(CATALOGUE[name].config)
    assert shape is not None
    return shape


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("gpt-oss-20b", 20.9, 3.6), ("gpt-oss-120b", 116.8, 5.1), ("qwen3-30b-a3b", 30.5, 3.3),
        ("qwen3-235b-a22b", 235, 22), ("mixtral-8x7b", 46.7, 12.9), ("llama-4-scout", 109, 17),
        ("olmoe-1b-7b", 6.9, 1.3), ("nemotron-3-nano-30b-a3b", 31.6, 3.6),
    ],
)  # fmt: skip
def test_experts_have_the_parameters_that_their_makers_name(name: str, total: float, active: float) -> None:
    """Billions; OpenAI counts active ones without the embedding of 0.6."""
    shape = shape_of(name)
    assert shape.params / GB == pytest.approx(total, rel=0.03)
    embedding = 0 if "gpt-oss" not in name else shape.vocab * shape.hidden
    assert (shape.active_params - embedding) / GB == pytest.approx(active, rel=0.06)


def profile(name: str, size: int, **how: Any) -> Profile:
    row = CATALOGUE[name]
    return tuned_profile(name, row.config, size, Tuning(checkpointing=True, head="lm", **how))


def peak_gb(name: str, size: int, batch: int = 1, **how: Any) -> float:
    return allocated_bytes(profile(name, size, **how), batch, "adamw") / GB


@pytest.mark.parametrize(
    ("name", "said"), [("gpt-oss-20b", 14.0), ("gpt-oss-120b", 65.0), ("qwen3-30b-a3b", 17.5)]
)
def test_qlora_of_experts_takes_what_unsloth_says(name: str, said: float) -> None:
    """GB that the documentation of unsloth says tuning takes (recalled), within the interval of a mixture."""
    assert peak_gb(name, 1024, method="qlora") == pytest.approx(said, rel=0.2)


def test_time_follows_active_parameters_and_memory_all_of_them() -> None:
    experts, dense = (
        profile("qwen3-30b-a3b", 1024, method="qlora"),
        profile("qwen3-32b", 1024, method="qlora"),
    )
    flops = [sum(row[4] for row in each.extra["roofline"] if row[0] == 0) for each in (experts, dense)]
    assert flops[0] < 0.2 * flops[1]
    assert experts.buffers_bytes == pytest.approx(dense.buffers_bytes, rel=0.15)
    tuned = shape_of("qwen3-30b-a3b")
    assert experts.params == tuned.layers * 16 * sum(i + o for name, i, o in tuned.linears if name in "qkvo")


def test_a_tower_stands_frozen_beside_adapters_and_is_trained_with_everything_else() -> None:
    row = CATALOGUE["qwen3-vl-8b"]
    tower = tower_of(row.config)
    assert tower is not None
    assert (tower.patches(672), tower.tokens(672), tower.tokens(448)) == (42 * 42, 21 * 21, 14 * 14)
    blind = {key: value for key, value in row.config.items() if key != "tower"}
    text = tuned_profile("x", blind, tower.tokens(672) + 128, Tuning("lora", head="lm"))
    seeing = tuned_profile("x", row.config, 672, Tuning("lora", head="lm"))
    assert seeing.params == text.params
    assert seeing.buffers_bytes - text.buffers_bytes == pytest.approx(2 * tower.layers.params, rel=1e-6)
    whole = tuned_profile("x", row.config, 672, Tuning("full", head="lm"))
    assert whole.params == pytest.approx(shape_of("qwen3-vl-8b").params + tower.layers.params, rel=1e-3)
    assert (seeing.input_kind, seeing.input_size) == ("image_size", 672)


def test_larger_pictures_and_longer_sounds_cost_more() -> None:
    for name, sizes in (("qwen3-vl-4b", (448, 672, 896)), ("qwen3-asr-1.7b", (1000, 3000))):
        peaks = [peak_gb(name, size, 4, method="lora") for size in sizes]
        assert peaks == sorted(peaks)
        assert len(set(peaks)) == len(sizes)


def test_a_mixture_tunes_attention_unless_more_is_asked_for() -> None:
    row = CATALOGUE["mixtral-8x7b"]
    usual = tuned_profile("x", row.config, 512, Tuning("lora"))
    asked = tuned_profile("x", row.config, 512, replace(Tuning("lora"), targets="mlp"))
    assert asked.params > usual.params
