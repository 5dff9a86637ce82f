"""What contradicts physics teaches nothing until a second reporter agrees; an excluded run counts nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from memory_service.domain.learning.observation import Observation
from memory_service.domain.prediction.trust import SEVERAL, confirmed_figures, heard
from memory_service.errors import Forbidden, InvalidInput, NotFound
from memory_service.schemas.choose import ChooseRequest
from memory_service.schemas.validation_errors import checked
from memory_service.services.choice.choose import choose_offer
from memory_service.services.conflicts.conflicts import conflicts
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.asker import ASKER, CORRECTS, INSIDE
from memory_service.services.knowledge.outcomes import competition_outcomes, outcomes_and_results
from memory_service.services.knowledge.snapshot import MOST_VIEWS, knowledge_of
from memory_service.services.pages import strategies
from memory_service.services.planning.recommend import cached_plan, recommend
from memory_service.services.prediction.predict import predict
from memory_service.services.runs.observations import conclude
from memory_service.services.runs.outcome_evidence import remember_missing
from memory_service.services.runs.run_log import take_log
from memory_service.services.runs.runs import begin_run, finish_run, mark_run, run_page
from memory_service.services.runs.scored_runs import accuracy
from memory_service.services.tables.table_rows import get_row
from memory_service.store.queries import history, outcomes, runs
from tests.telling import CASE, at, case, epochs, take_events, told

QUESTION = {name: CASE[name] for name in ("gpu", "model", "batch_size", "precision")}


def reported(database: Database, who: str | None, step: float | None, **changed: Any) -> dict[str, Any]:
    """A run told with somebody's key; without `step` it runs out of memory."""
    body = case(**changed)
    begun, _ = begin_run(database, body, who=who)
    if step is not None:
        take_events(database, begun["run_id"], {"events": epochs(step)})
    status = "completed" if step is not None else "out_of_memory"
    return finish_run(database, begun["run_id"], {"status": status, "at": at(600)}, who=who)


def figures(database: Database, gpu: str, **changed: Any) -> dict[str, Any]:
    answer = predict(database, QUESTION | {"gpu": gpu} | changed)
    return {name: answer[name] for name in ("max_batch_size", "step_seconds", "peak_memory_gib", "curve")}


@pytest.mark.parametrize(
    ("gpu", "changed", "step", "why"),
    [
        ("v100", {"batch_size": 1_000_000, "n_train": 10**7}, 0.02, "GiB by its trace, and v100 has"),
        ("p100", {"n_train": 100}, 0.08, "over the 100 rows"),
        ("t4", {}, 2e5, "takes over 20 times"),
        ("l4", {}, 1e-4, "is faster than the data sheet of l4 allows"),
        ("a10", {"batch_size": 1}, None, "memory ran out for another reason"),
        ("rtx3090", {"batch_size": 4}, None, "memory ran out for another reason"),
        ("cpu", {"batch_size": 1, "precision": "fp32"}, None, "memory ran out for another reason"),
    ],
)
def test_what_cannot_be_teaches_nothing_and_says_why(
    shared: Database, gpu: str, changed: dict[str, Any], step: float | None, why: str
) -> None:
    changed = {"precision": "fp16", **changed}
    before = figures(shared, gpu, precision="fp16")
    for _ in range(4):
        page = reported(shared, "one key", step, gpu=gpu, **changed)
    assert figures(shared, gpu, precision="fp16") == before, "one reporter's many runs are one report"
    assert page["excluded"] == "implausible"
    assert why in page["learned"][0]
    assert "quarantine" in page["learned"][0]
    assert all(one["doubt"] for one in page["observations"])
    scored = accuracy(shared, {"gpu": gpu})["runs"]
    assert (scored["ended"], scored["scored"]) == (4, 0)


def test_a_peak_below_what_a_step_holds_makes_nobody_s_batch_larger(shared: Database) -> None:
    before = figures(shared, "a40")
    usual = before["step_seconds"]["value"]
    begun, _ = begin_run(shared, case(gpu="a40"), who="ada")
    odd = {"peak_allocated_gib": 0.01, "peak_reserved_gib": 0.01, "process_gib": 0.02}
    told = {"events": [{**one, **odd} for one in epochs(usual)]}
    take_events(shared, begun["run_id"], told)
    page = finish_run(shared, begun["run_id"], {"status": "completed", "at": at(600)}, who="ada")
    assert "its peak of 0.02 GiB is far below" in page["observations"][0]["doubt"]
    assert figures(shared, "a40") == before


