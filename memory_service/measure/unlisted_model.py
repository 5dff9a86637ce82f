"""A catalogue row for a model that is not listed: its cost is traced, its quality that of its nearest kin."""

from __future__ import annotations

import math
from collections.abc import Mapping

from memory_service.domain.planning.model_catalogue import CatalogueModel, models_for_task
from memory_service.measure.build_model import build_model

UNTESTED = 1.0
"""Score points taken off a model whose own figures nobody has entered: kin of one family and size differ by
about one point among the 320 scored rows."""


def unlisted_row(name: str, models: Mapping[str, CatalogueModel]) -> CatalogueModel:
    """A row for any name `build_model` understands; InvalidInput, with the nearest names, for others.

    Tasks and score are of the catalogue's nearest model: same builder, same family if any, then parameters.
    """
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
