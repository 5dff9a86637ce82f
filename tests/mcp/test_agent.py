"""Does an agent that has only these tools get from a description to a submission, and does it obey on the
way?"""

from __future__ import annotations

import csv
import datetime as dt
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from memory_service.services.database.transactions import Database
from memory_service.services.runs.runs import run_page
from tests.conftest import Servers
from tests.mcp.conftest import WORDS_ONLY, Agent, agent_by, by_stdio

TASK = "Photos that are bright or dark, 2 classes, judged by accuracy; 60 training images of 32 x 32 pixels"
KNOWN = {"gpu": "cpu", "minutes": 10, "n_train": 60, "n_test": 12, "cpu_count": 2}
MINUTES_GONE = 8.6
"""Of the ten: looking at the data took long. 15 % are for predicting (R14), so training must end at once."""

SMALL = {
    "MODEL": "test_resnet",
    "PRETRAINED": False,
    "IMAGE_SIZE": 32,
    "BATCH_SIZE": 16,
    "GRAD_ACCUMULATION": 1,
    "FOLDS": 3,
    "EPOCHS": 400,
    "PATIENCE": 400,
    "GRADIENT_CHECKPOINTING": False,
}
"""What the agent changes in the plan's one block of settings: it has no weights here, and tiny images."""

EPOCH = re.compile(r"Epoch (\d+)/\d+: Loss=([\d.]+), Val_loss=([\d.]+), Acc=([\d.]+), time=([\d.]+)s")


def write_data(folder: Path) -> list[str]:
    """Bright and dark pictures as the script expects them; ids of the test samples."""
    random = np.random.default_rng(5)
    ids: dict[str, list[str]] = {}
    for part, count in (("train", 60), ("test", 12)):
        (folder / part).mkdir(parents=True)
        ids[part] = [f"{part}{number:03d}" for number in range(count)]
        for number, name in enumerate(ids[part]):
            level = 170 if number % 2 else 40
            pixels = random.integers(level, level + 60, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / part / f"{name}.png")
    with (folder / "train.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "label"), *((n, k % 2) for k, n in enumerate(ids["train"]))])
    with (folder / "test.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id",), *((name,) for name in ids["test"])])
    return ids["test"]


def with_settings(script: str, settings: dict[str, Any]) -> str:
    """The script with other values in its block of settings."""
    for name, value in settings.items():
        script, found = re.subn(rf"^{name} = .*$", f"{name} = {value!r}", script, flags=re.MULTILINE)
        assert found == 1, name
    return script


def launch(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {
        "DATA_DIR": "data",
        "OUT_DIR": "out",
        "MEMORY_MODE": "disabled",  # only the tools tell the service anything
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "train.py", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def train_until_told(agent: Agent, run_id: str, folder: Path) -> tuple[dict[str, Any], list[float]]:
    """(the first verdict that asks for something, metrics so far): every epoch line is reported, and what is
    asked for is done."""
    metrics: list[float] = []
    lines: list[str] = []
    with launch(folder) as training:
        assert training.stdout is not None
        fold = 0
        for line in training.stdout:
            lines.append(line)
            fold += line.startswith("=== Fold")
            epoch = EPOCH.search(line)
            if epoch is None:
                continue
            metrics.append(float(epoch[4]))
            told = agent.answer(
                "report_progress",
                run_id=run_id,
                kind="epoch",
                fold=fold,
                epoch=int(epoch[1]),
                train_loss=float(epoch[2]),
                valid_loss=float(epoch[3]),
                metric=metrics[-1],
                seconds=float(epoch[5]),
            )
            assert told["accepted"] == 1
            if told["verdict"]["action"] != "continue":
                until = time.monotonic() + 30
                while not list((folder / "out").glob("fold_*.pt")) and time.monotonic() < until:
                    time.sleep(0.05)
                training.kill()
                return told["verdict"], metrics
    raise AssertionError("nobody stopped it:\n" + "".join(lines[-30:]))


@pytest.mark.slow
def test_an_agent_with_only_these_tools_ends_with_a_submission_and_obeys(servers: Servers, tmp_path: Path):
    url = servers.new("sqlite", "seeded")
    started = by_stdio(url, tmp_path / "log", MEMORY_EMBEDDING_MODEL=WORDS_ONLY, MEMORY_SEED_ON_START="false")
    test_ids = write_data(tmp_path / "data")
    with agent_by(started) as agent:
        plan = agent.answer("recommend_plan", description=TASK, **KNOWN)
        assert plan["plan"]["task"] == "image-classification"
        given = agent.answer("recommend_plan", description=TASK, **KNOWN, form="script")
        assert given["plan_id"] == plan["plan_id"]
        script = with_settings(given["script"], SMALL)
        reviewed = agent.answer("review_script", script=script, filename=given["filename"], **KNOWN)
        (scratch,) = reviewed["findings"]  # PRETRAINED: the plan was made for a pretrained model
        assert (scratch["rule"], scratch["severity"]) == ("wrong-parameter", "warning")
        (tmp_path / given["filename"]).write_text(script, encoding="utf-8")

        began = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=MINUTES_GONE)
        changed = {
            name.lower(): SMALL[name] for name in ("MODEL", "BATCH_SIZE", "FOLDS", "EPOCHS", "IMAGE_SIZE")
        }
        run = agent.answer("start_run", plan_id=plan["plan_id"], started_at=began.isoformat(), **changed)
        verdict, metrics = train_until_told(agent, run["run_id"], tmp_path)
        assert (verdict["action"], verdict["rule"]) == ("stop_and_predict", "R14")
        with launch(tmp_path, "predict") as predicting:
            told, _ = predicting.communicate(timeout=300)
        assert predicting.returncode == 0, told
        assert "Submission written from 1 folds" in told
        ended = agent.answer(
            "finish_run", run_id=run["run_id"], status="stopped", best_metric=max(metrics), submission=True
        )
        assert ended["status"] == "stopped"

    with (tmp_path / "out" / "submission.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["id", "label"]
    assert [row[0] for row in rows] == test_ids
    assert {row[1] for row in rows} <= {"0", "1"}
    database = Database(url)
    page = run_page(database, run["run_id"])
    database.close()
    servers.drop(url)
    assert (page["status"], page["evidence"]["submission"]) == ("stopped", True)
    assert page["outcome"]["epochs_done"] == len(metrics)
    assert [(each["action"], each["followed"]) for each in page["verdicts"]] == [("stop_and_predict", "yes")]
