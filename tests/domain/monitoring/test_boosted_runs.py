"""Is a boosted run judged by the round at which early stopping will end it, not by its cap? (users.md A7)"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.monitoring.decision import verdict
from memory_service.domain.monitoring.reducer import add_events
from memory_service.domain.monitoring.state import Expectation, RunFacts, State
from memory_service.domain.monitoring.summary import Summary
from memory_service.domain.monitoring.verdict import Verdict
from tests.watching import Said, events, judged

TREES = RunFacts(
    task="tabular-classification", model="lightgbm", device_kind="cpu", folds=5, epochs=8_000, minutes=20.0,
    n_train=100_000, pretrained=False,
)  # fmt: skip
PLANNED = Expectation(best_epoch=Estimate(1_000.0, 260.0, 3_800.0), patience=100)


def rounds(of_folds: list[tuple[int, int]], seconds: float, folds: int = 5) -> list[Said]:
    """(rounds so far, best of them) of each fold, told every 25 rounds; all but the last are over."""
    said: list[Said] = []
    now = 5.0
    for fold, (count, best) in enumerate(of_folds, 1):
        said.append(("fold", now, {"fold": fold, "folds": folds}))
        for number in range(24, count, 25):
            now += 25 * seconds
            loss = 1.0 - min(number, best) / 1e5 + max(0, number - best) / 1e6
            said.append(
                ("epoch", now, {"epoch": number, "fold": fold, "seconds": seconds, "valid_loss": loss})
            )
        if fold < len(of_folds):
            said.append(("fold", now, {"fold": fold, "done": True}))
    return said


def eta(answer: Verdict) -> float:
    assert answer.eta_minutes is not None
    return answer.eta_minutes.value


def test_a_cap_that_early_stopping_never_reaches_costs_no_fold() -> None:
    """5 folds x 8 000 rounds of 0.1 s would take 67 minutes of 20; early stopping ends each at 1 200."""
    whole = [(1_200, 1_100)]
    for before, here in ((0, (150, 149)), (0, (1_150, 1_100)), (1, (150, 149)), (3, (600, 599))):
        answer = judged(TREES, rounds(whole * before + [here], 0.1), PLANNED)
        assert answer.action == "continue", answer
        assert eta(answer) * 60 < 5 * 1_300 * 0.1


def test_slow_first_rounds_are_no_reason_to_give_up_folds_before_one_has_ended() -> None:
    """The observed run: 3 folds, cap 1 200, rounds of 0.307 s in 4 minutes; the folds ended at round 315."""
    facts = replace(TREES, folds=3, epochs=1_200, minutes=4.0)
    expected = Expectation(best_epoch=Estimate(300.0, 80.0, 1_150.0), patience=50)
    assert judged(facts, rounds([(275, 274)], 0.307, 3), expected).action == "continue"
    assert judged(facts, rounds([(325, 265), (100, 99)], 0.03, 3), expected).action == "continue"


def test_a_run_whose_folds_are_known_to_be_too_long_loses_folds_before_rounds() -> None:
    answer = judged(TREES, rounds([(4_000, 3_900), (100, 99)], 0.1), PLANNED)
    assert (answer.action, set(answer.set)) == ("reduce_folds", {"folds"})
    assert 1 < answer.set["folds"] < 5


def test_rounds_that_gain_past_what_was_expected_go_on_for_the_patience_at_least() -> None:
    few = judged(replace(TREES, folds=1), rounds([(600, 599)], 0.01, 1), PLANNED)
    many = judged(replace(TREES, folds=1), rounds([(5_000, 4_999)], 0.01, 1), PLANNED)
    assert abs(eta(few) * 60 - 500 * 0.01) < 1.0
    assert abs(eta(many) * 60 - 100 * 0.01) < 1.0
    assert many.eta_minutes is not None
    assert many.eta_minutes.high * 60 > 1_000 * 0.01


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(50, 3_000), st.floats(0.001, 0.5))
def test_a_higher_cap_never_ends_a_run_sooner(fold: int, best: int, seconds: float) -> None:
    said = rounds([(best + 100, best)] * (fold - 1) + [(min(best, 50), best)], seconds)
    caps = (4_000, 8_000, 16_000)
    answers = [judged(replace(TREES, epochs=cap, minutes=10_000.0), said, PLANNED) for cap in caps]
    ends = [answer.eta_minutes.high for answer in answers if answer.eta_minutes]
    assert ends == sorted(ends)
    assert all(answer.action == "continue" for answer in answers)


def test_a_script_that_fits_models_by_itself_is_not_said_to_have_made_no_steps() -> None:
    searching = replace(TREES, reserve_minutes=1.0)
    fits: list[Said] = [("note", 30.0 * n, {"text": f"fit {n}", "metric": 0.9}) for n in range(20)]
    assert "fits model after model until 19 min by itself" in judged(searching, fits[:4]).why
    assert judged(searching, fits).action == "continue"
    assert judged(TREES, fits).action == "investigate"
    silent = State(searching, add_events(Summary(), events(fits)), PLANNED, requested_seconds=1_130.0)
    assert "Nothing was reported for" in verdict(silent).why
