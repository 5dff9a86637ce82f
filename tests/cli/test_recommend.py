"""`memory-service recommend` and `conflicts` as somebody types them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from memory_service.cli import app
from memory_service.cli.recommend import _write_folder
from memory_service.services.database.transactions import Database
from tests.planning import plan

runner = CliRunner()


@pytest.fixture
def url(seeded_sqlite: Database) -> str:
    return f"sqlite:///{seeded_sqlite.file}"


def ask(*words: str, code: int = 0) -> Result:
    result = runner.invoke(app, words)
    assert result.exit_code == code, result.output
    return result


def test_a_plan_as_json_is_the_answer_of_the_service(url: str) -> None:
    words = (
        "--task",
        "image",
        "--n-train",
        "9000",
        "--gpu",
        "a100",
        "--minutes",
        "11",
        "--database",
        url,
        "--json",
    )
    answer = json.loads(ask("recommend", *words).stdout)
    assert answer["feasible"] is True
    assert answer["minutes"] == 11


ASKED = ("recommend", "--task", "image", "--size", "medium", "--gpu", "a100")


def test_a_plan_is_told_in_a_few_lines_with_every_remedy_and_nothing_broken(url: str) -> None:
    shown = ask(*ASKED, "--database", url).stdout
    lines = shown.splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 100
    assert all(word in shown for word in ("batch_size=", "GiB", "if out of memory", "split=", "note:"))
    assert "because" not in shown
    assert "because" in ask(*ASKED, "--why", "--database", url).stdout


def test_a_whole_plan_shows_stages_runs_reasons_and_recipe_too(url: str) -> None:
    shown = ask(*ASKED, "--all", "--database", url).stdout
    for word in (
        "batch_size=",
        "estimated",
        "quality index",
        "Timetable",
        "- run 1, ",
        "because",
        "out of memory",
        "similar ones were won",
    ):
        assert word in shown


def test_boosted_trees_are_shown_without_what_only_networks_have(url: str) -> None:
    asked = ("--task", "tabular", "--gpu", "a100", "--model", "lightgbm", "--all")
    shown = ask("recommend", *asked, "--database", url)
    assert "an epoch is a round" in shown.stdout
    for word in ("num_workers", "warmup", "samples/s", "batch_size="):
        assert word not in shown.stdout.split("Timetable")[0]


def test_a_plan_comes_as_a_script_to_run_or_as_text_to_paste(url: str) -> None:
    words = ("recommend", "--task", "image", "--size", "medium", "--gpu", "a100", "--database", url, "--form")
    plan = json.loads(ask(*words, "json").stdout)
    script = ask(*words, "script").stdout
    compile(script, "train.py", "exec")
    assert f'PLAN_ID = "{plan["plan_id"]}"' in script
    assert ask(*words, "text").stdout.startswith(f"**{plan['plan_id']}**")
    without = (
        "recommend",
        "--task",
        "image-to-image",
        "--gpu",
        "a100",
        "--form",
        "script",
        "--database",
        url,
    )
    assert "no-script" in ask(*without, code=1).stderr


def test_a_folder_of_scripts_holds_all_runs_and_run_n_starts_the_one_of_that_number(
    url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "scripts"
    question = ("--task", "tabular", "--size", "medium", "--gpu", "a100", "--minutes", "60", "--json")
    answer = ask("recommend", *question, "--script", str(folder), "--database", url)
    runs = [run["run"] for run in json.loads(answer.stdout)["portfolio"]]
    assert len(runs) > 1
    shared = {
        "train.py",
        "blend.py",
        "runtime.py",
        "folds.py",
        "metrics.py",
        "answers.py",
        "engine.py",
        "tables.py",
    }
    assert {path.name for path in folder.iterdir()} >= shared | {f"run_{run}.py" for run in runs}
    lines = 'print("run", __file__)\n'
    (folder / f"run_{runs[-1]}.py").write_text(lines, encoding="utf-8")
    for number, said in ((runs[-1], f"run_{runs[-1]}.py"), (99, "run_99.py is missing")):
        words = [sys.executable, "train.py", "--run", str(number)]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        assert said in done.stdout + done.stderr


def test_a_run_that_has_no_script_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("memory_service.cli.recommend.stderr.print", lambda text, **_: said.append(text))
    asked = {"task": "time-series-regression", "gpu": "rtx4090", "minutes": 30, "n_train": 300_000}
    asked["weights"] = "none"
    answer = plan(**asked)
    models = {run["run"]: run["model"] for run in answer["portfolio"]}
    _write_folder(tmp_path, answer, lambda number: plan(**asked, model=models[number]), None)
    without = next(number for number, model in models.items() if model == "series-transformer")
    assert said[0].startswith(f"run {without}: There is no script for series-transformer")
    assert not (tmp_path / f"run_{without}.py").exists()


def test_a_refusal_shows_what_would_fit(url: str) -> None:
    words = ("--task", "image", "--n-train", "2000000", "--gpu", "t4", "--minutes", "2", "--database", url)
    shown = ask("recommend", *words).stdout
    assert "No plan fits" in shown
    assert "minutes=" in shown


def test_a_wrong_value_fails_with_the_field_named(url: str) -> None:
    refused = ask(
        "recommend", "--task", "image", "--gpu", "a100", "--minutes", "nan", "--database", url, code=1
    )
    assert "minutes" in refused.stderr


def test_the_conflicts_hold_the_batch_512_claims(url: str) -> None:
    ids = {item["id"] for item in json.loads(ask("conflicts", "--json", "--database", url).stdout)["items"]}
    assert {"C29", "C30"} <= ids
    assert "C29" in ask("conflicts", "--database", url).stdout


def test_a_terminal_is_asked_for_an_open_task_and_plans_the_answer(url: str) -> None:
    words = ("--description", "We have a data set. Predict the target.", "--gpu", "t4", "--minutes", "20")
    command = [sys.executable, "-m", "memory_service", "recommend", *words, "--database", url]
    own, theirs = pty.openpty()
    quiet = os.environ | {"MEMORY_EMBEDDING_MODEL": "/no/such/model"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=quiet
    ) as process:
        os.close(theirs)
        os.write(own, b"tabular-regression\n")
        shown, asked = process.communicate(timeout=300)
    os.close(own)
    assert process.returncode == 0, asked
    assert "Which task is it" in asked
    assert "tabular-regression" in shown


def test_a_script_to_compare_that_is_not_there_is_named(tmp_path: Path) -> None:
    told = ask("compare", str(tmp_path / "none.py"), code=2).stderr
    assert "none.py" in "".join(told.replace("│", " ").split())  # a long path is folded within a frame
