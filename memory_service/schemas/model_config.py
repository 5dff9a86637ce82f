"""The figures from which a model of the catalogue is built: which there are, and their bounds.

They become arguments of constructors. A name that is not listed for the architecture could be a path, a
download or a callable of the library; a number without a bound is a network of any size.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memory_service.errors import unknown_name

_WHOLE = {
    (1, 128): "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers "
    "num_decoder_layers depth blocks",
    (1, 256): "num_attention_heads num_key_value_heads n_head n_heads num_heads heads "
    "encoder_attention_heads decoder_attention_heads num_experts_per_tok "
    "conv_kernel_size group neighbours patch patch_size num_mel_bins",
    (1, 1_024): "num_local_experts num_experts n_routed_experts",
    (1, 32_768): "hidden_size d_model dim n_embd embedding_size word_embed_proj_dim d_kv head_dim width "
    "filters sampled relative_attention_num_buckets relative_attention_max_distance sliding_window "
    "local_attention",
    (
        1,
        131_072,
    ): "intermediate_size moe_intermediate_size "
    "shared_expert_intermediate_size hidden_dim d_ff ffn_dim n_inner encoder_ffn_dim decoder_ffn_dim",
    (1, 2_000_000): "vocab_size items users buckets max_position_embeddings n_positions",
    (-1, 2_000_000): "max_relative_positions position_buckets pad_token_id bos_token_id eos_token_id "
    "decoder_start_token_id type_vocab_size num_labels gates",
}
_BOUNDS = {name: bounds for bounds, names in _WHOLE.items() for name in names.split()}
_FLAG_OR_WORD = (-1, 32_768)

_OF_ALL = "vocab_size pad_token_id bos_token_id eos_token_id num_labels use_cache tie_word_embeddings"
_BLOCKS = "hidden_size intermediate_size num_hidden_layers num_attention_heads"
_TEXT = f"{_BLOCKS} max_position_embeddings"
_ENCODER = f"{_TEXT} type_vocab_size hidden_act position_embedding_type"
_DECODER = f"{_TEXT} num_key_value_heads hidden_act"
OF_FORMULA = "intermediate_size num_key_value_heads head_dim"
"""What `domain.cost.decoders.decoder` reads of architectures whose own configuration names it otherwise."""

_AUDIO = f"{_BLOCKS} hidden_act"
_BOTH = (
    "d_model encoder_layers decoder_layers encoder_attention_heads decoder_attention_heads encoder_ffn_dim "
    "decoder_ffn_dim max_position_embeddings activation_function scale_embedding decoder_start_token_id"
)
_ARCHITECTURES = {
    "bert big_bird camembert ernie longformer rembert roberta xlm-roberta": _ENCODER,
    "jina_embeddings_v3 nomic_bert": _ENCODER,
    "albert electra mobilebert roformer squeezebert": f"{_ENCODER} embedding_size",
    "convbert": f"{_ENCODER} embedding_size conv_kernel_size",
    "mpnet": f"{_TEXT} hidden_act relative_attention_num_buckets",
    "deberta deberta-v2": f"{_ENCODER} max_relative_positions pos_att_type relative_attention "
    "position_biased_input position_buckets norm_rel_ebd share_att_key conv_act conv_kernel_size",
    "modernbert": f"{_TEXT} hidden_activation layer_types local_attention",
    "distilbert": "dim hidden_dim n_heads n_layers max_position_embeddings",
    "fnet": "hidden_size intermediate_size num_hidden_layers max_position_embeddings type_vocab_size "
    "hidden_act",
    "bloom": "hidden_size n_head n_layer",
    "falcon": f"hidden_size num_hidden_layers num_attention_heads max_position_embeddings alibi multi_query "
    f"parallel_attn {OF_FORMULA}",
    "gpt2 gptj": "n_embd n_head n_inner n_layer n_positions activation_function",
    "gpt_neo": "hidden_size intermediate_size num_layers num_heads max_position_embeddings attention_types "
    "activation_function",
    "gpt_neox": f"{_TEXT} hidden_act {OF_FORMULA}",
    "eurobert phi stablelm": _DECODER,
    "gemma llama": f"{_DECODER} head_dim",
    "mpt": "d_model n_heads n_layers",
    "gemma2 gemma3_text": f"{_TEXT} num_key_value_heads head_dim hidden_activation layer_types "
    "sliding_window",
    "mistral": f"{_DECODER} head_dim sliding_window",
    "phi3": f"{_DECODER} sliding_window",
    "mixtral": f"{_DECODER} head_dim sliding_window num_local_experts num_experts_per_tok",
    "ernie4_5_moe glm4_moe gpt_oss llama4_text nemotron_h olmoe qwen3_moe": f"{_DECODER} head_dim "
    "num_local_experts num_experts n_routed_experts num_experts_per_tok moe_intermediate_size "
    "shared_expert_intermediate_size",
    "qwen2": f"{_DECODER} layer_types sliding_window",
    "qwen3": f"{_DECODER} head_dim layer_types sliding_window",
    "opt": "hidden_size ffn_dim num_hidden_layers num_attention_heads max_position_embeddings "
    "word_embed_proj_dim do_layer_norm_before activation_function",
    "bart m2m_100 marian mbart pegasus": _BOTH,
    "t5 mt5 umt5": "d_model d_ff d_kv num_layers num_decoder_layers num_heads feed_forward_proj "
    "relative_attention_num_buckets relative_attention_max_distance decoder_start_token_id",
    "hubert wav2vec2 wavlm": f"{_AUDIO} conv_dim conv_kernel conv_stride feat_extract_norm "
    "do_stable_layer_norm conv_bias",
    "wav2vec2-bert": _AUDIO,
    "parakeet_ctc": f"{_AUDIO} num_mel_bins",
    "whisper": "d_model encoder_layers decoder_layers encoder_attention_heads decoder_attention_heads "
    "encoder_ffn_dim decoder_ffn_dim num_mel_bins",
    "audio-spectrogram-transformer": f"{_AUDIO} num_mel_bins patch_size",
}
FIGURES_OF_TYPE = {
    kind: frozenset(f"{_OF_ALL} {names}".split())
    for kinds, names in _ARCHITECTURES.items()
    for kind in kinds.split()
}
"""`model_type` of a transformer -> the arguments of its configuration that a row may give."""

_NETS = {
    "mlp tabular-resnet tabm realmlp": "width blocks",
    "ft-transformer": "width blocks heads",
    "small-cnn resnet1d": "widths",
    "inceptiontime": "filters depth",
    "recurrent": "width gates",
    "series-transformer": "width blocks heads patch channel_independent",
    "pointnet": "",
    "dgcnn": "neighbours",
    "point-transformer": "width blocks group",
    "bag-of-words": "buckets width",
    "two-tower": "items users width sampled",
    "tabnet": "width blocks",
    "yolox yolov8": "widths depth",
    "unet3d": "widths",
    "wavenet": "filters depth blocks",
    "graphsage": "width blocks neighbours",
    "chemprop": "width blocks",
    "uni-mol": "width blocks heads",
    "sasrec": "items width sampled",
    "gru4rec": "items width sampled",
}
FIGURES_OF_NET = {net: frozenset(names.split()) for nets, names in _NETS.items() for net in nets.split()}
"""`net` of `measure.nets` -> the arguments of its constructor that a row may give."""

_OF_CONFIG: dict[str, tuple[type, ...]] = {
    "build": (str,), "channels": (int,), "cost": (str,), "deep_supervision": (bool,),
    "default_input_size": (int,), "figures": (dict,), "head": (str,), "in_chans": (int,),
    "max_input_size": (int,), "methods": (list,),
    "model_type": (str,), "n_outputs": (int,), "net": (str,), "norm": (str,),
    "pinned_only": (bool,), "pretraining": (str,), "regression": (bool,), "side_step": (int,),
    "target_len": (int,), "tower": (dict,), "traced_with": (str,), "widths": (list,),
}  # fmt: skip
_TOWER = {
    "hidden_size": 32_768, "num_hidden_layers": 128, "num_attention_heads": 256, "intermediate_size": 131_072,
    "patch_size": 256, "merge": 16, "sides": 2,
}  # fmt: skip
"""Figures of `domain.cost.decoders.tower`, and the most of each; the last two may be left out."""
_MOST = {"channels": 4_096, "in_chans": 4_096, "widths": 32_768}
_LARGEST = 2_000_000
_LONGEST_LIST = 256
_NAME = re.compile(r"^(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9_.+/-]{0,160}")
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
            _check_numbers(name, value, int(name == "side_step"), _MOST.get(name, _LARGEST))
    tower = config.get("tower")
    if tower is not None and not {*_TOWER} - {"merge", "sides"} <= {*tower} <= {*_TOWER}:
        raise ValueError(f"tower must give {', '.join(_TOWER)}; merge and sides may be left out")
    for name, value in (tower or {}).items():
        _check_numbers(name, value, 1, _TOWER[name])
    allowed = _figures_of(config)
    for name, value in config.get("figures", {}).items():
        if name not in allowed:
            raise ValueError(unknown_name("figure", name, tuple(sorted(allowed))).detail)
        _check_numbers(name, value, *_BOUNDS.get(name, _FLAG_OR_WORD))
    return config


def _figures_of(config: Mapping[str, Any]) -> frozenset[str]:
    """The figures that the architecture of the configuration takes; ValueError for an unknown one."""
    for field, known in (("model_type", FIGURES_OF_TYPE), ("net", FIGURES_OF_NET)):
        if field in config:
            if config[field] not in known:
                raise ValueError(unknown_name(field, config[field], tuple(known)).detail)
            return known[config[field]]
    return frozenset()


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
