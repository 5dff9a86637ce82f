"""Real answers of every route fit their schemas in /openapi.json, which name all that an answer may hold."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest
from fastapi.testclient import TestClient

from memory_service.app import create_app
from memory_service.settings import load_settings
from tests.api.test_calibrations import MEASURED, posted
from tests.telling import at, case, epochs

SCRIPT = "import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(data, batch_size=4)\n"
SHEET = {
    "slug": "z9", "name": "Z9", "kind": "cuda", "architecture": "zeta", "memory_gib": 8.0, "usable_gib": 7.0,
    "bandwidth_gb_s": 100.0, "tflops": {"fp32": 5.0},
}  # fmt: skip
NEW_ROWS: dict[str, dict[str, Any]] = {
    "competitions": {"slug": "frogs", "title": "Frogs", "description": "Recognise 12 species of frogs."},
    "solutions": {
        "competition": "AI4Code", "rank": 999, "families": ["deberta-v3"], "learning_rate": 2e-5,
        "validation": {"split": "group", "by": "ancestor", "folds": 5}, "score": {"private": 0.9},
    },
    "patterns": {"id": "p", "scope": "kind", "kind": "model", "statement": "Small models do."},
    "models": {
        "name": "small/net", "library": "timm", "tasks": ["image-classification"], "family": "small",
        "input_kind": "image_size", "pretrained": False, "params_m": 1.0,
        "default_input_size": 64, "quality_score": 50.0,
    },
    "gpus": SHEET,
    "strategies": {
        "id": "s", "rule": "R02", "table": "loader", "key": {}, "value": {}, "statement": "So.",
        "followed": False,
    },
    "claims": {"id": "c", "quantity": "samples_per_second", "value_min": 1.0},
}  # fmt: skip


@dataclass
class Asked:
    """A client that holds each answer against its schema, and remembers which it had."""

    client: TestClient
    document: dict[str, Any]
    had: set[tuple[str, int]] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    validators: dict[str, Any] = field(default_factory=dict)

    def __call__(self, route: str, status: int, query: str = "", **given: Any) -> Any:
        """The JSON of the answer to `METHOD /path/{parameter}`; parameters of the path are given by name."""
        method, path = route.split()
        names = [name for name in given if f"{{{name}}}" in path]
        url = path.format(**{name: quote(given.pop(name), safe="/@+:") for name in names})
        answer = self.client.request(method, f"{url}?{query}" if query else url, **given)
        assert answer.status_code == status, (route, answer.status_code, answer.text)
        return self.checked(route, answer)

    def refused(self, route: str, **given: Any) -> None:
        method, path = route.split()
        answer = self.client.request(method, path, **given)
        assert answer.status_code >= 400, route
        self.checked(route, answer)

    def checked(self, route: str, answer: Any) -> Any:
        method, path = route.split()
        response = self.document["paths"][path][method.lower()]["responses"][str(answer.status_code)]
        self.had.add((route, answer.status_code))
        media = answer.headers.get("content-type", "").partition(";")[0]
        if media not in ("application/json", "application/problem+json"):
            assert bool(answer.content) == bool(response.get("content")), route
            return None
        document = answer.json()
        for error in self.validator(json.dumps(response["content"][media]["schema"])).iter_errors(document):
            self.wrong.append(f"{route} {answer.status_code}: {error.instance_path} {error.message[:300]}")
        return document

    def validator(self, schema: str) -> Any:
        if schema not in self.validators:
            whole = json.loads(schema) | {"components": self.document["components"]}
            self.validators[schema] = jsonschema_rs.validator_for(whole)
        return self.validators[schema]


@pytest.fixture(scope="module")
def asked(sqlite_client: TestClient) -> Asked:
    """Everything was asked once, of a database that holds something of everything."""
    client = sqlite_client
    ask = Asked(client, client.get("/openapi.json").json())
    rows(ask)
    devices(ask)
    run_on("a100", ask)
    runs(ask)
    plans(ask)
    keys(ask)
    operations(ask)
    refusals(ask)
    return ask


def rows(ask: Asked) -> None:
    for table, new in NEW_ROWS.items():
        row = ask(f"POST /{table}", 201, json=new | {"who": "ada", "why": "new"})
        key = next(iter(row.values()))
        one = f"/{table}/{{key}}"
        ask(f"PATCH {one}", 200, key=key, json={"source": "a paper"})
        ask(f"PATCH {one}", 409, key=key, json={"source": "another", "version": row["version"]})
        (slip, added) = ask(f"GET {one}/history", 200, key=key)["items"]
        ask(f"POST {one}/undo", 409, key=key, json={"entry": added["id"]})
        ask(f"POST {one}/undo", 200, key=key, json={"entry": slip["id"]})
        ask(f"DELETE {one}", 204, key=key)
        ask(f"GET {one}", 404, key=key)
        ask(f"POST {one}/undo", 200, key=key, json={"entry": slip["id"] + 2})
        last = ask(f"GET {one}/history", 200, key=key)["items"][0]
        ask(f"POST {one}/undo", 204, key=key, json={"entry": last["id"]})
    for table in (*NEW_ROWS, "sizing"):
        for row in ask(f"GET /{table}", 200, "limit=500&total=1")["items"][::25]:
            ask(f"GET /{table}/{{key}}", 200, key=str(next(iter(row.values()))))


def devices(ask: Asked) -> None:
    ask("POST /gpus", 201, json={"name": "far"})
    ask("POST /gpus", 200, json={"name": "far"})
    ask("POST /gpus", 201, json={"name": "here", "device": "cpu"})
    ask("GET /gpus/{key}", 200, key="far")
    ask("GET /gpus/{key}", 200, key="here")
    body = posted("box", status="running", doing="launch", missing={})
    ask("POST /calibrations", 201, json=body)
    ask("POST /calibrations", 200, json=body)
    in_ms = {"step.cnn.bf16.nhwc.b32": 9.0, "step.vit.bf16.nhwc.b32": 20.0}
    sections = {name: MEASURED | {"unit": "ms", "value": v, "p20": v, "p80": v} for name, v in in_ms.items()}
    sections |= body["sections"] | {"bandwidth.copy": MEASURED | {"unit": "GB/s"}}
    fingerprint = body["fingerprint"]
    ask("POST /calibrations", 200, json=body | {"status": "done"})
    for day, driver in (("02", "550.54"), ("03", "560.28")):
        later = posted("box", sections=sections, fingerprint=fingerprint | {"driver": driver})
        later |= {"started_at": f"2026-02-{day}T12:00:00+00:00"}
        checked = ask("POST /calibrations", 201, json=later)
    assert checked["self_check"]["networks"]
    ask("GET /calibrations/{id}", 200, id=checked["id"])
    ask("GET /calibrations/{id}/events", 200, id=checked["id"])
    assert ask("GET /calibrations", 200, "device=box")["items"]
    assert ask("GET /gpus/{key}", 200, key="box")["registered"][0]["drift"]
    ask("GET /gpus/{key}", 200, key="a100")


def run_on(gpu: str, ask: Asked, **changed: Any) -> dict[str, Any]:
    """A run with events of every kind, advice, a log and an end; its page."""
    body = case(gpu=gpu, **changed)
    ask("POST /runs", 201, json=body)
    ask("POST /runs", 200, json=body)
    key = body["run_id"]
    reported = [
        {
            "kind": "gpu",
            "used_gib": 9.0,
            "total_gib": 40.0,
            "utilization_percent": 50.0,
            "temperature_c": 60.0,
        },
        {"kind": "batch", "steps": 50, "seconds": 20.0, "samples": 6400, "loader_wait_percent": 40.0},
        {"kind": "fold", "fold": 0, "done": True},
        {"kind": "note", "text": "so", "out_of_memory": True},
        {"kind": "note", "submission": True},
    ]
    events = epochs(0.5, peak_allocated_gib=5.5, metric=0.9, train_loss="nan")
    events += [{"seq": 10 + n, "at": at(100 + 60 * n), **event} for n, event in enumerate(reported)]
    ask("POST /runs/{run_id}/events", 200, run_id=key, json={"events": events})
    ask("POST /runs/{run_id}/events", 200, run_id=key, json={"events": [events[0] | {"seconds": 1.0}]})
    log = b"Epoch 1/4 train_loss: 0.5 GPU Memory Used: 18.3 GB\nwhat\n"
    ask("POST /runs/{run_id}/log", 200, run_id=key, content=log)
    ask("GET /runs/{run_id}/verdict", 200, run_id=key)
    ask("GET /runs/{run_id}", 200, run_id=key)
    end = {"status": "completed", "best_metric": 0.9, "test_metric": 0.8, "submission": True, "at": at(900)}
    page: dict[str, Any] = ask("POST /runs/{run_id}/finish", 200, run_id=key, json=end)
    ask("POST /runs/{run_id}/finish", 409, run_id=key, json=end | {"status": "crashed"})
    ask("GET /runs/{run_id}/events", 200, run_id=key)
    ask("POST /runs/{run_id}/exclude", 200, run_id=key, json={"why": "its labels were wrong"})
    ask("POST /runs/{run_id}/restore", 200, run_id=key, json={"why": "they were right"})
    return page


def runs(ask: Asked) -> None:
    plan = ask("GET /recommend", 200, "competition=dog-breed-identification&gpu=a100&minutes=30")
    page = run_on("box", ask, competition="dog-breed-identification", plan_id=plan["plan_id"], plan=plan)
    for part in ("comparison", "observations", "verdicts", "log", "advice", "evidence", "waste", "finish"):
        assert page[part], part
    ask("GET /competitions/{key}", 200, key="dog-breed-identification")
    run_on("custom/card", ask, model="custom/net", precision=None)
    run_on("cpu", ask, model="lightgbm", precision=None, batch_size=None, n_features=20, epochs=200)
    ask("GET /runs", 200, "limit=500&total=1")
    assert ask("GET /accuracy", 200)["overall"]


def plans(ask: Asked) -> None:
    for query in (
        "task=image&gpu=box,t4&plan_for=t4&n_train=60000&metric=auc",
        "task=tabular-classification&gpu=cpu&size=small",
        "task=text&size=large&gpu=h100&minutes=600&cpu_count=24",
        "task=image&size=large&gpu=t4&minutes=0.5",
        "task=image&gpu=t4&model=resnet50&batch_size=4096",
    ):
        ask("GET /recommend", 200, query)
    whole = "task=image&size=small&gpu=a100&detail=full&include=parallel,curves"
    plan_id = ask("GET /recommend", 200, whole)["plan_id"]
    ask("GET /plans/{plan_id}", 200, plan_id=plan_id)
    ask("GET /plans/{plan_id}/train.py", 200, plan_id=plan_id)
    ask("POST /recommend", 200, json={"description": "Classify photos of dogs, log loss.", "gpu": "t4"})
    ask("GET /brief", 200, "description=Classify%20photos%20of%20dogs,%20log%20loss.&gpu=t4")
    ask("POST /brief", 200, json={"description": "Classify 900 photos of dogs in 20 minutes."})
    for question in (
        {"model": "resnet50", "gpu": "box", "n_train": 1000},
        {"model": "resnet50", "gpu": "t4", "batch_size": 4096, "image_size": 512},
        {"model": "resnet50", "gpu": "t4", "batch_size": 2048, "image_size": 4096},
        {"model": "resnet50", "gpu": "a100", "mode": "infer"},
        {"model": "lightgbm", "gpu": "cpu"},
    ):
        ask("GET /predict", 200, "&".join(f"{name}={value}" for name, value in question.items()))
        ask("POST /predict", 200, json=[question])
    rows = [{"task": "text", "model": model, "language": "hi"} for model in ("xlm-roberta-large", "nothing")]
    rows.append({"task": "time-series-regression", "model": "chronos-2", "metric": "MASE"})
    ask("POST /rank", 200, json={"rows": rows})
    ask("POST /rank", 200, json={"rows": [{**rows[-1], "horizon": 24}]})
    boxes = [{"name": "a", "gpu": "t4", "price_per_hour": 0.4, "spot": True}, {"name": "b", "gpu": "cpu"}]
    question = {"task": "image", "n_train": 40_000, "deadline_minutes": 90}
    ask("GET /recommend", 200, "task=image&n_train=40000")
    ask("POST /choose", 200, json=question)
    ask(
        "POST /choose",
        200,
        json={**question, "offers": boxes, "budget": 1.0, "model": "vit_large_patch14_dinov2"},
    )
    ask("POST /choose", 200, json={**question, "offers": boxes, "budget": 0.0})
    script = SCRIPT + "import timm\nmodel = timm.create_model('resnet50')\n"
    sides = {"plans": [plan_id], "rows": rows[:1], "scripts": [script], "task": "text"}
    ask("POST /compare", 422, json=sides)
    facts = {"task": "image", "gpu": "t4", "n_train": 900}
    ask("POST /compare", 200, json={"plans": [plan_id], "scripts": [script], **facts})
    ask("GET /similar", 200, "competition=dog-breed-identification&limit=50")
    ask("POST /similar", 200, json={"text": "photos of dogs, 120 breeds, log loss"})
    ask("POST /similar", 200, json={"text": "frogs", "mode": "blind"})
    assert ask("GET /conflicts", 200, "limit=500")["items"]
    ask("POST /review", 200, json={"script": SCRIPT, "gpu": "t4", "minutes": 5})
    ask("POST /review", 200, content=b"def (", headers={"Content-Type": "text/x-python"})


def keys(ask: Asked) -> None:
    made = ask("POST /keys", 201, json={"name": "ada", "scopes": ["read"], "expires_days": 1})
    shown = {"Authorization": f"Bearer {made['key']}"}
    ask("POST /keys", 403, json={"name": "eve", "scopes": ["admin"]}, headers=shown)
    ask("GET /keys", 401, headers={"Authorization": "Bearer wrong"})
    ask("POST /keys/{name}/rotate", 200, name="ada")
    ask("DELETE /keys/{name}", 200, name="ada")
    ask("GET /keys", 200)
    ask("GET /audit", 200, "limit=500&sort=-id")


def operations(ask: Asked) -> None:
    for path in ("/healthz", "/readyz", "/metrics", "/scripts/memory_train.py"):
        ask(f"GET {path}", 200)
    loading = create_app(load_settings(database_url="sqlite:////nowhere/at/all.sqlite3", seed_on_start=False))
    early = TestClient(loading)  # its lifespan has not begun
    for path in ("/readyz", "/similar"):
        answer = early.get(path, params={"text": "frogs"} if path == "/similar" else {})
        assert answer.status_code == 503
        ask.checked(f"GET {path}", answer)


def refusals(ask: Asked) -> None:
    for path, methods in ask.document["paths"].items():
        for method in methods:
            ask.refused(f"{method.upper()} {path}", params={"no_such_field": "1"})
    ask("GET /recommend", 406, "task=image&gpu=a100", headers={"Accept": "image/png"})
    ask("POST /recommend", 400, content=b"{", headers={"Content-Type": "application/json"})
    ask("POST /recommend", 415, content=b"{", headers={"Content-Type": "text/csv"})
    ask("POST /recommend", 422, json={"task": "imge", "minutes": -1, "gpus": 1})
    ask("GET /runs/{run_id}", 404, run_id=str(uuid.uuid4()))


def test_every_answer_fits_its_schema(asked: Asked) -> None:
    assert not asked.wrong, "\n".join(asked.wrong)


def test_every_route_was_asked_and_refused(asked: Asked) -> None:
    documented = {
        (f"{method.upper()} {path}", int(code))
        for path, methods in asked.document["paths"].items()
        for method, operation in methods.items()
        for code in operation["responses"]
    }
    assert not {each for each in documented if each[1] < 300} - asked.had
    refused = {route for route, code in asked.had if code >= 400}
    assert not {route for route, _ in documented} - refused


def test_every_refusal_is_a_problem(asked: Asked) -> None:
    for path, methods in asked.document["paths"].items():
        for method, operation in methods.items():
            for code, response in operation["responses"].items():
                if int(code) >= 400 and (path, code) != ("/readyz", "503"):
                    schema = response["content"]["application/problem+json"]["schema"]
                    assert schema == {"$ref": "#/components/schemas/Problem"}, (method, path, code)


def test_no_schema_of_an_answer_leaves_room_for_what_it_does_not_name(asked: Asked) -> None:
    answers = [
        response
        for methods in asked.document["paths"].values()
        for operation in methods.values()
        for response in operation["responses"].values()
    ]
    for schema in objects([answers, asked.document["components"]["schemas"]]):
        is_map = "properties" not in schema and {"additionalProperties", "patternProperties"} & schema.keys()
        assert is_map or schema.get("additionalProperties") is False, json.dumps(schema)[:300]


def objects(part: Any) -> Iterator[dict[str, Any]]:
    """Every schema of objects in it."""
    if isinstance(part, dict):
        if part.get("type") == "object":
            yield part
        part = list(part.values())
    if isinstance(part, list):
        for item in part:
            yield from objects(item)