def test_one_out_of_memory_far_below_the_largest_batch_moves_nobody_s(shared: Database) -> None:
    before = figures(shared, "rtx6000ada")["max_batch_size"]
    quarter = int(before["value"]) // 4
    for _ in range(3):
        page = reported(shared, "one key", None, gpu="rtx6000ada", batch_size=quarter)
    assert "memory ran out for another reason" in page["learned"][0]
    assert figures(shared, "rtx6000ada")["max_batch_size"] == before


def test_a_batch_that_others_ran_is_not_taken_from_them_by_one_that_ran_out(shared: Database) -> None:
    before = figures(shared, "a10g")
    largest = int(before["max_batch_size"]["value"])
    ran = reported(shared, "ada", before["step_seconds"]["value"], gpu="a10g", batch_size=largest)
    assert ran["excluded"] is None
    failed = reported(shared, "one key", None, gpu="a10g", batch_size=int(0.8 * largest))
    assert failed["observations"][0]["doubt"] is None
    assert figures(shared, "a10g")["max_batch_size"]["value"] >= largest


def test_a_second_reporter_who_agrees_ends_the_quarantine(shared: Database) -> None:
    usual = figures(shared, "a40")["step_seconds"]["value"]
    first = reported(shared, "one key", 30.0 * usual, gpu="a40")
    assert "takes over 20 times" in first["observations"][0]["doubt"]
    assert figures(shared, "a40")["step_seconds"]["value"] == usual
    for who in ("another key", "one key") * 3:
        reported(shared, who, 30.0 * usual, gpu="a40")
    assert figures(shared, "a40")["step_seconds"]["value"] > 5.0 * usual


def test_that_memory_ran_out_in_a_small_batch_is_for_no_key_to_confirm(shared: Database) -> None:
    """Another process took it: an honest report of that and an invented one made a model fit no more."""
    before = figures(shared, "a40")["max_batch_size"]
    for who in ("one key", "another key"):
        failed = reported(shared, who, None, gpu="a40", batch_size=4)
        assert "memory ran out for another reason" in failed["observations"][0]["doubt"]
    assert figures(shared, "a40")["max_batch_size"] == before


def test_runs_of_one_key_overturn_no_figure_that_another_key_told(shared: Database) -> None:
    usual = figures(shared, "b200")["step_seconds"]["value"]
    reported(shared, "one key", usual, gpu="b200")
    before = figures(shared, "b200")["step_seconds"]["value"]
    for _ in range(9):
        reported(shared, "another key", 6.0 * usual, gpu="b200")
    assert figures(shared, "b200")["step_seconds"]["value"] == pytest.approx(before, rel=0.02)
    reported(shared, "a third key", 6.0 * usual, gpu="b200")
    assert figures(shared, "b200")["step_seconds"]["value"] > 2.0 * usual


def test_the_only_reporter_of_a_card_is_believed_after_three_runs(shared: Database) -> None:
    usual = figures(shared, "h200")["step_seconds"]["value"]
    for _ in range(3):
        assert figures(shared, "h200")["step_seconds"]["value"] < 1.1 * usual
        reported(shared, None, 6.0 * usual, gpu="h200")
    assert figures(shared, "h200")["step_seconds"]["value"] == pytest.approx(6.0 * usual, rel=0.1)


def test_reports_that_do_not_agree_confirm_nothing(shared: Database) -> None:
    before = figures(shared, "l40s")
    reported(shared, "one key", 4e3, gpu="l40s")
    reported(shared, "another key", 2e5, gpu="l40s")
    assert figures(shared, "l40s") == before


def test_without_keys_hosts_are_reporters(shared: Database) -> None:
    before = figures(shared, "rtx4090")["max_batch_size"]
    for name in ("box1", "box1", None):
        reported(shared, None, None, gpu="rtx4090", batch_size=4, host={"hostname": name} if name else None)
    after = figures(shared, "rtx4090")["max_batch_size"]
    assert (after == before) == (name is not None)


def test_an_honest_first_run_teaches_at_once_without_a_key(shared: Database) -> None:
    before = figures(shared, "h100")["step_seconds"]["value"]
    page = reported(shared, None, 1.8 * before, gpu="h100")
    assert page["excluded"] is None
    assert figures(shared, "h100")["step_seconds"]["value"] > 1.05 * before


