"""Does /review take a script in each form it promises, and does the command exit as it says?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from memory_service.app import create_app
from memory_service.cli import app
from memory_service.services.database.transactions import Database
from memory_service.services.review.review import review_script
from memory_service.settings import load_settings

SCRIPT = "import torch\nfrom torch.cuda.amp import autocast\n"
TEXT = {"Content-Type": "text/x-python"}


@pytest.fixture(scope="module")
def client(seeded_sqlite: Database) -> Iterator[TestClient]:
    settings = load_settings(
        database_url=seeded_sqlite.url, seed_on_start=False, calibrate=False, embedding_model="/nowhere"
    )
    application = create_app(settings)
    with TestClient(application) as client:
        application.state.service.preparation.wait(60)
        yield client


def test_the_same_script_as_json_and_as_a_file_has_the_same_answer(client: TestClient) -> None:
    as_json = client.post("/review", json={"script": SCRIPT, "gpu": "a100", "minutes": 30})
    as_file = client.post("/review?gpu=a100&minutes=30", content=SCRIPT, headers=TEXT)
    assert as_json.status_code == as_file.status_code == 200
    assert as_json.json() == as_file.json()
    assert [found["rule"] for found in as_json.json()["findings"]] == ["deprecated-amp"]


def test_sarif_is_given_to_who_accepts_it(client: TestClient) -> None:
    answer = client.post(
        "/review", json={"script": SCRIPT, "filename": "a.py"}, headers={"Accept": "application/sarif+json"}
    )
    assert answer.headers["content-type"] == "application/sarif+json"
    (result,) = answer.json()["runs"][0]["results"]
    assert result["ruleId"] == "deprecated-amp"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a.py"


def test_a_plan_stands_for_what_is_not_said(client: TestClient) -> None:
    plan = client.get("/recommend?task=image&size=medium&gpu=cpu&minutes=60").json()
    script = "from torch.utils.data import DataLoader\nimport torch\ntorch.manual_seed(0)\n"
    script += (
        "for x, y in DataLoader(d, 64, num_workers=4, persistent_workers=True):\n    loss(x, y).backward()\n"
    )
    on_card = client.post("/review", json={"script": script + "d = 'cuda'\n"}).json()
    on_processor = client.post("/review", json={"script": script + "d = 'cuda'\n", "plan": plan}).json()
    assert "loader-pin-memory" in {found["rule"] for found in on_card["findings"]}
    assert "loader-pin-memory" not in {found["rule"] for found in on_processor["findings"]}


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 422, "script"),
        ({"script": SCRIPT, "minuts": 30}, 422, "minuts"),
        ({"script": SCRIPT, "minutes": -1}, 422, "minutes"),
        ({"script": SCRIPT, "plan": "none"}, 422, "plan"),
        ({"script": SCRIPT, "task": "imag"}, 422, "task"),
        ({"script": 5}, 422, "script"),
    ],
)
def test_wrong_fields_are_named(client: TestClient, body: dict[str, object], status: int, field: str) -> None:
    answer = client.post("/review", json=body)
    assert answer.status_code == status
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_other_forms_are_refused(client: TestClient) -> None:
    assert client.post("/review", content=SCRIPT, headers={"Content-Type": "image/png"}).status_code == 415
    accept = {"Accept": "text/markdown"}
    assert client.post("/review", json={"script": SCRIPT}, headers=accept).status_code == 406
    assert client.post("/review?gpu=t4", json={"script": SCRIPT}).status_code == 422


def test_the_command_exits_by_the_gravest_finding(tmp_path: Path) -> None:
    def code(*arguments: str) -> int:
        return CliRunner().invoke(app, ["review", *arguments]).exit_code

    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    assert code(str(script)) == 1
    assert code(str(script), "--fail-on", "error") == 0
    assert code(str(script), "--fail-on", "never") == 2
    assert code(str(tmp_path / "missing.py")) == 2
    script.write_text("print('fine')\n")
    assert code(str(script), "--fail-on", "note") == 0


def test_a_piped_review_has_one_line_for_each_finding_whatever_the_width(tmp_path: Path) -> None:
    script = tmp_path / ("a_name_that_fills_the_line_" * 4 + ".py")
    script.write_text(SCRIPT)
    findings = review_script(None, {"script": SCRIPT})["findings"]
    lines = CliRunner().invoke(app, ["review", str(script)], env={"COLUMNS": "80"}).stdout.splitlines()
    for found in findings:
        place = f"{script}:{found['line']}:{found['column']} {found['severity']} {found['rule']} "
        assert any(line.startswith(place) and line.endswith(found["message"]) for line in lines), lines


@pytest.mark.parametrize(
    ("task", "wrong"),
    [("tabular", False), ("Table", False), ("tabular-classification", True), ("Text_Regression", False)],
)
def test_a_kind_of_data_does_not_say_that_classes_are_wanted(task: str, wrong: bool) -> None:
    script = "import lightgbm as lgb\nimport pandas as pd\nd = pd.read_csv('a.csv')\n"
    script += "lgb.train({'objective': 'regression', 'seed': 1}, lgb.Dataset(d[['a']], d['b']))\n"
    found = review_script(None, {"script": script, "task": task})["findings"]
    assert ("wrong-loss" in [one["rule"] for one in found]) is wrong


def test_a_notebook_is_taken_as_it_is(client: TestClient, tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": SCRIPT, "outputs": [], "execution_count": 1}]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4})
    kinds = ("application/x-ipynb+json", "text/plain", "application/json")
    answers = [client.post("/review", content=text, headers={"Content-Type": kind}).json() for kind in kinds]
    answers.append(client.post("/review", json={"script": text}).json())
    assert {(f["rule"], f["cell"], f["line"]) for a in answers for f in a["findings"]} == {
        ("deprecated-amp", 1, 2)
    }
    file = tmp_path / "a.ipynb"
    file.write_text(text, "utf-8")
    shown = CliRunner().invoke(app, ["review", str(file)])
    assert "a.ipynb:cell 1:2:1 warning deprecated-amp" in shown.output.replace("\n", "")
