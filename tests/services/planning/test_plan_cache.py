"""Answers by revision, within one bound; where knowledge changes too fast, the plan before answers."""

from __future__ import annotations

import threading
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from memory_service.child_processes import ASIDE
from memory_service.services.planning import plan_cache
from memory_service.services.planning.plan_cache import MOST_BYTES, MOST_RENEWALS, PlanCache


def test_answers_of_all_revisions_share_one_bound_and_a_restored_backup_has_its_own():
    plans = PlanCache()
    half = bytes(MOST_BYTES // 2)
    for revision in (7, 8):
        plans.store(revision, "one", half, f"plan-{revision}")
        plans.store(revision, "other", half, None)
        assert plans.get(revision, "one") == plans.get(revision, "other") == half
    assert plans.with_plan("plan-7") is None, "the oldest use went first"
    assert plans.with_plan("plan-8") == half
    assert plans.get(3, "one") is None, "an earlier revision: a backup was restored"
    assert plans.get(8, "one") is plans.with_plan("plan-8") is None, "its later revisions are others"


def test_a_request_that_began_before_a_run_ended_costs_no_plan_of_before():
    plans = PlanCache()
    plans.store(7, "one", b"seven", "plan-7")
    plans.store(8, "other", b"eight", "plan-8")
    assert plans.get(8, "other") == b"eight"
    assert plans.get(7, "one") == b"seven", "the slower request, with the revision that it read"
    assert plans.with_plan("plan-7") == b"seven"


def test_a_plan_is_found_in_the_view_it_was_made_in_and_in_everybodys(tmp_path: Path):
    plans, other = PlanCache(), PlanCache()
    plans.share(tmp_path)
    other.share(tmp_path)  # another process of the same address
    plans.store(7, "of one", b"of one", "plan-7", view="key one")
    plans.store(7, "whole", b"all that was told", "plan-8", view=None)
    for cache in (plans, other):
        assert cache.with_plan("plan-7", view="key one") == b"of one"
        assert cache.with_plan("plan-7", view="key two") is cache.with_plan("plan-7") is None
        assert cache.with_plan("plan-8") is cache.with_plan("plan-8", view="None") is None
        assert cache.question_of("plan-7") == "of one", "the question is the same to all"
    plans.store(7, "of everybody", b"of everybody", "plan-7")
    for cache in (plans, other):
        assert cache.with_plan("plan-7", view="key one") == b"of one"
        assert cache.with_plan("plan-7", view="key two") == b"of everybody"


class Planner:
    """Plans a question at ever later revisions."""

    def __init__(self, cache: PlanCache) -> None:
        self.aside: Any = None
        self.cache, self.revision, self.gate, self.began = cache, 0, threading.Event(), threading.Event()
        self.gate.set()

    def ask(self, later: int = 1) -> bytes:
        """The answer where the knowledge changed so often since the last plan."""
        return self.cache.renewed(self.revision + later, "one", self.plan)

    def plan(self) -> bytes:
        self.revision, self.aside = self.revision + 1, ASIDE.get()
        revision = self.revision
        self.began.set()
        assert self.gate.wait(60)
        self.cache.store(revision, "one", b"%d" % revision, None)
        return b"%d" % revision


def test_where_knowledge_changes_faster_than_it_is_planned_the_plan_before_answers(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(plan_cache, "RENEWALS_SECONDS", 3_600.0)
    monkeypatch.setattr(plan_cache, "PATIENCE_SECONDS", 0.01)
    cache = PlanCache()
    planner = Planner(cache)
    assert [planner.ask() for _ in range(MOST_RENEWALS)] == [b"1", b"2", b"3"]
    planner.gate.clear()
    planner.began.clear()
    held = ASIDE.set(suppress)
    assert [planner.ask() for _ in range(5)] == [b"3"] * 5
    ASIDE.reset(held)
    assert planner.began.wait(60)
    assert planner.aside is nullcontext, "its place is the request's"
    assert planner.revision == MOST_RENEWALS + 1, "one plan was begun for all of them"
    planner.gate.set()
    monkeypatch.setattr(plan_cache, "PATIENCE_SECONDS", 60.0)
    assert planner.ask() in (b"4", b"5"), "what is made in time is the answer"


def test_a_question_that_is_seldom_planned_anew_waits_for_its_plan(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plan_cache, "RENEWALS_SECONDS", 3_600.0)
    monkeypatch.setattr(plan_cache, "PATIENCE_SECONDS", 0.0)
    cache = PlanCache()
    planner = Planner(cache)
    assert [planner.ask() for _ in range(MOST_RENEWALS)] == [b"1", b"2", b"3"]
    monkeypatch.setattr(plan_cache, "RENEWALS_SECONDS", 0.0)
    assert planner.ask() == b"4"


def test_where_knowledge_changed_often_since_a_plan_it_answers_while_the_new_one_takes_long(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(plan_cache, "RENEWALS_SECONDS", 3_600.0)
    monkeypatch.setattr(plan_cache, "PATIENCE_SECONDS", 0.0)
    planner = Planner(PlanCache())
    assert planner.ask() == b"1"
    planner.gate.clear()
    assert planner.ask(MOST_RENEWALS) == b"1"
    planner.gate.set()
    monkeypatch.setattr(plan_cache, "PATIENCE_SECONDS", 60.0)
    assert planner.ask(MOST_RENEWALS) == b"2"
    monkeypatch.setattr(plan_cache, "PATIENCE_SECONDS", 0.0)
    assert planner.ask(MOST_RENEWALS - 1) == b"3", "who corrected a row finds it in the next plan"


def test_an_old_plan_that_was_the_latest_until_now_answers_one_that_nobody_asked_for_meanwhile_does_not(
    monkeypatch: pytest.MonkeyPatch,
):
    clock = [1_000.0]
    monkeypatch.setattr(plan_cache, "monotonic", lambda: clock[0])
    monkeypatch.setattr(plan_cache, "RENEWALS_SECONDS", 30.0)
    monkeypatch.setattr(plan_cache, "PATIENCE_SECONDS", 0.0)
    cache = PlanCache()
    planner = Planner(cache)
    assert planner.ask() == b"1"
    clock[0] += 3_600.0
    assert cache.get(1, "one") == b"1"
    clock[0] += 20.0
    planner.gate.clear()
    assert cache.get(9, "one") is None
    assert cache.renewed(9, "one", planner.plan) == b"1", "it was the latest 20 s ago"
    planner.gate.set()
    clock[0] += 20.0
    monkeypatch.setattr(plan_cache, "PATIENCE_SECONDS", 60.0)
    assert cache.renewed(9, "one", planner.plan) in (b"2", b"3"), "40 s ago"
