"""A card learns from what bears on it: its own runs first, a bounded number, whatever others did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import pytest

from memory_service.domain.learning import corrections
from memory_service.domain.learning.hierarchy import MatchedObservation
from memory_service.domain.learning.observation import BaselinePrediction, Observation
from memory_service.domain.learning.observation_selection import MOST_BATCHES, ObservationSelection
from memory_service.domain.learning.time_residuals import TimePosterior
from memory_service.domain.prediction.device_step_time import baseline_prediction
from tests.domain.learning.test_corrections import BOX, CARD, MIB, PROFILES, cold_profile, moved, ran

__all__ = ["MIB"]

FAR = replace(CARD, slug="t4", device="far")


def predict(o: Observation) -> BaselinePrediction:
    return baseline_prediction(o, cold_profile(o), {"box7": BOX, "far": FAR}.get(o.device, CARD))


def sizes(device: str, times: float, number: int, day: int = 20) -> list[Observation]:
    """Runs of as many different cases on one device."""
    gpu = {"box7": BOX, "far": FAR}[device]
    models = [model for model, _ in zip(sorted(PROFILES) * number, range(number), strict=False)]
    return [
        ran(model, times, f"{device} {n}", gpu, input_size=96 + n, at=f"2026-11-{day}T10:00:{n % 60:02d}Z")
        for n, model in enumerate(models)
    ]


def test_its_own_runs_count_however_many_others_ran_later() -> None:
    selection = ObservationSelection(
        [*sizes("box7", 1.3, 6, day=1), *sizes("far", 1.0, 5 * MOST_BATCHES)], predict
    )
    taught = replace(BOX, learned=selection.about("box7", BOX.slug))
    assert moved("resnet50", taught) == pytest.approx(1.3, rel=0.05)


def test_a_card_nobody_ran_on_learns_from_the_device_of_its_model() -> None:
    selection = ObservationSelection(sizes("box7", 1.3, 24), predict)
    known, unknown = selection.about("", CARD.slug), selection.about("elsewhere", "l4")
    of_model = moved("resnet50", replace(CARD, learned=known))
    assert of_model > moved("resnet50", replace(CARD, slug="l4", learned=unknown)) > 1.0


def test_no_more_cases_are_predicted_than_are_learned_from() -> None:
    asked = count()

    def counted(o: Observation) -> BaselinePrediction:
        next(asked)
        return predict(o)

    selection = ObservationSelection(sizes("far", 1.2, 5 * MOST_BATCHES), counted)
    moved("resnet50", replace(BOX, learned=selection.about("box7", BOX.slug)))
    assert next(asked) == MOST_BATCHES
    more = selection.renewed([*sizes("far", 1.2, 5 * MOST_BATCHES), ran("resnet18", 1.2, "new", BOX)])
    moved("resnet50", replace(BOX, learned=more.about("box7", BOX.slug)))
    assert next(asked) == MOST_BATCHES + 2


def test_the_order_in_which_observations_come_changes_nothing() -> None:
    seen = [*sizes("box7", 1.3, 50), *sizes("far", 0.8, 50)]
    one, other = (ObservationSelection(some, predict).about("box7", BOX.slug) for some in (seen, seen[::-1]))
    assert moved("resnet50", replace(BOX, learned=one)) == moved("resnet50", replace(BOX, learned=other))


def test_cards_that_learn_from_the_same_observations_share_what_is_solved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solved: list[int] = []

    def solve(matched: Sequence[MatchedObservation]) -> TimePosterior:
        solved.append(len(matched))
        return TimePosterior(matched)

    monkeypatch.setattr(corrections, "TimePosterior", solve)
    selection = ObservationSelection([*sizes("box7", 1.3, 5), *sizes("far", 0.8, 5)], predict)
    cards = [replace(CARD, slug=slug, learned=selection.about("", slug)) for slug in ("l4", CARD.slug)]
    assert moved("resnet50", cards[0]) != moved("resnet50", cards[1])
    assert solved == [10]
