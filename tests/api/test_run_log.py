"""The raw log of a run: each piece once, in its place, whatever it holds."""

from __future__ import annotations

import random

import pytest
from fastapi.testclient import TestClient

from memory_service.domain.monitoring.event import SERVER_SEQ
from tests.api.test_watching import B4, begin, log, tell
from tests.domain.monitoring.test_examples import DOG_BREED
from tests.telling import at
from tests.watching import from_log


class TestTheLog:
    def test_the_same_piece_twice_changes_nothing(self, client: TestClient) -> None:
        text = "".join(f"{line}\n" for _, line in DOG_BREED).encode()
        run_id = begin(client, **B4)
        url, when = f"/runs/{run_id}/log", {"at": at(80)}
        first = client.post(url, params=when, content=text[:70]).json()
        assert client.post(url, params=when, content=text[:70]).json()["offset"] == first["offset"] == 70
        assert client.post(url, params=when | {"offset": 0}, content=text).json()["offset"] == len(text)
        once = client.get(f"/runs/{run_id}").json()
        again = client.post(url, params=when | {"offset": 0}, content=text).json()
        assert (again["accepted"], again["offset"], again["lines"]) == (0, len(text), len(DOG_BREED))
        assert client.get(f"/runs/{run_id}").json()["outcome"] == once["outcome"]
        whole = begin(client, **B4)
        client.post(f"/runs/{whole}/log", params=when, content=text)
        assert client.get(f"/runs/{whole}").json()["outcome"]["epochs"] == once["outcome"]["epochs"]

    def test_a_gap_is_refused_with_the_place_to_go_on(self, client: TestClient) -> None:
        run_id = begin(client, **B4)
        client.post(f"/runs/{run_id}/log", content=b"Epoch 1: Loss=0.5\n")
        refused = client.post(f"/runs/{run_id}/log?offset=19", content=b"Epoch 2: Loss=0.4\n")
        assert refused.status_code == 409
        assert "18" in refused.json()["errors"][0]["message"]
        assert client.get(f"/runs/{run_id}").json()["log"] == {
            "offset": 18, "lines": 1, "understood": 1, "clipped": 0,
        }  # fmt: skip

    def test_seqs_of_the_log_meet_no_clients(self, client: TestClient) -> None:
        run_id = begin(client, **B4)
        lines = [(10.0 * n, f"Epoch {n}: Loss=0.5") for n in range(1, 4)]
        log(client, run_id, lines)
        assert tell(client, run_id, from_log(lines))["duplicates"] == 0
        too_far = {"events": [{"seq": SERVER_SEQ, "kind": "note", "at": at(1)}]}
        assert client.post(f"/runs/{run_id}/events", json=too_far).status_code == 422

    def test_lines_with_clocks_keep_their_distances(self, client: TestClient) -> None:
        run_id = begin(client, **B4)
        lines = "".join(f"2026-03-01 09:{n:02d}:00,000 INFO Epoch {n}/10: Loss=0.5\n" for n in range(1, 7))
        answer = client.post(f"/runs/{run_id}/log", params={"at": at(400)}, content=lines.encode()).json()
        assert answer["verdict"]["at_seconds"] == 400.0
        page = client.get(f"/runs/{run_id}").json()
        assert page["outcome"]["epochs_done"] == 6
        assert page["watch"]["end_minutes"]["value"] == pytest.approx(30.0, rel=0.2)
        assert 0 < page["watch"]["training_ends_by_minute"] < page["given"]["minutes"]

    def test_an_unfinished_last_line_is_read_at_the_end(self, client: TestClient) -> None:
        run_id = begin(client, **B4)
        client.post(f"/runs/{run_id}/log", content=b"Epoch 1: Loss=0.5\nEpoch 2: Lo")
        client.post(f"/runs/{run_id}/log", content=b"ss=0.25")
        page = client.post(f"/runs/{run_id}/finish", json={"status": "completed"}).json()
        assert [e["train_loss"] for e in page["outcome"]["epochs"]] == [0.5, 0.25]
        assert page["log"]["offset"] == 36

    def test_binary_noise_is_kept_and_counted(self, client: TestClient) -> None:
        run_id = begin(client, **B4)
        noise = random.Random(5).randbytes(200_000)
        answer = client.post(f"/runs/{run_id}/log", content=noise)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert found["offset"] == len(noise)
        assert found["lines"] >= found["understood"]
        assert client.get(f"/runs/{run_id}").json()["outcome"]["events"].get("note", 0) > 0
        assert client.post(f"/runs/{run_id}/finish", json={"status": "crashed"}).status_code == 200

    def test_a_line_of_50_mb_is_refused_whole_and_absorbed_in_pieces(self, sqlite_client: TestClient) -> None:
        run_id, url = begin(sqlite_client, **B4), ""
        url = f"/runs/{run_id}/log"
        block = b"x" * 2_000_000
        assert sqlite_client.post(url, content=block * 25).status_code == 413
        for n in range(25):
            assert sqlite_client.post(f"{url}?offset={n * len(block)}", content=block).status_code == 200
        answer = sqlite_client.post(url, content=b"\nEpoch 1: Loss=0.5\n").json()
        assert (answer["lines"], answer["understood"]) == (2, 1)
        assert answer["clipped"] > 49_000_000

    def test_wrong_places_and_times_are_named(self, client: TestClient) -> None:
        run_id = begin(client, **B4)
        for query, field in (
            ("offset=-1", "offset"),
            ("offset=x", "offset"),
            ("at=yesterday", "at"),
            ("to=1", "to"),
        ):
            refused = client.post(f"/runs/{run_id}/log?{query}", content=b"Epoch 1\n")
            assert refused.status_code == 422, refused.text
            assert refused.json()["errors"][0]["field"] == field
