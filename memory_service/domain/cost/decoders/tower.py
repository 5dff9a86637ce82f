"""Decoders that see or hear: an encoder of pictures or of sound (a tower) in front of a language model.

Its patches go through a plain transformer, are merged, and become tokens of the text. LoRA and QLoRA leave
the tower frozen in half precision, as peft's and unsloth's recipes do; full tuning trains it, too. Both are
priced by the law of `decoder_profile`, one behind the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

from memory_service.domain.cost.decoders.decoder import Decoder, Tuning, decoder_of, usual_targets
from memory_service.domain.cost.decoders.decoder_profile import decoder_profile
from memory_service.domain.cost.decoders.generation import ANSWER_SHARE, FRAMES_PER_TOKEN, forward_kernels
from memory_service.domain.cost.interpolation import envelope
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.roofline import INFERENCE

TEXT_TOKENS = 128
"""Question and answer beside what the tower gives, where the row says nothing (`target_len`)."""

PROMPT_TOKENS = 16
"""Beside what is heard and its transcript."""


@dataclass(frozen=True, slots=True)
class Tower:
    """Encoder in front of a decoder.

    layers    shape of its transformer, which has no vocabulary
    patch     pixels a side of a patch, or frames of 10 ms; sides: 2 of pictures, 1 of sound
    merge     patches a side that become one token
    """

    layers: Decoder
    patch: int
    merge: int
    sides: int

    def patches(self, size: int) -> int:
        return int(max(self.merge, ceil(size / self.patch / self.merge) * self.merge) ** self.sides)

    def tokens(self, size: int) -> int:
        return int(self.patches(size) // self.merge**self.sides)


def tower_of(config: Mapping[str, Any]) -> Tower | None:
    """The tower of a catalogue row's `config`; None where its decoder reads text alone."""
    figures = config.get("tower")
    if not figures:
        return None
    hidden, heads = int(figures["hidden_size"]), int(figures["num_attention_heads"])
    layers = Decoder(
        hidden=hidden, layers=int(figures["num_hidden_layers"]), heads=heads, kv_heads=heads,
        head_dim=hidden // heads, intermediate=int(figures["intermediate_size"]), vocab=1, gated=False,
        rms=False, rotary=False, tied=True,
    )  # fmt: skip
    return Tower(
        layers, int(figures["patch_size"]), int(figures.get("merge", 1)), int(figures.get("sides", 2))
    )


def tuned_profile(
    name: str,
    config: Mapping[str, Any],
    size: int,
    tuning: Tuning,
    *,
    precision: Literal["fp32", "amp"] = "amp",
    n_outputs: int = 2,
    family: str = "",
) -> Profile:
    """The profile of a catalogue row's decoder, with its tower if it has one; ValueError where it is none.

    size   tokens of a text; with a tower pixels a side of the picture, or frames of 10 ms of the sound.
    LoRA of all linear layers, which a `Tuning` has by default, is of a mixture of experts LoRA of attention.
    """
    shape = decoder_of(config)
    if shape is None:
        raise ValueError(f"{name} is no decoder")
    if tuning.targets == "all":
        tuning = replace(tuning, targets=usual_targets(shape))
    tower = tower_of(config)
    how: Any = {"precision": precision, "family": family}
    if tower is None:
        return decoder_profile(name, shape, size, tuning, n_outputs=n_outputs, **how)
    heard = max(1, round(size / FRAMES_PER_TOKEN)) if tower.sides == 1 else None
    text = int(config.get("target_len", TEXT_TOKENS if heard is None else heard + PROMPT_TOKENS))
    base = decoder_profile(name, shape, tower.tokens(size) + text, tuning, n_outputs=n_outputs, **how)
    length = text if heard is None else round(heard / ANSWER_SHARE)
    return _behind(base, tower, size, tuning, length, how)


def _behind(base: Profile, tower: Tower, size: int, tuning: Tuning, length: int, how: Any) -> Profile:
    """The decoder's profile with its tower: weights stand beside weights; what a trained tower keeps stands
    until its backward pass, of a frozen one nothing but its answer does.

    length   of a text, of which an answer is a share (`generation`)"""
    trained = tuning.method == "full"
    alone = replace(tuning, method="full", head="sequence", half_weights=tuning.half_weights or not trained)
    side = decoder_profile(base.model, tower.layers, tower.patches(size), alone, n_outputs=1, **how)
    element = 2.0 if how["precision"] == "amp" else 4.0
    resident = tower.layers.params * element / tuning.shards
    kept = max(point.per_sample_bytes for point in side.peak) if trained else 0.0
    first = side.inference_peak[-1].per_sample_bytes
    held = min(point.fixed_bytes for point in base.inference_peak)
    before = side.peak[0].fixed_bytes if trained else resident
    points = [(point.fixed_bytes + before, point.per_sample_bytes + kept) for point in base.peak]
    whole = [(fixed + before, slope + kept) for fixed, slope in base.extra["peak_gradients_kept"]]
    forward = [row for row in side.extra["roofline"] if row[0] == INFERENCE]
    rows = side.extra["roofline"] if trained else [*([0, *row[1:]] for row in forward), *forward]
    of_kind: Literal["image_size", "seq_len"] = "image_size" if tower.sides == 2 else "seq_len"
    return replace(
        base, input_kind=of_kind, input_size=size,
        params=base.params + (side.params if trained else 0),
        buffers_bytes=base.buffers_bytes + (0 if trained else round(resident)),
        peak=envelope([*points, (held + before, first)]),
        inference_peak=envelope(
            [
                *((p.fixed_bytes + before, p.per_sample_bytes) for p in base.inference_peak),
                (held + before, first),
            ]
        ),
        extra={
            **base.extra,
            "roofline": [*base.extra["roofline"], *rows],
            "peak_gradients_kept": [[p.fixed_bytes, p.per_sample_bytes] for p in envelope(whole)],
            "parameter_tensors": base.extra["parameter_tensors"]
            + (side.extra["parameter_tensors"] if trained else 0),
            "text_tokens": length, "tower_tokens": tower.tokens(size),
            "token_kernels": forward_kernels(base),
        },
    )  # fmt: skip
