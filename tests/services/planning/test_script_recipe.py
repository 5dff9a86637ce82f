"""Does a script say how similar competitions were won, and split its rows as the recipe says?"""

from __future__ import annotations

import ast
import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_service.domain.planning.explanation.plan_text import plan_markdown
from memory_service.domain.recipe.recipe_text import split_setting
from memory_service.schemas.recommend import plan_request
from memory_service.services.database.transactions import Database
from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.recommend import recommend
from memory_service.services.review.review import review_script
from tests.services.planning.test_plan_script import constants_of, laid_out, loaded


@pytest.fixture(scope="module")
def plan(seeded_sqlite: Database) -> dict[str, Any]:
    question = plan_request({"task": "tabular", "gpu": "cpu", "model": "lightgbm"})
    return recommend(seeded_sqlite, replace(question, group_by="patient"))


def test_the_split_of_the_recipe_stands_among_the_settings(plan):
    told = constants_of(plan_script(plan))
    assert (told["SPLIT"], told["GROUP_BY"]) == (plan["recipe"]["validation"]["split"], "patient")
    assert "group" in told["SPLIT"]
    before = {name: plan[name] for name in plan if name not in ("split", "group_by", "recipe")}
    assert split_setting(before) == ("stratified", None)
    assert split_setting(before | {"recipe": plan["recipe"]}) == (told["SPLIT"], "patient")


@pytest.mark.parametrize(
    ("said", "split"),
    [
        ({"group_by": "patient"}, ("group", "patient")),
        ({"split": "time"}, ("time", None)),
        (
            {"description": "5000 photos of skin, two classes. Group by patient_id."},
            ("group", "patient_id"),
        ),
    ],
)
def test_what_is_said_of_the_split_holds_without_memory(
    seeded_sqlite: Database, said: dict[str, Any], split: tuple[str, str | None]
) -> None:
    asked = {"task": "image", "gpu": "a100", "mode": "blind", **said}
    answer = recommend(seeded_sqlite, asked)
    assert answer["recipe"] is None
    assert (answer["split"], answer["group_by"]) == split
    told = constants_of(plan_script(answer))
    assert (told["SPLIT"], told["GROUP_BY"]) == split
    assert f"split={split[0]}" + (f" by {split[1]}" if split[1] else "") in plan_markdown(answer)


def test_forecasts_are_split_by_time_with_or_without_a_recipe(seeded_sqlite: Database) -> None:
    asked = {"task": "time-series-regression", "gpu": "cpu", "model": "lightgbm", "n_train": 20_000}
    for mode in ("open", "blind"):
        answer = recommend(seeded_sqlite, asked | {"mode": mode})
        assert (answer["recipe"] is None) == (mode == "blind")
        assert constants_of(plan_script(answer))["SPLIT"] == "time"


def test_what_the_script_does_not_do_is_said_with_its_source(plan):
    text = plan_script(plan)
    undone = [each for each in plan["recipe"]["techniques"] if not each["in_script"]]
    done = [each for each in plan["recipe"]["techniques"] if each["in_script"]]
    assert f"# {undone[0]['name']} {100 * undone[0]['share']:.0f} %: " in text
    assert undone[0]["from"][0] in text
    assert not any(f"# {each['name']} " in text for each in done)
    assert "How similar ones were won" in text
    assert "were won" not in plan_script(plan | {"recipe": None})


def test_words_of_others_stay_in_comments(plan, tmp_path: Path):
    evil = copy.deepcopy(plan)
    words = 'So"""\nimport os\nos.system("true")  # \\ é ' + "x" * 300
    evil["recipe"]["validation"]["why"] = evil["group_by"] = words
    evil["recipe"]["techniques"][0] |= {"setting": words, "in_script": False}
    text = plan_script(evil)
    (tmp_path / "script.py").write_text(text, encoding="utf-8")
    laid_out(tmp_path)
    run = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    assert not any("os.system" in ast.unparse(node) for node in run)
    assert constants_of(text)["GROUP_BY"].startswith("So''' import os")
    assert review_script(None, {"script": text, "cpu_count": 8})["findings"] == []


def test_rows_are_split_by_the_column_that_the_group_names(plan):
    script: Any = loaded(plan_script(plan, single=True))
    table = script.pd.DataFrame({"id": ["a", "b", "c"], "Patient_ID": [7, 7, 8], "y": [0, 1, 1]})
    assert list(script.groups_of(table)) == ["7", "7", "8"]
    unknown = table.assign(Patient_ID=["ada", None, "bo"])
    assert list(script.groups_of(unknown)) == ["ada", "", "bo"]  # NaN is no group to scikit-learn
    assert script.groups_of(table.rename(columns={"Patient_ID": "site"})) is None
    assert script.groups_of(table.assign(Patient_ID=1)) is None
    script.plan.SPLIT = "stratified"
    assert script.groups_of(table) is None
