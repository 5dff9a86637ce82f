"""A run that is told, in whatever order and however often, ends as the same facts and observations."""

from __future__ import annotations

import datetime as dt
import random
import threading
import uuid
from typing import Any

import pytest

from memory_service.domain.runs.learned_figures import learned_figures
from memory_service.errors import Conflict, InvalidInput, NotFound
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.cards import Cards
from memory_service.services.knowledge.learned_corrections import observed
from memory_service.services.planning.recommend import recommend
from memory_service.services.prediction.predict import predict
from memory_service.services.runs import observations, retention
from memory_service.services.runs import verdicts as so_far
from memory_service.services.runs.observations import count_waste
from memory_service.services.runs.outcome_evidence import remember_missing
from memory_service.services.runs.retention import close_silent
from memory_service.services.runs.run_log import take_log
from memory_service.services.runs.runs import begin_run, finish_run, mark_run, run_page
from memory_service.services.tables.table_rows import list_rows
from memory_service.store.queries import outcomes
from memory_service.store.queries import runs as run_queries
from memory_service.store.tables.runs import Run
from tests.registered import calibrate, register
from tests.telling import CASE, START, STEPS, at, case, epochs, take_events, told

QUESTION = {name: CASE[name] for name in ("gpu", "model", "batch_size", "precision")}
MASKS = {"task": "image-segmentation", "model": "unet/resnet34", "image_size": 256}
END = {"status": "completed", "at": at(600)}


def _learned(database: Database) -> list[dict[str, Any]]:
    with database.read() as unit:
        return [one.as_dict() for one in observed(unit, Cards({})).all]


