"""What is wrong in what a run reports is refused or said, and nothing of it counts."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from fastapi.testclient import TestClient

from tests.api.test_watching import B4, begin, moment, tell, verdict
from tests.telling import at
from tests.watching import Said


class TestWrongInput:
    """Done-when 7: what no run can say is refused by name and whole; what may be a slip is absorbed."""

    REFUSED: ClassVar[list[tuple[dict[str, Any], str]]] = [
        ({"kind": "epoch", "epoch": 1, "seconds": -4}, "seconds"),
        ({"kind": "epoch", "epoch": 10**9}, "epoch"),
        ({"kind": "epoch", "epoch": -1}, "epoch"),
        ({"kind": "epoch", "epoch": 1, "train_loss": "low"}, "train_loss"),
        ({"kind": "fold", "fold": 10**9}, "fold"),
        ({"kind": "gpu", "used_gib": 1e300}, "used_gib"),
        ({"kind": "gpu", "utilization_percent": 150}, "utilization_percent"),
        ({"kind": "batch", "samples": 10**30}, "samples"),
        ({"kind": "note", "text": "x" * 30_000}, "text"),
        ({"kind": "note", "gpu_name": "x" * 1_000}, "gpu_name"),
        ({"kind": "gpu", "at": "2999-01-01T00:00:00Z"}, "at"),
        ({"kind": "gpu", "at": "1969-01-01T00:00:00Z"}, "at"),
        ({"kind": "gpu", "seq": -1}, "seq"),
        ({"kind": "surprise"}, "kind"),
    ]

    def test_what_no_run_can_say_is_named_and_nothing_of_it_is_kept(self, client: TestClient) -> None:
        run_id = begin(client, **B4)
        good = {"seq": 0, "kind": "gpu", "at": at(61), "used_gib": 18.0}
        for wrong, field in self.REFUSED:
            events = [good, {"seq": 1, "at": at(62), **wrong}]
            refused = client.post(f"/runs/{run_id}/events", json={"events": events})
            assert refused.status_code == 422, (wrong, refused.text)
            assert [e["field"] for e in refused.json()["errors"]] == [f"events.1.{field}"]
        assert client.get(f"/runs/{run_id}").json()["outcome"]["events"] == {}
        assert tell(client, run_id, [("gpu", 61.0, {"used_gib": 18.0})])["accepted"] == 1

    def test_slips_gaps_and_any_order_are_absorbed(self, client: TestClient) -> None:
        right, slipped = begin(client, **B4), begin(client, **B4)
        said: list[Said] = [("gpu", 30.0, {"used_gib": 18.0})]
        said += [("epoch", 60.0 * n, {"fold": 1, "epoch": n, "seconds": 60.0}) for n in range(1, 5)]
        tell(client, right, said)
        slips: list[Said] = [
            ("epoch", 100.0, {"fold": 100_000, "epoch": 3, "seconds": 60.0}),
            ("epoch", 110.0, {"fold": 1, "epoch": 900_000, "seconds": 60.0}),
            ("fold", 120.0, {"fold": 99_999}),
            ("epoch", 130.0, {"fold": 1, "epoch": 2, "seconds": 60.0}),
        ]
        for n, one in enumerate([*said[::-1], *slips]):
            tell(client, slipped, [one], first_seq=n * 1_000)
        ours, theirs = verdict(client, slipped), verdict(client, right)
        assert (ours["action"], ours["set"]) == (theirs["action"], theirs["set"])
        assert ours["action"] == "reduce_epochs"


def test_what_no_such_run_can_report_is_said_and_counts_nowhere(client: TestClient) -> None:
    run_id = begin(client, **B4 | {"epochs": 3})
    said: list[Said] = [
        ("gpu", 20.0, {"process_gib": 900.0, "utilization_percent": 97.0}),
        ("epoch", 30.0, {"fold": 1, "epoch": 1, "seconds": 25.0, "used_gib": 900.0}),
        ("epoch", 0.0, {"fold": 7, "epoch": 70, "seconds": 25.0, "at": "1999-01-01T00:00:00Z"}),
    ]
    answer = tell(client, run_id, said)
    found = [(one["seq"], one["field"]) for one in answer["ignored"]]
    assert sorted(found) == [(0, "process_gib"), (1, "used_gib"), (2, "at"), (2, "epoch")]
    assert answer["verdict"]["memory"]["fill_percent"] is None
    assert tell(client, run_id, said)["differing"] == [], "it is known as it was told"
    client.post(f"/runs/{run_id}/finish", json={"status": "completed", "at": at(80)})
    page = client.get(f"/runs/{run_id}").json()
    assert page["outcome"]["epochs_done"] == 1
    assert page["outcome"]["peak_memory_gib"]["driver_gib"] is None
    assert page["outcome"]["device"]["utilization_percent"] == 97.0
    larger = begin(client, **B4)
    total: list[Said] = [("note", 1.0, {"total_gib": 80.0, "epochs": 40})]
    said = [("gpu", 61.0, {"process_gib": 60.0}), ("epoch", 62.0, {"fold": 1, "epoch": 38})]
    assert tell(client, larger, total)["ignored"] == tell(client, larger, said, first_seq=1)["ignored"] == []


@pytest.mark.parametrize(
    ("said", "best", "noted"),
    [
        ({"metric": "eval_accuracy"}, 0.7, False),
        ({"metric": "val_rmse"}, 0.5, False),
        ({"metric": "my_score"}, None, True),
        ({"metric": "my_score", "metric_direction": "max"}, 0.7, False),
        ({}, None, True),
    ],
)
def test_a_metrics_name_says_which_way_it_gets_better(
    client: TestClient, said: dict[str, str], best: float | None, noted: bool
) -> None:
    run_id = begin(client, **B4 | {"competition": None}, **said)
    tell(
        client,
        run_id,
        [("epoch", 60.0 * n, {"fold": 1, "epoch": n, "metric": 0.4 + n / 10}) for n in (1, 2, 3)],
    )
    client.post(f"/runs/{run_id}/finish", json={"status": "completed", "at": at(200)})
    page = client.get(f"/runs/{run_id}").json()
    assert page["best_metric"] == (None if best is None else pytest.approx(best))
    assert any("metric_direction" in note for note in page["notes"]) == noted


def test_a_run_that_was_over_at_once_is_not_scored(client: TestClient) -> None:
    run_id = begin(client, model="resnet50", gpu="a100", batch_size=128, folds=1, epochs=3, n_train=9_000)
    tell(client, run_id, [("gpu", 0.1, {"process_gib": 12.0})])
    client.post(f"/runs/{run_id}/finish", json={"status": "completed", "at": moment(0.2)})
    page = client.get(f"/runs/{run_id}").json()
    assert (page["excluded"], page["observations"]) == ("too_short", [])
    counted = client.get("/accuracy?gpu=a100-40gb&days=36500").json()
    counted = counted if counted["runs"]["ended"] else client.get("/accuracy?days=36500").json()
    assert counted["runs"]["excluded"] == {"too_short": 1}
    assert counted["runs"]["scored"] == 0
    assert counted["memory_limit"]["fitted_as_predicted"] == 0
