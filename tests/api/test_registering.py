"""Is a device registered once, by its name and its kind, and measured where it is?"""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.api.test_calibrations import posted
from tests.services.devices.test_local_calibration import CARD


class TestRegistering:
    def test_a_device_elsewhere_gets_the_command_to_run_beside_it(self, client: TestClient):
        body = {"name": "far", "device": "cuda:1", "calibrate": True, "budget_seconds": 20}
        answer = client.post("/gpus", json=body, headers={"Host": "memory.example:8000"})
        assert answer.status_code == 201, answer.text
        assert answer.headers["location"] == "/gpus/far"
        made = answer.json()
        assert made["calibration"] is None
        assert shlex.split(made["command"]) == shlex.split(
            "memory-service calibrate --name far --device cuda:1 --budget-seconds 20 --server http://testserver"
        )
        assert made["why"]
        page = client.get("/gpus/far").json()
        assert (page["slug"], page["device"], page["registered"][0]["fingerprint"]) == (None, "far", None)
        assert client.post("/calibrations", json=posted("far")).status_code == 201
        assert client.get("/gpus/far").json()["slug"] == "a100"

    def test_where_the_operator_forbids_load_the_device_is_registered_all_the_same(self, client: TestClient):
        made = client.post("/gpus", json={"name": "cpu", "device": "cpu"}).json()
        assert made["calibration"] is None
        assert "MEMORY_CALIBRATE" in made["why"]
        assert made["command"].startswith("memory-service calibrate --name cpu --device cpu --server http://")
        assert made["gpu"] == "cpu"
        assert made["card"]["cores"] == made["fingerprint"]["cores"]
        assert client.post("/gpus", json={"name": "cpu", "device": "cpu"}).status_code == 200
        assert "cpu" in client.get("/gpus/cpu").json()["devices"]
        (row,) = client.get("/gpus?slug=cpu").json()["items"]
        assert row["devices"] == client.get("/gpus/cpu").json()["devices"]
        assert client.get("/predict?model=lightgbm&gpu=cpu&n_features=50&n_train=1000").status_code == 200

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"name": "x", "device": "gpu0"}, "device"),
            ({"name": "x", "device": "cuda:9999"}, "device"),
            ({"name": "x", "device": "cpu", "slug": "y"}, "device"),
            ({"name": "x", "budget_seconds": 60, "memory_gib": 4}, "budget_seconds"),
            ({"name": "x y", "device": "cpu"}, "name"),
            ({"name": "a100", "device": "cpu"}, "name"),
            ({"device": "cpu"}, "name"),
            ({"name": None, "device": "cpu"}, "name"),
            ({"name": "x", "device": "cpu", "budget_seconds": 0.5}, "budget_seconds"),
            ({"name": "x", "device": "cpu", "budget_seconds": 1e9}, "budget_seconds"),
            ({"name": "x", "device": "cpu", "calibrate": "yes"}, "calibrate"),
            ({"name": "x", "device": "cpu", "bugdet_seconds": 5}, "bugdet_seconds"),
            ({}, "name"),
        ],
        ids=str,
    )
    def test_what_cannot_be_registered_is_named(self, client: TestClient, body: dict[str, Any], field: str):
        refused = client.post("/gpus", json=body)
        assert refused.status_code == 422, refused.text
        assert field in [error["field"] for error in refused.json()["errors"]]
        assert client.get("/gpus/x").status_code == 404

    def test_a_data_sheet_is_added_as_before(self, client: TestClient):
        sheet = {
            "slug": "z9", "name": "Z9", "kind": "cuda", "architecture": "zeta", "memory_gib": 10.0,
            "usable_gib": 9.5, "bandwidth_gb_s": 100.0, "tflops": {"fp32": 1.0}, "who": "ada", "why": "new",
        }  # fmt: skip
        made = client.post("/gpus", json=sheet)
        assert (made.status_code, made.headers["location"]) == (201, "/gpus/z9")
        body = posted("z", fingerprint=CARD.as_dict() | {"name": "NVIDIA Z9", "uuid": "z"})
        assert client.post("/calibrations", json=body).json()["gpu"] == "z9"
        refused = client.delete("/gpus/z9?version=1")
        assert refused.status_code == 409
        assert client.delete("/gpus/z").status_code == 204
        assert client.get("/gpus/z").status_code == 404
        assert client.get(f"/calibrations/{body['id']}").status_code == 404
        assert client.delete("/gpus/z9?version=1").status_code == 204

    def test_an_index_past_the_cards_of_this_host_is_refused(
        self, client: TestClient, monkeypatch: pytest.MonkeyPatch
    ):
        """What the NVML of a host with one card says; there is no card here."""
        from memory_service.errors import FieldError, InvalidInput
        from memory_service.measure import identity

        def identify(word: str) -> Any:
            if word != "cuda:0":
                raise InvalidInput(
                    "this host has 1 card", [FieldError("device", "past the cards", word, ("cuda:0",))]
                )
            return CARD

        monkeypatch.setattr(identity, "identify", identify)
        refused = client.post("/gpus", json={"name": "x", "device": "cuda:5"})
        assert (refused.status_code, refused.json()["errors"][0]["nearest"]) == (422, ["cuda:0"])
