"""Does advice do no harm? 200 simulated runs of a generated script, with the service's verdicts and without.

The script's own loop over folds and its own `RunState` run against a simulated clock; verdicts are those of
`domain.monitoring` over what the run has told by then. Boxes are contended for a while, as in users.md A7.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from memory_service.client.verdict import Verdict
from memory_service.domain.common.estimate import Estimate
from memory_service.domain.monitoring.state import Expectation, RunFacts
from tests.scripts.test_reading import Open, Script, opened
from tests.watching import Said, judged

__all__ = ["opened"]

RUNS = 200


@dataclass(frozen=True)
class Box:
    """minutes, folds, cap    of the plan
    rounds          that each fold needs until early stopping ends it
    seconds         of a round on a quiet box; imports: before training
    slow            how much longer a round takes between two moments, in seconds
    promised        what its plan says of best rounds and inference, made for other data
    """

    minutes: float
    folds: int
    cap: int
    rounds: int
    seconds: float
    imports: float
    slow: tuple[float, float, float]
    promised: Expectation


def box(number: int) -> Box:
    rng = random.Random(number)
    minutes = rng.choice((1.0, 2.0, 4.0, 10.0))
    folds, rounds = rng.randint(2, 5), rng.randint(50, 600)
    share = rng.uniform(0.2, 2.0)  # of the budget, that all folds together take on a quiet box
    seconds = share * 60 * minutes / folds / rounds
    begun = rng.uniform(0, 40 * minutes)
    slow = (begun, begun + rng.uniform(0, 20 * minutes), rng.choice((1.0, 3.0, 10.0)))
    cap, imports = rounds * rng.randint(1, 8), rng.uniform(1, 12)
    best, inference = rounds * rng.choice((0.3, 1.0, 15.0)), minutes * rng.choice((0.01, 0.3, 2.0))
    promised = Expectation(
        patience=50,
        best_epoch=Estimate(best, best / 4, best * 4),
        inference_minutes=Estimate(inference / 6, inference / 36, inference),
    )
    return Box(minutes, folds, cap, rounds, seconds, imports, slow, promised)


def replayed(script: Script, box: Box, advised: bool) -> tuple[int, int]:
    """(folds, rounds of all of them) that end in the budget."""
    module, state, told, boosted = script.module, script.state, list[Said](), list[int]()
    clock = {"now": box.imports}
    facts = RunFacts(
        task="tabular-regression", model="lightgbm", device_kind="cpu", folds=box.folds, epochs=box.cap,
        minutes=box.minutes, n_train=20_000, pretrained=False,
    )  # fmt: skip
    state.__init__(out_dir=script.plan.OUT_DIR)
    module.time = type("Clock", (), {"monotonic": staticmethod(lambda: clock["now"])})
    module.START, state.minutes, script.plan.FOLDS = 0.0, box.minutes, box.folds
    state.reserve_minutes, state.train_minutes = 0.15 * box.minutes, 0.7 * box.minutes

    def train_fold(fold: int, *_: Any) -> dict[str, float]:
        every, asked = max(1, box.rounds // 25), 0.0
        told.append(("fold", clock["now"], {"fold": fold, "folds": box.folds}))
        for number in range(every, box.rounds + 1, every):
            first, last, times = box.slow
            pace = box.seconds * (times if first <= clock["now"] < last else 1.0)
            clock["now"] += every * pace
            epoch = {"epoch": number, "fold": fold, "seconds": pace, "valid_loss": 1 / number}
            told.append(("epoch", clock["now"], epoch))
            if advised and clock["now"] > asked:
                asked = clock["now"] + 5 * box.minutes
                state.follow(Verdict.from_answer(judged(facts, told, box.promised).as_dict()))
            if state.seconds_left() <= 0:
                break
        told.append(("fold", clock["now"], {"fold": fold, "done": True}))
        boosted.append(number)
        return {"score": 1.0}

    script.plan.train_fold, module.finish_fold = train_fold, lambda *_: None
    folds = len(script.train_folds(script.read_data(), None))
    return folds, sum(boosted)


def test_who_follows_the_verdicts_never_ends_with_fewer_folds(opened: Open, capsys: Any) -> None:
    script = opened("text-regression", lambda folder: None, folds=5)
    data = script.read_data()
    script.state.out_dir.mkdir()
    script.read_data = lambda: data
    pairs = [[replayed(script, box(n), advised) for advised in (False, True)] for n in range(RUNS)]
    worse = {n: pair for n, pair in enumerate(pairs) if pair[1][0] < pair[0][0]}
    assert not worse, worse
    better = sum(advised[1] >= alone[1] for alone, advised in pairs)
    assert better >= 0.95 * RUNS
    advice = [line for line in capsys.readouterr().out.splitlines() if line.startswith("VERDICT: ")]
    assert len(advice) > 20, "nothing was advised: the runs say nothing"
