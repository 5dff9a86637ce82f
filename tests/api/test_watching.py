"""Are runs watched over HTTP as docs/watching.md says: by events and by logs, on both databases?"""

from __future__ import annotations

import datetime as dt
import random
import time
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.domain.monitoring.test_examples import DOG_BREED, EPOCH_SECONDS, slow_run
from tests.telling import at, case, take_events
from tests.watching import Said, from_log

B4 = {
    "gpu": "a10", "model": "custom/EfficientNet-B4", "batch_size": 128, "folds": 3, "epochs": 10,
    "minutes": 30, "n_train": 9_000, "precision": None,
}  # fmt: skip
Line = tuple[float, str]


def begin(client: TestClient, **changed: Any) -> str:
    answer = client.post("/runs", json=case(**changed))
    assert answer.status_code == 201, answer.text
    return str(answer.json()["run_id"])


def tell(client: TestClient, run_id: str, said: Iterable[Said], first_seq: int = 0) -> dict[str, Any]:
    events = [
        {"seq": first_seq + n, "kind": kind, "at": moment(seconds), **fields}
        for n, (kind, seconds, fields) in enumerate(said)
    ]
    answer = client.post(f"/runs/{run_id}/events", json={"events": events})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def moment(seconds: float) -> str:
    whole = at(seconds)
    return f"{whole[:-1]}.{round(seconds % 1 * 1000):03d}Z" if round(seconds % 1 * 1000) < 1000 else whole


def log(client: TestClient, run_id: str, lines: Iterable[Line]) -> dict[str, Any]:
    """Each line as a piece of its own, written when it appeared."""
    offset, answer = 0, None
    for seconds, line in lines:
        raw = line.encode() + b"\n"
        answer = client.post(
            f"/runs/{run_id}/log", params={"offset": offset, "at": moment(seconds)}, content=raw
        )
        assert answer.status_code == 200, answer.text
        offset = answer.json()["offset"]
    assert answer is not None
    return dict(answer.json())


def verdict(client: TestClient, run_id: str) -> dict[str, Any]:
    """As the answer to an event has it: without what the minutes left would buy."""
    answer = client.get(f"/runs/{run_id}/verdict")
    assert answer.status_code == 200, answer.text
    return {name: part for name, part in answer.json().items() if name != "next_minutes"}


def both_ways(client: TestClient, lines: list[Line], **facts: Any) -> dict[str, Any]:
    """The verdict on a log told as text and, the same run again, as events: they must be the same."""
    as_text, as_events = begin(client, **facts), begin(client, **facts)
    told = log(client, as_text, lines)["verdict"]
    heard = tell(client, as_events, from_log(lines))["verdict"]
    assert told == verdict(client, as_text)
    assert heard == verdict(client, as_events)
    of_time = {"at_seconds", "next_check_seconds", "budget_used_percent", "eta_minutes"}
    assert {n: told[n] for n in told.keys() - of_time} == {n: heard[n] for n in heard.keys() - of_time}
    return dict(told)


