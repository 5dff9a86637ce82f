"""Is a plan an object that shows itself, and is nothing in it taken for markup?"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from memory_service.client import Plan, ask, watch
from memory_service.errors import Refused, Unavailable
from tests.client.conftest import Scripted, Service

HOSTILE = '<script>alert("x")</script>&<img src=x onerror=y>'


def test_a_plan_is_asked_for_and_followed(service: Service, tmp_path: Path):
    plan = ask(task="tabular", n_train=569, n_features=30, gpu="cpu", minutes=10, server=service.url)
    assert plan.feasible
    assert plan.folds == plan["folds"] >= 1
    assert f"**{plan.plan_id}**" in plan.markdown
    assert json.loads(json.dumps(plan))["plan_id"] == plan.plan_id
    assert pickle.loads(pickle.dumps(dict(plan))) == plan
    with pytest.raises(AttributeError, match="no 'batchsize'"):
        _ = plan.batchsize
    script = plan.script(tmp_path / "train.py").read_text(encoding="utf-8")
    compile(script, "train.py", "exec")
    assert plan.plan_id in script
    with watch(plan, server=service.url) as run:
        run.epoch(0, metric=0.5)
    assert service.page(run.run_id)["plan_id"] == plan.plan_id


def test_a_plan_shows_warnings_settings_and_intervals(service: Service):
    plan = ask(task="image", size="small", n_train=90_000, gpu="t4", minutes=60, server=service.url)
    shown = plan._repr_html_()
    assert shown.index("note: ") < shown.index("model: ")
    total = plan.expected["total_minutes"]
    assert f"{total['value']:.3g} ({total['low']:.3g}–{total['high']:.3g}) min" in shown
    assert f"({total['grade']}" in shown or f"80 %, {total['grade']}" in shown


def test_a_plan_that_does_not_fit_shows_why(service: Service):
    fields: dict[str, Any] = {"task": "image", "model": "convnext_large", "n_train": 10**6, "folds": 5}
    shown = ask(**fields, gpu="t4", minutes=5, server=service.url)._repr_html_()
    assert "No plan fits" in shown


def test_markup_in_an_answer_is_shown_as_text(service: Service):
    answer = json.loads(json.dumps(ask(task="image", size="small", gpu="t4", server=service.url)))
    answer["warnings"] = [{"code": HOSTILE, "text": HOSTILE, "severity": "note", "values": {}}]
    answer["model"]["name"] = answer["optimizer"] = answer["task"] = answer["gpu"]["name"] = HOSTILE
    shown = [Plan(answer, {}, None)._repr_html_()]
    answer |= {"feasible": False, "why": HOSTILE}
    shown.append(Plan(answer, {}, None)._repr_html_())
    for html in shown:
        assert "&lt;script&gt;" in html
        assert "<script" not in html
        assert "<img" not in html


def test_a_refusal_and_a_silent_server_are_errors_with_their_words(service: Service):
    with pytest.raises(Refused, match="a1000") as refused:
        ask(task="image", gpu="a1000", server=service.url)
    assert refused.value.status == 422
    with pytest.raises(Unavailable, match=r"is one running there.*MEMORY_SERVER"):
        ask(task="image", gpu="t4", server="http://127.0.0.1:9", seconds=2)


def test_auto_is_the_processor_where_no_card_is(scripted: Scripted):
    asked: list[dict[str, Any]] = []

    def answer(path: str, body: dict[str, Any]) -> Any:
        asked.append(body)
        return 200, {}, {}

    scripted.answer = answer
    ask(task="image", gpu="auto", minutes=None, server=scripted.url)
    assert asked == [{"task": "image", "gpu": "cpu"}]