class TestExcluding:
    def test_an_excluded_run_leaves_no_trace_and_a_restored_one_is_as_before(self, shared: Database) -> None:
        without = figures(shared, "rtx3080", precision="fp16")
        counted = accuracy(shared, {"gpu": "rtx3080"})
        slug = get_any_competition(shared)
        best = competition_runs(shared, slug)
        body = {"gpu": "rtx3080", "precision": "fp16", "competition": slug, "batch_size": 64}
        run = told(shared, case(**body), epochs(0.06), best_metric=0.9)
        taught, scored = figures(shared, "rtx3080", precision="fp16"), accuracy(shared, {"gpu": "rtx3080"})
        shown = competition_runs(shared, slug)
        assert taught != without
        assert scored != counted

        gone = mark_run(shared, run["id"], " it leaks the target ", excluded=True, who="anna")
        assert figures(shared, "rtx3080", precision="fp16") == without
        assert accuracy(shared, {"gpu": "rtx3080"}) == counted
        assert competition_runs(shared, slug) == best
        assert knowledge_runs(shared, run["id"]) == []
        assert (gone["excluded"], gone["exclusion"]["who"]) == ("by_person", "anna")
        assert gone["exclusion"]["why"] == "it leaks the target"
        assert gone["learned"] == ['anna excluded it: it counts nowhere. Reason: "it leaks the target"']
        assert mark_run(shared, run["id"], "again", excluded=True)["exclusion"] == gone["exclusion"]
        remember_missing(shared)
        conclude(shared, run["id"])
        assert competition_runs(shared, slug) == best, "nothing that runs by itself brings it back"

        back = mark_run(shared, run["id"], "it does not", excluded=False, who="berta")
        assert figures(shared, "rtx3080", precision="fp16") == taught
        assert competition_runs(shared, slug) == shown
        assert accuracy(shared, {"gpu": "rtx3080"})["overall"] == scored["overall"]
        assert (back["excluded"], back["exclusion"], back["learned"]) == (None, None, run["learned"])
        with shared.read() as unit:
            said = [(one.who, one.why) for one in history.of_row(unit.session, "runs", run["id"])]
        assert said[:2] == [("berta", "restored: it does not"), ("anna", "excluded: it leaks the target")]

    def test_a_running_run_can_be_excluded_and_counts_when_it_is_restored(self, shared: Database) -> None:
        before = figures(shared, "rtx2080ti", precision="fp16")
        begun, _ = begin_run(shared, case(gpu="rtx2080ti", precision="fp16", batch_size=64))
        mark_run(shared, begun["run_id"], "a trial", excluded=True)
        take_events(shared, begun["run_id"], {"events": epochs(0.12)})
        page = finish_run(shared, begun["run_id"], {"status": "completed", "at": at(600)})
        assert (page["excluded"], page["observations"]) == ("by_person", [])
        assert figures(shared, "rtx2080ti", precision="fp16") == before
        mark_run(shared, begun["run_id"], "no trial", excluded=False)
        assert figures(shared, "rtx2080ti", precision="fp16") != before

    def test_without_a_reason_or_a_run_nothing_happens(self, shared: Database) -> None:
        run = told(shared, case(), epochs(0.05))
        for reason in ("", "  "):
            with pytest.raises(InvalidInput, match="why"):
                mark_run(shared, run["id"], reason, excluded=True)
        with pytest.raises(NotFound):
            mark_run(shared, "00000000-0000-4000-8000-000000000000", "why not", excluded=True)
        assert run_page(shared, run["id"])["exclusion"] is None


def get_any_competition(database: Database) -> str:
    return next(slug for slug, row in sorted(knowledge_of(database).competitions.items())
                if row["task"] == "image-classification" and row["metric_direction"] == "max")  # fmt: skip


def competition_runs(database: Database, slug: str) -> list[str]:
    with database.read() as unit:
        found = outcomes.latest(unit.session, f"competition:{slug}", 50)
        assert get_row(unit, "competitions", slug)
    return [row.run_id for row in found]


def knowledge_runs(database: Database, run_id: str) -> list[Any]:
    return [one for one in knowledge_of(database).observations if one.run_id == run_id]


@contextmanager
def asking(key: str | None, *, corrects: bool = True) -> Iterator[None]:
    token, may = ASKER.set(None if key is None else f"key {key}"), CORRECTS.set(corrects)
    yield
    ASKER.reset(token)
    CORRECTS.reset(may)


def seen(database: Database, gpu: str, key: str | None = "victim") -> dict[str, Any]:
    with asking(key):
        return figures(database, gpu)


