"""The fitted figures of the quality model that ship (`seeds/quality.json`, made by `make quality`)."""

from __future__ import annotations

import json

from memory_service import resources
from memory_service.domain.quality.quality_model import QualityModel


def read_quality_model() -> QualityModel:
    """The shipped model. Raises FileNotFoundError where the installation lacks it."""
    return QualityModel.from_dict(json.loads(resources.path("seeds", "quality.json").read_text()))
