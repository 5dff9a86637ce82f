"""Are devices registered, measured, followed and refused over HTTP as the contract says?"""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient

from memory_service.api.routes import calibrations as routes
from memory_service.app import create_app
from memory_service.domain.calibration.calibration import Fingerprint
from memory_service.domain.calibration.probes import PRECISIONS, probes
from memory_service.errors import Conflict, Forbidden, InvalidInput
from memory_service.services.access.keys import create_key
from memory_service.services.database.transactions import Database
from memory_service.services.devices import calibrations
from memory_service.services.devices import local_calibration as benchmarks
from memory_service.services.devices import registration as registering
from memory_service.services.devices.local_calibration import Wanted, _keep_end, begin
from memory_service.services.knowledge.asker import ASKER
from memory_service.services.prediction.predict import predict
from memory_service.services.tables.audit import SERVICE
from memory_service.settings import load_settings
from memory_service.store.queries import calibrations as store
from memory_service.store.tables.devices import Device
from tests.api.described.test_openapi import listen
from tests.conftest import Servers
from tests.services.devices.test_local_calibration import CARD, CPU, DONE, LAUNCH, SAY

MEASURED = {"value": 5.0, "unit": "us", "p20": 4.9, "p80": 5.2, "n": 30, "flagged": False}


def posted(device: str | None = "box7", **changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": uuid.uuid4().hex,
        "device": device,
        "fingerprint": CARD.as_dict() | {"uuid": f"GPU-of-{device}"},
        "status": "done",
        "budget_seconds": 60.0,
        "sections": {"launch.us": MEASURED},
        "missing": {
            "attention.bf16.512": "no bf16 on this device",
            "matmul.bf16": "no bf16 in this hardware",
        },
        "seconds": 40.0,
        "started_at": "2026-01-31T12:00:00+00:00",
    }
    return body | changes


