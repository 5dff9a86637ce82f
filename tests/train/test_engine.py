"""Does the anytime loop keep what gains, whatever fails, and go on where it was cut?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest

from memory_service.train import answers, budget, engine, folds, metrics, problem, reading, writing
from memory_service.train.problem import Clock, Prediction, Problem
from tests.train.conftest import Prepare

ROWS, ASKED = 60, 8


def values(**more: Any) -> reading.Data:
    targets = np.linspace(0.0, 6.0, ROWS)[:, None]
    return reading.Data(
        id_column="id",
        ids=[f"a{n}" for n in range(ROWS)],
        target_columns=["y"],
        inputs=pd.DataFrame({"x": targets[:, 0]}),
        targets=targets,
        outputs=["y"],
        test_ids=[f"t{n}" for n in range(ASKED)],
        test_inputs=pd.DataFrame({"x": np.arange(float(ASKED))}),
        columns={"x": "number"},
        **more,
    )


def classes() -> reading.Data:
    data = values()
    data.targets, data.outputs = np.arange(ROWS) % 2, ["no", "yes"]
    return data


@dataclass
class Member(problem.Member):
    """Knows the truth but for an error; `test` is what it says of every test row. `does` may raise."""

    name: str
    error: Callable[[np.ndarray], Any] = lambda rows: 0.1
    test: float = 1.0
    seconds: float = 0.01
    does: Callable[[], object] = lambda: None
    complete: bool = True
    fitted: list[int] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)

    def applies(self, problem: Problem) -> bool:
        return True

    def price(self, problem: Problem) -> float:
        return self.seconds

    def fit(
        self,
        problem: Problem,
        train_rows: np.ndarray,
        valid_rows: np.ndarray,
        seed: int,
        clock: Clock,
        memo: dict[str, Any],
    ) -> Prediction:
        self.fitted.append(len(train_rows))
        self.told.append(memo)
        self.does()
        if problem.kind == "classes":
            valid = 0.5 + 0.4 * (np.eye(2)[problem.targets[valid_rows]] - 0.5) * 2
            return Prediction(valid, np.tile([0.3, 0.7], (ASKED, 1)))
        valid = problem.targets[valid_rows] + np.reshape(self.error(valid_rows), (-1, 1))
        return Prediction(valid, np.full((ASKED, 1), self.test), {"rounds": len(self.fitted)}, self.complete)


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """The loop with these members and further ones. The plan is prepared before."""

    def trained(
        data: reading.Data, *members: Member, more: tuple[Member, ...] = (), run: Any = None
    ) -> list[float]:
        monkeypatch.setattr(engine, "members_of", lambda _: list(members))
        monkeypatch.setattr(engine, "choose_features", lambda _: None)
        monkeypatch.setattr(engine, "SERIES_MEMBERS", ())
        monkeypatch.setattr(engine, "further", lambda _, n, best="": more[n - 1] if n <= len(more) else None)
        return engine.train_members(data, run)

    return trained


def submitted() -> list[float]:
    table = pd.read_csv(budget.state.out_dir / "submission.csv")
    assert table["id"].tolist() == [f"t{n}" for n in range(ASKED)]
    return [float(one) for one in table["y"].unique()]


def broken() -> None:
    raise RuntimeError("out of luck")


def test_a_member_that_fails_costs_no_other(prepared: Prepare, train: Any, capsys: Any) -> None:
    prepared()
    nan = Member("nan", error=lambda rows: np.nan)
    assert train(values(), Member("bad", does=broken), nan, Member("good", test=3.0)) == [pytest.approx(0.1)]
    assert submitted() == [3.0]
    told = capsys.readouterr().out
    assert "WARNING: bad failed: RuntimeError('out of luck')" in told
    assert "WARNING: nan failed" in told
    assert nan.fitted == [40], "it is not tried again"


def test_members_whose_errors_differ_are_blended_and_a_poor_one_is_not(prepared: Prepare, train: Any) -> None:
    prepared()
    above, below = Member("above", lambda _: 0.4, 2.0), Member("below", lambda _: -0.4, 4.0)
    assert train(values(), above, below, Member("poor", lambda _: 2.5, 900.0)) == [pytest.approx(0.0)]
    assert submitted() == [3.0]


def test_a_blend_goes_over_a_step_that_gains_nothing(prepared: Prepare, train: Any) -> None:
    """With half of the second it is worse than the first alone, with a fifth of it exact."""
    prepared()
    first, second = Member("first", lambda _: 0.2, 1.0), Member("second", lambda _: -0.8, 2.0)
    assert train(values(), first, second) == [pytest.approx(0.0, abs=1e-6)]
    assert submitted() == [pytest.approx(1.2)]


def test_what_is_held_out_and_what_is_sent_are_written_for_blends(prepared: Prepare, train: Any) -> None:
    prepared("labels")
    train(classes(), Member("one"))
    oof = pd.read_csv(budget.state.out_dir / "oof.csv")
    assert list(oof) == ["id", "true_y", "p_no", "p_yes"]
    assert oof["id"].tolist() == [f"a{n}" for n in range(ROWS)]
    assert oof["true_y"].tolist() == ["no", "yes"] * (ROWS // 2)
    assert ((oof["p_yes"] > 0.5) == (oof["true_y"] == "yes")).all()
    tests = pd.read_csv(budget.state.out_dir / "test_predictions.csv")
    assert tests[["p_no", "p_yes"]].sum(axis=1).to_numpy() == pytest.approx(np.ones(ASKED))
    assert (tests["p_yes"] > 0.7).all(), "what the member said, and surer: it was never wrong"
    assert set(pd.read_csv(budget.state.out_dir / "submission.csv")["y"]) == {"yes"}


def test_a_run_that_was_cut_goes_on_and_predict_fits_nothing(prepared: Prepare, train: Any) -> None:
    prepared()

    def killed() -> None:
        if len(second.fitted) == 2:
            raise KeyboardInterrupt

    first, second = Member("first", lambda _: 0.3, 2.0), Member("second", lambda _: -0.2, does=killed)
    with pytest.raises(KeyboardInterrupt):
        train(values(), first, second)
    done = len(first.fitted)
    again, other = Member("first", lambda _: 0.3, 2.0), Member("second", lambda _: -0.2)
    scores = train(values(), again, other)
    assert (len(again.fitted), len(other.fitted)) == (3 - done, 2)
    sent = submitted()
    (budget.state.out_dir / "submission.csv").unlink()
    budget.state.stop = True
    idle = [Member("first", does=broken), Member("second", does=broken)]
    assert train(values(), *idle) == scores
    assert submitted() == sent
    assert not [member.fitted for member in idle if member.fitted]


@pytest.mark.parametrize("left", [0, 1, 100])
def test_a_torn_file_of_answers_costs_that_fit_alone(prepared: Prepare, train: Any, left: int) -> None:
    prepared()
    train(values(), Member("one"), Member("two", lambda _: 0.2))
    torn = budget.state.out_dir / "answers_one_1.npz"
    torn.write_bytes(torn.read_bytes()[:left])
    again, other = Member("one"), Member("two", lambda _: 0.2)
    assert train(values(), again, other) == [pytest.approx(0.1)]
    assert (again.fitted, other.fitted) == ([40], [])


def test_answers_of_another_test_set_are_not_used(prepared: Prepare, train: Any) -> None:
    prepared()
    train(values(), Member("one", test=1.0))
    data, again = values(), Member("one", test=2.0)
    data.test_inputs = data.test_inputs.iloc[::-1].reset_index(drop=True)
    train(data, again)
    assert submitted() == [2.0]
    assert len(again.fitted) == 3


def test_without_minutes_nothing_is_fitted(prepared: Prepare, train: Any, capsys: Any) -> None:
    prepared(MINUTES=1e-6)
    member, data = Member("one"), values()
    writing.write_baseline(data)
    assert train(data, member, more=(Member("more"),)) == []
    assert submitted() == [3.0], "the mean"
    assert not member.fitted
    assert "BLEND: none; the time is over" in capsys.readouterr().out


def test_what_is_no_better_than_a_constant_is_not_sent(prepared: Prepare, train: Any, capsys: Any) -> None:
    prepared()
    data = values()
    writing.write_baseline(data)
    assert train(data, Member("poor", lambda _: 50.0)) == []
    assert submitted() == [3.0]
    assert "no better than a constant" in capsys.readouterr().out


def test_what_the_time_does_not_allow_is_left_out_and_named(
    prepared: Prepare, train: Any, capsys: Any
) -> None:
    prepared()
    dear = Member("dear", seconds=1e6)
    assert train(values(), dear, Member("cheap")) == [pytest.approx(0.1)]
    assert not dear.fitted
    assert "NOTE: no time for dear" in capsys.readouterr().out


def test_stopped_from_outside_it_sends_what_there_is(prepared: Prepare, train: Any) -> None:
    """As SIGTERM does."""
    prepared()

    def stop() -> None:
        budget.state.stop = True

    late = Member("late")
    assert train(values(), Member("one", test=2.0, does=stop), late) == [pytest.approx(0.1)]
    assert submitted() == [2.0]
    assert not late.fitted


def test_by_time_the_latest_rows_judge_and_a_fit_to_all_rows_is_sent(prepared: Prepare, train: Any) -> None:
    prepared(SPLIT="time")

    def error(rows: np.ndarray) -> float:
        return 0.1 if rows.max() == ROWS - 1 else 9.0  # of old rows it knows nothing

    member = Member("one", error)
    assert train(values(times=np.arange(ROWS)), member) == [pytest.approx(0.1)]
    assert member.fitted[-1] == ROWS
    assert member.told[-1] == {"rounds": 1}, "what the fold found"


def test_a_fit_to_all_rows_that_the_time_cut_is_not_sent(prepared: Prepare, train: Any) -> None:
    prepared(SPLIT="time")
    member = Member("one", test=2.0)

    def cut() -> None:
        if member.fitted[-1] == ROWS:
            member.test, member.complete = 900.0, False

    member.does = cut
    train(values(times=np.arange(ROWS)), member)
    assert member.fitted[-1] == ROWS
    assert submitted() == [2.0]


def test_further_members_are_tried_until_none_gains(
    prepared: Prepare, train: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    prepared()
    monkeypatch.setattr(engine, "LOSSES", 2)
    better = Member("better", lambda _: -0.3, 5.0)
    poor = tuple(Member(f"poor {n}", lambda _: 2.0) for n in range(4))
    first = Member("first", lambda _: 0.3, 1.0)
    assert train(values(), first, more=(better, *poor)) == [pytest.approx(0.0, abs=1e-9)]
    assert submitted() == [3.0]
    assert [len(each.fitted) for each in (better, *poor)] == [3, 1, 1, 0, 0]
    assert "nothing gains any more" in capsys.readouterr().out


def test_what_the_clock_cut_goes_on_in_time_that_nothing_else_takes(prepared: Prepare, train: Any) -> None:
    prepared()
    cut, whole = Member("cut", lambda _: 0.4, complete=False), Member("whole", lambda _: -0.4)
    cut.anytime = True
    train(values(), cut, whole)
    assert cut.fitted == [40, 40, 40, 40], "the three folds, and the first once more"
    assert cut.told[-1] == {"rounds": 2}, "it is told what they found"
    assert (budget.state.out_dir / "answers_cut-longer_1.npz").exists()


def test_the_service_is_told_of_each_fit_and_its_verdict_is_followed(
    prepared: Prepare, train: Any, capsys: Any
) -> None:
    prepared()
    notes: list[str] = []
    fits: list[dict[str, Any]] = []

    def note(text: str, **figures: Any) -> None:
        notes.append(text)
        fits.append(figures)

    verdict = SimpleNamespace(action="stop_and_predict", rule="R16", raw={}, set={})
    run = SimpleNamespace(note=note, verdict=verdict)
    train(values(), Member("one"), run=run)
    assert [note.split(":")[0] for note in notes] == ["one, fold 1", "one, fold 2", "one, fold 3"]
    one = fits[0]
    assert (one["fit"], one["fold"], one["rows"], one["columns"]) == ("one", 1, 40, 1)
    assert one["seconds"] >= 0.0
    assert np.isfinite(one["metric"])
    assert budget.state.verdict is verdict
    assert capsys.readouterr().out.count("VERDICT: ") == 1


def test_fewer_groups_than_folds_are_as_many_folds(prepared: Prepare, train: Any) -> None:
    prepared(SPLIT="group", GROUP_BY="g")
    member = Member("one")
    train(values(groups=np.arange(ROWS) % 2), member)
    assert member.fitted == [ROWS // 2] * 2


def test_windows_by_time_are_as_long_as_the_test_and_a_gap_is_left_out(prepared: Prepare) -> None:
    prepared(SPLIT="time")
    days = np.repeat(np.arange(30), 2)
    data = values(times=days, test_times=np.repeat(np.arange(30, 35), 2))
    for gap in (0, 4):
        budget.plan.GAP = gap
        found = folds.split(data)
        assert [sorted(set(days[valid])) for _, valid in found] == [
            list(range(end - 5, end)) for end in (30, 25, 20)
        ]
        for learned, valid in found:
            assert days[learned].max() + gap // 2 == days[valid].min() - 1


@pytest.mark.parametrize(
    ("first", "last", "test", "at_random"),
    [
        ("2016-07-01", "2017-05-31", ("2017-06-15", "2017-08-31"), True),  # the summer before is known
        ("2016-07-01", "2017-03-31", ("2017-04-01", "2017-05-31"), False),  # months that nobody has seen
        ("2014-07-01", "2017-05-31", ("2017-06-01", "2017-08-31"), False),  # the latest months are known, too
    ],
)
def test_days_at_random_validate_where_only_they_show_what_a_month_is_worth(
    prepared: Prepare, first: str, last: str, test: tuple[str, str], at_random: bool
):
    def days(start: str, end: str) -> np.ndarray:
        return np.asarray((pd.date_range(start, end) - pd.Timestamp(0)).days, float)

    prepared()
    times = days(first, last)
    known: dict[str, Any] = {"times": times, "test_times": days(*test), "columns": {"date": "date"}}
    problem = dataclasses.replace(engine.problem_of(values()), **known)
    behind = len(times) - 60
    latest = np.arange(behind), np.arange(behind, behind + 60)
    assert engine.months_return(problem, latest) is at_random
    folds = engine.days_at_random(np.repeat(times, 3), 5)
    held_out = np.concatenate([valid for _, valid in folds])
    assert sorted(held_out) == list(range(3 * len(times)))
    for train, valid in folds:
        assert not set(train // 3) & set(valid // 3)


def test_members_of_a_mean_are_moved_to_the_quantile(
    prepared: Prepare, train: Callable[..., list[float]]
) -> None:
    """A member is off by -2 to 2, whatever the row: at 0.9 its answers must rise by 1.6."""
    plan = prepared(SCORE="quantile", METRIC="quantile loss at 0.9", FOLDS=2)
    plan.LEVELS, plan.HIGHER_IS_BETTER, plan.score_of = (0.9,), False, metrics.score_quantile
    plan.prior_of = answers.value_quantiles
    spread = np.linspace(-2.0, 2.0, ROWS)
    member = Member("mean", error=lambda rows: spread[(rows * 37) % ROWS])
    assert train(values(), member)[0] < 0.5
    (told,) = submitted()
    assert told == pytest.approx(1.0 + 1.6, abs=0.25)


def test_rows_count_by_their_weights_where_the_metric_weighs_them(
    prepared: Prepare, train: Callable[..., list[float]], capsys: pytest.CaptureFixture[str]
) -> None:
    """One member is good for the few rows that count, the other for the many that do not."""
    plan = prepared(METRIC="weighted MAE", FOLDS=2, WEIGHTED=True, ABSOLUTE=True)
    heavy = np.arange(ROWS) % 6 == 0
    table = pd.DataFrame({"id": range(ROWS), "Weight": np.where(heavy, 100.0, 1.0)})
    data = values(weights=reading.weights_of(table))
    assert data.weights is not None
    assert data.weights.mean() == pytest.approx(1.0)
    few = Member("few", error=lambda rows: np.where(heavy[rows], 0.01, 0.5), test=1.0)
    many = Member("many", error=lambda rows: np.where(heavy[rows], 0.6, 0.05), test=2.0)
    train(data, few, many)
    assert submitted() == [1.0]
    assert "count by their Weight" in capsys.readouterr().out
    plan.WEIGHTED = False
    assert reading.weights_of(table) is None


def test_a_trial_of_features_is_no_fit_of_an_earlier_start(
    prepared: Prepare, train: Any, capsys: Any
) -> None:
    prepared()
    mean = Prediction(np.full((ROWS, 1), 3.0), np.full((ASKED, 1), 3.0), {}, True)

    def tried(loop: engine.Loop) -> None:
        loop.results["LightGBM, trial", 1] = dataclasses.replace(mean, valid=mean.valid[loop.rows(1)[1]])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "further", lambda *_: None)
        train(values(), Member("one"))  # sets the other parts
        assert "earlier start" not in capsys.readouterr().out
        patch.setattr(engine, "choose_features", tried)
        patch.setattr(engine, "members_of", lambda _: [Member("one")])
        engine.train_members(values(), None)
    assert "3 fits of an earlier start are kept" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["classes", "labels"])
def test_probabilities_are_as_sure_as_the_rows_that_validate_allow(
    kind: Literal["classes", "labels"],
) -> None:
    """A forest that says .6 where nine of ten are right is made surer, and an all too sure member less; a fit
    to all rows is moved as the folds were."""
    rng, rows = np.random.default_rng(0), np.arange(400)
    truth = rng.random(400) < np.where(rows % 2, 0.9, 0.1)
    targets = truth.astype(int) if kind == "classes" else truth[:, None].astype(float)
    outputs = ["no", "yes"] if kind == "classes" else ["yes"]
    known = Problem(kind, [], [], targets, outputs, lambda *_: 0.0)

    def said(sure: float) -> np.ndarray:
        yes = np.where(rows % 2, sure, 1 - sure)
        return np.column_stack([1 - yes, yes]) if kind == "classes" else yes[:, None]

    for sure, least, most in ((0.6, 0.8, 0.95), (0.999, 0.85, 0.97), (0.9, 0.88, 0.92)):
        found = Prediction(said(sure), said(sure)[:4])
        before = known.losses(rows, found.valid).mean()
        engine.sharpen(known, rows, found, {})
        assert known.losses(rows, found.valid).mean() <= before
        assert least < found.test[1, -1] < most
        whole = Prediction(said(sure)[:0], said(sure)[:4])
        engine.sharpen(known, rows[:0], whole, found.memo)
        assert whole.test == pytest.approx(found.test)
        if kind == "classes":
            assert found.valid.sum(axis=1) == pytest.approx(np.ones(400))


def test_on_a_busy_machine_what_cannot_end_in_time_is_not_begun(prepared: Prepare) -> None:
    """A member is priced as its law says times how much slower than their laws the fits before it were."""
    prepared()
    loop = engine.Loop(values(), engine.problem_of(values()), [], None)
    loop.problem.cores = 1
    cheap, dear = Member("cheap", seconds=2.0), Member("dear", seconds=10.0)
    assert loop.price(dear) == pytest.approx(10.0)
    loop.paces = [0.2, 0.4]
    assert loop.price(dear) == pytest.approx(10.0), "laws are not undercut"
    loop.paces = [5.0, 3.0, 4.0]
    assert loop.price(dear) == pytest.approx(35.0)
    loop.seconds["cheap"] = 7.0
    assert loop.price(cheap) == 7.0, "what it took is known"


def test_the_first_rows_are_as_large_a_share_of_a_fold_as_of_the_test_set(prepared: Prepare) -> None:
    chances = np.linspace(0, 1, 10)
    answers, targets = np.column_stack([1 - chances, chances]), np.array([1, 0, 0, 0, 0, 0, 0, 0, 1, 1])
    for k in (40, 0.2):  # of 200, of all
        prepared("labels", K=k, TEST_ROWS=200)
        assert metrics.score_precision_top(targets, answers) == 1.0
        assert metrics.score_recall_top(targets, answers) == pytest.approx(2 / 3)
        assert metrics.score_lift_top(targets, answers) == pytest.approx(10 / 3)
