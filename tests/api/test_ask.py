"""Does the service answer what it is asked, over HTTP, on both databases?"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from memory_service.domain.common.units import minutes

PLAN_KEYS = {
    "plan_id", "feasible", "task", "size", "gpu", "minutes", "model", "batch_size",
    "grad_accumulation", "effective_batch_size", "precision", "channels_last", "compile", "folds",
    "epochs", "early_stopping_patience", "optimizer", "learning_rate", "warmup_epochs",
    "data_loader", "expected", "timetable", "reserve_minutes", "checks", "on_trouble",
    "alternatives", "parallel", "recipe", "targets", "similar", "rationale", "warnings", "evidence",
}  # fmt: skip


SHORTENED = ("recipe", "similar", "reasons", "rationale")


def test_the_main_question_gets_a_plan(client: TestClient):
    answer = client.get("/recommend?task=image&size=medium&gpu=a100")
    assert answer.status_code == 200
    plan = answer.json()
    assert plan["feasible"] is True
    assert len(answer.content) <= 12_000
    whole = client.get(
        "/recommend?task=image&size=medium&gpu=a100&detail=full&include=parallel,curves"
    ).json()
    assert set(whole) >= PLAN_KEYS | {"curves"}
    left_out = {"alternatives", "evidence", "parallel", "curves"}
    assert set(whole) - set(plan) == left_out
    assert {name: whole[name] for name in plan if name not in SHORTENED} == {
        name: plan[name] for name in plan if name not in SHORTENED
    }
    assert [each["text"] for each in whole["reasons"]] == whole["rationale"]
    assert {each["code"] for each in plan["reasons"]} < {each["code"] for each in whole["reasons"]}
    assert client.get("/recommend?task=image&gpu=a100&include=evidnce").status_code == 422
    again = client.get(f"/plans/{plan['plan_id']}")
    assert again.json() == plan
    script = client.get(f"/plans/{plan['plan_id']}/train.py?single=true")
    compile(script.text, "train.py", "exec")
    assert client.get("/plans/plan-0123456789abcdef").status_code == 404
    assert (plan["split"], plan["group_by"]) == ("stratified", None)
    assert all(run["learning_rate"] > 0.0 and run["grad_accumulation"] for run in plan["portfolio"])
    links = {name: path.replace("{rule}", "R02") for name, path in plan["links"].items()}
    assert [client.get(path).status_code for path in links.values()] == [200, 200, 200]
    text = client.get("/recommend?task=image&size=medium&gpu=a100", headers={"Accept": "text/markdown"}).text
    assert f"script GET {links['script']};" in text.splitlines()[-1]
    assert isinstance(plan["batch_size"], int)
    assert plan["effective_batch_size"] == plan["batch_size"] * plan["grad_accumulation"]
    total = plan["expected"]["total_minutes"]
    assert set(total) == {"value", "low", "high", "grade", "n", "basis"}
    assert total["high"] <= 30
    trained = [stage["deadline_minute"] for stage in plan["timetable"] if "train" in stage["stage"]]
    assert max(trained) <= 30 * 0.85 + 1e-6


def test_the_same_question_gives_the_same_bytes_by_query_and_by_body(client: TestClient):
    first = client.get("/recommend?task=image&size=medium&gpu=a100&minutes=37")
    again = client.get("/recommend?task=image&size=medium&gpu=a100&minutes=37")
    body = client.post("/recommend", json={"task": "image", "size": "medium", "gpu": "a100", "minutes": 37})
    assert first.content == again.content == body.content


def test_asking_writes_nothing(client: TestClient):
    database = client.app.state.service.database  # type: ignore[attr-defined]
    before = database.knowledge_revision()
    client.get("/recommend?task=text&size=small&gpu=t4")
    client.get("/similar", params={"text": "toxic comments"})
    client.get("/predict?model=resnet50&gpu=t4")
    client.get("/conflicts")
    assert database.knowledge_revision() == before


def test_a_plan_tells_how_similar_competitions_were_won_as_json_text_and_script(client: TestClient):
    asked = "/recommend?competition=aptos2019-blindness-detection&gpu=t4&minutes=60"
    plan = client.get(asked).json()
    recipe = plan["recipe"]
    assert plan["targets"]["by_rank"][0]["from"].startswith("aptos2019-blindness-detection#")
    assert recipe["families"][0]["from"]
    assert recipe["mattered"][0]["text"]
    text = client.get(asked, headers={"Accept": "text/markdown"}).text
    script = client.get(asked, headers={"Accept": "text/x-python"}).text
    assert f'SERVER = os.environ.get("MEMORY_SERVER", "{client.base_url}")' in script
    split = recipe["validation"]["split"]
    assert f"- validation: {split}" in text
    assert f"- families: {recipe['families'][0]['name']}" in text
    assert f'SPLIT = "{split}"' in script
    assert recipe["basis"] in text
    assert client.get(asked + "&mode=family").json()["targets"] is None
    blind = client.get(asked + "&mode=blind")
    assert (blind.json()["recipe"], blind.json()["targets"], blind.json()["similar"]) == (None, None, [])


def test_too_few_minutes_say_what_would_fit(client: TestClient):
    plan = client.get("/recommend?task=image&size=large&gpu=t4&minutes=0.5").json()
    assert plan["feasible"] is False
    assert plan["why"]
    assert plan["closest"]["set"]


def test_a_correction_changes_the_next_answer_not_the_kept_one(client: TestClient):
    question = "/recommend?task=image&size=medium&gpu=l4&minutes=45"
    before = client.get(question).json()
    row = client.get("/gpus/l4").json()
    changed = client.patch("/gpus/l4", json={"usable_gib": 4.0, "who": "test", "why": "shared card"})
    assert changed.status_code == 200
    after = client.get(question).json()
    assert after["expected"]["peak_memory_gib"]["high"] <= 4.0 < before["expected"]["peak_memory_gib"]["high"]
    client.patch("/gpus/l4", json={"usable_gib": row["usable_gib"], "who": "test", "why": "back"})
    back = client.get(question).json()
    assert back.pop("knowledge_revision") > before.pop("knowledge_revision")
    assert back == before


def test_a_plan_comes_as_text_to_paste_where_markdown_is_preferred(client: TestClient):
    question = {"task": "image", "size": "medium", "gpu": "a100"}
    plan = client.get("/recommend", params=question).json()
    for form in ("text/markdown", "application/json;q=0.5, text/markdown"):
        answer = client.get("/recommend", params=question, headers={"Accept": form})
        assert answer.headers["content-type"].startswith("text/markdown")
        assert plan["plan_id"] in answer.text
        assert len(answer.text) < 2_100
        assert client.post("/recommend", json=question, headers={"Accept": form}).text == answer.text


def test_a_plan_comes_as_a_script_where_python_is_preferred(client: TestClient):
    question = {"task": "image", "size": "medium", "gpu": "a100"}
    plan = client.get("/recommend", params=question).json()
    for form in ("text/x-python", "text/markdown;q=0.4, text/x-python;q=0.5, */*;q=0.1"):
        answer = client.get("/recommend", params=question, headers={"Accept": form})
        assert answer.headers["content-type"].startswith("text/x-python")
        assert f'PLAN_ID = "{plan["plan_id"]}"' in answer.text
        compile(answer.text, "train.py", "exec")
        assert client.post("/recommend", json=question, headers={"Accept": form}).text == answer.text
    preferred = {"Accept": "text/x-python;q=0.4, text/markdown;q=0.5"}
    answer = client.get("/recommend", params=question, headers=preferred)
    assert answer.headers["content-type"].startswith("text/markdown")


def test_a_plan_without_a_script_is_refused_and_says_what_has_one(client: TestClient):
    asked = "/recommend?task=image-to-image&size=medium&gpu=a100"
    answer = client.get(asked, headers={"Accept": "text/x-python"})
    assert (answer.status_code, answer.json()["type"].rsplit(":", 1)[-1]) == (406, "no-script")
    assert "image-classification" in answer.json()["detail"]
    nothing = client.get("/recommend?task=image&gpu=t4&minutes=0.1", headers={"Accept": "text/x-python"})
    assert nothing.status_code == 406
    assert "Nothing fits" in nothing.json()["detail"]


def test_forms_that_do_not_exist_are_refused(client: TestClient):
    for form in ("text/x-c", "image/png", "application/json;q=0", "text/x-python;q=0"):
        answer = client.get("/recommend?task=image&size=medium&gpu=a100", headers={"Accept": form})
        assert answer.status_code == 406
        assert "is not offered" in answer.json()["detail"]
    for form in (
        "*/*",
        "application/json",
        "text/html, application/*;q=0.8",
        "application/json; charset=utf-8",
    ):
        answer = client.get("/recommend?task=image&size=medium&gpu=a100", headers={"Accept": form})
        assert answer.status_code == 200


def test_neighbours_come_with_signals_and_reasons(client: TestClient):
    asked: dict[str, Any] = {
        "text": "photos of dogs to be told apart by breed, 120 breeds, log loss",
        "limit": 3,
    }
    answer = client.post("/similar", json=asked).json()
    assert answer == client.get("/similar", params=asked).json()
    assert [set(item) for item in answer["items"]] == [
        {"slug", "title", "task", "score", "signals", "why", "lessons"}
    ] * 3
    assert all(0 < len(item["lessons"]) <= 3 for item in answer["items"])
    assert answer["items"][0]["slug"] == "dog-breed-identification"
    assert answer["inferred_task"] == "image-classification"
    assert answer["degraded"] is False


def test_a_prediction_has_its_curve_and_a_list_keeps_its_order(client: TestClient):
    one = client.get("/predict?model=resnet50&image_size=224&gpu=a100&batch_size=64").json()
    assert one["fits"] is True
    assert one["curve"]
    asked = [{"model": "resnet50", "gpu": "a100", "batch_size": b} for b in (64, 1, 32)]
    answers = client.post("/predict", json=asked).json()
    assert [a["batch_size"] for a in answers] == [64, 1, 32]


def test_ten_thousand_predictions_in_one_request(sqlite_client: TestClient):
    models, cards = ("resnet50", "efficientnet_b4", "vit_base_patch16_224"), ("a100", "t4", "rtx3090", "l4")
    asked = [{"model": models[i % 3], "gpu": cards[i % 4], "batch_size": 1 + i % 500} for i in range(10_000)]
    answer = sqlite_client.post(
        "/predict", content=orjson.dumps(asked), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 200
    assert len(answer.json()) == 10_000
    assert sqlite_client.post("/predict", json=[*asked, asked[0]]).status_code == 413


def test_contradicted_claims_are_listed_with_both_sides(client: TestClient):
    page = client.get("/conflicts?limit=500").json()
    assert page["next"] is None
    found = {item["id"]: item for item in page["items"]}
    assert {"C29", "C30"} & set(found), "the claims of batch 512"
    for item in found.values():
        grades = [side["grade"] for side in item["sides"]]
        assert (
            grades.count("claimed") > 1 if item["uses"] is None else set(grades) >= {"claimed", "estimated"}
        )


def test_conflicts_in_pages_are_the_same_as_in_one(client: TestClient):
    whole = client.get("/conflicts?limit=500&sort=id").json()["items"]
    walked, cursor = [], None
    while True:
        params: dict[str, Any] = {"limit": 3, "sort": "id"} | ({"cursor": cursor} if cursor else {})
        page = client.get("/conflicts", params=params).json()
        walked += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    assert walked == whole
    lines = client.get("/conflicts?format=jsonl&sort=id").text.splitlines()
    assert [orjson.loads(line)["id"] for line in lines] == [item["id"] for item in whole]
    assert client.get("/conflicts?format=csv").text.count("\n") > len(whole) / 2


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_whoever_runs_it_is_answered(client: TestClient, path: str):
    answer = client.get(path)
    assert answer.status_code == 200
    assert client.head(path).status_code == 200


def test_metrics_count_by_route_template_and_tell_revision_and_encoder(client: TestClient):
    client.get("/gpus/a100")
    text = client.get("/metrics").text
    assert 'memory_service_requests_total{method="GET",route="/gpus/{key:path}",status="200"}' in text
    assert 'memory_service_request_seconds_bucket{le="0.005",route="/gpus/{key:path}"}' in text
    revision = client.app.state.service.database.knowledge_revision()  # type: ignore[attr-defined]
    assert f"memory_service_knowledge_revision {float(revision)}" in text
    assert 'memory_service_encoder_state{state="ready"} 1.0' in text


def test_the_callers_request_id_comes_back(client: TestClient):
    assert client.get("/healthz", headers={"X-Request-ID": "abc-1"}).headers["x-request-id"] == "abc-1"
    made = client.get("/healthz", headers={"X-Request-ID": "no good {}"}).headers["x-request-id"]
    assert len(made) == 32
    refused = client.get("/nowhere", headers={"X-Request-ID": "abc-2"})
    assert refused.json()["request_id"] == refused.headers["x-request-id"] == "abc-2"


def test_the_page_of_a_plan_for_a_processor_speaks_of_its_cores_and_of_the_run(sqlite_client: TestClient):
    asked = "task=image&gpu=cpu&minutes=2&n_train=1400&cpu_count=2&weights=none&n_classes=10"
    page = sqlite_client.get(f"/?{asked}", headers={"Accept": "text/html"}).text
    facts = page[page.index('id="facts"') : page.index("What to expect")]
    assert "CPU, 2 cores" in facts
    assert 'data-fill="cpu"' in facts
    assert "8 cores" not in page[page.index('id="facts"') :]
    assert "of the host's 32 GiB.</p>" in page
    assert "wasted memory" not in page
    plan = sqlite_client.get(f"/recommend?{asked}").json()
    first, seconds = plan["checks"]["first_after_seconds"], 60 * plan["expected"]["total_minutes"]["value"]
    assert seconds < first
    assert "First check after a quarter of the run.</p>" in page
    card = sqlite_client.get("/?task=image&gpu=a100&minutes=30", headers={"Accept": "text/html"}).text
    assert re.search(r"of the GPU's [\d.]+ GiB\. Typical: 70–90 %\.", card)
    assert re.search(r"First check after 60 s, then every \d+ s\.", card)


def test_what_is_fitted_at_once_and_a_new_row_say_one_thing(sqlite_client: TestClient):
    asked = "task=time-series-regression&n_train=300000&gpu=t4&minutes=60&model=chronos-2"
    page = sqlite_client.get(f"/?{asked}", headers={"Accept": "text/html"}).text
    plan = sqlite_client.get(f"/recommend?{asked}").json()
    assert plan["epochs"] == 1
    assert "20,000" not in page[page.index('aria-label="Other time limits"') : page.index('id="settings"')]
    fitted = max(
        each["deadline_minute"] for each in plan["timetable"] if each["stage"].startswith("all rows")
    )
    assert re.search(rf"<title>fit of chronos-2: [\w. ]+ to {re.escape(minutes(fitted))}</title>", page)
    head = "id,table,rule,key.library,value.wrong,statement,followed,source,grade"
    text = f"{head}\nZ01,pitfalls,Z01,,,Ours hangs.,true,own,claimed\n"
    looked = sqlite_client.post("/browse/import/strategies", data={"text": text}).text
    assert "<b>1</b> added" in looked


def test_a_machine_without_pip_gets_the_modules_of_scripts(client: TestClient, tmp_path):
    answer = client.get("/scripts/memory_train.py")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/x-python")
    (tmp_path / "memory_train.py").write_bytes(answer.content)
    (tmp_path / "train.py").write_text("from memory_service.train import metrics\nprint(metrics.__file__)\n")
    alone = {"cwd": tmp_path, "check": True, "capture_output": True, "text": True}
    subprocess.run([sys.executable, "memory_train.py"], **alone)
    shown = subprocess.run([sys.executable, "train.py"], **alone).stdout
    assert Path(shown.strip()) == tmp_path / "memory_service" / "train" / "metrics.py"