class TestBeginning:
    def test_what_is_predicted_is_what_predict_says_and_stays(self, shared: Database) -> None:
        asked = QUESTION | {"gpu": "v100"}
        before = predict(shared, asked)
        begun, new = begin_run(shared, case(gpu="v100"))
        assert new
        frozen = begun["prediction"]
        for name in ("peak_memory_gib", "samples_per_second", "step_seconds"):
            assert frozen[name] == before[name]
        assert frozen["epoch_seconds"]["value"] > STEPS * frozen["step_seconds"]["value"]
        assert frozen["total_minutes"]["value"] > 20 * frozen["epoch_seconds"]["value"] / 60
        assert frozen["inputs"]["knowledge_revision"] == shared.knowledge_revision()
        assert frozen["inputs"]["profile"]["model"] == "resnet50"
        told(shared, case(gpu="v100"), epochs(0.08))
        assert predict(shared, asked)["step_seconds"] != before["step_seconds"]
        assert run_page(shared, begun["run_id"])["prediction"] == frozen

    def test_masks_of_many_classes_are_predicted_with_them(self, shared: Database) -> None:
        asked = {
            "gpu": "v100",
            "model": MASKS["model"],
            "image_size": 256,
            "batch_size": 16,
            "precision": "fp16",
        }
        few, many = (predict(shared, asked | {"n_classes": n}) for n in (2, 150))
        assert many["step_seconds"]["value"] > 1.5 * few["step_seconds"]["value"]
        body = case(**MASKS | {"gpu": "v100", "batch_size": 16, "precision": "fp16", "n_classes": 150})
        frozen = begin_run(shared, body)[0]["prediction"]
        for name in ("peak_memory_gib", "step_seconds"):
            assert frozen[name] == many[name] != few[name]

    def test_the_same_again_is_the_same_run(self, shared: Database) -> None:
        body = case()
        revision = shared.knowledge_revision()
        first, _ = begin_run(shared, body)
        again, new = begin_run(shared, body | {"run_id": body["run_id"].replace("-", "").upper()})
        assert (again, new) == (first, False)
        with pytest.raises(Conflict, match="another body"):
            begin_run(shared, body | {"epochs": 5})
        assert shared.knowledge_revision() == revision

    def test_of_many_who_begin_it_at_once_one_does(self, shared: Database) -> None:
        body, outcomes = case(), []
        start = threading.Barrier(4)

        def begin() -> None:
            start.wait()
            outcomes.append(begin_run(shared, body)[1])

        threads = [threading.Thread(target=begin) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == [False, False, False, True]

    @pytest.mark.parametrize(
        ("field", "given", "nearest"),
        [
            ("gpu", "a101", "a100"),
            ("model", "resnet5o", "resnet"),
            ("competition", "dog-breeds", "dog-breed"),
        ],
    )
    def test_an_unknown_name_is_refused_with_the_nearest(
        self, shared: Database, field: str, given: str, nearest: str
    ) -> None:
        with pytest.raises(InvalidInput) as refused:
            begin_run(shared, case(**{field: given}))
        assert refused.value.errors[0].field == field
        assert any(name.startswith(nearest) for name in refused.value.errors[0].nearest)

    def test_what_was_not_said_is_not_predicted(self, shared: Database) -> None:
        begun, _ = begin_run(shared, case(batch_size=None))
        assert begun["prediction"]["why_not"] == "no batch size was said"
        begun, _ = begin_run(shared, case(folds=None))
        assert begun["prediction"]["epoch_seconds"] is None
        assert begun["prediction"]["step_seconds"]

    def test_boosted_trees_are_predicted_by_their_own_law(self, shared: Database) -> None:
        trees = {"task": "tabular", "gpu": "cpu", "model": "lightgbm", "n_features": 50, "n_train": 200_000}
        page = told(shared, {**trees, "folds": 5}, [])
        assert page["prediction"]["total_minutes"]["value"] > 0
        assert page["status"] == "completed"
        assert page["observations"] == []

    def test_a_registered_device_is_named_with_its_calibration(self, shared: Database) -> None:
        register(shared, "box7", "a100")
        calibration = calibrate(shared, "box7", "a100", {"memory.context_gib": 0.5})
        begun, _ = begin_run(shared, case(gpu="box7"))
        page = run_page(shared, begun["run_id"])
        assert (page["device"], page["gpu"]) == ("box7", "a100")
        inputs = begun["prediction"]["inputs"]
        assert (inputs["device"], inputs["calibration"]["id"]) == ("box7", calibration)
        one, *_ = told(shared, case(gpu="box7"), epochs(0.08))["observations"]
        assert (one["device"], one["gpu"]) == ("box7", "a100")


class TestTelling:
    def test_sent_twice_shuffled_and_late_it_is_the_same_run(self, shared: Database) -> None:
        events = epochs(0.08, peak_allocated_gib=6.0) + [
            {"seq": 100 + n, "kind": "gpu", "at": at(n), "used_gib": 8.0 + n % 3} for n in range(50)
        ]
        straight = told(shared, case(), events)
        shuffled = case()
        begin_run(shared, shuffled)
        mixed = events * 2
        random.Random(3).shuffle(mixed)
        taken = []
        for place in range(0, len(mixed), 7):
            if place == 49:
                finish_run(shared, shuffled["run_id"], END)
            taken.append(take_events(shared, shuffled["run_id"], {"events": mixed[place : place + 7]}))
        assert sum(answer["accepted"] for answer in taken) == len(events)
        assert sum(answer["duplicates"] for answer in taken) == len(events)
        assert all(answer["differing"] == [] for answer in taken)
        late = finish_run(shared, shuffled["run_id"], END)
        assert late["outcome"] == straight["outcome"]
        happened = [[(c["quantity"], c["actual"]) for c in page["comparison"]] for page in (late, straight)]
        assert happened[0] == happened[1] != []
        (a, *_), (b, *_) = straight["observations"], late["observations"]
        assert {**a, "run_id": "", "source": ""} == {**b, "run_id": "", "source": ""}
        assert a["step_seconds"] == pytest.approx(0.08)
        assert a["peak_driver_gib"] == 10.0

    def test_the_same_seq_with_another_body_is_reported_and_never_overwrites(self, shared: Database) -> None:
        body = case()
        begin_run(shared, body)
        first = epochs(0.08)
        take_events(shared, body["run_id"], {"events": first})
        other = [
            first[0],
            first[1] | {"seconds": 99.0},
            {**first[2], "seq": 9},
            {**first[2], "seq": 9, "fold": 1},
        ]
        answer = take_events(shared, body["run_id"], {"events": other})
        answer.pop("verdict")
        assert answer == {"accepted": 1, "duplicates": 3, "differing": [1, 9], "ignored": []}
        shown = run_page(shared, body["run_id"])["outcome"]["epochs"]
        assert [e["seconds"] for e in shown][:2] == [first[0]["seconds"], first[1]["seconds"]]

    def test_a_batch_with_one_wrong_event_is_kept_in_no_part(self, shared: Database) -> None:
        body = case()
        begin_run(shared, body)
        wrong: list[dict[str, Any]] = [
            {"seconds": -1},
            {"epoch": 10**9},
            {"used_gb": 3},
            {"at": "yesterday"},
            {"seq": -1},
        ]
        for change in wrong:
            events = epochs(0.08)
            events[2] |= change
            with pytest.raises(InvalidInput) as refused:
                take_events(shared, body["run_id"], {"events": events})
            assert refused.value.errors[0].field == f"events.2.{next(iter(change))}"
        assert run_page(shared, body["run_id"])["outcome"]["events"] == {}

    def test_no_number_is_a_legal_loss_and_comes_back(self, shared: Database) -> None:
        page = told(shared, case(), epochs(0.08, train_loss="nan", metric="-inf"))
        assert {(e["train_loss"], e["metric"]) for e in page["outcome"]["epochs"]} == {("nan", "-inf")}

    def test_a_run_that_nobody_began_is_unknown(self, shared: Database) -> None:
        for run_id in (str(uuid.uuid4()), "nonsense", "\ud800"):
            with pytest.raises(NotFound):
                take_events(shared, run_id, {"events": epochs(0.08)})

    def test_many_at_once_are_all_counted(self, shared: Database) -> None:
        bodies = [case() for _ in range(3)]
        for body in bodies:
            begin_run(shared, body)
        accepted: list[int] = []

        def send(worker: int) -> None:
            for n in range(20):
                seqs = range(10 * n, 10 * n + 12)  # two of them the next request sends again
                events = [{"seq": s, "kind": "gpu", "at": at(s), "used_gib": float(s)} for s in seqs]
                answer = take_events(shared, bodies[worker % 3]["run_id"], {"events": events})
                accepted.append(answer["accepted"])
                assert answer["accepted"] + answer["duplicates"] == 12
                assert answer["differing"] == []

        threads = [threading.Thread(target=send, args=(worker,)) for worker in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(accepted) == 120
        assert sum(accepted) == 3 * 202
        for body in bodies:
            assert run_page(shared, body["run_id"])["outcome"]["events"] == {"gpu": 202}

    def test_the_page_of_a_run_that_goes_on_needs_not_all_its_samples(
        self, shared: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        body = case()
        begin_run(shared, body)
        events: list[dict[str, Any]] = [
            {"seq": s, "kind": "gpu", "at": at(s), "utilization_percent": 50.0, "used_gib": 9.0 + (s == 1)}
            for s in range(200)
        ]
        for n in range(4):
            seq = 40 * n + 5
            epoch = {"kind": "epoch", "fold": 0, "epoch": n, "seconds": 20.0 + n, "metric": 0.5}
            events[seq] = {**epoch, "seq": seq, "at": at(seq), "peak_reserved_gib": 8.0}
        take_events(shared, body["run_id"], {"events": events})
        whole = run_page(shared, body["run_id"])["outcome"]
        assert (whole["device"]["samples"], whole["epochs_done"], whole["epoch_seconds"]) == (196, 4, 22.0)
        monkeypatch.setattr(so_far, "ALL_READ", 100)
        monkeypatch.setattr(so_far, "SAMPLES_READ", 30)
        some = run_page(shared, body["run_id"])["outcome"]
        assert some["device"]["samples"] == 30
        assert some | {"device": whole["device"]} == whole
        monkeypatch.setattr(so_far, "MARKS_READ", 2)
        few = run_page(shared, body["run_id"])["outcome"]
        assert [e["epoch"] for e in few["epochs"]] == [2, 3]
        assert (few["epochs_done"], few["epochs_left_out"]) == (4, 2)


class TestEnding:
    def test_the_revision_rises_once_a_run_and_not_with_its_events(self, shared: Database) -> None:
        revision = shared.knowledge_revision()
        body = case()
        begin_run(shared, body)
        take_events(shared, body["run_id"], {"events": epochs(0.08)})
        assert shared.knowledge_revision() == revision
        finish_run(shared, body["run_id"], END)
        assert shared.knowledge_revision() == revision + 1
        finish_run(shared, body["run_id"], END)
        take_events(shared, body["run_id"], {"events": epochs(0.08)})
        note = {"seq": 50, "kind": "note", "at": at(700), "text": "bye"}
        take_events(shared, body["run_id"], {"events": [note]})
        assert shared.knowledge_revision() == revision + 1, "nothing new was observed"

    def test_a_run_that_goes_on_after_its_end_is_heard(self, shared: Database) -> None:
        body = case()
        begin_run(shared, body)
        take_events(shared, body["run_id"], {"events": epochs(0.08, 2)})
        assert finish_run(shared, body["run_id"], END)["observations"][0]["n"] == 1
        take_events(shared, body["run_id"], {"events": epochs(0.08, 6)})
        page = run_page(shared, body["run_id"])
        assert page["observations"][0]["n"] == 5
        assert page["outcome"]["epochs_done"] == 6
        assert page["status"] == "completed"

    def test_an_end_told_again_may_add_and_not_contradict(self, shared: Database) -> None:
        page = told(shared, case(), epochs(0.08))
        more = {"status": "completed", "best_metric": 0.9, "best_epoch": 3, "submission": True}
        added = finish_run(shared, page["id"], more)
        assert (added["best_metric"], added["best_epoch"], added["submission"]) == (0.9, 3, True)
        assert added["finished_at"] == page["finished_at"]
        with pytest.raises(Conflict, match="completed"):
            finish_run(shared, page["id"], {"status": "crashed"})
        assert run_page(shared, page["id"])["status"] == "completed"

    def test_what_ran_out_of_memory_and_what_timed_out_are_bounds(self, shared: Database) -> None:
        (failed,) = told(shared, case(gpu="p100"), [], "out_of_memory")["observations"]
        (late,) = told(shared, case(gpu="p100"), [], "timed_out")["observations"]
        assert [failed, late] == [one for one in _learned(shared) if one["gpu"] == "p100"]
        assert (failed["out_of_memory"], failed["batch_size"]) == (True, 128)
        assert 0 < late["at_least_seconds"] < 600 / STEPS

    def test_three_slow_runs_move_the_next_prediction(self, shared: Database) -> None:
        asked = QUESTION | {"gpu": "t4", "precision": "fp16"}
        slow = 1.3 * predict(shared, asked)["step_seconds"]["value"]
        for _ in range(3):
            told(shared, case(gpu="t4", precision="fp16"), epochs(slow))
        after = predict(shared, asked)["step_seconds"]
        assert after["value"] == pytest.approx(slow, rel=0.05)
        assert after["n"] == 3
        assert after["grade"] == "measured"

    def test_of_a_case_that_ran_often_the_latest_are_read(self, shared: Database) -> None:
        for n in range(run_queries.MOST_OF_A_CASE + 2):
            told(shared, case(gpu="l4"), epochs(0.2 + n / 1000))
        told(shared, case(gpu="l4", batch_size=32), epochs(0.1))
        mine = [one for one in _learned(shared) if one["gpu"] == "l4" and one["part"] == "step"]
        assert len(mine) == run_queries.MOST_OF_A_CASE + 1
        steps = [round(one["step_seconds"], 4) for one in mine if one["batch_size"] == 128]
        assert steps == [round(0.2 + n / 1000, 4) for n in range(2, run_queries.MOST_OF_A_CASE + 2)]

    def test_runs_are_listed_narrowed_and_paged(self, shared: Database) -> None:
        for n in range(5):
            told(shared, case(batch_size=32 * (n + 1)), epochs(0.08), "stopped" if n else "completed")
        with shared.read() as unit:
            page = list_rows(unit, "runs", {"status": "stopped"}, "-batch_size", 3)
            rest = list_rows(unit, "runs", {"status": "stopped"}, "-batch_size", 3, page.next)
        assert [row["batch_size"] for row in (*page.items, *rest.items)] == [160, 128, 96, 64]
        assert "prediction" not in page.items[0]
        assert rest.next is None


class TestWhatItChanged:
    @pytest.mark.parametrize(
        ("said", "ended", "why"),
        [
            ({"gpu": "l4", "host": {"gpu_seen": False}}, 600, "no card was seen"),
            ({"gpu": "l4", "host": {"gpu_seen": False}, "batch_size": None}, 600, "no card was seen"),
            ({"gpu": "l4"}, 3, "within seconds"),
            ({"gpu": "cpu", "model": "lightgbm", "n_features": 9}, 3, "within seconds"),
            ({"gpu": "cpu", "model": "xgboost", "n_features": 9}, 600, "before a step"),
            ({"gpu": "cpu", "model": "xgboost", "n_train": None}, 600, "before a step"),
            ({"gpu": "l4", "model": "custom/mine"}, 3, "a network of the script's own"),
            ({"gpu": "l4", **MASKS, "n_classes": 20}, 600, "masks of more than two classes"),
        ],
    )
    def test_a_run_that_teaches_nothing_says_the_true_reason(
        self, shared: Database, said: dict[str, Any], ended: int, why: str
    ) -> None:
        begun, _ = begin_run(shared, case(**said))
        [line] = finish_run(shared, begun["run_id"], {"status": "completed", "at": at(ended)})["learned"]
        assert line.startswith("It changed no prediction: ")
        assert why in line

    def test_the_page_says_by_how_much_a_run_moved_the_next_prediction(self, shared: Database) -> None:
        changed = told(shared, case(gpu="a40"), epochs(0.05))
        [step] = [line for line in changed["learned"] if line.startswith("A step")]
        before = changed["prediction"]["step_seconds"]["value"]
        now = predict(shared, QUESTION | {"gpu": "a40"})["step_seconds"]["value"]
        assert f"{1000 * now:.3g} ms now, {1000 * before:.3g} ms when it began" in step
        assert "measured 50 ms" in step
        mine = [{"batch_size": 64, "out_of_memory": False, "peak_allocated_gib": 7.27}]
        began, later = ({"case": {}, "peak_allocated_gib": {"value": gib}} for gib in (7.06, 6.9))
        assert "other runs" in learned_figures(began, later, mine, None, 64)[0], "away from what it measured"
        assert "other runs" not in learned_figures(later, began, mine, None, 64)[0]
        far = told(shared, case(gpu="h100"), epochs(0.5))
        assert any("far from the" in line and "two other runs" in line for line in far["learned"])

    def test_it_says_why_it_changed_nothing(self, shared: Database) -> None:
        waited = told(shared, case(gpu="l40s"), epochs(0.05, loader_wait_percent=40.0))
        assert any("waiting for the loader" in line for line in waited["learned"])
        short = told(shared, case(gpu="l40s"), [])
        assert short["learned"] == [
            "It changed no prediction: it ended before a step or a peak of memory was measured."
        ]
        running, _ = begin_run(shared, case(gpu="l40s"))
        assert run_page(shared, running["run_id"])["learned"] == []

    def test_epochs_that_took_longer_than_the_run_were_reported_afterwards_and_are_not_scored(
        self, shared: Database
    ) -> None:
        page = told(shared, case(gpu="l4"), epochs(0.05), at=at(1))
        assert page["excluded"] == "late"
        assert {each["excluded"] for each in page["comparison"] if each["quantity"] == "total_minutes"} == {
            "late"
        }
        assert any("reported after it had run" in line for line in page["learned"])


class TestSilence:
    def test_a_run_that_was_killed_is_closed_an_hour_behind_its_last_sign_and_its_budget(
        self, shared: Database
    ) -> None:
        begun = [begin_run(shared, case(minutes=minutes))[0]["run_id"] for minutes in (None, 30.0, 500.0)]
        take_events(shared, begun[0], {"events": epochs(0.05)})
        now = dt.datetime.now(dt.UTC)
        assert close_silent(shared, now=now + dt.timedelta(minutes=50)) == 0
        close_silent(shared, now=now + dt.timedelta(minutes=70))
        pages = [run_page(shared, run) for run in begun]
        assert [page["status"] for page in pages] == ["crashed", "crashed", "running"]
        assert pages[0]["finish"]["assumed"]
        assert pages[0]["finished_at"].startswith(at(180).rstrip("Z"))
        assert pages[0]["observations"]
        late = finish_run(shared, begun[0], END)
        assert late["status"] == late["finish"]["status"] == "completed"
        assert "assumed" not in late["finish"]
        close_silent(shared, now=now + dt.timedelta(days=1))
        assert run_page(shared, begun[2])["status"] == "crashed"

    def test_many_are_closed_in_slices_each_with_its_conclusion(
        self, shared: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        close_silent(shared, now=dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
        monkeypatch.setattr(retention, "RUNS_AT_ONCE", 3)
        begun = [begin_run(shared, case(), who="eve")[0]["run_id"] for _ in range(7)]
        take_events(shared, begun[3], {"events": epochs(0.05)})
        read, at_once = run_queries.last_event_bodies, list[int]()

        def counted(at: Any, ids: Any) -> Any:
            at_once.append(len(ids))
            return read(at, ids)

        monkeypatch.setattr(run_queries, "last_event_bodies", counted)
        assert close_silent(shared, now=dt.datetime.now(dt.UTC) + dt.timedelta(hours=2)) == 7
        monkeypatch.undo()
        assert max(at_once) == 3
        assert {run_page(shared, run)["status"] for run in begun} == {"crashed"}
        assert run_page(shared, begun[3])["observations"]
        assert run_page(shared, begun[0])["evidence"]

    def test_what_is_damaged_keeps_no_other_from_its_conclusion(self, shared: Database) -> None:
        begun = sorted(begin_run(shared, case(), who="eve")[0]["run_id"] for _ in range(3))
        with shared.write_untracked() as unit:
            run_queries.change(unit.session, begun[0], {"prediction": {"epoch_seconds": 5}})
        ending = dt.datetime.now(dt.UTC) + dt.timedelta(hours=2)
        assert close_silent(shared, now=ending) >= 3
        assert [run_page(shared, run)["evidence"] is None for run in begun[1:]] == [False, False]
        with shared.write_untracked() as unit:
            for run in begun[1:]:
                outcomes.drop(unit.session, run, unit.now)
                run_queries.change(unit.session, run, {"wasted_minutes": None})
        remember_missing(shared)
        count_waste(shared)
        assert retention.thin(shared, 1.0, now=ending + dt.timedelta(days=30))["runs"] >= 2
        for run in begun[1:]:
            page = run_page(shared, run)
            assert (page["evidence"] is None, page["wasted_minutes"]) == (False, 0.0)

    def test_one_that_told_nothing_is_concluded_an_excluded_one_stays_so_and_nothing_else_is_written(
        self, shared: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = dt.datetime.now(dt.UTC)
        close_silent(shared, now=now + dt.timedelta(days=1))
        silent, wrong = (begin_run(shared, case(), who="eve")[0]["run_id"] for _ in range(2))
        begin_run(shared, case(minutes=500.0))
        mark_run(shared, wrong, "a mistake", excluded=True)
        assert close_silent(shared, now=now + dt.timedelta(hours=2)) == 2
        assert [run_page(shared, run)["excluded"] for run in (silent, wrong)] == ["too_short", "by_person"]
        assert [run_page(shared, run)["evidence"] is None for run in (silent, wrong)] == [False, True]
        with shared.read() as reading:
            found = [run_queries.find(reading.session, run) for run in (silent, wrong)]
        assert [run and run.summary and run.summary["events_read"] for run in found] == [0, 0]
        monkeypatch.setattr(Database, "write_untracked", None)
        assert close_silent(shared, now=now + dt.timedelta(hours=2)) == 0


def process(run_id: str | None = None, *, pid: int = 1, **said: Any) -> dict[str, Any]:
    """What a script's client sends that was not told the run's id."""
    host = {"hostname": "box", "pid": pid}
    return {"run_id": run_id or str(uuid.uuid4()), "join": True, "host": host, **said}


def test_a_script_joins_the_run_that_its_agent_began(shared: Database):
    plan = {"plan_id": recommend(shared, {"task": "image", "gpu": "t4", "minutes": "31"})["plan_id"]}
    agents = begin_run(shared, plan, who="agent")[0]
    script = process(**plan)
    for _ in range(2):  # the first answer may be lost
        assert begin_run(shared, script, who="agent") == (agents, False)
    other = process(pid=2, **plan)
    assert begin_run(shared, other, who="agent")[0]["run_id"] == other["run_id"], "at the same time: its own"
    page = finish_run(shared, agents["run_id"], {"status": "completed"})
    assert page["given"]["host"] == {**script["host"], "run_id": script["run_id"]}
    assert begin_run(shared, script, who="agent")[0]["run_id"] == agents["run_id"], "sent after the end"


def test_what_is_not_the_agents_run_is_not_joined(shared: Database):
    plan = {"plan_id": recommend(shared, {"task": "image", "gpu": "t4", "minutes": "32"})["plan_id"]}
    scripts = [process(pid=n, **plan) for n in (1, 2)]
    own = [begin_run(shared, one, who="agent")[0]["run_id"] for one in scripts]
    assert own == [one["run_id"] for one in scripts], "no agent has begun one"
    agents = begin_run(shared, plan, who="agent")[0]["run_id"]
    others = [
        process(**plan, model="vgg16", batch_size=8),
        process(**plan, gpu="a100"),
        process(**plan, folds=2),
    ]
    others += [process(**plan, started_at=START)]  # of a spool of long ago
    others += [process(**plan) | {"join": False}]
    for (
        body
    ) in others:  # of another run of the plan's portfolio, of another box, of a caller that knows no join
        assert begin_run(shared, body, who="agent")[0]["run_id"] == body["run_id"]
    body = process(**plan)
    assert begin_run(shared, body, who="somebody else")[0]["run_id"] == body["run_id"]
    sample = {"seq": 1, "kind": "gpu", "at": at(20), "host_gib": 1.0}
    take_events(shared, agents, {"events": [sample]})  # of a script that was told MEMORY_RUN_ID
    body = process(**plan)
    assert begin_run(shared, body, who="agent")[0]["run_id"] == body["run_id"]
    two = [begin_run(shared, plan, who="agent")[0]["run_id"] for _ in range(2)]
    body = process(**plan)
    assert begin_run(shared, body, who="agent")[0]["run_id"] not in (*two, agents), "nobody knows which"


def test_an_agent_that_tells_of_a_run_after_its_script_began_it_means_that_run(shared: Database):
    plan = {"plan_id": recommend(shared, {"task": "image", "gpu": "t4", "minutes": "33"})["plan_id"]}
    script = process(**plan)
    begun = begin_run(shared, script, who="agent")[0]
    assert begin_run(shared, plan, who="agent") == (begun, False)
    assert begin_run(shared, plan, who="agent") == (begun, False), "as often as it names the plan alone"
    others = [{**plan, "folds": 2}, {**plan, "started_at": START}, {**plan, "run_id": str(uuid.uuid4())}]
    assert all(begin_run(shared, body, who="agent")[0]["run_id"] != begun["run_id"] for body in others)
    assert begin_run(shared, plan, who="somebody else")[1]
    finish_run(shared, begun["run_id"], {"status": "completed"})
    assert begin_run(shared, plan, who="agent", since=True) == (begun | {"status": "completed"}, False)
    assert begin_run(shared, plan, who="agent")[1], "what begins now is another training"
    two = [begin_run(shared, process(pid=n, **plan), who="others")[0]["run_id"] for n in (1, 2)]
    assert begin_run(shared, plan, who="others")[0]["run_id"] not in two, "nobody knows which"


def test_a_process_is_not_told_a_run_of_another_that_names_it(shared: Database):
    plan = {"plan_id": recommend(shared, {"task": "image", "gpu": "t4", "minutes": "34"})["plan_id"]}
    agents = begin_run(shared, plan, who="agent")[0]
    script = process(**plan)
    assert begin_run(shared, script, who="agent") == (agents, False)
    for first in "0f":
        named = {"hostname": "box", "pid": 9, "run_id": script["run_id"]}
        other = process(f"{first * 8}{str(uuid.uuid4())[8:]}", **plan) | {"host": named, "join": False}
        assert begin_run(shared, other, who="eve")[1]
        assert begin_run(shared, script, who="agent") == (agents, False)


def test_however_many_runs_others_told_of_a_plan_a_process_joins_its_own(
    shared: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_queries, "MOST_OF_PLAN", 2)
    plan = {"plan_id": recommend(shared, {"task": "image", "gpu": "t4", "minutes": "35"})["plan_id"]}
    agents = begin_run(shared, plan, who="agent")[0]
    for _ in range(3):
        begin_run(shared, plan | {"run_id": str(uuid.uuid4())}, who="eve")
    with shared.read() as reading:
        latest = run_queries.of_plan(reading.session, plan["plan_id"], "key agent")
        assert [run.id for run in latest] == [agents["run_id"]]
        assert len(run_queries.of_plan(reading.session, plan["plan_id"], "key eve")) == 2
    assert begin_run(shared, process(**plan), who="agent") == (agents, False)


LOSSES = [round(0.7 / (n + 1) + 0.00123, 5) for n in range(4)]
SCORES = [0.8, 0.81, 0.82, 0.83]


@pytest.mark.parametrize(
    ("first", "skipped", "line"),
    [
        (0, 0, "loss: {0:.3f}"),
        (0, 2, "loss: {0:.3f} - val_acc: {1:.1%}"),
        (1, 0, "loss: {0:.3f}"),
        (1, 1, "loss: {0:.3f}"),
        (0, 0, "val_loss: {0:.3f}"),
        (0, 0, "loss: {1:.3f}"),
    ],
)
@pytest.mark.parametrize("order", ["client", "log", "turns"])
def test_an_epoch_that_a_client_and_a_log_number_otherwise_counts_once(
    shared: Database, first: int, skipped: int, line: str, order: str
):
    """The log counts from 1, the client from `first`; the log may lack its first lines, or print other
    scores than the client tells."""
    if order == "log" and skipped:
        pytest.skip("nobody knows where the log began")
    run_id = begin_run(shared, case(gpu="v100", folds=1, epochs=4))[0]["run_id"]

    def tell(n: int) -> None:
        fields = {"epoch": first + n, "train_loss": LOSSES[n], "metric": SCORES[n]}
        take_events(shared, run_id, {"events": [{"seq": n, "kind": "epoch", "at": at(9 * n + 9), **fields}]})

    def log(n: int) -> None:
        if n >= skipped:
            text = f"Epoch {n + 1}/4 - {line.format(LOSSES[n], SCORES[n])} - time: 2s\n"
            take_log(shared, run_id, text.encode(), at=at(9 * n + 10))

    steps = {"client": [*[tell] * 4, *[log] * 4], "log": [*[log] * 4, *[tell] * 4], "turns": [tell, log] * 4}
    numbers = {"turns": [0, 0, 1, 1, 2, 2, 3, 3]}.get(order, [*range(4), *range(4)])
    for step, n in zip(steps[order], numbers, strict=True):
        step(n)
    for page in (run_page(shared, run_id), finish_run(shared, run_id, END)):
        epochs_told = page["outcome"]["epochs"]
        assert [(one["epoch"], one["train_loss"]) for one in epochs_told] == [
            (one, loss) for one, loss in enumerate(LOSSES, 1 if order == "log" else first)
        ]
        assert [one.get("seconds") for one in epochs_told] == [None] * skipped + [2.0] * (4 - skipped)
        assert page["outcome"]["epochs_done"] == 4
        assert page["status"] == "completed" or page["watch"]["position"]["epochs_done"] == 4
        assert [one["metric"] for one in epochs_told] == SCORES, "not the log's percent"
    sent_again = {"seq": 3, "kind": "epoch", "at": at(36), "epoch": first + 3, "train_loss": LOSSES[3]}
    answer = take_events(shared, run_id, {"events": [{**sent_again, "metric": 0.83}]})
    assert (answer["duplicates"], answer["differing"]) == (1, [])


def test_folds_that_a_client_counts_from_0_and_a_log_from_1_are_the_same(shared: Database):
    run_id = begin_run(shared, case(gpu="v100", folds=2, epochs=2))[0]["run_id"]
    for n in range(4):
        fold, epoch = divmod(n, 2)
        event = {"seq": n, "kind": "epoch", "at": at(9 * n + 9), "fold": fold, "epoch": epoch}
        take_events(shared, run_id, {"events": [{**event, "train_loss": LOSSES[n]}]})
        text = f"Fold {fold + 1}/2\nEpoch {epoch + 1}/2 - loss: {LOSSES[n]:.3f} - time: 2s\n"
        take_log(shared, run_id, text.encode(), at=at(9 * n + 10))
    page = run_page(shared, run_id)
    places = [(one["fold"], one["epoch"], one["train_loss"]) for one in page["outcome"]["epochs"]]
    assert places == [(0, 0, LOSSES[0]), (0, 1, LOSSES[1]), (1, 0, LOSSES[2]), (1, 1, LOSSES[3])]
    assert (page["watch"]["position"]["fold"], page["watch"]["position"]["epochs_done"]) == (1, 2)


def test_an_end_told_again_draws_no_conclusion_again(
    shared: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = {"status": "completed", "at": at(600)}
    begun, _ = begin_run(shared, case())
    take_events(shared, begun["run_id"], {"events": epochs(0.1)})
    page = finish_run(shared, begun["run_id"], end)
    read: list[str] = []
    monkeypatch.setattr(observations, "read_outcome", lambda _, run, *__: read.append(run.id))
    assert finish_run(shared, begun["run_id"], end)["samples_per_second"] == page["samples_per_second"] > 0
    assert not read


def test_a_conclusion_is_drawn_anew_where_the_run_changed_while_it_was_drawn(
    shared: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, _ = begin_run(shared, case())
    take_events(shared, begun["run_id"], {"events": epochs(0.1)})
    drawn = observations._drawn

    def slowly(run: Run, *rest: Any) -> Any:
        monkeypatch.setattr(observations, "_drawn", drawn)
        found = drawn(run, *rest)
        finish_run(shared, run.id, {"status": "completed", "at": at(600), "best_metric": 0.75})
        return found

    monkeypatch.setattr(observations, "_drawn", slowly)
    finish_run(shared, begun["run_id"], {"status": "completed", "at": at(600)})
    assert run_page(shared, begun["run_id"])["best_metric"] == 0.75
