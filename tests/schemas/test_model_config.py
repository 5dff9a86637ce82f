"""The figures that a row may give are those that its architecture takes, and no others."""

from __future__ import annotations

import inspect

import pytest

from memory_service.schemas.model_config import (
    FIGURES_OF_NET,
    FIGURES_OF_TYPE,
    OF_FORMULA,
    check_model_config,
)

OF_ALL = frozenset.intersection(*FIGURES_OF_TYPE.values())


@pytest.mark.parametrize("kind", sorted(FIGURES_OF_TYPE))
def test_every_figure_is_one_of_the_architectures_own(kind: str):
    from transformers import CONFIG_MAPPING

    settings = CONFIG_MAPPING[kind]()
    by_keyword = {
        "position_buckets",
        "norm_rel_ebd",
        "share_att_key",
        "conv_act",
        "conv_kernel_size",
    }
    of_the_base_class = OF_ALL | {"position_embedding_type", "decoder_start_token_id"}
    of_the_formula = set(OF_FORMULA.split()) if kind in ("falcon", "gpt_neox") else set()
    if {"num_experts", "num_mel_bins"} & FIGURES_OF_TYPE[kind] and kind != "whisper":
        # Of experts one list of names serves all, of parakeet's encoder the figures lie a level deeper.
        of_the_formula |= {name for name in FIGURES_OF_TYPE[kind] if name not in vars(settings)}
    own = FIGURES_OF_TYPE[kind] - of_the_base_class - by_keyword - of_the_formula
    assert [name for name in own if not hasattr(settings, name)] == []


def test_every_net_is_there_with_arguments_of_its_constructor():
    from memory_service.measure.nets import NETS

    assert FIGURES_OF_NET.keys() == NETS.keys()
    for net, (_, constructor) in NETS.items():
        assert set(inspect.signature(constructor).parameters) >= FIGURES_OF_NET[net], net


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"model_type": "bret"}, "Unknown model_type 'bret'; nearest: bert"),
        ({"model_type": "gpt2", "figures": {"hidden_size": 64}}, "Unknown figure 'hidden_size'"),
        ({"model_type": "t5", "figures": {"n_layer": 2}}, "Unknown figure 'n_layer'"),
        ({"net": "mlp", "figures": {"heads": 2}}, "Unknown figure 'heads'"),
        ({"net": "pointnet", "figures": {"width": 2}}, "Unknown figure 'width'"),
        ({"figures": {"hidden_size": 64}}, "Unknown figure 'hidden_size'"),
    ],
)
def test_a_figure_of_another_architecture_is_refused(config: dict[str, object], why: str):
    with pytest.raises(ValueError, match=why):
        check_model_config(config)
