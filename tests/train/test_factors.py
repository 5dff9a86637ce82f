"""Do two categories say more together than each for itself, where they do, and nothing where they do not?"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from memory_service.train.problem import Prediction, Problem
from memory_service.train.tables import Factors

USERS, FILMS, ROWS, KNOWN = 60, 40, 2400, 2000


class Clock:
    def left(self) -> float:
        return 100.0


def ratings(together: float) -> tuple[Problem, np.ndarray]:
    """(2000 ratings of 60 users for 40 films, those of 400 more), and how much taste there is in them."""
    rng = np.random.default_rng(0)
    users, films = rng.integers(0, USERS, ROWS), rng.integers(0, FILMS, ROWS)
    taste = together * (rng.normal(size=(USERS, 2))[users] * rng.normal(size=(FILMS, 2))[films]).sum(axis=1)
    target = rng.normal(size=USERS)[users] + rng.normal(size=FILMS)[films] + taste
    target += 0.3 * rng.normal(size=ROWS)
    table = pd.DataFrame({"user": users * 10.0, "film": [f"film {n}" for n in films]})
    problem = Problem(
        kind="values", inputs=table[:KNOWN], test_inputs=table[KNOWN:].reset_index(drop=True),
        targets=target[:KNOWN, None], outputs=["stars"], score=lambda truth, found: 0.0, loss="squared",
        columns={"user": "code", "film": "category"},
    )  # fmt: skip
    return problem, target[KNOWN:]


@pytest.mark.parametrize(("together", "left"), [(0.0, 0.4), (1.0, 0.75)])
def test_ratings_are_learned_from_users_films_and_their_taste(together: float, left: float) -> None:
    problem, hidden = ratings(together)
    rows, member = np.random.default_rng(1).permutation(KNOWN), Factors()

    def off(found: Prediction) -> float:
        return float(np.sqrt(np.mean((found.test[:, 0] - hidden) ** 2)))

    assert member.applies(problem)
    first = member.fit(problem, rows[400:], rows[:400], 0, Clock(), {})
    assert (first.memo["size"] > 0) == (together > 0)
    whole = member.fit(problem, rows, rows[:0], 0, Clock(), first.memo)
    assert off(whole) <= off(first) < left


def test_of_two_classes_it_says_the_chance_of_the_second() -> None:
    problem, hidden = ratings(1.0)
    problem.kind, problem.loss, problem.outputs = "classes", "log_loss", ["no", "yes"]
    problem.targets = (problem.targets[:, 0] > 0).astype(int)
    found = Factors().fit(problem, np.arange(400, KNOWN), np.arange(400), 0, Clock(), {})
    assert found.test.sum(axis=1) == pytest.approx(np.ones(ROWS - KNOWN))
    assert ((found.test[:, 1] > 0.5) == (hidden > 0)).mean() > 0.8


def test_it_asks_for_two_categories_of_many_values() -> None:
    problem, _ = ratings(0.0)
    problem.columns = {"user": "code", "film": "text"}
    assert not Factors().applies(problem)
