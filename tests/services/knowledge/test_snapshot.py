"""Is the snapshot kept while nothing changes, renewed when something does, and cheap to renew?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from threading import Event, Thread
from time import monotonic
from typing import Any
from unittest import mock

import pytest

from memory_service.domain.calibration import corrected_rates
from memory_service.domain.calibration.calibration import Calibration
from memory_service.domain.calibration.rate_fit import fit_effects
from memory_service.domain.calibration.timed_sections import timed_sections
from memory_service.domain.planning.cost_table import build_table
from memory_service.domain.prediction.trust import calibrations_agree
from memory_service.errors import InvalidInput
from memory_service.recall.snapshot import RecallSnapshot
from memory_service.services.competitions.snapshot import recall_snapshot
from memory_service.services.database.transactions import Database
from memory_service.services.devices import devices as module_of_devices
from memory_service.services.devices.calibrations import get_calibration
from memory_service.services.devices.devices import MOST_OF_REPORTER, Device, KeptCalibration
from memory_service.services.devices.registration import gpu_page
from memory_service.services.knowledge import cost_cache, snapshot
from memory_service.services.knowledge.asker import ASKER
from memory_service.services.knowledge.cards import cards_of
from memory_service.services.knowledge.learned_corrections import observed_profile
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.knowledge.solution_memory import SolutionMemory
from memory_service.services.planning.recommend import recommend
from memory_service.services.prediction.predict import predict
from memory_service.services.runs.runs import begin_run, finish_run
from memory_service.services.tables import table_rows as catalogue
from memory_service.services.tables import usable_rows
from memory_service.store.queries import calibrations as store
from memory_service.store.queries.rows import all_rows
from memory_service.store.session import bump_revision
from tests.answers import warnings_of
from tests.conftest import Servers
from tests.planning import seed_knowledge
from tests.registered import A100, CPU, calibrate, measurement, register
from tests.telling import at, case, epochs, take_events


@pytest.fixture
def embedded(servers: Servers) -> Iterator[Database]:
    """All seeds, on SQLite: what follows from a snapshot is the same from either database."""
    with servers.opened() as database:
        yield database


def test_the_snapshot_is_kept_until_the_knowledge_changes(seeded_database: Database) -> None:
    first = knowledge_of(seeded_database)
    assert knowledge_of(seeded_database) is first
    with seeded_database.write() as unit:
        catalogue.create_row(unit, "competitions", NEW, who="test", why="new")
    second = knowledge_of(seeded_database)
    assert second.revision > first.revision
    assert NEW["slug"] in second.competitions
    assert second.priced is first.priced
    assert second.model_names is first.model_names


def test_one_more_solution_is_read_and_counted_alone(seeded_database: Database) -> None:
    def known() -> tuple[SolutionMemory, RecallSnapshot]:
        with seeded_database.read() as unit:
            return knowledge_of(seeded_database).solution_memory, recall_snapshot(unit)

    read = list[list[str]]()

    def noted(session: Any, table: str, keys: Sequence[str]) -> Any:
        read.append([*keys])
        return all_rows(session, table, keys)

    memory, recalled = known()
    slug, other = [*memory.by_competition][:2]
    row = {
        "competition": slug,
        "rank": 99_999,
        "what_mattered": ["zebrafish"],
        "basis": "read",
        "input": "zebrafish",
    }
    with mock.patch.object(usable_rows, "all_rows", noted):
        with seeded_database.write() as unit:
            added = catalogue.create_row(unit, "solutions", row, who="test", why="new")["id"]
        more, wider = known()
        with seeded_database.write() as unit:
            change = {"what_mattered": ["a platypus"], "input": "platypus"}
            catalogue.update_row(unit, "solutions", added, change, who="test", why="better")
        other_words = known()[1].solutions[slug][2]
        with seeded_database.write() as unit:
            catalogue.delete_row(unit, "solutions", added, who="test", why="wrong")
        again, narrower = known()
    assert read == [[added], [added]], "once for votes and recall"
    assert more.by_competition[other] is memory.by_competition[other]
    assert wider.solutions[other] is recalled.solutions[other]
    assert more.by_competition[slug][:-1] == memory.by_competition[slug]
    assert more.by_competition[slug][-1].what_mattered == ("zebrafish",)
    assert wider.solutions[slug][2] - recalled.solutions[slug][2] == {"zebrafish"}
    assert wider.word_frequencies.rarity("zebrafish") < recalled.word_frequencies.rarity("zebrafish")
    assert other_words - recalled.solutions[slug][2] == {"platypus"}
    assert again.by_competition == memory.by_competition
    assert narrower.word_frequencies == recalled.word_frequencies


def test_a_corrected_card_changes_plans_and_keeps_the_profiles(seeded_database: Database) -> None:
    before = knowledge_of(seeded_database)
    asked = {"task": "image", "size": "medium", "gpu": "l4", "minutes": 60}
    plan = recommend(seeded_database, asked)
    with seeded_database.write() as unit:
        catalogue.update_row(unit, "gpus", "l4", {"usable_gib": 6.0}, who="test", why="shared card")
    after = knowledge_of(seeded_database)
    assert after.gpus["l4"].usable_gib == 6.0
    assert after.profiles is before.profiles
    smaller = recommend(seeded_database, asked)
    assert smaller["expected"]["peak_memory_gib"]["high"] <= 6.0 < plan["expected"]["peak_memory_gib"]["high"]


def test_while_one_thread_learns_of_runs_others_are_answered_from_before(embedded: Database) -> None:
    before = knowledge_of(embedded)
    making = embedded.caches.of(snapshot._Latest)._lock
    with making:  # as whoever makes the next snapshot
        with embedded.write() as unit:
            bump_revision(unit.session, unit.now)
        assert knowledge_of(embedded) is before
        with embedded.write() as unit:
            catalogue.update_row(unit, "gpus", "l4", {"usable_gib": 6.0}, who="test", why="shared card")
        found: list[float] = []
        asking = Thread(target=lambda: found.append(knowledge_of(embedded).gpus["l4"].usable_gib))
        asking.start()
        asking.join(0.2)
        assert not found, "a corrected row waits for the next snapshot"
    asking.join(60)
    assert found == [6.0]


def test_without_keys_a_device_is_in_the_next_answer_whoever_makes_the_snapshot(embedded: Database) -> None:
    """It may be the asker's own."""
    knowledge_of(embedded)
    with embedded.caches.of(snapshot._Latest)._lock:
        register(embedded, "box", "a100")
        found: list[bool] = []
        asking = Thread(target=lambda: found.append("box" in knowledge_of(embedded).cards.devices))
        asking.start()
        asking.join(0.2)
        assert not found, "it waits for the next snapshot"
    asking.join(60)
    assert found == [True]


