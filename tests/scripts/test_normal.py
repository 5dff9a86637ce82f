"""Does a plan's script, as it is, end in a submission worth sending?

One of each family of libraries is started as anybody starts it, and as a folder; the others as one file and
by the fork server, which spares them the seconds of importing torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest

from memory_service.services.planning.plan_script import plan_files
from tests.client.conftest import Service
from tests.conftest import Servers
from tests.scripts.harness.ending import ends_whole, says_what_it_does
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Workshop


@pytest.fixture(scope="module")
def service(servers: Servers) -> Iterator[Service]:
    url = servers.new("sqlite", "seeded")
    service = Service(url)
    service.start()
    yield service
    service.stop()
    servers.drop(url)


PLAINLY = ("image-classification", "text-classification", "tabular-classification-members")
MEDIA = ("time-series-classification-members", "multimodal-members", "video-classification-members")
HERE = (
    *PLAINLY, *MEDIA, "text-classification-lora", "text-regression", "image-multi-label",
    "image-segmentation-kinds", "recommendation-members", "image-keypoints", "speech-recognition",
    "speech-recognition-whisper", "visual-question-answering",
)  # fmt: skip
"""The others train on real data, with the same checks (test_real.py)."""
ONE_FOLD: dict[str, dict[str, Any]] = {name: {"folds": 1} for name in HERE[-3:]}
"""They take the longest, and what they answer of held-out rows is in no table."""


HIDE = """
import sys
for name in [each for each in sys.modules if each.partition(".")[0] == "memory_service"]:
    del sys.modules[name]
sys.path.insert(1, {folder!r})
"""
"""Run in the forked child: it imports the package anew, from a folder whose one says that it is not there."""


def runs_of(service: Service, plan_id: str) -> list[dict[str, Any]]:
    with urlopen(f"{service.url}/runs?limit=50", timeout=60) as answer:
        return [run for run in json.load(answer)["items"] if run["plan_id"] == plan_id]


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_a_script_ends_in_a_submission_that_has_learned_something(workshop: Workshop, name: str) -> None:
    workers = workshop.plan(name)["data_loader"] | {"num_workers": 1}
    trial = workshop.trial(name, data_loader=workers, **ONE_FOLD.get(name, {}))
    if name in PLAINLY:
        for file, text in plan_files(trial.plan).items():
            (trial.folder / file).write_text(text, encoding="utf-8")
    ended = trial.plainly() if name in PLAINLY else trial.train()
    ends_whole(trial, ended)


@pytest.mark.slow
def test_without_the_client_nothing_is_missing(workshop: Workshop) -> None:
    trial = workshop.trial("text-classification")
    hidden = trial.folder / "hidden"
    hidden.mkdir()
    (hidden / "memory_service.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'memory_service'\", name='memory_service')\n"
    )
    ended = trial.train(before=HIDE.format(folder=str(hidden)))
    assert ended.status == 0, ended.log
    assert gain(trial.data, trial.cells()) > 0
    assert not (trial.folder / "memory").exists()
    says_what_it_does(trial, ended)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["text-classification"])
def test_a_server_is_told_of_every_epoch_and_of_the_submission(
    workshop: Workshop, service: Service, name: str
) -> None:
    trial = workshop.trial(name, own={"MEMORY_SERVER": service.url, "MEMORY_FLUSH_SECONDS": "60"})
    ended = trial.train()
    assert ended.status == 0, ended.log
    [run] = runs_of(service, trial.plan["plan_id"])
    assert run["status"] == "completed", run
    events = service.events(run["id"])
    assert len({event["fold"] for event in events if event["kind"] == "epoch"}) == trial.plan["folds"]
    assert [event for event in events if event.get("submission")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["text-classification"])
def test_seeds_repeat_all_folds_on_other_splits(workshop: Workshop, name: str) -> None:
    trial = workshop.trial(name, seeds=2)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert len(trial.checkpoints()) == 2 * trial.plan["folds"], ended.log
    assert gain(trial.data, trial.cells()) > 0, ended.log
