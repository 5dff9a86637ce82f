"""The cost of decoders by formula: against the tracer, and what method, rank and checkpointing do to it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from memory_service.domain.cost.decoders.decoder import TRAINERS, Decoder, Tuning, decoder_of
from memory_service.domain.cost.decoders.decoder_profile import decoder_profile
from memory_service.domain.cost.memory import allocated_bytes
from memory_service.domain.cost.profile import OP_CLASSES
from memory_service.measure.language import build_transformer
from memory_service.measure.live_memory import Ledger
from memory_service.measure.trace import PROBE_BATCH, trace_ledger

LENGTH = 1024
LLAMA = {
    "model_type": "llama",
    "figures": {
        "vocab_size": 32_000, "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16,
        "num_key_value_heads": 4, "intermediate_size": 2816,
    },
}  # fmt: skip
QWEN3 = {
    "model_type": "qwen3",
    "figures": {**LLAMA["figures"], "num_key_value_heads": 8, "head_dim": 128},  # type: ignore[dict-item]
}
NEOX = {
    "model_type": "gpt_neox",
    "figures": {
        "vocab_size": 32_000, "hidden_size": 768, "num_hidden_layers": 4, "num_attention_heads": 12,
        "intermediate_size": 3072,
    },
}  # fmt: skip
ATTENTION, MLP, ALL = ("q_proj", "v_proj"), ("gate_proj", "up_proj", "down_proj"), ("proj",)


class _Adapted(nn.Module):
    """LoRA around a frozen linear layer."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        half = {"device": "meta", "dtype": torch.float16}
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False, **half)
        self.up = nn.Linear(rank, base.out_features, bias=False, **half)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base(x) + self.up(self.down(x)) * 2.0
        return out


def traced(config: dict[str, Any], targets: tuple[str, ...] | None, checkpointing: bool) -> Ledger:
    """targets: of LoRA beside frozen half-precision weights; None: full tuning under autocast."""
    built = build_transformer("x", {**config, "head": "causal-lm"}, LENGTH, None, "")
    if targets:
        built.module.half().requires_grad_(False)
        for parent in list(built.module.modules()):
            for name, child in list(parent.named_children()):
                if isinstance(child, nn.Linear) and any(target in name for target in targets):
                    setattr(parent, name, _Adapted(child, 16))
    return trace_ledger(built, "fp32" if targets else "amp", True, checkpointing, True)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(
    ("config", "method", "targets"),
    [
        (LLAMA, "full", None), (LLAMA, "lora", ALL), (LLAMA, "lora", ATTENTION), (LLAMA, "lora", MLP),
        (QWEN3, "full", None), (QWEN3, "lora", ALL), (NEOX, "full", None),
    ],
)  # fmt: skip
def test_memory_and_work_of_a_decoder_are_those_of_its_trace(
    config: dict[str, Any], method: Any, targets: tuple[str, ...] | None, checkpointing: bool
) -> None:
    shape = decoder_of(config)
    assert shape is not None
    tuning = Tuning(
        method, checkpointing=checkpointing, head="lm", dropout=False,
        targets="attention" if targets == ATTENTION else "mlp" if targets == MLP else "all",
    )  # fmt: skip
    law = decoder_profile("x", shape, LENGTH, tuning)
    ledger = traced(config, targets, checkpointing)
    near = 0.04 if targets == MLP else 0.03  # nothing is trained before the first layer's gate
    for batch in (1, 4, PROBE_BATCH):
        expected = max(fixed + batch * slope for fixed, slope, _ in ledger.moments)
        peak = max(p.fixed_bytes + batch * p.per_sample_bytes for p in law.peak)
        assert peak == pytest.approx(expected, rel=near if batch > 1 and not checkpointing else 0.26)
    rows = ledger.roofline.rows()
    for kind, column, tolerance in (("matmul", 4, 0.06), ("elementwise", 5, 0.13)):
        of = OP_CLASSES.index(kind)
        work = sum(row[column] for row in law.extra["roofline"] if row[1] == of and row[0] != 2)
        assert work == pytest.approx(sum(row[column] for row in rows if row[1] == of), rel=tolerance)