class TestTheSourcesExamples:
    def test_18_of_24_on_b4_goes_on(self, client: TestClient) -> None:
        answer = both_ways(client, DOG_BREED, **B4)
        assert (answer["action"], answer["rule"], answer["set"]) == ("continue", "R23", {})
        assert answer["memory"]["fill_percent"] == pytest.approx(76.25, abs=0.1)
        assert answer["memory"]["model_class"] == "large"

    @pytest.mark.parametrize(
        ("model", "action", "changes"),
        [
            ("custom/EfficientNet-B4", "raise_batch", {"batch_size": 192}),
            ("tf_efficientnet_b4.ns_jft_in1k", "raise_batch", {"batch_size": 192}),
            ("custom/ResNet-18", "continue", {}),
            ("resnet18", "continue", {}),
        ],
    )
    def test_12_of_24_raises_the_batch_of_a_large_model_only(
        self, client: TestClient, model: str, action: str, changes: dict[str, int]
    ) -> None:
        lines = [(2.0, "GPU Memory: 24.0 GB"), (60.0, "GPU Memory Used: 12.3 GB / 24.0 GB (51.3%)")]
        answer = both_ways(client, lines, **B4 | {"model": model, "minutes": None})
        assert (answer["action"], answer["set"], answer["rule"]) == (action, changes, "R23")

    def test_small_cnn_ends_at_batch_512_and_following_is_seen(self, client: TestClient) -> None:
        heard, made = [], []
        for batch, used in ((256, 8.2), (384, 11.7), (512, 14.1)):
            facts = B4 | {"model": "custom/Small CNN", "batch_size": batch, "n_train": 60_000, "minutes": 10}
            lines = [(60.0, f"GPU Memory Used: {used} GB / 24.0 GB")]
            answer = both_ways(client, lines, **facts)
            heard.append((answer["action"], answer["set"]))
            made.append(begin(client, **facts))
            log(client, made[-1], lines)
        assert heard == [
            ("relaunch", {"batch_size": 512}),
            ("relaunch", {"batch_size": 512}),
            ("continue", {}),
        ]
        (first,) = client.get(f"/runs/{made[0]}").json()["verdicts"]
        assert (first["action"], first["followed"]) == ("relaunch", "yes"), "the third began with 512"
        assert client.get(f"/runs/{made[2]}").json()["verdicts"] == []

    def test_batch_32_is_told_at_60_seconds_what_would_finish(self, client: TestClient) -> None:
        facts = B4 | {"gpu": "a100", "batch_size": 32, "folds": 5, "epochs": 30, "minutes": 11}
        run_id = begin(client, **facts)
        said = slow_run(10 * EPOCH_SECONDS)
        first = tell(client, run_id, [*(one for one in said if one[1] <= 60.0), ("gpu", 60.0, said[-1][2])])
        answer = first["verdict"]
        assert (answer["action"], answer["severity"]) == ("reduce_folds", "critical")
        assert answer["eta_minutes"]["low"] > 60.0
        epochs = answer["set"]["folds"] * answer["set"]["epochs"]
        assert (epochs - 0.1) * EPOCH_SECONDS <= 0.85 * 660
        late = tell(client, run_id, [one for one in said if one[1] > 60.0], 100)["verdict"]
        assert (late["action"], late["rule"]) == ("stop_and_predict", "R15")
        given = client.get(f"/runs/{run_id}").json()["verdicts"]
        assert [each["action"] for each in given] == ["reduce_folds", "stop_and_predict"]
        assert [each["followed"] for each in given] == ["replaced", "open"]
        ended = client.post(f"/runs/{run_id}/finish", json={"status": "stopped", "at": at(600)}).json()
        assert [each["followed"] for each in ended["verdicts"]] == ["yes", "yes"]
        assert ended["verdict"]["action"] == "continue"

    @pytest.mark.parametrize(
        ("fills", "action", "rule"),
        [
            ([76.0 - 0.4 * n for n in range(11)], "continue", "R23"),
            ([76.0, 75.4, 76.3, 45.0], "investigate", "R25"),
        ],
    )
    def test_a_slow_decline_is_nothing_and_a_jump_is_investigated(
        self, client: TestClient, fills: list[float], action: str, rule: str
    ) -> None:
        lines = [(0.5, "GPU Memory: 24.0 GB")]
        lines += [(25.0 * n, f"Epoch {n}: Loss=0.5, Acc=0.8, GPU={p * 0.24:.2f}GB ({p}%)")
                  for n, p in enumerate(fills, 1)]  # fmt: skip
        answer = both_ways(client, lines, **B4)
        assert (answer["action"], answer["rule"]) == (action, rule)


