"""Builds the module of a model's name for tracing, without weights, memory or network; and the catalogue
row of a model that is not listed: its cost is traced, its quality that of its nearest kin."""

import math
from collections.abc import Mapping
from typing import Any

from memory_service.domain.planning.model_catalogue import CatalogueModel, models_for_task, resolve_model
from memory_service.errors import FieldError, InvalidInput, unknown_name
from memory_service.measure.traceable_model import BuiltModel
from memory_service.schemas.model_config import check_model_config

__all__ = ["BuiltModel", "build_model", "can_be_built"]


def build_model(
    name: str,
    *,
    input_size: int | None = None,
    n_outputs: int | None = None,
    library: str | None = None,
    config: Mapping[str, Any] | None = None,
    family: str = "",
) -> BuiltModel:
    """The training graph of `name` on the `meta` device; call it outside any FakeTensorMode.

    name        a timm name, a catalogue name, or `<head>/<timm encoder>` (`unet/efficientnet_b3`)
    library     "timm" keeps a name from being read in any other way
    input_size  pixels a side, tokens or columns; None = the model's own default
    n_outputs   classes (or masks, or vocabulary); None = 1000 for images, else the config's
    config      of the catalogue row, for what timm does not know
    InvalidInput for an unknown name (with the nearest) and an impossible size.
    """
    if input_size is not None and input_size < 1:
        wrong = FieldError("input_size", "at least 1", input_size)
        raise InvalidInput(f"The input size must be at least 1, got {input_size}", [wrong])
    try:
        figures = dict(check_model_config(config or {}))
    except ValueError as error:
        raise InvalidInput(f"{name} cannot be built: {error}", [FieldError("config", str(error))]) from None
    if "cost" in figures:
        wrong = FieldError("model", "cannot be profiled", name)
        raise InvalidInput(f"{name} is no torch module: its cost follows another law", [wrong])
    if "traced_with" in figures:
        wrong = FieldError("model", "cannot be profiled here", name)
        known = "only the profiles that ship of it are known"
        raise InvalidInput(f"{name} is built by {figures['traced_with']}: {known}", [wrong])
    if "model_type" in figures:
        from memory_service.measure.language import build_transformer

        return build_transformer(name, figures, input_size, n_outputs, family)
    if "net" in figures:
        from memory_service.measure.composed import build_net

        return build_net(name, figures, input_size, n_outputs, family)
    if "widths" in figures:
        from memory_service.measure.dense_prediction import build_plain_unet

        return build_plain_unet(name, figures, input_size, n_outputs)
    return _by_name(str(figures.get("build", name)), input_size, n_outputs, library, figures)


def _by_name(
    name: str, input_size: int | None, n_outputs: int | None, library: str | None, figures: Mapping[str, Any]
) -> BuiltModel:
    """A timm name, a torchvision classifier or video network, or `<head>/<timm encoder>`."""
    from memory_service.measure import composed, dense_prediction, vision

    if (library == "timm" and "/" not in name) or vision.is_timm_name(name):
        return vision.build_timm(name, input_size, n_outputs)
    head = name.partition("/")[0].strip().lower()
    if head in dense_prediction.DECODERS and "/" in name:
        return dense_prediction.build_segmentation(
            name, input_size, n_outputs, bool(figures.get("regression"))
        )
    if head in dense_prediction.DETECTORS and "/" in name:
        return dense_prediction.build_detector(name, input_size, n_outputs)
    if head in composed.COMPOSED and "/" in name:
        return composed.build_composed(name, input_size, n_outputs)
    if vision.torchvision_name(name) is not None:
        return vision.build_torchvision(name, input_size, n_outputs)
    if name in composed.VIDEO_NETS:
        return composed.build_video(name, input_size, n_outputs)
    import timm

    raise unknown_name("model", name, timm.list_models())


def can_be_built(name: str) -> bool:
    """Whether `build_model` reads the name without a catalogue row; what it names may still not exist."""
    from memory_service.measure import composed, dense_prediction, vision

    heads = (*dense_prediction.DECODERS, *dense_prediction.DETECTORS, *composed.COMPOSED)
    return (
        vision.is_timm_name(name)
        or name.partition("/")[0].strip().lower() in heads
        or vision.torchvision_name(name) is not None
        or name in composed.VIDEO_NETS
    )


UNTESTED = 1.0
"""Score points taken off a model whose own figures nobody has entered: kin of one family and size differ by
about one point among the 320 scored rows."""


def unlisted_row(name: str, models: Mapping[str, CatalogueModel]) -> CatalogueModel:
    """A row for any name `build_model` understands; InvalidInput, with the nearest names, for others.

    Tasks and score are of the catalogue's nearest model: same builder, same family if any, then parameters.
    """
    if not can_be_built(name):
        resolve_model(name, models)
    built = build_model(name)
    params_m = max(built.params, 1) / 1e6
    video = any(tensor.dim() == 5 for tensor in built.inputs(1).values())
    library = "torchvision" if video else "timm"
    alike = [
        model
        for model in models.values()
        if _head(model.name) == _head(built.name) and ("/" in model.name or model.library == library)
    ]
    family = [model for model in alike if model.family == built.family] or alike or list(models.values())
    kin = min(family, key=lambda m: (abs(math.log(max(m.params_m, 1e-3) / params_m)), m.name))
    weakest = models_for_task(kin.tasks[0], models.values())[-1].quality_score
    return CatalogueModel(
        name=built.name, library=built.library, tasks=kin.tasks, family=built.family,
        params_m=round(params_m, 2), input_kind=kin.input_kind, input_sizes=(built.default_input_size,),
        default_input_size=built.default_input_size, pretrained=kin.pretrained,
        quality_score=round(max(weakest, kin.quality_score - UNTESTED), 2), licence="",
        licence_note="Not in the catalogue: read the licence of its weights.",
        good_for=f"what {kin.name} is good for, its nearest kin",
        source=f"built by name; score of {kin.name} less {UNTESTED:g}", grade="estimated",
    )  # fmt: skip


def _head(name: str) -> str:
    return name.rpartition("/")[0]