def test_a_seven_billion_decoder_fits_24_gib_with_qlora_and_not_with_full_tuning() -> None:
    shape = decoder_of(
        {"model_type": "llama", "figures": {"vocab_size": 32_000, "hidden_size": 4096,
         "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11_008}}
    )  # fmt: skip
    assert shape is not None
    assert shape.params == pytest.approx(6.74e9, rel=0.001)

    def gib(**how: Any) -> float:
        return allocated_bytes(decoder_profile("llama-2-7b", shape, 512, Tuning(**how)), 1) / 2**30

    assert gib(method="full") > 100  # fp32 weights, gradients and two moments: 16 bytes each
    assert 13 < gib(method="lora") < 18
    assert 3.8 < gib(method="qlora", checkpointing=True) < 5
    assert gib(method="lora", rank=64) > gib(method="lora", rank=8)
    assert gib(method="lora", checkpointing=True) < gib(method="lora")


@pytest.mark.parametrize(
    ("hidden", "layers", "intermediate", "longest"),
    [
        (4096, 32, 14_336, {8: 2_972, 12: 21_848, 24: 78_475, 80: 342_733}),
        (8192, 80, 28_672, {48: 12_106, 80: 89_389}),
    ],
)
def test_the_longest_texts_that_unsloth_publishes_just_fit(
    hidden: int, layers: int, intermediate: int, longest: dict[int, int]
) -> None:
    """Its benchmarks: QLoRA of rank 32, batch 1, Llama 3.1 8B and Llama 3.3 70B; 0.85 GiB are the context."""
    shape = Decoder(hidden, layers, hidden // 128, 8, 128, intermediate, 128_256)

    def gib(tokens: int, trainer: Any) -> float:
        tuning = Tuning("qlora", 32, head="lm", **{"checkpointing": True} | TRAINERS[trainer])
        return 0.85 + allocated_bytes(decoder_profile("x", shape, tokens, tuning), 1, "adamw-8bit") / 2**30

    for card, tokens in longest.items():
        assert gib(tokens, "unsloth") == pytest.approx(card, rel=0.09)
        assert gib(tokens, None) > gib(tokens, "liger") > gib(tokens, "unsloth")
        assert gib(tokens, None) > gib(tokens, "offload")


@pytest.mark.parametrize(
    ("hidden", "layers", "kv_heads", "intermediate", "vocab", "rank", "said"),
    [
        (4096, 32, 8, 14_336, 128_256, 32, {1_500: 8, 16_384: 20e9 / 2**30}),
        (8192, 80, 8, 28_672, 128_256, 32, {7_385: 48, 48_447: 80}),
        (4096, 32, 8, 14_336, 32_000, 16, {56_420: 24, 228_199: 80}),
        (4096, 32, 32, 11_008, 32_000, 8, {8_192: 8, 16_384: 10, 32_768: 16, 65_536: 25, 100_000: 37}),
    ],
)
def test_unsloth_of_2024_takes_what_was_reported_of_it(
    hidden: int, layers: int, kv_heads: int, intermediate: int, vocab: int, rank: int, said: dict[int, float]
) -> None:
    """Llama 3.1 8B (its issue 824: about 20 GB) and 3.3 70B, Mistral 7B (longest texts), Llama 2 7B (the wiki
    of LLaMA-Factory, whole GB). Without the logits the last row is 38 % too low, issue 824 46 %."""
    shape = Decoder(hidden, layers, hidden // 128, kv_heads, 128, intermediate, vocab)

    def gib(tokens: int, trainer: Any) -> float:
        tuning = Tuning("qlora", rank, head="lm", **TRAINERS[trainer])
        return 0.85 + allocated_bytes(decoder_profile("x", shape, tokens, tuning), 1, "adamw-8bit") / 2**30

    for tokens, taken in said.items():
        assert gib(tokens, "unsloth-2024") == pytest.approx(taken, rel=0.13)
        assert gib(tokens, "unsloth") < gib(tokens, "unsloth-2024")


def test_what_frameworks_add_to_a_step_of_full_tuning() -> None:
    shape = decoder_of(LLAMA)
    assert shape is not None

    def live(batch: int, **how: Any) -> float:
        profile = decoder_profile("x", shape, LENGTH, Tuning("full", head="lm", **how))
        return max(p.fixed_bytes + batch * p.per_sample_bytes for p in profile.peak)

    def text(**how: Any) -> float:
        return live(65, **how) - live(64, **how)

    weights = 4.0 * shape.params
    assert live(8, accumulates=True) - live(8) == pytest.approx(weights)  # gradients of the batches before
    unsharded = live(8, accumulates=True, shards=4) - live(8, shards=4)
    assert unsharded == pytest.approx(weights)  # FSDP sums no gradient before the last batch
    spread = {n: live(8, shards=n) for n in (2, 4, 8)}  # weights and the sums of gradients
    assert spread[2] - spread[4] == pytest.approx(2.0 * weights / 4)
    assert spread[4] - spread[8] == pytest.approx(2.0 * weights / 8)
    assert live(8, master=True) - live(8, half_weights=True) == pytest.approx(
        weights + 0.5 * weights, rel=0.2
    )
    assert text(shards=4) == text(half_weights=True)  # FSDP casts weights, not what runs between layers
    assert text(checkpointing=True) < text(selective=True) < text(half_weights=True) < text()
    logits = LENGTH * shape.vocab
    assert text(loss="plain") - text(loss="in_place") == pytest.approx(10 * logits, rel=0.2)
    assert text(loss="shifted") - text(loss="plain") == pytest.approx(12 * logits)


def test_half_precision_adapters_are_half_the_bytes() -> None:
    shape = decoder_of(LLAMA)
    assert shape is not None
    single, half = (
        decoder_profile("x", shape, LENGTH, Tuning("lora", adapters_half=half)) for half in (False, True)
    )
    assert half.params == pytest.approx(single.params / 2, abs=1)
