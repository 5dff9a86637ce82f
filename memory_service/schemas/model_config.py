"""The figures from which a model of the catalogue is built: which there are, and their bounds.

They become arguments of constructors. A name that is not here could be a path, a download or a callable of
the library; a number without a bound is a network of any size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memory_service.errors import unknown_name

_WHOLE = {
    (1, 128): "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers "
    "num_decoder_layers num_encoder_layers depth blocks",
    (1, 256): "num_attention_heads num_key_value_heads n_head n_heads num_heads heads "
    "encoder_attention_heads decoder_attention_heads num_experts num_local_experts num_experts_per_tok "
    "conv_kernel_size group neighbours patch patch_size num_mel_bins",
    (1, 32_768): "hidden_size d_model dim n_embd embedding_size word_embed_proj_dim d_kv head_dim width "
    "filters sampled relative_attention_num_buckets relative_attention_max_distance sliding_window "
    "local_attention kernel_size",
    (1, 131_072): "intermediate_size hidden_dim d_ff ffn_dim n_inner encoder_ffn_dim decoder_ffn_dim "
    "moe_intermediate_size",
    (1, 2_000_000): "vocab_size items users max_position_embeddings n_positions",
    (-1, 2_000_000): "max_relative_positions position_buckets pad_token_id bos_token_id eos_token_id "
    "decoder_start_token_id type_vocab_size num_labels gates",
}
_FLAGS = (
    "channel_independent do_layer_norm_before norm_rel_ebd position_biased_input relative_attention "
    "share_att_key tie_word_embeddings use_cache parallel_attn alibi multi_query scale_embedding "
    "do_stable_layer_norm"
)
_WORDS = (
    "conv_act feed_forward_proj hidden_act hidden_activation activation_function norm_rel_ebd "
    "pos_att_type attention_types position_embedding_type feat_extract_norm widths conv_dim conv_stride "
    "conv_kernel layer_types"
)
_BOUNDS = {name: bounds for bounds, names in _WHOLE.items() for name in names.split()}
_FIGURES = frozenset((*_BOUNDS, *_FLAGS.split(), *_WORDS.split()))
_OF_CONFIG: dict[str, tuple[type, ...]] = {
    "build": (str,), "channels": (int,), "cost": (str,), "deep_supervision": (bool,),
    "default_input_size": (int,), "figures": (dict,), "head": (str,), "in_chans": (int,),
    "max_input_size": (int,), "methods": (list,),
    "model_type": (str,), "n_outputs": (int,), "net": (str,), "norm": (str,),
    "pinned_only": (bool,), "pretraining": (str,), "regression": (bool,), "target_len": (int,),
    "widths": (list,),
}  # fmt: skip
_MOST = {"channels": 4_096, "in_chans": 4_096, "widths": 32_768}
_LARGEST = 2_000_000
_LONGEST_LIST = 256
_NAME = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9_.+/-]{0,160}")
_WORD = re.compile(r"[A-Za-z0-9_-]{1,40}")


def check_model_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same; ValueError names the figure that is not known or out of its bounds."""
    for name, value in config.items():
        if name not in _OF_CONFIG:
            raise ValueError(unknown_name("figure", name, tuple(_OF_CONFIG)).detail)
        if type(value) not in _OF_CONFIG[name]:
            raise ValueError(f"{name} must be of type {_OF_CONFIG[name][0].__name__}")
        if name == "build" and not _NAME.fullmatch(value):
            raise ValueError("build must be the name of a model, as timm or the catalogue has it")
        if isinstance(value, int | list):
            _check_numbers(name, value, 0, _MOST.get(name, _LARGEST))
    for name, value in config.get("figures", {}).items():
        if name not in _FIGURES:
            raise ValueError(unknown_name("figure", name, tuple(sorted(_FIGURES))).detail)
        _check_numbers(name, value, *_BOUNDS.get(name, (-1, 32_768)))
    return config


def _check_numbers(name: str, value: Any, least: int, most: int) -> None:
    count = 0
    for each in _flat(value, 0):
        count += 1
        if isinstance(each, str):
            if not _WORD.fullmatch(each):
                raise ValueError(f"{name} must be a plain word, not {each[:80]!r}")
        elif each is not None and not least <= each <= most:
            raise ValueError(f"{name} must be between {least} and {most}")
    if count > _LONGEST_LIST:
        raise ValueError(f"{name} holds more than {_LONGEST_LIST} values")


def _flat(value: Any, depth: int) -> Iterator[Any]:
    if isinstance(value, dict) or depth > 4:
        raise ValueError("figures are numbers, words and short lists of them")
    if isinstance(value, list | tuple):
        for each in value:
            yield from _flat(each, depth + 1)
    else:
        yield value
