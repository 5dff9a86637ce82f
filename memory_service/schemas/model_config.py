"""The figures from which a model of the catalogue is built: which there are, and their bounds.

They stand in `model_config.toml`, and become arguments of constructors. A name that is not listed for the
architecture could be a path, a download or a callable of the library; a number without a bound is a network
of any size.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memory_service.domain.common.tables import shipped_table, with_parts
from memory_service.errors import unknown_name

_TABLE = shipped_table(__package__, "model_config.toml")
_BOUNDS = {name: (row["least"], row["most"]) for row in _TABLE["bounds"] for name in row["names"].split()}
_FLAG_OR_WORD = (-1, 32_768)

OF_FORMULA: str = _TABLE["figures"]["formula"]


def _by_name(listed: Mapping[str, str], of_all: str = "") -> dict[str, frozenset[str]]:
    """Each of the names before `=` -> the figures behind it."""
    return {
        name: frozenset(with_parts(f"{of_all} {figures}", _TABLE["figures"]).split())
        for names, figures in listed.items()
        for name in names.split()
    }


FIGURES_OF_TYPE = _by_name(_TABLE["architectures"], "@all")
FIGURES_OF_NET = _by_name(_TABLE["nets"])

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