def speed(figures: dict[str, Any]) -> float:
    return float(figures["step_seconds"]["value"])


@pytest.mark.parametrize(("gpu", "factor"), [("rtx4090", 1 / 2.4), ("rtx3080", 2.5)])
def test_what_one_key_tells_moves_the_questions_of_others_little_until_a_second_agrees(
    shared: Database, gpu: str, factor: float
) -> None:
    before = seen(shared, gpu)
    for _ in range(3):
        reported(shared, "liar", speed(before) * factor, gpu=gpu)
    now, own = seen(shared, gpu), seen(shared, gpu, "liar")
    assert 1 / 1.16 < speed(now) / speed(before) < 1.16
    assert now["step_seconds"]["grade"] == before["step_seconds"]["grade"] == "estimated"
    width = [each["step_seconds"]["high"] / each["step_seconds"]["low"] for each in (before, now)]
    assert width[1] > width[0], "somebody contradicts it"
    assert own["step_seconds"]["grade"] == "measured", "its own questions at once"
    assert speed(own) == pytest.approx(speed(before) * factor, rel=0.2)
    assert seen(shared, gpu, None) == own, "without a key all that was told counts"
    reported(shared, "second", speed(before) * factor * 1.2, gpu=gpu)
    agreed = seen(shared, gpu)
    assert agreed["step_seconds"]["grade"] == "measured"
    assert speed(agreed) == pytest.approx(speed(before) * factor, rel=0.25)


def test_a_figure_is_confirmed_by_one_of_its_own_setting_alone(shared: Database) -> None:
    def asked(key: str, precision: str = "bf16", batch: int = 128) -> dict[str, Any]:
        with asking(key):
            return figures(shared, "rtx3080ti", precision=precision, batch_size=batch)

    fp32, usual, held = asked("victim", "fp32"), speed(asked("owner")), asked("victim", batch=256)
    for _ in range(3):
        reported(shared, "owner", usual, gpu="rtx3080ti")
    told, largest = asked("victim", batch=256), asked("owner")["max_batch_size"]
    for _ in range(3):
        reported(shared, "liar", usual * 1.3, gpu="rtx3080ti", precision="fp32")
    for key in ("victim", "owner"):
        after = asked(key, "fp32")["step_seconds"]
        assert after["grade"] == "estimated", "bf16 was measured, fp32 by the liar alone"
        assert after["value"] > 0.8 * speed(fp32)
    peak = 0.3 * float(held["peak_memory_gib"]["value"])
    said = {"peak_allocated_gib": peak, "peak_reserved_gib": peak, "process_gib": peak}
    for _ in range(3):
        begun, _ = begin_run(shared, case(gpu="rtx3080ti", batch_size=256), who="liar")
        take_events(shared, begun["run_id"], {"events": [{**one, **said} for one in epochs(2.0 * usual)]})
        finish_run(shared, begun["run_id"], {"status": "completed", "at": at(600)}, who="liar")
    assert asked("victim", batch=256)["peak_memory_gib"] == told["peak_memory_gib"], "times vouch for no peak"
    assert asked("owner")["max_batch_size"] == largest


def told_by(key: str, run: str, step: float, **changed: Any) -> Observation:
    return Observation(
        "a100", "resnet50", "resnet", 224, "bf16", 128, step_seconds=step, reporter=f"key {key}", run_id=run,
        **changed,
    )  # fmt: skip


def test_what_a_key_measured_on_its_device_silences_nobody_on_another() -> None:
    own = [told_by("asker", f"own{number}", 0.1, device="box1") for number in range(3)]
    there = [told_by(key, key, 0.3, device="box2") for key in ("one", "two")]
    here = [told_by(key, key, 0.3, device="box1") for key in ("one", "two")]
    told = [*own, *there, *here]
    assert heard(told, confirmed_figures(told, lambda _: ""), "key asker") == ((*own, *there), ())


def test_views_of_all_keys_that_report_remember_together_no_more_answers_than_eight(shared: Database) -> None:
    reported(shared, "liar", 0.1, gpu="h200")
    with asking("liar"):
        own = knowledge_of(shared).cards.caches.share
    with asking("nobody of these"):
        assert knowledge_of(shared).cards.caches.share == 1.0
    assert own * MOST_VIEWS <= 8


