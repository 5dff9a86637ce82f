"""Can a tool that takes SARIF 2.1.0 take a review, with findings and without?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memory_service.cli import app
from memory_service.review.findings import RULES
from tests.review.corpus import FOLDER, read

LEVELS = {"none", "note", "warning", "error"}


def reviewed(name: str, folder: Path) -> dict[str, Any]:
    path = folder / "train.py"
    path.write_text(read(FOLDER / f"{name}.py.txt").text)
    ended = CliRunner().invoke(app, ["review", str(path), "--sarif"])
    assert ended.exit_code in (0, 1), ended.output
    return dict(json.loads(ended.stdout))


@pytest.mark.parametrize(
    "name", ["torch_image_slow_flat", "sk_pipeline_fine", "broken_print", "lgb_target_means"]
)
def test_a_review_has_what_sarif_requires(name: str, tmp_path: Path) -> None:
    log = reviewed(name, tmp_path)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "memory-service"
    rules = [rule["id"] for rule in driver["rules"]]
    assert rules == list(RULES)
    assert all(rule["shortDescription"]["text"] for rule in driver["rules"])
    assert {rule["defaultConfiguration"]["level"] for rule in driver["rules"]} <= LEVELS
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in LEVELS
        assert result["message"]["text"]
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["artifactLocation"]["uri"].endswith("train.py")
        region = place["region"]
        assert 1 <= region["startLine"] <= region["endLine"]
        assert region.get("startColumn", 1) >= 1


def test_results_are_the_findings_of_the_script(tmp_path: Path) -> None:
    assert reviewed("sk_pipeline_fine", tmp_path)["runs"][0]["results"] == []
    (result,) = reviewed("broken_print", tmp_path)["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("syntax-error", "error")
