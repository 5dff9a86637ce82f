"""Does everything that names the reserve follow the row that says it (R14-reserve)?"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator

import pytest

from memory_service.domain.planning.explanation.plan_text import plan_markdown
from memory_service.services.database.transactions import Database
from memory_service.services.editorial.curation import correct_row
from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.recommend import recommend
from memory_service.services.review.review import review_script
from memory_service.services.runs.runs import begin_run
from tests.answers import warnings_of
from tests.conftest import Servers
from tests.store.fakes import HashEncoder
from tests.telling import take_events

OLD = re.compile(r"\b15(?:\.0)? ?(?:%|percent)|\b0\.15\b|\b0\.85\b")
SLOW = """
import torch, timm, time
model = timm.create_model("resnet50", pretrained=True)
model.cuda()
loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True, num_workers=4)
for fold in range(5):
    for epoch in range(30):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
"""


@pytest.fixture(scope="module")
def edited(servers: Servers) -> Iterator[Database]:
    """The seeds, with 30 % for the reserve and another target of fill."""
    with servers.opened() as database:
        for row, value in (
            ("R14-reserve", {"reserve_percent": 30}),
            ("R04-report", {"target_percent_from": 61, "target_percent_to": 83}),
        ):
            correct_row(
                database, "strategies", row, {"value": value}, encoder=HashEncoder, who="ada", why="so"
            )
        yield database


def says_thirty(text: str) -> bool:
    assert OLD.search(text) is None, OLD.search(text)
    return "30" in text


def test_a_plan_its_text_and_its_script_keep_the_edited_reserve(edited: Database) -> None:
    plan = recommend(edited, {"task": "image", "gpu": "t4", "minutes": "30", "n_train": "9000"})
    assert plan["checks"]["reserve_percent"] == 30.0
    assert says_thirty(json.dumps(plan["rationale"]) + json.dumps(warnings_of(plan)) + plan_markdown(plan))
    assert not [row for row in plan["evidence"] if row["id"] == "R14-reserve" and OLD.search(row["text"])]
    assert "RESERVE_SHARE = 0.3 " in plan_script(plan)


def test_a_refusal_names_the_edited_reserve(edited: Database) -> None:
    asked = {"task": "image", "gpu": "t4", "minutes": "1", "n_train": "900000", "model": "resnet50"}
    refused = recommend(edited, asked)
    assert not refused["feasible"]
    assert "p90 keeps 30 % for inference" in refused["why"]
    says_thirty(refused["why"])


def test_a_review_names_the_edited_reserve(edited: Database) -> None:
    asked = {"script": SLOW, "gpu": "t4", "minutes": 10, "n_train": 50_000, "image_size": 224}
    found = {one["rule"]: one for one in review_script(edited, asked)["findings"]}
    assert says_thirty(json.dumps(found["cannot-end-in-budget"]))
    says_thirty(json.dumps(found))


def test_a_verdict_names_the_edited_reserve_and_target(edited: Database) -> None:
    body = {"task": "image", "gpu": "t4", "model": "resnet50", "batch_size": 64, "folds": 1, "epochs": 20}
    body |= {"n_train": 9_000, "minutes": 30, "started_at": dt.datetime.now(dt.UTC).isoformat()}
    for fill, gib in (("inside 61-83 %", 10.0), ("of 14.", None)):
        run_id = begin_run(edited, body)[0]["run_id"]
        seconds = 300.0 if gib is None else 30.0
        epochs = [
            {"seq": n, "kind": "epoch", "at": body["started_at"], "epoch": n + 1, "seconds": seconds}
            | ({} if gib is None else {"used_gib": gib})
            for n in range(3)
        ]
        verdict = take_events(edited, run_id, {"events": epochs})["verdict"]
        if gib is None:
            assert says_thirty(verdict["why"])
            assert "30 % left for inference" in verdict["why"]
        else:
            assert fill in verdict["why"]