def test_a_plan_s_id_shows_each_asker_figures_of_their_own_view(shared: Database) -> None:
    question = {"task": "image", "gpu": "v100", "model": "resnet50", "image_size": "224", "n_train": "20000"}
    own_question = question | {"minutes": "77"}
    with asking("victim"):
        before = recommend(shared, question)
    step = speed(seen(shared, "v100", "liar"))
    for _ in range(4):
        reported(shared, "liar", step * 1.01, gpu="v100")
    with asking("liar"):
        poisoned, asked_by_it_alone = recommend(shared, question), recommend(shared, own_question)
        assert cached_plan(shared, before["plan_id"]) == poisoned
    assert poisoned["plan_id"] == before["plan_id"], "the settings are the same"
    assert poisoned["expected"] != before["expected"]
    for key in ("victim", "another"):
        with asking(key):
            plan = cached_plan(shared, before["plan_id"])
            assert plan is not None
            assert plan["expected"] == before["expected"]
    with asking("victim"):
        plan = cached_plan(shared, asked_by_it_alone["plan_id"])
        assert plan is not None
        assert plan["expected"] == recommend(shared, own_question)["expected"]
        assert plan["expected"] != asked_by_it_alone["expected"]


def test_memory_that_ran_out_for_one_key_bounds_nobody_else_s_batch(shared: Database) -> None:
    most = seen(shared, "l40s")["max_batch_size"]
    size = int(most["value"])
    reported(shared, "liar", None, gpu="l40s", batch_size=size)
    assert seen(shared, "l40s")["max_batch_size"] == most
    assert seen(shared, "l40s", "liar")["max_batch_size"]["value"] < size
    reported(shared, "second", None, gpu="l40s", batch_size=size)
    assert seen(shared, "l40s")["max_batch_size"]["value"] < size


def test_peaks_near_those_that_others_confirm_move_nobody_s_batch(shared: Database) -> None:
    def ran(who: str, times: float) -> None:
        begun, _ = begin_run(shared, case(gpu="titanrtx"), who=who)
        peaks: dict[str, Any] = dict.fromkeys(
            ("peak_allocated_gib", "peak_reserved_gib", "process_gib"), times * usual
        )
        take_events(shared, begun["run_id"], {"events": epochs(0.1, **peaks)})
        finish_run(shared, begun["run_id"], {"status": "completed", "at": at(600)}, who=who)

    usual = float(seen(shared, "titanrtx")["peak_memory_gib"]["value"])
    for who in ("ada", "cy", "ada", "cy"):
        ran(who, 1.0)
    before = seen(shared, "titanrtx")
    for _ in range(4):
        ran("eve", 1.05)
    now = seen(shared, "titanrtx")
    assert now["peak_memory_gib"]["value"] == pytest.approx(before["peak_memory_gib"]["value"], rel=1e-3)
    assert now["max_batch_size"]["value"] == before["max_batch_size"]["value"]
    assert seen(shared, "titanrtx", "eve")["peak_memory_gib"]["value"] > now["peak_memory_gib"]["value"]


def test_of_two_keys_whose_memory_ran_out_the_larger_batch_counts_for_others(shared: Database) -> None:
    most = seen(shared, "rtx5090")["max_batch_size"]
    lesser, larger = (int(share * most["value"]) for share in (0.75, 0.95))
    for _ in range(2):
        reported(shared, "ada", None, gpu="rtx5090", batch_size=lesser)
        assert seen(shared, "rtx5090")["max_batch_size"] == most, "one key's, however often"
    reported(shared, "eve", None, gpu="rtx5090", batch_size=larger)
    now = seen(shared, "rtx5090")["max_batch_size"]["value"]
    assert lesser <= now < larger, "both say that it runs out there; below, one alone does"


def test_only_a_key_that_may_correct_tells_of_another_s_run_which_is_then_nobody_s_report(
    shared: Database,
) -> None:
    slow = 4.0 * speed(seen(shared, "a10g"))
    reported(shared, "liar", slow, gpu="a10g")
    before = seen(shared, "a10g")
    begun, _ = begin_run(shared, case(gpu="a10g"), who="victim")
    with asking("liar", corrects=False):
        with pytest.raises(Forbidden):
            take_events(shared, begun["run_id"], {"events": epochs(slow)})
        with pytest.raises(Forbidden):
            take_log(shared, begun["run_id"], b"Epoch 1/2 loss 0.5\n")
        with pytest.raises(Forbidden):
            finish_run(shared, begun["run_id"], {"status": "completed", "at": at(600)}, who="liar")
    with asking("liar"):
        take_events(shared, begun["run_id"], {"events": epochs(slow)})
        finish_run(shared, begun["run_id"], {"status": "completed", "at": at(600)}, who="liar")
    assert seen(shared, "a10g", "other") == before
    assert seen(shared, "a10g") == before, "not even of the one that began it"


