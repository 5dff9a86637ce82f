"""Does a model nobody listed get a row a planner can use, or a refusal that names its neighbours?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.errors import InvalidInput
from memory_service.measure.build_model import unlisted_row

SEED = Path(__file__).parents[2] / "seeds" / "models.jsonl"
MODELS = {
    row["name"]: CatalogueModel.from_dict(row)
    for row in map(json.loads, SEED.read_text(encoding="utf-8").splitlines())
}


@pytest.mark.parametrize(
    ("name", "family", "task"),
    [
        ("tf_efficientnet_b8", "efficientnet", "image-classification"),
        ("coat_lite_medium", "coat", "image-classification"),
        ("mnasnet1_0", "mobilenet", "image-classification"),
        ("swin3d_b", "swin", "video-classification"),
        ("unet/resnet26d", "resnet", "image-segmentation"),
        ("spec/resnet26d", "resnet", "audio-classification"),
        ("fasterrcnn/efficientnet_b0", "efficientnet", "object-detection"),
    ],
)
def test_a_buildable_name_gets_the_row_of_its_nearest_kin(name: str, family: str, task: str) -> None:
    row = unlisted_row(name, MODELS)
    assert row.family == family
    assert row.tasks[0] == task
    assert row.grade == "estimated"
    assert row.params_m > 1
    assert 50 < row.quality_score < max(model.quality_score for model in MODELS.values())


def test_a_name_nobody_can_build_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        unlisted_row("efficientnet_b99", MODELS)
    assert refused.value.errors[0].nearest