def test_where_the_snapshot_takes_long_who_changed_nothing_does_not_wait(
    embedded: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One key that tells of devices all the time kept the questions of all others for seconds."""
    monkeypatch.setattr(snapshot, "LONG_SECONDS", 0.0)

    def asked_by(key: str) -> snapshot.Knowledge:
        return copy_context().run(lambda: (ASKER.set(f"key {key}"), knowledge_of(embedded))[1])

    asked_by("ada")
    register(embedded, "first", "a100", told_by="eve")
    known = asked_by("eve")  # a second snapshot: how long it takes is known since
    makes, may_go = Event(), Event()
    renewed = snapshot._renewed

    def held(*of: Any) -> Any:
        makes.set()
        assert may_go.wait(60)
        return renewed(*of)

    monkeypatch.setattr(snapshot, "_renewed", held)
    register(embedded, "second", "a100", told_by="eve")
    assert "second" not in asked_by("ada").cards.devices
    assert makes.wait(60), "a thread of its own makes it"
    assert "second" not in asked_by("ada").cards.devices
    may_go.set()
    found = asked_by("eve")
    assert (found.revision, "second" in found.cards.devices) == (known.revision + 1, True)
    assert asked_by("ada").revision == found.revision


def test_between_two_snapshots_who_changed_nothing_is_answered_from_the_one_before(
    embedded: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "RESTS", 4)
    monkeypatch.setattr(snapshot, "MOST_BEHIND_SECONDS", 1e9)

    def devices_seen_by(key: str) -> set[str]:
        return copy_context().run(
            lambda: (ASKER.set(f"key {key}"), {*knowledge_of(embedded).cards.devices})[1]
        )

    def registered_by_eve(name: str) -> None:
        def told() -> None:
            ASKER.set("key eve")
            register(embedded, name, "a100", replace(A100, uuid=name), "eve")

        copy_context().run(told)

    devices_seen_by("ada")
    latest = embedded.caches.of(snapshot._Latest)
    latest._took = 1e6
    latest._current = monotonic()
    registered_by_eve("first")
    assert "first" not in devices_seen_by("ada")
    assert "first" in devices_seen_by("eve")
    latest._current -= 4 * latest._took
    registered_by_eve("second")
    assert {"first", "second"} <= devices_seen_by("ada")


def test_what_one_key_measured_leaves_the_prices_of_others(embedded: Database) -> None:
    """They are kept by what was measured and observed, as it is in the snapshot before."""

    def asked_by(key: str) -> snapshot.Knowledge:
        return copy_context().run(lambda: (ASKER.set(f"key {key}"), knowledge_of(embedded))[1])

    here = replace(A100, uuid="GPU-here")
    register(embedded, "here", "a100", here)
    calibrate(embedded, "here", "a100", SLOW, here)
    register(embedded, "box", "a100", told_by="eve")
    calibrate(embedded, "box", "a100", SLOW, told_by="eve")
    before, own = asked_by("ada").gpu("a100"), asked_by("eve").gpu("box")
    assert before.calibrated is not None
    calibrate(embedded, "box", "a100", {**SLOW, "bandwidth.copy": 701.5}, day=1, told_by="eve")
    after = asked_by("ada").gpu("a100")
    assert (after.calibrated, after.learned) == (before.calibrated, before.learned)
    assert asked_by("eve").gpu("box").calibrated is not own.calibrated


@pytest.mark.parametrize("read_before", [True, False])
def test_a_corrected_model_is_priced_anew(embedded: Database, read_before: bool) -> None:
    name = "resnet50.a1_in1k"
    before = knowledge_of(embedded) if read_before else None
    with embedded.write() as unit:
        catalogue.update_row(unit, "models", name, {"quality_score": 0.5}, who="test", why="measured")
    after = knowledge_of(embedded)
    assert after.models[name].quality_score == 0.5
    assert before is None or before.priced is not after.priced


NEW = {
    "slug": "leaf-shapes-of-the-garden",
    "title": "Leaf shapes",
    "task": "image-classification",
    "description": "Tell from a photo which of forty garden plants a leaf belongs to; accuracy decides.",
    "n_train": 4000,
}


def test_an_edited_model_leaves_what_was_priced_without_it(
    embedded: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"task": "image", "size": "medium", "gpu": "l4", "minutes": 60}
    plan = recommend(embedded, asked)
    built: list[int] = []

    def counted(options: Sequence[Any], *rest: Any) -> Any:
        built.append(len(options))
        return build_table(options, *rest)

    monkeypatch.setattr(cost_cache, "build_table", counted)
    with embedded.write() as unit:
        of_text = {"quality_score": 0.5}
        catalogue.update_row(unit, "models", "bert-base-uncased", of_text, who="test", why="measured")
    revision = knowledge_of(embedded).revision
    assert recommend(embedded, asked) == {**plan, "knowledge_revision": revision}
    assert revision > plan["knowledge_revision"]
    assert [options for options in built if options] == []
    with embedded.write() as unit:
        best = plan["model"]["name"]
        catalogue.update_row(unit, "models", best, {"quality_score": 0.1}, who="test", why="measured")
    other = recommend(embedded, asked)
    assert other["model"]["name"] != best
    assert sum(built) > 100
    with Database(embedded.engine.url.render_as_string(hide_password=False)) as fresh:
        assert recommend(fresh, asked) == other


def test_a_device_is_asked_for_by_its_name_and_has_its_own_memory(embedded: Database) -> None:
    register(embedded, "Box 7", "a100", replace(A100, memory_gib=19.6, mig="3g.20gb"))
    whole = knowledge_of(embedded).gpu("a100")
    card = knowledge_of(embedded).gpu("box 7")
    assert (card.key, card.slug) == ("Box 7", "a100")
    assert card.usable_gib == pytest.approx(19.6 - (whole.memory_gib - whole.usable_gib))
    assert card.tflops["bf16"] == pytest.approx(whole.tflops["bf16"] * 3 / 7)
    asked = {"task": "image", "size": "medium", "minutes": 60}
    sliced, full = (recommend(embedded, {**asked, "gpu": name}) for name in ("BOX 7", "a100"))
    assert sliced["gpu"]["device"] == "Box 7"
    assert sliced["gpu"]["slug"] == "a100"
    assert "device" not in full["gpu"]
    assert sliced["expected"]["peak_memory_gib"]["high"] < 19.6
    assert sliced["plan_id"] != full["plan_id"]


def test_of_devices_with_like_names_each_key_asks_for_its_own_before_any_is_measured(
    embedded: Database,
) -> None:
    for name, who in {"lab-box": "ada", "lab_box": "eve"}.items():
        register(embedded, name, "a100", replace(A100, uuid=name), told_by=who)

    def asks(who: str) -> str:
        token = ASKER.set(who)
        try:
            plan = recommend(embedded, {"task": "image", "gpu": "Lab Box", "n_train": 5_000})
        finally:
            ASKER.reset(token)
        return str(plan["gpu"]["device"])

    assert (asks("key ada"), asks("key eve")) == ("lab-box", "lab_box")
    with pytest.raises(InvalidInput, match="nknown gpu"):
        asks("key bob")


def test_a_device_named_like_a_gpu_model_shadows_it(embedded: Database) -> None:
    sheet = knowledge_of(embedded).gpu("cpu")
    register(embedded, "cpu", "cpu", CPU)
    knowledge = knowledge_of(embedded)
    card = knowledge.gpu("CPU")
    assert card.device == "cpu"
    assert card.memory_gib == CPU.memory_gib
    assert card.tflops["fp32"] == pytest.approx(sheet.tflops["fp32"] / 2)
    assert knowledge.cards.sheets["cpu"].device == ""
    plan = recommend(embedded, {"task": "image", "size": "small", "gpu": "cpu", "minutes": 240})
    assert "4 processor cores: what cpu has." in warnings_of(plan)
    assert plan["data_loader"]["num_workers"] == 4


def test_devices_and_models_are_planned_together(embedded: Database) -> None:
    register(embedded, "box7", "a100")
    plan = recommend(embedded, {"task": "image", "size": "medium", "gpu": "box7,t4", "minutes": 60})
    assert plan["gpu"]["fits_all"] == ["box7", "t4"]
    assert plan["gpu"]["slug"] == "t4"
    assert plan["gpu"]["calibrations_of_others"]["box7"]["n"] == 0


def test_a_device_that_has_not_reported_is_refused_with_what_to_do(embedded: Database) -> None:
    register(embedded, "attic", "", None)
    with pytest.raises(InvalidInput, match="memory-service calibrate") as refused:
        knowledge_of(embedded).gpu("Attic")
    assert refused.value.errors[0].field == "gpu"


def test_nearest_names_of_an_unknown_card_hold_devices(embedded: Database) -> None:
    register(embedded, "trainbox-seven", "a100")
    with pytest.raises(InvalidInput) as refused:
        knowledge_of(embedded).gpu("trainbox-sevn")
    assert "trainbox-seven" in refused.value.errors[0].nearest


SLOW = {"matmul.bf16.4096": 100.0, "matmul.bf16.8192": 110.0, "bandwidth.copy": 700.0, "launch.us": 12.0}
"""An A100 at about half its rates."""

BELOW = {"matmul.bf16.4096": 205.0, "matmul.bf16.8192": 205.0, "bandwidth.copy": 1_020.0, "launch.us": 12.0}
"""One at two thirds of its peaks: slower ones say nothing of others."""

ASKED = {"model": "vit_base_patch16_224", "batch_size": 64, "precision": "bf16"}


def test_a_calibration_serves_its_device_then_its_model_then_its_architecture(
    embedded: Database,
) -> None:
    register(embedded, "box7", "a100")
    register(embedded, "box8", "a100", replace(A100, uuid="GPU-2"))
    names = ("box7", "box8", "a100", "a30", "t4")
    before = {name: predict(embedded, {**ASKED, "gpu": name}) for name in names}
    key = calibrate(embedded, "box7", "a100", SLOW)
    after = {name: predict(embedded, {**ASKED, "gpu": name}) for name in names}

    def slower(name: str) -> float:
        return float(after[name]["step_seconds"]["value"] / before[name]["step_seconds"]["value"])

    assert slower("box7") > 1.2
    assert slower("box8") == pytest.approx(slower("box7"), rel=0.05)
    assert slower("a100") == pytest.approx(slower("box7"), rel=0.05)
    assert 1.05 < slower("a30") < slower("box7")
    assert after["t4"] == before["t4"]
    assert after["box7"]["calibration"]["id"] == key
    assert after["box7"]["calibration"]["measured_at"] == "2026-11-01T00:00:00+00:00"
    assert after["box8"]["calibration"]["id"] is None
    for name, word in (("box7", "box7"), ("box8", "a100"), ("a100", "a100"), ("a30", "ampere")):
        figure = after[name]["step_seconds"]
        assert figure["n"] == 1
        assert word in figure["basis"].lower() or "NVIDIA A100" in figure["basis"], figure["basis"]
    plan = recommend(embedded, {"task": "image", "size": "medium", "gpu": "box7", "minutes": 60})
    assert plan["gpu"]["calibration"]["id"] == key
    assert plan["expected"]["samples_per_second"]["basis"].startswith("profile of")
    assert f"calibration:{key}" in {row["id"] for row in plan["evidence"]}


@pytest.mark.parametrize("devices", [6, 24])
def test_one_more_calibration_is_fitted_once_however_many_devices_there_are(
    embedded: Database, devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = mock.Mock(wraps=fit_effects)
    monkeypatch.setattr(corrected_rates, "fit_effects", fit)

    def one_more(number: int) -> None:
        card = replace(A100, uuid=f"GPU-{devices}-{number}")
        register(embedded, f"box{number}", "a100", card)
        figures = {name: value * (1.0 + number / 1000.0) for name, value in SLOW.items()}
        calibrate(embedded, f"box{number}", "a100", figures, card, day=number)

    for number in range(devices):
        one_more(number)
    predict(embedded, {**ASKED, "gpu": "a100"})
    fit.reset_mock()
    one_more(devices)
    predict(embedded, {**ASKED, "gpu": "t4"})
    assert not fit.called, "nobody asked about such a card"
    of_model = predict(embedded, {**ASKED, "gpu": "a100"})["step_seconds"]
    assert fit.call_count == 1
    assert of_model["n"] == min(devices + 1, MOST_OF_REPORTER)
    predict(embedded, {**ASKED, "gpu": "box1"})
    assert fit.call_count <= 2


def test_comparing_calibrations_does_not_grow_with_the_square_of_a_reporters_devices(
    embedded: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    agree = mock.Mock(wraps=calibrations_agree)
    monkeypatch.setattr(module_of_devices, "calibrations_agree", agree)

    def both_have(first: int, last: int) -> int:
        for number in range(first, last):
            for who, factor in (("ada", 1.0), ("bob", 9.0)):
                card, key = replace(A100, uuid=f"GPU-{who}-{number}"), f"{who}{number}"
                register(embedded, key, "a100", card)
                figures = {name: value * factor for name, value in SLOW.items()}
                calibrate(embedded, key, "a100", figures, card, id=key, told_by=who)
        agree.reset_mock()
        page = gpu_page(embedded, "a100")
        assert len(page["registered"]) == 2 * last
        return agree.call_count

    few = both_have(0, 20)
    assert both_have(20, 40) <= 2.1 * few


def seconds_for(database: Database, gpu: str, key: str) -> float:
    """Of a step, as a key is told."""
    token = ASKER.set(f"key {key}")
    try:
        return float(predict(database, {**ASKED, "gpu": gpu})["step_seconds"]["value"])
    finally:
        ASKER.reset(token)


def test_of_a_key_s_calibration_what_another_measured_counts_for_others(
    embedded: Database,
) -> None:
    register(embedded, "box7", "a100")
    calibrate(embedded, "box7", "a100", BELOW, id="honest", told_by="owner", error_percent=5.0)

    seconds = partial(seconds_for, embedded, "a100")
    before = {key: seconds(key) for key in ("owner", "liar", "third")}
    wrong = {**BELOW, "matmul.bf16.8192": 120.0}
    for number in range(5):
        name, card = f"bad{number}", replace(A100, uuid=f"GPU-bad-{number}")
        register(embedded, name, "a100", card)
        calibrate(embedded, name, "a100", wrong, card, id=name, told_by="liar", error_percent=5.0)
    assert seconds("owner") == pytest.approx(before["owner"], rel=0.02)
    assert seconds("liar") > 1.05 * before["owner"], "its own whole"
    assert seconds("third") == pytest.approx(before["owner"], rel=0.02), "now two agree on the other sections"
    assert before["third"] < 0.95 * before["owner"], "one key alone measures for itself"


def test_another_key_s_calibration_of_my_device_moves_it_not(embedded: Database) -> None:
    register(embedded, "box7", "a100", told_by="owner")
    calibrate(embedded, "box7", "a100", SLOW, told_by="owner", error_percent=5.0)

    seconds = partial(seconds_for, embedded, "box7")
    before = {key: seconds(key) for key in ("owner", "third")}
    wrong = {**SLOW, "matmul.bf16.8192": 40.0}
    calibrate(embedded, "box7", "a100", wrong, day=1, told_by="liar", error_percent=5.0)
    assert {key: seconds(key) for key in before} == before
    assert seconds("liar") > 1.05 * before["owner"]


@pytest.mark.parametrize(("owner", "used"), [("key owner", "own"), ("", ""), ("key other", "")])
def test_only_the_key_that_says_what_a_device_is_speaks_for_it(owner: str, used: str) -> None:
    device = Device("box7", "a100", A100, None, owner)
    sections = {name: measurement(name, value) for name, value in {**SLOW, "matmul.fp16.4096": 150.0}.items()}
    made = [Calibration(name, "box7", A100, "done", 60.0, sections) for name in ("liar", "own")]
    some = replace(made[0], sections=dict([*sections.items()][:3]))  # what another device's agrees with
    kept = [
        KeptCalibration(each, "a100", (), f"key {key}", True, key, shared)
        for each, key, shared in ((made[0], "liar", some), (made[1], "owner", None))
    ]
    sheets = seed_knowledge().cards.sheets

    def calibration(asker: str | None, kept: Sequence[KeptCalibration] = kept) -> str | None:
        provenance = cards_of(sheets, [device], kept, (), (), asker).devices["box7"].provenance
        assert provenance is not None
        return provenance.calibration

    assert calibration("key third") == used
    assert calibration("key owner") == "own"
    assert calibration("key liar") == "liar"
    assert calibration(None) == (used or "liar"), "that of who registered it, else the newest"
    assert calibration("key third", kept[1:]) == used


def test_a_calibration_is_read_once_for_all_devices_of_its_architecture(
    embedded: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = mock.Mock(wraps=timed_sections)
    monkeypatch.setattr(corrected_rates, "timed_sections", read)
    for number in range(12):
        register(embedded, f"box{number}", "a100", replace(A100, uuid=f"GPU-{number}"))
    calibrate(embedded, "box0", "a100", {**SLOW, "bandwidth.copy": 701.5})
    predict(embedded, {**ASKED, "gpu": "box3"})
    assert read.call_count <= 4, "not once a device"


def test_stale_and_contended_calibrations_are_named_and_not_used(embedded: Database) -> None:
    register(embedded, "box7", "a100")
    register(embedded, "box8", "a100", replace(A100, uuid="GPU-2"))
    before = predict(embedded, {**ASKED, "gpu": "box7"})
    stale = calibrate(embedded, "box7", "a100", SLOW, fingerprint=replace(A100, driver="535.1"))
    busy = calibrate(embedded, "box8", "a100", SLOW, contended=True)
    after = predict(embedded, {**ASKED, "gpu": "box7"})
    assert after["step_seconds"] == before["step_seconds"]
    why = "is stale: driver was 535.1, is 550.54; recalibrate with `memory-service calibrate`."
    assert after["warnings"] == [f"Calibration {stale} of box7 {why}"]
    plan = recommend(embedded, {"task": "image", "size": "medium", "gpu": "box7,box8"})
    told = [text for text in warnings_of(plan) if text.startswith("Calibration")]
    assert len(told) == 2
    assert busy in told[1]
    fresh = calibrate(embedded, "box7", "a100", SLOW, day=1)
    renewed = predict(embedded, {**ASKED, "gpu": "box7"})
    assert renewed["warnings"] == []
    assert renewed["calibration"]["id"] == fresh


@pytest.mark.parametrize(
    ("figures", "error", "why"),
    [
        (SLOW, 793.0, "its reference networks ran 793 % away"),
        ({**SLOW, "matmul.bf16.4096": 4_000.0}, None, "its products in bf16 reach 4000"),
        ({**SLOW, "bandwidth.copy": 7.0}, None, "its bandwidth reach 7,"),
    ],
)
def test_a_calibration_that_cannot_be_waits_for_another_reporter_who_agrees(
    embedded: Database, figures: dict[str, float], error: float | None, why: str
) -> None:
    register(embedded, "box7", "a100")
    register(embedded, "box8", "a100", replace(A100, uuid="GPU-2"))
    before = predict(embedded, {**ASKED, "gpu": "a100"})["step_seconds"]
    key = calibrate(embedded, "box7", "a100", figures, error_percent=error)
    asked = predict(embedded, {**ASKED, "gpu": "box7"})
    assert predict(embedded, {**ASKED, "gpu": "a100"})["step_seconds"] == before
    (warning,) = asked["warnings"]
    assert f"is not used: in quarantine until another reporter's calibration agrees: {why}" in warning
    shown = get_calibration(embedded, key)
    assert shown["usable"] is False
    assert why in shown["stale"][0]
    other: dict[str, Any] = {"fingerprint": replace(A100, uuid="GPU-2"), "error_percent": error}
    calibrate(embedded, "box8", "a100", figures, day=1, **other)
    assert predict(embedded, {**ASKED, "gpu": "a100"})["step_seconds"] == before, "the same reporter"
    calibrate(embedded, "box8", "a100", figures, day=2, id="second", told_by="another key", **other)
    assert predict(embedded, {**ASKED, "gpu": "a100"})["step_seconds"] != before


def test_progress_of_a_calibration_prices_nothing_anew(seeded_database: Database) -> None:
    register(seeded_database, "box7", "a100")
    before = knowledge_of(seeded_database)
    calibrate(seeded_database, "box7", "a100", {}, status="running", ended_at=None)
    after = knowledge_of(seeded_database)
    assert after.revision > before.revision
    assert after.cards is before.cards


def test_sizing_is_found_by_the_name_without_the_tag_of_the_weights(seeded_database: Database) -> None:
    with seeded_database.read() as unit:
        plain = catalogue.list_rows(unit, "sizing", {"model": "resnet50"}, None, 500, None).items
        tagged = catalogue.list_rows(unit, "sizing", {"model": plain[0]["model"]}, None, 500, None).items
    assert {row["model"].split(".")[0] for row in plain} == {"resnet50"}
    assert {row["id"] for row in tagged} <= {row["id"] for row in plain}


def test_what_is_traced_for_a_run_teaches_and_leaves_the_catalogue_as_it_is(
    embedded: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = knowledge_of(embedded)
    base = known.profiles["resnet50", 224, "amp"]

    def traced(name: str, *, input_size: int, checkpointing: bool, **_: Any) -> Any:
        return replace(base, model=name, input_size=input_size, checkpointing=checkpointing)

    tracer = "memory_service.services.prediction.requested_profile.profile_in_child_process"
    monkeypatch.setattr(tracer, traced)
    before, revision = dict(known.profiles), embedded.knowledge_revision()
    with Database(embedded.engine.url.render_as_string(hide_password=False)) as other:
        knowledge_of(other)
        begun, _ = begin_run(embedded, case(image_size=1408))
        assert embedded.knowledge_revision() == revision
        assert knowledge_of(embedded) is known
        take_events(other, begun["run_id"], {"events": epochs(0.4)})
        finish_run(other, begun["run_id"], {"status": "completed", "at": at(600)})
        for each in (embedded, other):
            now = knowledge_of(each)
            assert now.revision > revision
            (one,) = (o for o in now.observations if o.input_size == 1408 and o.part == "step")
            assert observed_profile(now.priced, one) is not None
        assert knowledge_of(embedded).priced is known.priced
    with Database(embedded.engine.url.render_as_string(hide_password=False)) as later:
        assert dict(knowledge_of(later).profiles) == before
        monkeypatch.setattr(tracer, None)  # nothing is traced again
        assert predict(later, {"model": "resnet50", "gpu": "a100", "image_size": 1408})["step_seconds"]


def test_of_a_reporter_s_calibrations_the_newest_and_the_first_are_read(embedded: Database) -> None:
    register(embedded, "box7", "a100")
    for n in range(12):
        who = "ada" if n == 5 else "bob"
        calibrate(embedded, "box7", "a100", SLOW, day=n, id=f"c{n:02}", told_by=who)
    with embedded.read() as unit:
        read = [row.id for row in store.ended(unit.session)]
        shown = [row.id for row in store.of_device(unit.session, ["box7"], 3)]
    assert len(read) == store.MOST_OF_DEVICE + 2
    assert "c05" in read, "another reporter's is not crowded out"
    assert shown == ["c11", "c10", "c09", "c05", "c00"], "of bob the newest and the first"


def test_of_a_reporter_with_very_many_devices_those_seen_last_are_read(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_DEVICES", 3)
    for n in range(6):
        register(database, f"box{n}", "a100", told_by="bob" if n else "ada")
    with database.read() as unit:
        names = [row.name for row in store.devices(unit.session)]
        assert names == store.names_by_gpu(unit.session, ["a100"])["a100"]
        assert names == [row.name for row in store.devices(unit.session, "a100")]
    assert names == ["box0", "box3", "box4", "box5"]