def test_a_run_begun_without_a_key_is_taken_over_once_and_only_over_loopback(shared: Database) -> None:
    begun, _ = begin_run(shared, case(gpu="a10g"))
    token = INSIDE.set(False)
    with asking("far", corrects=False), pytest.raises(Forbidden):
        take_events(shared, begun["run_id"], {"events": epochs(0.1)})
    with asking("far", corrects=False), pytest.raises(Forbidden):
        finish_run(shared, begun["run_id"], {"status": "crashed", "at": at(600)}, who="far")
    INSIDE.reset(token)
    with asking("one", corrects=False):
        take_events(shared, begun["run_id"], {"events": epochs(0.1)})
    with asking("two", corrects=False), pytest.raises(Forbidden):
        finish_run(shared, begun["run_id"], {"status": "crashed", "at": at(600)}, who="two")
    take_events(shared, begun["run_id"], {"events": epochs(0.1)})
    with asking("one", corrects=False):
        finish_run(shared, begun["run_id"], {"status": "completed", "at": at(600)}, who="one")
    with shared.read() as transaction:
        run = runs.find(transaction.session, begun["run_id"])
        assert run is not None
        assert (run.told_by, run.status) == (SEVERAL, "completed")


def test_a_person_confirms_a_run_by_restoring_it(shared: Database) -> None:
    step = speed(seen(shared, "rtxa6000")) * 1.5
    page = reported(shared, "one", step, gpu="rtxa6000")
    assert page["excluded"] is None, page["learned"]
    assert seen(shared, "rtxa6000")["step_seconds"]["grade"] == "estimated"
    mark_run(shared, page["id"], "I saw it run", excluded=False, who="editor")
    assert seen(shared, "rtxa6000", "one")["step_seconds"]["grade"] == "measured"
    assert seen(shared, "rtxa6000")["step_seconds"]["grade"] == "measured"
    with shared.read() as transaction:
        entries = history.of_row(transaction.session, "runs", page["id"])
    assert "confirmed: I saw it run" in str([entry.why for entry in entries])


def test_metrics_that_one_key_alone_reports_move_nobody_else_s_models(shared: Database) -> None:
    slugs = sorted(slug for slug, row in knowledge_of(shared).competitions.items()
                   if row["task"] == "image-classification" and row["metric_direction"] == "max")  # fmt: skip

    def ended(who: str, slug: str, model: str, metric: float) -> None:
        body = case(gpu="a100", model=model, competition=slug)
        begun, _ = begin_run(shared, body, who=who)
        finish_run(shared, begun["run_id"], {"status": "completed", "test_metric": metric}, who=who)

    def points(key: str | None) -> dict[str, float]:
        with asking(key):
            learned = knowledge_of(shared).quality_without(None).learned
        return {model: one.points for (_, model), one in learned.items()}

    def reached(key: str) -> dict[str, float]:
        with asking(key), shared.read() as unit:
            return outcomes_and_results(unit, slugs[1], "image")[1]

    def best(key: str | None) -> float | None:
        with asking(key), shared.read() as unit:
            found = competition_outcomes(unit, slugs[1])["best"]
        return None if found is None else float(found["test_metric"])

    begin = points("victim")
    for slug in slugs[1:6]:
        ended("liar", slug, "resnet18", 0.999)
        ended("liar", slug, "convnext_base", 0.4)
    assert points("victim") == begin
    assert reached("victim") == {}
    assert len(reached("liar")) == 2
    assert (best("victim"), best("liar"), best(None)) == (None, 0.999, 0.999)
    assert points("liar") != begin, "its own at once"
    assert points(None) == points("liar"), "without a key all that was told counts"
    ended("victim", slugs[1], "resnet18", 0.98)
    ended("victim", slugs[1], "convnext_base", 0.9)
    assert len(reached("victim")) == 2, "its own, and the liar's that agrees"
    assert best("other") == 0.98, "the worse of two that agree"
    assert points("other") == begin, "of one model nothing follows; of the other they do not agree"