class TestResultsMadeElsewhere:
    def test_one_is_extended_while_it_runs_and_read_back(self, client: TestClient):
        body = posted("growing", status="running", sections={}, missing={}, progress=0.1, doing="launch")
        made = client.post("/calibrations", json=body)
        assert made.status_code == 201, made.text
        assert made.headers["location"] == f"/calibrations/{body['id']}"
        assert made.json()["gpu"] == "a100"
        body |= {"sections": {"launch.us": MEASURED}, "progress": 0.5}
        grown = client.post("/calibrations", json=body)
        assert grown.status_code == 200
        assert (grown.json()["status"], grown.json()["progress"]) == ("running", 0.5)
        more = {
            "bandwidth.copy": MEASURED | {"unit": "GB/s", "value": 1_300.0, "p20": 1_290.0, "p80": 1_310.0}
        }
        stopping = client.app.state.service.stopping  # type: ignore[attr-defined]
        stopping.set()
        told = events_of(client.get(f"/calibrations/{body['id']}/events").text)
        stopping.clear()
        assert [name for name, _ in told] == ["section", "progress"], "a server that stops ends its streams"
        ended = client.post("/calibrations", json=body | {"status": "done", "sections": more}).json()
        assert (ended["status"], ended["progress"], ended["usable"]) == ("done", 1.0, True)
        assert set(ended["sections"]) == {"launch.us", "bandwidth.copy"}
        assert client.get(f"/calibrations/{body['id']}").json() == ended
        page = client.get("/calibrations?device=growing").json()["items"]
        assert [(row["id"], row["status"], row["stale"]) for row in page] == [(body["id"], "done", [])]
        assert client.get("/gpus/growing").json()["registered"][0]["calibrations"][0]["id"] == body["id"]

    def test_the_same_again_changes_nothing_and_another_body_is_refused(self, client: TestClient):
        body = posted("twice")
        assert client.post("/calibrations", json=body).status_code == 201
        revision = client.app.state.service.database.knowledge_revision()  # type: ignore[attr-defined]
        assert client.post("/calibrations", json=body).status_code == 200
        assert client.app.state.service.database.knowledge_revision() == revision  # type: ignore[attr-defined]
        for change in (
            {"sections": {"launch.us": MEASURED | {"value": 5.1}}},
            {"status": "failed"},
            {"device": "another"},
            {"fingerprint": body["fingerprint"] | {"driver": "560.28"}},
        ):
            refused = client.post("/calibrations", json=body | change)
            assert refused.status_code == 409, (change, refused.text)
        assert client.get("/calibrations?device=another").json()["items"] == []

    def test_a_fingerprint_that_is_not_its_device_s_is_refused(self, client: TestClient):
        assert client.post("/calibrations", json=posted("mine")).status_code == 201
        other = posted("mine", fingerprint=CARD.as_dict() | {"uuid": "GPU-of-somebody-else"})
        refused = client.post("/calibrations", json=other)
        assert refused.status_code == 409
        assert refused.json()["errors"][0]["field"] == "fingerprint.uuid"
        assert "GPU-of-mine" in refused.json()["detail"]

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"value": -5.0, "p20": -5.0}, "sections.launch.us.value"),
            ({"value": 0.0, "p20": 0.0}, "sections.launch.us.value"),
            ({"value": 1e12, "p80": 1e12}, "sections.launch.us.value"),
            ({"p20": 6.0}, "sections.launch.us.p20"),
            ({"value": 9.0}, "sections.launch.us.value"),
            ({"unit": "GB/s"}, "sections.launch.us.unit"),
            ({"unit": "furlongs"}, "sections.launch.us.unit"),
            ({"n": 0}, "sections.launch.us.n"),
            ({"n": 2.5}, "sections.launch.us.n"),
            ({"value": "fast"}, "sections.launch.us.value"),
            ({"value": None}, "sections.launch.us.value"),
            ({"more": 1}, "sections.launch.us.more"),
        ],
    )
    def test_figures_that_cannot_be_are_named(self, client: TestClient, change: dict[str, Any], field: str):
        body = posted("never", sections={"launch.us": MEASURED | change})
        refused = client.post("/calibrations", json=body)
        assert refused.status_code == 422, refused.text
        assert field in [error["field"] for error in refused.json()["errors"]]
        assert client.get("/gpus/never").status_code == 404

    @pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
    def test_what_is_no_number_is_refused(self, client: TestClient, number: str):
        raw = json.dumps(posted("never")).replace("5.0", number, 1)
        refused = client.post("/calibrations", content=raw, headers={"Content-Type": "application/json"})
        assert refused.status_code == 422
        assert client.get("/gpus/never").status_code == 404

    @pytest.mark.parametrize(
        "change",
        [
            {"sections": {"launch.use": MEASURED}},
            {"missing": {"no.such.section": "why"}},
            {"missing": {"launch.us": "both"}},
            {"id": "one"},
            {"device": "a b"},
            {"device": "t4"},
            {"status": "finished"},
            {"budget_seconds": 0},
            {"started_at": "yesterday"},
            {"fingerprint": {"kind": "cuda"}},
            {"fingerprint": CARD.as_dict() | {"name": "NVIDIA Z9", "uuid": "z"}},
            {"fingerprint": CARD.as_dict() | {"cores": -1}},
            {"sections": [MEASURED]},
            {
                "self_check": {
                    "median_error_percent": {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": 1}}}}}}}}
                }
            },
            {"nonsense": True},
        ],
        ids=str,
    )
    def test_nonsense_is_refused_and_nothing_is_written(self, client: TestClient, change: dict[str, Any]):
        refused = client.post("/calibrations", json=posted("never") | change)
        assert refused.status_code == 422, refused.text
        assert client.get("/gpus/never").status_code == 404

    def test_ten_megabytes_are_too_much(self, client: TestClient):
        body = posted("never", why="x" * 10_000_000)
        assert client.post("/calibrations", json=body).status_code == 413

    def test_an_unnamed_device_is_called_by_its_host_and_found_again(self, client: TestClient):
        about = {"host": "Box 9.example", "word": "cuda:1", "fingerprint": CARD.as_dict() | {"uuid": "GPU-9"}}
        first = client.post("/calibrations", json=posted(None, **about))
        assert first.json()["device"] == "Box-9.example-cuda1"
        again = client.post("/calibrations", json=posted(None, **about))
        assert (again.status_code, again.json()["device"]) == (201, "Box-9.example-cuda1")

    def test_an_old_result_sent_late_does_not_make_newer_ones_stale(self, client: TestClient):
        now = client.post("/calibrations", json=posted("current")).json()
        old = posted("current", started_at="2025-12-24T12:00:00+00:00")
        old["fingerprint"] |= {"torch": "2.9.0"}
        late = client.post("/calibrations", json=old).json()
        assert (late["usable"], client.get(f"/calibrations/{now['id']}").json()["usable"]) == (False, True)
        assert (late["seconds"], late["ended_at"][:19]) == (40.0, "2025-12-24T12:00:40")
        assert client.get("/gpus/current").json()["registered"][0]["environment"]["torch"] != "2.9.0"

    def test_another_environment_makes_those_before_stale(self, client: TestClient):
        old = client.post("/calibrations", json=posted("changing")).json()
        faster = {"launch.us": MEASURED | {"value": 4.0, "p20": 3.9}}
        newer = posted("changing", sections=faster, started_at="2026-02-28T12:00:00+00:00")
        newer["fingerprint"] |= {"driver": "560.28"}
        new = client.post("/calibrations", json=newer).json()
        assert new["usable"]
        before = client.get(f"/calibrations/{old['id']}").json()
        assert (before["usable"], before["stale"]) == (False, ["driver was 550.54, is 560.28"])
        device = client.get("/gpus/changing").json()["registered"][0]
        assert [c["id"] for c in device["calibrations"]] == [new["id"], old["id"]]
        assert device["calibrations"][1]["stale"] == before["stale"]
        assert device["calibrations"][0]["key_figures"]["launch.us"]["value"] == 4.0
        assert device["drift"] == [
            {
                "from": old["id"],
                "to": new["id"],
                "because": ["driver was 550.54, is 560.28"],
                "groups": {"launch": {"percent": 25.0, "n": 1}},
            }
        ]


class TestLists:
    def test_they_are_narrowed_sorted_and_streamed(self, client: TestClient):
        for number in range(3):
            client.post("/calibrations", json=posted("listed", started_at=f"2026-03-0{number + 1}T00:00:00Z"))
        rows = client.get("/calibrations?device=listed&sort=-started_at&limit=2").json()
        assert [row["started_at"][:10] for row in rows["items"]] == ["2026-03-03", "2026-03-02"]
        rest = client.get(
            f"/calibrations?device=listed&sort=-started_at&limit=2&cursor={rows['next']}"
        ).json()
        assert [row["started_at"][:10] for row in rest["items"]] == ["2026-03-01"]
        late = client.get("/calibrations?device=listed&started_at_min=2026-03-02T00:00:00Z").json()["items"]
        assert len(late) == 2
        assert len(client.get("/calibrations?device=listed&format=csv").text.splitlines()) == 4
        wrong = client.get("/calibrations?status=finished")
        assert wrong.status_code == 422
        assert client.get("/calibrations/no-such-one").status_code == 404
        assert client.get("/calibrations/no-such-one/events").status_code == 404


@pytest.fixture
def live(
    servers: Servers, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TestClient]:
    """A server that may load its host; the benchmark's process says a section a second until told to end."""
    script = tmp_path / "speaker.py"
    script.write_text(
        SAY + 'section("launch.us", 5.0)\nsay("progress", done=1, of=4, doing="bandwidth", seconds=0.1)\n'
        f"import pathlib\nwhile not pathlib.Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.05)\n"
        'section("bandwidth.copy", 20.0, "GB/s")\nsay("missing", name="trees.10000x20", why="no time")\n'
        + DONE
    )
    monkeypatch.setattr(benchmarks, "command", lambda *_, **__: [sys.executable, str(script)])
    url = servers.new(kind, "seeded")
    app = create_app(load_settings(database_url=url, seed_on_start=False))
    with TestClient(app) as client:
        assert app.state.service.preparation.wait(300).ready
        yield client
    servers.drop(url)


def events_of(text: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def follow_from_many_places(url: str, key: str, go: Path) -> tuple[list[str], str]:
    """What 50 listeners from the beginning, one from the middle and one after the end were told."""
    told: list[str] = []

    def follow(after: float) -> None:
        time.sleep(after)
        answer = httpx2.get(f"{url}/calibrations/{key}/events", timeout=60)
        assert answer.headers["content-type"].startswith("text/event-stream")
        told.append(answer.text)

    listeners = [threading.Thread(target=follow, args=(delay,)) for delay in [*[0.0] * 50, 1.0]]
    for listener in listeners:
        listener.start()
    time.sleep(1.5)
    assert httpx2.get(f"{url}/healthz", timeout=60).status_code == 200
    now = httpx2.get(f"{url}/calibrations/{key}", timeout=60).json()
    assert now["doing"] == "bandwidth", "listeners hold no worker"
    go.touch()
    for listener in listeners:
        listener.join(60)
    assert len(told) == len(listeners)
    return told, httpx2.get(f"{url}/calibrations/{key}/events", timeout=60).text


def test_a_device_of_this_host_is_measured_and_followed(live: TestClient, tmp_path: Path):
    made = live.post("/gpus", json={"name": "cpu", "device": "cpu", "calibrate": True, "budget_seconds": 60})
    assert made.status_code == 201, made.text
    key = made.json()["calibration"]["id"]
    assert made.json()["calibration"]["status"] == "running"
    second = live.post("/gpus", json={"name": "cpu", "device": "cpu"})
    assert (second.status_code, second.json()["errors"][0]["nearest"]) == (409, [key])
    assert live.delete("/gpus/cpu").status_code == 409
    for url in listen(live):
        told, late = follow_from_many_places(url, key, tmp_path / "go")
        for text in (*told, late):
            events = events_of(text)
            assert [data["name"] for name, data in events if name == "section"] == [
                "launch.us",
                "bandwidth.copy",
            ]
            assert [data["name"] for name, data in events if name == "missing"] == ["trees.10000x20"]
            assert events[-1][0] == "end"
            assert (events[-1][1]["status"], events[-1][1]["measured"]) == ("done", 2)
        resumed = httpx2.get(
            f"{url}/calibrations/{key}/events", headers={"Last-Event-ID": "1.0"}, timeout=60
        ).text
        assert [data["name"] for name, data in events_of(resumed) if name == "section"] == ["bandwidth.copy"]
    assert live.get("/gpus/cpu").json()["registered"][0]["calibrations"][0]["status"] == "done"


def test_a_client_that_was_killed_leaves_a_failed_calibration(
    live: TestClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(calibrations, "SILENT_SECONDS", 1.0)
    body = posted("killed", status="running")
    assert live.post("/calibrations", json=body).status_code == 201
    assert live.post("/calibrations", json=posted("killed", status="running")).status_code == 409
    time.sleep(1.2)
    (row,) = live.get("/calibrations?device=killed").json()["items"]
    assert (row["status"], row["measured"]) == ("failed", 1)
    assert "nothing more was heard of it" in row["why"]
    assert live.get(f"/calibrations/{body['id']}").json()["usable"]
    back = live.post("/calibrations", json=body | {"status": "done"})
    assert (back.status_code, back.json()["status"]) == (200, "done")


def test_the_fake_devices_of_these_tests_are_as_real_ones_are():
    word, here = registering.look_at("cpu")
    assert word == "cpu"
    assert here.as_dict().keys() == CPU.as_dict().keys() == CARD.as_dict().keys()
    assert LAUNCH.startswith("section(")


FIGURES = {"ms": 2.0, "us": 5.0, "s": 1.0, "TFLOP/s": 0.1, "GB/s": 50.0, "GiB": 1.0, "images/s": 500.0,
           "ratio": 1.0, "MHz": 1400.0, "C": 60.0}  # fmt: skip
APPLE = CARD.as_dict() | {"kind": "mps", "name": "Apple M2 Max", "uuid": "apple-1", "architecture": None}


@pytest.mark.parametrize(
    ("fingerprint", "least"),
    [(CARD.as_dict(), 240), (CPU.as_dict(), 60), (APPLE, 60)],
    ids=["cuda", "cpu", "mps"],
)
def test_a_complete_calibration_of_each_kind_of_device_can_be_posted(
    client: TestClient, fingerprint: dict[str, Any], least: int
):
    kind = fingerprint["kind"]
    every = probes(kind, PRECISIONS[kind], cores=16)
    sections = {
        probe.name: {"value": (v := FIGURES[probe.unit]), "unit": probe.unit, "p20": v, "p80": v, "n": 9}
        for probe in every
    }
    assert len(sections) >= least
    body = posted(f"whole-{kind}", fingerprint=fingerprint | {"uuid": f"whole-{kind}"}, sections=sections)
    made = client.post("/calibrations", json=body | {"missing": {}})
    assert made.status_code == 201, made.text[:500]
    assert made.json()["measured"] == len(sections)


ODD = {
    "fast convolutions": {"conv.": 1e-3},
    "a process of 30 GiB": {"memory.context_gib": 30.0},
    "a slice's times": {"matmul.": 1e-2, "bandwidth.": 1.0},
}


@pytest.mark.parametrize("odd", ODD)
def test_one_calibration_that_cannot_be_changes_nobody_s_figures(client: TestClient, odd: str):
    asked = "/predict?model=resnet50&image_size=224&gpu=a100&precision=bf16&batch_size=64"
    before = client.get(asked).json()
    sections = {
        probe.name: {"value": (v := value), "unit": probe.unit, "p20": v, "p80": v, "n": 9}
        for probe in probes("cuda", PRECISIONS["cuda"], cores=16)
        for start, value in ODD[odd].items()
        if probe.name.startswith(start)
    }
    sliced = {"mig": "1g.5gb", "memory_gib": 5.0} if "slice" in odd else {}
    fingerprint = CARD.as_dict() | sliced | {"uuid": odd}
    made = client.post(
        "/calibrations", json=posted(odd.replace(" ", "-").replace("'", ""), fingerprint=fingerprint)
        | {"sections": sections, "missing": {}},
    )  # fmt: skip
    assert made.status_code == 201, made.text
    assert client.get(asked).json() == before
    assert made.json()["usable"] is False
    assert "in quarantine until another reporter's calibration agrees" in made.json()["stale"][0]


def seconds_for(database: Database, who: str, gpu: str) -> float:
    """Of a step, as a key is told."""
    token = ASKER.set(f"key {who}")
    try:
        question = {"model": "convnext_tiny", "gpu": gpu, "batch_size": 64, "precision": "fp32"}
        return float(predict(database, question)["step_seconds"]["value"])
    finally:
        ASKER.reset(token)


def test_nothing_that_others_tell_takes_an_owner_its_own_measurement(client: TestClient) -> None:
    """Copies of what somebody measured put in quarantine whatever else was measured on the device, or on
    others of its model."""
    database = client.app.state.service.database  # type: ignore[attr-defined]
    rates_told(database, "ada", "first", "GPU-of-first", 1.0)
    before = {who: seconds_for(database, who, "first") for who in ("ada", "bob")}
    rates_told(database, "eve", "first", "GPU-of-first", 2.0, day=2)
    assert {who: seconds_for(database, who, "first") for who in ("ada", "bob")} == before
    rates_told(database, "eve", "first", "GPU-of-first", 1.0, day=3)
    rates_told(database, "eve", "copy", "GPU-of-copy", 1.0, day=3)
    slower = rates_told(database, "ada", "first", "GPU-of-first", 2.0, day=4)
    assert slower["usable"], slower["stale"]
    assert seconds_for(database, "ada", "first") > 1.5 * before["ada"]
    rates_told(database, "cy", "slow", "GPU-of-slow", 3.0)
    assert seconds_for(database, "cy", "slow") > 2.0 * before["ada"]


def test_a_device_of_another_key_s_uuid_takes_none_of_its_calibrations(
    client: TestClient,
) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    plain = posted(None, host="node7", word="cuda:0")
    plain["fingerprint"] |= {"uuid": "GPU-of-node7"}
    first, _ = calibrations.accept(database, plain | {"id": str(uuid.uuid4())}, who="ada")
    theirs = posted("0a-first-by-name", status="failed", why="cut short", sections={}, missing={})
    theirs["fingerprint"] |= {"uuid": "GPU-of-node7"}
    calibrations.accept(database, theirs, who="eve")
    again, _ = calibrations.accept(database, plain | {"id": str(uuid.uuid4())}, who="ada")
    assert again["device"] == first["device"]


@pytest.mark.parametrize(
    "name",
    ["gpu", "Kaggle", "auto", "rtx-4070-laptop", "T4-15GB", "a100-40gb-pcie", "PCIe_A100.40GB", "t4-x2",
     "g4dn-xlarge", "ecs_gn6i_c4g1_xlarge", "gpu-8x-a100", "standard.nc24ads-a100_v4", "a2_highgpu_1g",
     "co-lab", "g-p-u", "k-aggle", "rtx5050", "RTX-5050.Ti", "k80", "h300", "radeon-rx-9900xt"],
)  # fmt: skip
def test_no_key_takes_a_name_that_stands_for_cards(client: TestClient, name: str) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    with pytest.raises(
        InvalidInput, match=r"means the GPU model|stands for GPUs|reads as the name of a card"
    ):
        calibrations.accept(database, posted(name), who="eve")


@pytest.mark.parametrize(
    "name", ["a100-2", "lab-a100", "dgx-a100", "box7-t4x2", "my-a100-40gb", "g5-of-ada", "node42"]
)
def test_a_name_with_a_card_s_in_it_is_a_device_s(client: TestClient, name: str) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    assert calibrations.accept(database, posted(name), who="eve")[0]["device"] == name


def test_a_card_s_sheet_is_not_added_behind_the_device_of_a_key(client: TestClient) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    calibrations.accept(database, posted("nova-9"), who="eve")
    sheet = {"slug": "nova9", "name": "NVIDIA Nova 9", "kind": "cuda", "architecture": "ada",
             "compute_capability": 8.9, "memory_gib": 15.6, "usable_gib": 15.4, "bandwidth_gb_s": 600,
             "tflops": {"fp32": 30, "fp16": 120, "bf16": 120}, "source": "made up"}  # fmt: skip
    refused = client.post("/gpus", json=sheet)
    assert (refused.status_code, "'nova-9'" in refused.text) == (409, True)


def test_no_key_takes_another_s_name_with_other_separators(client: TestClient) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    calibrations.accept(database, posted("lab-h100.1"), who="ada")
    for name in ("lab_h100_1", "labh100-1", "LAB.H100.1"):
        with pytest.raises(InvalidInput, match=r"is the name of the device 'lab-h100.1' in other letters or"):
            calibrations.accept(database, posted(name), who="eve")
    assert calibrations.accept(database, posted("lab-h1001"), who="ada")[0]["device"] == "lab-h1001"


@pytest.mark.parametrize("field", ["power_limit_w", "memory_gib", "compute_capability"])
def test_a_device_is_told_with_figures_that_a_device_can_have(client: TestClient, field: str) -> None:
    body = posted("tiny")
    body["fingerprint"] |= {field: 5e-324}
    refused = client.post("/calibrations", json=body)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, f"fingerprint.{field}")


def test_a_section_is_told_with_a_figure_that_can_be_measured(client: TestClient) -> None:
    """The logarithm of a quotient of smaller ones stopped all questions of everybody."""
    body = posted("tiny")
    name, one = next(iter(body["sections"].items()))
    body["sections"] |= {name: {**one, "value": 5e-324}}
    refused = client.post("/calibrations", json=body)
    assert refused.status_code == 422
    assert "must be 0, or from 1e-09 to 1e12" in refused.text


def test_what_one_key_alone_told_before_does_not_void_what_another_measures(client: TestClient) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]

    before = seconds_for(database, "owner", "l4")
    assert rates_told(database, "liar", "no-such-card", "GPU-of-nobody", 4.0, L4)["usable"]
    assert seconds_for(database, "owner", "l4") == before
    mine = rates_told(database, "owner", "box-of-owner", "GPU-of-owner", 7.0, L4)
    assert mine["usable"], mine["stale"]
    assert seconds_for(database, "owner", "box-of-owner") > 2.0 * before


L4 = replace(CARD, name="NVIDIA L4", memory_gib=22.5, architecture="ada", compute_capability=8.9)
H100 = replace(
    CARD, name="NVIDIA H100 80GB HBM3", memory_gib=79.6, architecture="hopper", compute_capability=9.0
)


def rates_told(
    database: Database, who: str, device: str, uuid: str, times: float, card: Fingerprint = CARD, day: int = 1
) -> dict[str, Any]:
    """A calibration that told bandwidths and products as of an A100, divided by `times`."""
    sections = {
        probe.name: {"value": (v := most / times), "unit": unit, "p20": v, "p80": v, "n": 9}
        for probe in probes("cuda", PRECISIONS["cuda"], cores=16)
        for start, unit, most in (("bandwidth.", "GB/s", 1_200.0), ("matmul.fp32", "TFLOP/s", 12.0))
        if probe.name.startswith(start) and probe.unit == unit
    }
    body = posted(device, fingerprint=card.as_dict() | {"uuid": uuid}, sections=sections, missing={})
    body |= {"started_at": f"2026-02-{day:02d}T12:00:00+00:00"}
    return calibrations.accept(database, body, who=who)[0]


def test_another_key_takes_no_device_its_calibration_or_its_turn(client: TestClient) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    mine, _ = calibrations.accept(database, posted("taken"), who="ada")
    other = posted("taken", status="failed", why="none", sections={}, missing={})
    other["fingerprint"] |= {"driver": "999.1"}
    calibrations.accept(database, other, who="eve")
    assert mine["usable"]
    assert client.get(f"/calibrations/{mine['id']}").json()["stale"] == []
    newer = posted("taken")
    newer["fingerprint"] |= {"driver": "560.28"}
    calibrations.accept(database, newer, who="ada")
    assert client.get(f"/calibrations/{mine['id']}").json()["stale"] == ["driver was 550.54, is 560.28"]
    stolen, _ = calibrations.accept(database, posted("taken", status="running"), who="eve")
    assert calibrations.accept(database, posted("taken", status="running"), who="ada")[1]
    with pytest.raises(Conflict, match="wait until it ends"):
        calibrations.accept(database, posted("taken", status="running"), who="ada")
    with pytest.raises(Conflict):
        calibrations.accept(database, posted("taken", status="running"), who="eve")
    assert client.get(f"/calibrations/{stolen['id']}").json()["status"] == "failed"


def test_another_key_neither_goes_on_with_a_calibration_nor_ends_it(client: TestClient) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    going = posted("going-on", status="running", missing={})
    calibrations.accept(database, going, who="ada")
    for status in ("running", "done", "failed"):
        with pytest.raises(Forbidden):
            calibrations.accept(database, going | {"status": status, "sections": {}}, who="eve")
    ended, _ = calibrations.accept(database, going | {"status": "done"}, who="ada")
    with pytest.raises(Forbidden):
        calibrations.accept(database, going | {"status": "done"}, who="eve")
    assert (ended["status"], list(ended["sections"])) == ("done", ["launch.us"])
    again, _ = calibrations.accept(database, going | {"status": "done"}, who="editor", corrects=True)
    assert again["status"] == "done"


@pytest.mark.parametrize("teller", ["ada", None, SERVICE])
def test_a_key_changes_nothing_of_a_device_that_another_told(client: TestClient, teller: str | None) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    name = f"told-by-{teller}"
    calibrations.accept(database, posted(name, host="its-host", word="cuda:0"), who=teller)
    before = device_row(database, name)
    told = posted(name, status="running", host="another", word="cuda:7", sections={})
    told["fingerprint"] |= {"driver": "999.1"}
    as_model = told | {"id": uuid.uuid4().hex}
    as_model["fingerprint"] = told["fingerprint"] | {"name": H100.name}
    models = rf"is registered as {CARD.name} \(a100\); this is {H100.name} \(h100\)"
    with pytest.raises(Conflict, match=models) as refused:
        calibrations.accept(database, as_model, who="eve")
    assert [error.field for error in refused.value.errors] == ["fingerprint.name"]
    calibrations.accept(database, told, who="eve")
    assert device_row(database, name) == before
    calibrations.accept(database, told | {"status": "done"}, who="eve")
    newer = told | {"id": uuid.uuid4().hex, "status": "done"}
    calibrations.accept(database, newer, who="editor", corrects=True)
    assert device_row(database, name)["fingerprint"]["driver"] == "999.1"


def device_row(database: Database, name: str) -> dict[str, Any]:
    with database.read() as reading:
        row = store.device(reading.session, name)
        return {column.name: getattr(row, column.name) for column in Device.__table__.columns}


def test_what_another_says_to_run_blocks_no_owner_of_a_device(client: TestClient) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    mine = posted("owned")
    calibrations.accept(database, mine, who="ada")
    other = posted("other-name", fingerprint=mine["fingerprint"], status="running")
    calibrations.accept(database, other, who="eve")
    assert calibrations.accept(database, posted("owned", status="running"), who="ada")[1]
    with pytest.raises(Conflict, match="wait until it ends"):
        calibrations.accept(database, other | {"id": uuid.uuid4().hex}, who="eve")
    calibrations.accept(database, posted("box-of-eve", status="running"), who="eve")
    card = replace(CARD, uuid="GPU-of-box-of-eve")
    begun = begin(database, Wanted("box-of-eve", card, "cuda:0", 60.0), "ada")
    assert begun.status == "running"
    _keep_end(database, begun.id, benchmarks.Report(status="failed", why="the test has ended"))
    calibrations.accept(database, posted("deleted"), who="ada")
    calibrations.accept(database, posted("deleted", status="running"), who="eve")
    assert registering.remove_device(database, "deleted", who="editor")


def test_a_device_whose_own_calibration_reports_is_not_deleted(client: TestClient) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    going = posted("reports", status="running", missing={})
    calibrations.accept(database, going, who="ada")
    with pytest.raises(Conflict, match="wait until it ends"):
        registering.remove_device(database, "reports", who="editor")
    calibrations.accept(database, going | {"status": "done"}, who="ada")
    assert registering.remove_device(database, "reports", who="editor")


def test_who_first_says_what_a_device_is_that_has_a_name_only_tells_of_its_changes(
    client: TestClient,
) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    assert client.post("/gpus", json={"name": "named-only"}).status_code == 201
    calibrations.accept(database, posted("named-only"), who="box")
    calibrations.accept(database, posted("named-only"), who="eve")
    for who, driver in (("eve", "999.1"), ("box", "560.28")):
        newer = posted("named-only")
        newer["fingerprint"] |= {"driver": driver}
        told, _ = calibrations.accept(database, newer, who=who)
        assert (told["stale"] == []) is (who == "box")
    assert device_row(database, "named-only")["fingerprint"]["driver"] == "560.28"
    as_model = posted("named-only")
    as_model["fingerprint"] |= {"name": H100.name}
    for who in ("eve", "box"):
        with pytest.raises(Conflict):
            calibrations.accept(database, as_model, who=who)
    assert device_row(database, "named-only")["gpu"] == "a100"


@pytest.mark.parametrize("corrects", [False, True])
def test_what_a_key_says_of_a_device_that_another_registered_yields_to_its_owner(
    client: TestClient, corrects: bool
) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    name, owner = f"claimed-{corrects}", "editor" if corrects else "ada"
    registering.register_device(database, {"name": name}, calibrating=None, server="http://s", who="ada")
    theirs, mine = posted(name, host="elsewhere", started_at="2026-02-01T12:00:00+00:00"), posted(name)
    theirs["fingerprint"] |= {"uuid": "GPU-of-eve", "name": H100.name}
    claimed, _ = calibrations.accept(database, theirs, who="eve")
    running, _ = calibrations.accept(
        database, theirs | {"id": uuid.uuid4().hex, "status": "running"}, who="eve"
    )
    assert claimed["usable"]
    with pytest.raises(Conflict, match="another name"):
        calibrations.accept(database, mine, who="bob")
    made, _ = calibrations.accept(database, mine, who=owner, corrects=corrects)
    now = device_row(database, name)
    assert made["usable"]
    assert (now["uuid"], now["gpu"], now["host"]) == (mine["fingerprint"]["uuid"], "a100", None)
    before = client.get(f"/calibrations/{claimed['id']}").json()
    assert f"uuid was GPU-of-eve, is {now['uuid']}" in before["stale"]
    assert client.get(f"/calibrations/{running['id']}").json()["status"] == "failed"
    for who, says in (("eve", theirs), ("editor", theirs)):
        with pytest.raises(Conflict):
            calibrations.accept(database, says | {"id": uuid.uuid4().hex}, who=who, corrects=who == "editor")
    newer = posted(name)
    newer["fingerprint"] |= {"driver": "999.1"}
    calibrations.accept(database, newer, who="eve")
    assert device_row(database, name)["fingerprint"]["driver"] != "999.1", "eve owns nothing of it any more"


def test_a_device_that_is_known_does_not_become_another_card_by_its_owners_word(client: TestClient) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    first = posted("turning", started_at="2026-02-01T12:00:00+00:00")
    made, _ = calibrations.accept(database, first, who="eve")
    turned = first | {"id": uuid.uuid4().hex, "fingerprint": first["fingerprint"] | {"name": H100.name}}
    with pytest.raises(Conflict, match="choose another name"):
        calibrations.accept(database, turned, who="eve")
    assert device_row(database, "turning")["gpu"] == "a100"
    calibrations.accept(database, turned, who="editor", corrects=True)
    assert device_row(database, "turning")["gpu"] == "h100"
    stale = client.get(f"/calibrations/{made['id']}").json()["stale"]
    assert stale == [f"name was {first['fingerprint']['name']}, is {H100.name}"]


def test_who_registered_a_device_says_which_card_has_the_uuid_that_a_key_told(client: TestClient) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    registering.register_device(database, {"name": "same"}, calibrating=None, server="http://s", who="ada")
    truth = posted("same", started_at="2026-02-01T12:00:00+00:00")
    false = truth | {"id": uuid.uuid4().hex, "fingerprint": truth["fingerprint"] | {"name": H100.name}}
    calibrations.accept(database, false, who="eve")
    made, _ = calibrations.accept(database, truth, who="ada")
    with pytest.raises(Conflict):
        calibrations.accept(database, false | {"id": uuid.uuid4().hex}, who="eve")
    assert device_row(database, "same")["gpu"] == "a100"
    assert client.get(f"/calibrations/{made['id']}").json()["stale"] == []


def test_a_result_beside_a_running_calibration_of_the_device_waits_for_it(client: TestClient) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    going = posted("busy", status="running", missing={})
    calibrations.accept(database, going, who="eve")
    with pytest.raises(Conflict, match="wait until it ends"):
        calibrations.accept(database, posted("busy"), who="eve")
    calibrations.accept(database, going | {"status": "done"}, who="eve")
    assert calibrations.accept(database, posted("busy"), who="eve")[1]


def test_one_that_was_given_up_does_not_go_on_beside_another_of_its_device(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = client.app.state.service.database  # type: ignore[attr-defined]
    silent, going = (posted("quiet", status="running", missing={}) for _ in range(2))
    calibrations.accept(database, silent, who="eve")
    with monkeypatch.context() as late:
        late.setattr(calibrations, "SILENT_SECONDS", -1.0)
        assert client.get(f"/calibrations/{silent['id']}").json()["status"] == "failed"
    calibrations.accept(database, going, who="eve")
    with pytest.raises(Conflict, match="wait until it ends"):
        calibrations.accept(database, silent, who="eve")
    calibrations.accept(database, going | {"status": "done"}, who="eve")
    assert calibrations.accept(database, silent | {"status": "done"}, who="eve")[0]["status"] == "done"


def test_others_write_while_a_calibration_is_checked(client: TestClient, monkeypatch: pytest.MonkeyPatch):
    database = client.app.state.service.database  # type: ignore[attr-defined]
    wrote: list[bool] = []

    def checked(*_: Any) -> None:
        other = threading.Thread(target=write, daemon=True)
        other.start()
        other.join(5.0)
        wrote.append(not other.is_alive())

    def write() -> None:
        with database.write_untracked():
            pass

    monkeypatch.setattr(calibrations, "checked_by_networks", checked)
    assert client.post("/calibrations", json=posted("checked")).status_code == 201
    assert wrote == [True]
    dying = posted("dying", status="running")
    assert client.post("/calibrations", json=dying).status_code == 201
    monkeypatch.setattr(calibrations, "SILENT_SECONDS", -1.0)
    assert client.get(f"/calibrations/{dying['id']}").json()["status"] == "failed"
    assert len(wrote) > 1
    assert all(wrote)


def test_one_that_stops_with_very_many_sections_keeps_nobody_waiting_and_counts_once_it_is_checked(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as silent:  # those of other tests end before
        silent.setattr(calibrations, "SILENT_SECONDS", -1.0)
        while [one for one in client.get("/calibrations").json()["items"] if one["status"] == "running"]:
            pass
    monkeypatch.setattr(calibrations, "MOST_CHECKED", 0)
    body = posted("silent", status="running")
    assert client.post("/calibrations", json=body).status_code == 201
    with monkeypatch.context() as silent:
        silent.setattr(calibrations, "SILENT_SECONDS", -1.0)
        silent.setattr(calibrations, "checked_by_networks", None)
        stopped = client.get(f"/calibrations/{body['id']}").json()
    assert (stopped["status"], stopped["usable"]) == ("failed", False)
    assert "before anybody checked it" in stopped["stale"][0]
    assert client.post("/calibrations", json=body | {"status": "done"}).json()["usable"]


def test_sections_beyond_what_a_calibration_may_have_are_refused(client: TestClient):
    many = {f"launch.us{n}": MEASURED for n in range(2_001)}
    refused = client.post("/calibrations", json=posted("many", sections=many))
    assert refused.status_code == 422
    assert "at most 200 members, not 2001" in refused.json()["detail"]
    nested = client.post("/calibrations", json=posted("many", why={f"n{n}": 1 for n in range(201)}))
    assert "at most 200 members" in nested.json()["detail"]


def test_more_listeners_than_there_is_room_for_are_refused_at_once_and_leave_their_places(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    made = client.post("/calibrations", json=posted("box-of-listeners")).json()
    path = f"/calibrations/{made['id']}/events"
    assert client.get(path).status_code == 200
    gc.collect()
    assert len(routes._listeners) == 0
    monkeypatch.setattr(routes, "MOST_LISTENERS", 0)
    refused = client.get(path)
    assert refused.status_code == 503
    assert "listen already" in refused.json()["detail"]


def test_one_caller_takes_no_more_than_a_share_of_the_places_to_listen(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    made = client.post("/calibrations", json=posted("box-of-one-caller")).json()
    path = f"/calibrations/{made['id']}/events"
    listening = [routes._Listener("one") for _ in range(routes.MOST_OF_ONE)]
    routes._listeners.update(listening)
    monkeypatch.setattr(routes, "caller_of", lambda scope: "one")
    refused = client.get(path)
    assert refused.status_code == 503
    assert f"{routes.MOST_OF_ONE} listen already" in refused.json()["detail"]
    monkeypatch.setattr(routes, "caller_of", lambda scope: "another")
    assert client.get(path).status_code == 200
    listening.clear()


def test_a_calibration_that_one_key_posted_changes_no_figure_of_others_but_of_that_device(client: TestClient):
    database = client.app.state.service.database  # type: ignore[attr-defined]
    keys = {
        name: {"Authorization": f"Bearer {create_key(database, f'{name} posts', ['read', 'tell'])['key']}"}
        for name in ("mallory", "victor", "third")
    }

    def answered(name: str, gpu: str) -> Any:
        asked: dict[str, Any] = {"model": "resnet50", "gpu": gpu, "batch_size": 64}
        return client.get("/predict", params=asked, headers=keys[name]).json()["step_seconds"]

    before = {name: answered(name, "rtx3090") for name in keys}
    made = client.post("/calibrations", json=invented("mallory-box", 0.15), headers=keys["mallory"])
    assert made.status_code == 201, made.text
    assert answered("victor", "rtx3090") == before["victor"]
    assert answered("victor", "mallory-box") == before["victor"], "its reference networks were not run"
    assert answered("mallory", "rtx3090")["value"] > 2.0 * before["mallory"]["value"]
    made = client.post("/calibrations", json=invented("victor-box", 0.16), headers=keys["victor"])
    assert made.status_code == 201, made.text
    assert answered("victor", "rtx3090")["value"] > 2.0 * before["victor"]["value"], "its own"
    assert answered("third", "rtx3090") == before["third"], "slow cards say nothing of the model"
    for name, rate in (("mallory", 0.7), ("victor", 0.72)):
        made = client.post("/calibrations", json=invented(f"{name}-sound-box", rate), headers=keys[name])
        assert made.status_code == 201, made.text
    assert answered("third", "rtx3090") != before["third"], "two sound ones agree"


def invented(device: str, rate: float) -> dict[str, Any]:
    """A calibration of an RTX 3090 with this share of what its data sheet says."""
    sheet = {"matmul.bf16.": 71.0, "matmul.fp16.": 71.0, "matmul.tf32.": 35.6, "matmul.fp32.": 35.6}
    sections = {}
    for probe in probes("cuda", PRECISIONS["cuda"], cores=16):
        peak = next((peak for start, peak in sheet.items() if probe.name.startswith(start)), None)
        if probe.name.startswith("bandwidth.") and not probe.name.endswith("mib"):
            peak = 936.0
        if peak is not None:
            value = peak * rate
            sections[probe.name] = {
                "value": value, "unit": probe.unit, "p20": value * 0.99, "p80": value * 1.01, "n": 20
            }  # fmt: skip
    return {
        "id": str(uuid.uuid4()), "device": device, "status": "done", "budget_seconds": 60.0, "progress": 1.0,
        "fingerprint": {
            "kind": "cuda", "name": "NVIDIA GeForce RTX 3090", "uuid": f"GPU-of-{device}", "memory_gib": 24.0
        },
        "host": "box", "sections": sections,
    }  # fmt: skip
