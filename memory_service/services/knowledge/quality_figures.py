"""The fitted figures of the quality model that ship (`seeds/quality.json`, made by `make quality`)."""

import json
from functools import cache

from memory_service import resources
from memory_service.domain.quality.quality_model import QualityModel


@cache
def shipped_quality() -> QualityModel:
    """The shipped model, read once. Raises FileNotFoundError where the installation lacks it."""
    return QualityModel.from_dict(json.loads(resources.path("seeds", "quality.json").read_text()))