def test_a_score_that_is_better_the_other_way_confirms_nothing(shared: Database) -> None:
    slug = next(slug for slug, row in sorted(knowledge_of(shared).competitions.items(), reverse=True)
                if row["task"] == "image-classification" and row["metric_direction"] == "min")  # fmt: skip

    def ended(who: str, model: str, loss: float, name: str) -> None:
        begun, _ = begin_run(shared, case(gpu="a100", model=model, competition=slug), who=who)
        told = [{**one, "metric": loss, "metric_name": name} for one in epochs(0.1)]
        take_events(shared, begun["run_id"], {"events": told})
        finish_run(shared, begun["run_id"], {"status": "completed", "at": at(600)}, who=who)

    def best(key: str | None) -> str:
        with asking(key), shared.read() as unit:
            return str(competition_outcomes(unit, slug)["best"]["model"]).split(".")[0]

    for who, name in (("owner", "logloss"), ("liar", "accuracy")):
        ended(who, "efficientnet_b0", 0.25, name)
        ended(who, "convnext_tiny", 0.9, name)
    assert best("owner") == "efficientnet_b0"
    assert best("liar") == "convnext_tiny"
    for _ in range(3):  # near the owner's, and better than it
        ended("liar", "convnext_tiny", 0.24, "logloss")
        ended("liar", "efficientnet_b0", 0.24, "logloss")
    assert best("owner") == "efficientnet_b0"
    with asking("third"), shared.read() as unit:
        third = competition_outcomes(unit, slug)["best"]
    assert (third["model"].split(".")[0], third["metric"]) == ("efficientnet_b0", 0.25), (
        "the worse of two that agree"
    )


def test_errors_of_runs_that_one_key_alone_told_are_scored_for_that_key(shared: Database) -> None:
    asked, usual = {"gpu": "a30"}, speed(seen(shared, "a30"))

    def scored(key: str | None) -> dict[str, int]:
        with asking(key):
            found = accuracy(shared, asked)
        assert found["runs"]["ended"] == found["runs"]["scored"] + found["runs"]["excluded"].get(
            "told_alone", 0
        )
        return {one["quantity"]: one["n"] for one in found["overall"]}

    def speeds() -> list[int]:
        return [scored(key).get("samples_per_second", 0) for key in ("liar", None, "victim", "other")]

    for _ in range(3):
        reported(shared, "liar", 3.0 * usual, gpu="a30")
    assert speeds() == [3, 3, 0, 0]
    assert scored("victim") == {}
    reported(shared, "victim", usual, gpu="a30")
    assert speeds() == [3, 4, 1, 0]
    assert scored("other") == {"total_minutes": 2}, "of these alone the two told the same"
    reported(shared, "another", 1.1 * usual, gpu="a30")
    assert speeds() == [5, 5, 2, 2]


def test_runs_that_one_key_copied_from_others_outweigh_theirs_in_nobody_else_s_scores(
    shared: Database,
) -> None:
    usual = speed(seen(shared, "rtx4070"))
    for who in ("one", "two", *["copier"] * 5):
        reported(shared, who, usual, gpu="rtx4070")
    scored = {}
    for key in ("one", "other", "copier", None):
        with asking(key):
            scored[key] = accuracy(shared, {"gpu": "rtx4070"})["runs"]["scored"]
    assert scored == {"one": 3, "other": 3, "copier": 7, None: 7}


def test_each_figure_of_a_run_is_scored_once_another_told_it_of_the_same_setting(shared: Database) -> None:
    usual = speed(seen(shared, "rtx4080"))

    def scored(key: str) -> dict[str, int]:
        with asking(key):
            return {one["quantity"]: one["n"] for one in accuracy(shared, {"gpu": "rtx4080"})["overall"]}

    reported(shared, "one", usual, gpu="rtx4080")
    speeds, minutes = ("samples_per_second", "epoch_seconds"), "total_minutes"
    for _ in range(4):
        reported(shared, "liar", usual, gpu="rtx4080", precision="fp32")
        reported(shared, "liar", usual, gpu="rtx4080", optimizer="sgd")
        reported(shared, "liar", usual, gpu="rtx4080", batch_size=8)
    assert scored("other") == {}
    assert scored("one") == dict.fromkeys((*speeds, minutes), 1)
    for _ in range(4):
        reported(shared, "liar", usual, gpu="rtx4080", folds=4)
    assert scored("other") == {"samples_per_second": 2}, "as often as the other, and no minutes of other work"
    assert scored("one") == {"samples_per_second": 2, "epoch_seconds": 1, minutes: 1}


