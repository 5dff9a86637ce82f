"""Transformers from a configuration of figures: encoders, decoders, encoder-decoders; no download."""

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor, nn

from memory_service.domain.common.tables import shipped_table
from memory_service.errors import FieldError, InvalidInput
from memory_service.measure.traceable_model import (
    BuiltModel,
    Loss,
    MakeInputs,
    classification_loss,
    on_meta,
    token_inputs,
    zeros,
)

_UNMASKED = "unmasked_sdpa"

_MASKS: Mapping[str, Literal["tokens", "square"]]
_MASKS = {"deberta": "tokens", "deberta-v2": "tokens", "gpt_neo": "square"}
"""Models with an attention of their own, which cannot go without a mask."""

VOCABULARY_OF_CTC = 64
"""Letters, signs and the blank."""

SAMPLES_PER_FRAME = 160
"""Audio sizes are frames of 10 ms; models of raw sound read 160 samples a frame (16 kHz)."""

_HEADS: Mapping[str, str] = shipped_table(__package__, "names.toml")["heads"]


_SPECTRAL = {"wav2vec2-bert": (160, 2), "parakeet_ctc": (80, 1)}
"""Encoders that read log-mel bands: how many, and of how many frames together."""


def build_transformer(
    name: str, config: Mapping[str, Any], input_size: int | None, n_outputs: int | None, family: str
) -> BuiltModel:
    """A transformers model from its catalogue row; InvalidInput past `max_input_size` tokens.

    config: {"model_type": "bert", "head": "sequence-classification", "figures": {"hidden_size": 768, ...},
    "default_input_size": 256, "max_input_size": 512}.
    """
    import transformers

    head = str(config.get("head", "sequence-classification"))
    size = int(input_size or config.get("default_input_size", 256))
    longest = int(config.get("max_input_size", 0))
    if longest and size > longest:
        wrong = FieldError("seq_len", f"at most {longest}", size)
        raise InvalidInput(f"{name} takes at most {longest} tokens, got {size}", [wrong])
    figures = dict(config.get("figures", {}))
    outputs = n_outputs or int(config.get("n_outputs", 2))
    if head in ("sequence-classification", "audio-classification", "video-classification"):
        figures["num_labels"] = outputs
    figures.setdefault("use_cache", False)
    if head == "ctc":
        figures.setdefault("vocab_size", VOCABULARY_OF_CTC)
    if head == "audio-classification" and config["model_type"] == "audio-spectrogram-transformer":
        figures["max_length"] = size
    if config["model_type"] == "parakeet_ctc":  # whose encoder has a configuration of its own
        of_letters = {key: figures.pop(key) for key in ("vocab_size", "use_cache") if key in figures}
        figures = {"vocab_size": of_letters["vocab_size"], "encoder_config": figures}
    settings = transformers.CONFIG_MAPPING[str(config["model_type"])](**figures)
    if getattr(settings, "pad_token_id", None) is None and head == "sequence-classification":
        settings.pad_token_id = 0
    auto = getattr(transformers, _HEADS[head])
    implementation = _register_unmasked_attention()

    def construct() -> nn.Module:
        try:
            module: nn.Module = auto.from_config(settings, attn_implementation=implementation)
        except ValueError:
            module = auto.from_config(settings, attn_implementation="eager")
        return module.float().train()

    if hasattr(settings, "apply_spec_augment"):
        settings.apply_spec_augment = False
    for skip in ("layerdrop", "encoder_layerdrop", "decoder_layerdrop"):
        if hasattr(settings, skip):
            setattr(settings, skip, 0.0)
    inputs, loss = _interface(head, config, settings, size)
    return BuiltModel(
        name=name, library="transformers", family=family or str(config["model_type"]),
        module=on_meta(construct), input_kind="seq_len", input_size=size,
        default_input_size=int(config.get("default_input_size", 256)), n_outputs=outputs,
        inputs=inputs, loss=loss, positional=False,
    )  # fmt: skip


def _register_unmasked_attention() -> str:
    """The name of fused attention that builds no mask, as for a batch without padding.

    The library's own masks are read back, which a tensor without values cannot be.
    """
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    AttentionInterface.register(_UNMASKED, sdpa_attention_forward)
    return _UNMASKED


def _interface(head: str, config: Mapping[str, Any], settings: Any, size: int) -> tuple[MakeInputs, Loss]:
    if head == "audio-classification":
        if config["model_type"] == "audio-spectrogram-transformer":
            return zeros(input_values=(size, int(settings.num_mel_bins))), _logits_loss
        return zeros(input_values=(size * SAMPLES_PER_FRAME,)), _logits_loss
    if head == "ctc":
        if config["model_type"] in _SPECTRAL:
            bands, frames = _SPECTRAL[str(config["model_type"])]
            return zeros(input_features=(size // frames, bands)), _position_loss
        return zeros(input_values=(size * SAMPLES_PER_FRAME,)), _position_loss
    if head == "speech-seq2seq":
        target = int(config.get("target_len", max(16, size // 25)))
        shapes = {"input_features": (int(settings.num_mel_bins), size), "decoder_input_ids": (target,)}
        return zeros(integers=["decoder_input_ids"], **shapes), _position_loss
    if head == "seq2seq-lm":
        target = int(config.get("target_len", max(16, size // 4)))
        names = ("input_ids", "decoder_input_ids")
        return zeros(input_ids=(size,), decoder_input_ids=(target,), integers=names), _position_loss
    losses: dict[str, Loss] = {
        "causal-lm": _position_loss,
        "masked-lm": _position_loss,
        "question-answering": _span_loss,
        "encoder": _pooled_loss,
    }
    tokens = token_inputs(size, _MASKS.get(str(config["model_type"]), "none"))
    return tokens, losses.get(head, _logits_loss)


def _logits_loss(outputs: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    return classification_loss(outputs.logits, inputs)


def _position_loss(outputs: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    """Cross entropy over every position in fp32, as transformers computes it of language models.

    Of CTC its log-softmax over letters of every frame, without its alignments: these are of the order of
    frames x letters, a thousandth of the network's work, and read values, which the meta device lacks."""
    logits = outputs.logits.float()
    return classification_loss(logits.reshape(-1, logits.shape[-1]), inputs)


def _span_loss(outputs: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    return classification_loss(outputs.start_logits, inputs) + classification_loss(outputs.end_logits, inputs)


def _pooled_loss(outputs: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    """Mean-pooled embeddings as logits: a bi-encoder's cost without its batch x batch scores."""
    return classification_loss(outputs.last_hidden_state.mean(dim=1), inputs)
