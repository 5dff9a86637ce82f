"""Builds timm models by current names, tags, hub prefixes and retired names."""

import warnings
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import timm
from timm.models import get_arch_name, get_deprecated_models, get_pretrained_cfg, is_model
from torch import nn

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.cost.families import family_of
from memory_service.errors import FieldError, InvalidInput, unknown_name
from memory_service.measure.traceable_model import BuiltModel, image_model, on_meta

_RETIRED: Mapping[str, Mapping[str, Any]] = shipped_table(__package__, "names.toml")["retired"]
"""Names of public benchmark files that timm no longer maps: `name` there, and what has to be passed for the
same net."""


@cache
def _deprecated() -> dict[str, str | None]:
    return dict(get_deprecated_models())


def timm_name(name: str) -> str | None:
    """The current `arch` or `arch.tag` of a timm name, or None.

    Hub prefixes (`timm/`, `hf-hub:timm/`) and unknown tags are dropped: tags change weights, not cost.
    """
    plain = name.strip()
    for prefix in ("hf-hub:", "hf_hub:", "timm/"):
        plain = plain.removeprefix(prefix)
    for candidate in (plain, plain.lower(), plain.replace("-", "_"), get_arch_name(plain)):
        current = _RETIRED[candidate]["name"] if candidate in _RETIRED else candidate
        current = _deprecated().get(current, current) or ""
        if not is_model(get_arch_name(current)):
            continue
        return current if "." not in current or _registered(current) else get_arch_name(current)
    return None


def is_timm_name(name: str) -> bool:
    return timm_name(name) is not None


def _registered(name: str) -> Any:
    """timm's pretrained configuration of exactly this name, or None."""
    try:
        return get_pretrained_cfg(name, allow_unregistered=False)
    except RuntimeError:
        return None


def _configuration(current: str) -> Any:
    """Of the tag, else of the architecture."""
    return _registered(current) or _registered(get_arch_name(current))


def default_image_size(current: str) -> int:
    """Pixels a side that the model's default weights were trained with (224 where timm does not say)."""
    config = _configuration(current)
    return int(config.input_size[-1]) if config is not None else 224


def size_arguments(current: str, size: int) -> dict[str, Any]:
    """{"img_size": size} for architectures that need their size (window and position attention)."""
    config = _configuration(current)
    return {"img_size": size} if config is not None and config.fixed_input_size else {}


def build_timm(name: str, input_size: int | None, n_outputs: int | None) -> BuiltModel:
    """A timm classifier at any input size; InvalidInput for an unknown name or an impossible size."""
    current = timm_name(name)
    if current is None:
        raise unknown_name("model", name, timm.list_models())
    config = _configuration(current)
    default = default_image_size(current)
    size = default if input_size is None else input_size
    outputs = 1000 if n_outputs is None else n_outputs
    channels = int(config.input_size[0]) if config is not None else 3
    arguments = {"pretrained": False, "num_classes": outputs, **_RETIRED.get(name, {})}
    arguments.pop("name", None)
    if channels != 3:
        arguments["in_chans"] = channels
    module = _construct(current, arguments, size, resized=size != default)
    return image_model(current, "timm", family_of(current), module, size, default, outputs, channels=channels)


def _construct(current: str, arguments: dict[str, Any], size: int, *, resized: bool) -> nn.Module:
    """Attention models need `img_size`; convolutional ones refuse it."""
    attempts: list[dict[str, Any]] = [{"img_size": size}, {}] if resized else [{}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for extra in attempts:
            try:
                return on_meta(partial(timm.create_model, current, **arguments, **extra))
            except TypeError as error:
                if "img_size" not in str(error):
                    raise
            except AssertionError as error:
                raise _no_such_size(current, size, error) from error
    raise AssertionError("unreachable: the attempt without img_size either returns or raises")


def _no_such_size(current: str, size: int, error: AssertionError) -> InvalidInput:
    wrong = FieldError("image_size", "not possible for this model", size)
    return InvalidInput(f"{current} cannot be built for {size} pixels: {error}", [wrong])


def torchvision_name(name: str) -> str | None:
    """The name of a torchvision image classifier (`vit_b_16`, `mnasnet1_0`), or None."""
    import torchvision

    plain = name.strip().lower().replace("-", "_")
    return plain if plain in torchvision.models.list_models(module=torchvision.models) else None


def build_torchvision(name: str, input_size: int | None, n_outputs: int | None) -> BuiltModel:
    """A torchvision classifier of that exact name; InvalidInput where the image size is not possible."""
    import torchvision

    current = torchvision_name(name)
    if current is None:
        raise unknown_name("model", name, torchvision.models.list_models(module=torchvision.models))
    default = 299 if current == "inception_v3" else 224
    size = default if input_size is None else input_size
    outputs = 1000 if n_outputs is None else n_outputs
    arguments: dict[str, Any] = {"weights": None, "num_classes": outputs}
    if current.startswith("vit_") and size != default:
        arguments["image_size"] = size
    if current in ("googlenet", "inception_v3"):
        arguments |= {"init_weights": False, "aux_logits": True}
    try:
        module = on_meta(lambda: torchvision.models.get_model(current, **arguments))
    except AssertionError as error:
        raise _no_such_size(current, size, error) from error
    return image_model(current, "torchvision", family_of(current), module, size, default, outputs)