def test_conflicts_and_example_plans_are_of_what_counts_for_whoever_asks(
    shared: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def conflicting(key: str | None) -> int:
        with asking(key):
            return sum(item["gpu"] == "rtx4080super" for item in conflicts(shared))

    def example(key: str | None) -> Any:
        with asking(key):
            return strategies.examples(shared, knowledge_of(shared))[0]

    monkeypatch.setattr(strategies, "_planned", lambda *_: ASKER.get())
    for _ in range(3):
        reported(shared, "liar", 3.0 * speed(seen(shared, "rtx4080super")), gpu="rtx4080super")
    for first, second in (("liar", "victim"), ("victim", "liar")):
        found = {key: conflicting(key) for key in (first, second, None)}
        assert found["victim"] == 0
        assert found["liar"] == found[None] > 0
        reported(shared, "liar", 3.0 * speed(seen(shared, "rtx4080super")), gpu="rtx4080super")
    assert [example(key) for key in ("liar", "victim", None)] == ["key liar", "key victim", None]


def test_a_run_that_is_not_scored_anyway_keeps_its_reason(shared: Database) -> None:
    begun, _ = begin_run(shared, case(gpu="rtxa5000"), who="liar")
    take_events(shared, begun["run_id"], {"events": epochs(0.05, peak_allocated_gib=6.0)})
    finish_run(shared, begun["run_id"], {"status": "completed", "at": at(1)}, who="liar")
    found = {}
    for key in ("victim", "liar", None):
        with asking(key):
            counts = accuracy(shared, {"gpu": "rtxa5000"})["runs"]
        found[key] = (counts["scored"], counts["excluded"])
    assert found["victim"] == (0, {"late": 1})
    assert found["liar"] == found[None] == (1, {}), "its memory counts"


def test_runs_of_one_key_however_many_hide_no_other_s(shared: Database) -> None:
    slug = list(knowledge_of(shared).competitions)[-1]
    for who in ("first", "second", *["flood"] * 6):
        begun, _ = begin_run(shared, case(gpu="a100", competition=slug), who=who)
        finish_run(shared, begun["run_id"], {"status": "completed", "test_metric": 0.5}, who=who)
    with shared.read() as unit:
        found = outcomes.latest(unit.session, f"competition:{slug}", 4)
        scored = outcomes.with_metric(unit.session, 6)
    assert [row.told_by for row in found] == ["key flood", "key flood", "key second", "key first"]
    assert {"key first", "key second"} <= {row.told_by for row in scored}
    for _ in range(2 * 8):  # as many as are looked at, at once
        begun, _ = begin_run(shared, case(gpu="a100", competition=slug), who="flood")
        finish_run(shared, begun["run_id"], {"status": "completed"}, who="flood")
    with shared.read() as unit:
        states = outcomes.ended_states(unit.session, {"competition": slug}, 2)
        tellers = {run.told_by for run in runs.ended(unit.session, states)}
    assert tellers == {"key flood", "key second"}


def test_start_ups_that_one_key_alone_tells_close_no_box_for_others(shared: Database) -> None:
    asked = {"task": "image", "n_train": 20_000, "deadline_minutes": 120}
    asked["offers"] = [{"name": "box", "gpu": "p100", "price_per_hour": 1.0}]

    def box(key: str | None) -> dict[str, Any]:
        with asking(key):
            return dict(choose_offer(shared, checked(ChooseRequest, asked))["offers"][0])

    def started(who: str, minutes: float) -> None:
        begun, _ = begin_run(shared, case(gpu="p100", host={"start_up_minutes": minutes}), who=who)
        finish_run(shared, begun["run_id"], {"status": "completed"}, who=who)

    before = box("victim")
    for _ in range(6):
        started("liar", 600)
    assert box("victim") == before
    assert not box("liar")["fits"]
    assert not box(None)["fits"]
    started("second", 500)
    assert not box("victim")["fits"], "two keys agree"


@pytest.mark.parametrize("said", ["2 min", "abc", "1e999", True, [1], {"of": "them"}])
def test_a_start_up_that_is_no_number_keeps_nobody_from_choosing(shared: Database, said: Any) -> None:
    asked = {"task": "image", "n_train": 20_000, "deadline_minutes": 120}
    asked["offers"] = [{"name": "box", "gpu": "v100", "price_per_hour": 1.0}]
    begun, _ = begin_run(shared, case(gpu="v100", host={"start_up_minutes": said}), who="other")
    finish_run(shared, begun["run_id"], {"status": "completed"}, who="other")
    with asking("victim"):
        assert choose_offer(shared, checked(ChooseRequest, asked))["offers"]
