"""Does the name of a row reach an address, a path or a pickle?"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from memory_service.schemas import fields as f
from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.script_choice import NoScript
from memory_service.services.planning.script_kinds import YOLOS

HOSTILE = (
    "yolov8l/../../../../../../evil/repo/releases/download/v1/w", "..", "a/..", "a..b", "a//b", "a/", "a\\b",
    "http://evil.example/x", "file:/etc/passwd", "hf-hub:evil/x", "hf_hub:evil/x", "a@evil",
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_of_a_model_leads_elsewhere(name: str):
    with pytest.raises(ValidationError):
        TypeAdapter(f.ModelName).validate_python(name)


@pytest.mark.parametrize("name", [name for name in HOSTILE if ":" not in name and "@" not in name])
def test_no_id_of_a_row_leads_elsewhere(name: str):
    with pytest.raises(ValidationError):
        TypeAdapter(f.RowName).validate_python(name)


@pytest.mark.parametrize(
    "name", ["unet/efficientnet_b3", "image+tabular/resnet50", "tf_efficientnet_b4.ns_jft_in1k"]
)
def test_names_of_the_catalogue_are_taken(name: str):
    assert TypeAdapter(f.ModelName).validate_python(name) == name


@pytest.mark.parametrize("name", [*HOSTILE, "yolov8l-of-somebody", "yolov99x"])
def test_only_weights_known_by_name_have_a_script(name: str):
    model: dict[str, Any] = {"name": name, "library": "ultralytics", "pretrained": True}
    with pytest.raises(NoScript):
        plan_script({"feasible": True, "task": "object-detection", "model": model, "metric": None})
    assert name not in YOLOS


@pytest.mark.parametrize("name", ["\u0410100", "Tesla \u03a4\u0031", "RTX\u200b4090"])
def test_no_name_of_a_card_only_looks_like_another(name: str):
    with pytest.raises(ValidationError):
        TypeAdapter(f.ProductName).validate_python(name)
    assert TypeAdapter(f.ProductName).validate_python("GeForce RTX™ 4090") == "GeForce RTX™ 4090"