class TestTheVerdict:
    def test_any_order_and_repetition_gives_the_same(self, client: TestClient) -> None:
        said = [*from_log(DOG_BREED), ("batch", 70.0, {"steps": 100, "seconds": 30.0, "samples": 12_800})]
        events = [
            {"seq": n, "kind": kind, "at": moment(seconds), **fields}
            for n, (kind, seconds, fields) in enumerate(said)
        ]
        found = []
        for seed in range(3):
            run_id = begin(client, **B4)
            mixed = events * 2
            random.Random(seed).shuffle(mixed)
            for place in range(0, len(mixed), 5):
                body = {"events": mixed[place : place + 5]}
                assert client.post(f"/runs/{run_id}/events", json=body).status_code == 200
            found.append((verdict(client, run_id), client.get(f"/runs/{run_id}").json()["watch"]))
        assert found[0] == found[1] == found[2]
        assert found[0][1]["peaks_gib"]["unstated"] == pytest.approx(18.3)

    def test_before_anything_is_told_it_says_so_and_asking_writes_nothing(self, client: TestClient) -> None:
        run_id = begin(client)
        assert verdict(client, run_id)["action"] == "continue"
        page = client.get(f"/runs/{run_id}").json()
        assert (page["verdicts"], page["log"], page["watch"]["steps"]) == ([], None, None)
        answer = tell(client, run_id, [])
        assert (answer["accepted"], answer["verdict"]) == (0, verdict(client, run_id))

    def test_what_was_predicted_is_what_it_is_measured_by(self, client: TestClient) -> None:
        body = case()
        begun = client.post("/runs", json=body).json()
        slow = 3.0 * begun["prediction"]["step_seconds"]["value"]
        steps = int(20 / slow)
        stretch = {"steps": steps, "seconds": 20.0, "samples": 128 * steps, "loader_wait_percent": 1.0}
        said: list[Said] = [("batch", 20.0 * n, stretch) for n in range(1, 9)]
        said.append(("gpu", 161.0, {"process_gib": 30.0, "utilization_percent": 95.0}))
        answer = tell(client, body["run_id"], said)["verdict"]
        assert any("predicted" in text for text in (answer["why"], *answer["notes"])), answer
        page = client.get(f"/runs/{body['run_id']}").json()["watch"]
        assert page["samples_per_second"] < 0.5 * page["expected"]["samples_per_second"]["value"]
        assert page["fill"]["kind"] == "driver"

    def test_nan_is_told_at_once(self, client: TestClient) -> None:
        run_id = begin(client, **B4)
        said = [("batch", 3.0, {"steps": 5, "seconds": 1.0, "train_loss": "nan"})]
        answer = tell(client, run_id, said)["verdict"]
        assert (answer["rule"], answer["severity"]) == ("not-a-number", "critical")

    @pytest.mark.parametrize("text", ['"NaN"', '"Infinity"', '"-Inf"', "NaN", "-Infinity", "1e999"])
    def test_nan_is_understood_as_agents_write_it(self, sqlite_client: TestClient, text: str) -> None:
        run_id = begin(sqlite_client, **B4)
        event = f'"seq": 0, "kind": "batch", "at": "{at(3)}", "steps": 5, "train_loss": {text}'
        body = f'{{"events": [{{{event}}}]}}'
        answer = sqlite_client.post(
            f"/runs/{run_id}/events", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 200, answer.text
        assert answer.json()["verdict"]["rule"] == "not-a-number"

    def test_samples_in_between_keep_the_verdict_that_stands(self, client: TestClient) -> None:
        run_id = begin(client, **B4)
        first = tell(client, run_id, [("gpu", 61.0, {"used_gib": 10.0})])["verdict"]
        assert (first["at_seconds"], first["action"]) == (61.0, "relaunch")
        again = tell(client, run_id, [("gpu", 63.0, {"used_gib": 10.0})], 1)["verdict"]
        assert again == first
        assert verdict(client, run_id)["at_seconds"] == 63.0
        assert tell(client, run_id, [("gpu", 66.0, {"used_gib": 10.0})], 2)["verdict"]["at_seconds"] == 66.0

    def test_a_loss_that_recovers_and_an_epoch_that_took_long_are_judged_at_once(
        self, client: TestClient
    ) -> None:
        run_id = begin(client, **B4)
        lost: list[Said] = [("epoch", 0.1, {"epoch": 1, "train_loss": "nan"})]
        assert tell(client, run_id, lost)["verdict"]["rule"] == "not-a-number"
        found: list[Said] = [("epoch", 0.2, {"epoch": 2, "train_loss": 0.3})]
        heard = tell(client, run_id, found, 1)["verdict"]
        assert (heard["action"], heard) == ("continue", verdict(client, run_id))
        slow: list[Said] = [("epoch", 0.3, {"epoch": 3, "seconds": 600.0, "train_loss": 0.3})]
        heard = tell(client, run_id, slow, 2)["verdict"]
        assert (heard["action"], heard) == ("reduce_folds", verdict(client, run_id))
        assert "cannot finish" in heard["why"]

    def test_advice_that_was_taken_is_seen_and_taken_back(self, client: TestClient) -> None:
        run_id = begin(client, **B4)
        tell(client, run_id, [("gpu", 61.0, {"used_gib": 10.0})])
        wanted = client.get(f"/runs/{run_id}").json()["verdicts"][0]["set"]["batch_size"]
        taken: list[Said] = [
            ("note", 80.0, {"batch_size": wanted}),
            ("gpu", 150.0, {"used_gib": 17.0, "batch_size": wanted}),
        ]
        assert tell(client, run_id, taken, 1)["verdict"]["action"] == "continue"
        given = client.get(f"/runs/{run_id}").json()["verdicts"]
        assert [(each["action"], each["followed"]) for each in given] == [
            ("relaunch", "yes"),
            ("continue", None),
        ]

    def test_a_finished_run_that_goes_on_is_heard_and_told_that_it_ended(self, client: TestClient) -> None:
        run_id = begin(client, **B4)
        client.post(f"/runs/{run_id}/finish", json={"status": "completed", "at": at(100)})
        answer = tell(client, run_id, [("epoch", 200.0, {"epoch": 3, "seconds": 20.0})])
        assert (answer["accepted"], answer["verdict"]["action"]) == (1, "continue")
        assert "ended" in answer["verdict"]["why"]
        assert log(client, run_id, [(220.0, "Epoch 4: Loss=0.4")])["accepted"] > 0
        assert client.get(f"/runs/{run_id}").json()["outcome"]["epochs_done"] == 2

    def test_clocks_that_run_ahead_or_backwards_are_absorbed(self, client: TestClient) -> None:
        run_id = begin(client, **B4)
        ahead = {"seq": 0, "kind": "gpu", "at": "2190-01-01T00:00:00Z", "used_gib": 18.0}
        body = {"events": [ahead, {"seq": 1, "kind": "gpu", "at": "2025-01-01T00:00:00Z", "used_gib": 18.5}]}
        first = client.post(f"/runs/{run_id}/events", json=body).json()
        assert first["accepted"] == 2
        day = 86_400.0 * 20_000
        assert first["verdict"]["at_seconds"] < day, "it counts as told now"
        again = client.post(f"/runs/{run_id}/events", json=body).json()
        assert (again["duplicates"], again["differing"]) == (2, []), "what was told is known as it was told"
        assert client.get(f"/runs/{run_id}").json()["watch"]["odd_values"] == 0
        unset = {"seq": 2, "kind": "gpu", "at": "1970-01-01T00:00:12Z", "used_gib": 18.5}
        began_now = begin(client, **B4 | {"started_at": None})
        heard = client.post(f"/runs/{began_now}/events", json={"events": [unset]}).json()
        assert heard["accepted"] == 1
        assert 0.0 < heard["verdict"]["at_seconds"] < 60.0, "a clock that was never set counts as now, too"
        running = begin(client, **B4)
        tell(client, running, [("gpu", 100.0, {"used_gib": 18.0})])
        back = tell(client, running, [("gpu", 40.0, {"used_gib": 18.0})], 1)
        assert back["verdict"]["at_seconds"] == 100.0

    def test_silence_counts_where_the_run_is_going_on_and_not_in_a_replay(
        self, client: TestClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        began = dt.datetime.now(dt.UTC)
        live, replay = begin(client, **B4 | {"started_at": began.isoformat()}), begin(client, **B4)
        reading = {"seq": 0, "kind": "batch", "steps": 300, "seconds": 40.0}
        for run_id, moment_of in ((live, began + dt.timedelta(seconds=50)), (replay, at(50))):
            told_at = moment_of if isinstance(moment_of, str) else moment_of.isoformat()
            event = {**reading, "at": told_at}
            assert client.post(f"/runs/{run_id}/events", json={"events": [event]}).json()["accepted"] == 1
        later = time.time() + 250
        monkeypatch.setattr("memory_service.services.runs.verdicts.time.time", lambda: later)
        answer = verdict(client, live)
        assert (answer["action"], answer["rule"]) == ("investigate", "stall")
        assert answer["at_seconds"] == pytest.approx(250, abs=5)
        assert client.get(f"/runs/{live}").json()["verdict"]["rule"] == "stall"
        assert verdict(client, replay)["at_seconds"] == 50.0
        client.post(f"/runs/{live}/finish", json={"status": "stopped"})
        assert verdict(client, live)["at_seconds"] == 50.0, "what has ended is not silent"

    @pytest.mark.parametrize("path", ["/verdict", "/log"])
    def test_a_run_that_nobody_began_is_404(self, client: TestClient, path: str) -> None:
        for run_id in ("0" * 32, "nonsense", "%00"):
            url = f"/runs/{run_id}{path}"
            answer = client.get(url) if path == "/verdict" else client.post(url, content=b"Epoch 1\n")
            assert answer.status_code == 404, answer.text


def test_a_restart_and_a_second_process_lose_nothing(client: TestClient) -> None:
    """What another process tells in between counts; nothing that is remembered is trusted without a look."""
    from memory_service.services.database.transactions import Database
    from memory_service.services.runs.verdicts import run_verdict

    run_id = begin(client, **B4)
    said = from_log(DOG_BREED)
    other = Database(client.app.state.service.database.engine.url.render_as_string(hide_password=False))  # type: ignore[attr-defined]
    for n, (kind, seconds, fields) in enumerate(said):
        event: Mapping[str, Any] = {"seq": n, "kind": kind, "at": moment(seconds), **fields}
        if n % 2:
            take_events(other, run_id, {"events": [event]})
        else:
            client.post(f"/runs/{run_id}/events", json={"events": [event]})
    alone = begin(client, **B4)
    tell(client, alone, said)
    there = run_verdict(other, run_id)
    assert there is not None
    del there["next_minutes"]
    assert verdict(client, run_id) == there == verdict(client, alone)
    other.close()
