"""The anytime loop: members are fitted while minutes are left, and what is submitted is the blend that the
held-out rows prefer.

Every member is fitted to the first fold; those that the blend of its rows wants get the other folds; then
further members are drawn (other settings, other seeds) and kept where the blend gains by them. What is
fitted is written to OUT_DIR at once, so that a run that was cut goes on where it stopped.
"""

import ast
import copy
import re
import time
import traceback
import zlib
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.budget import Deadline, plan, report, state, usable_cores
from memory_service.train.features import Choice, choices
from memory_service.train.folds import baseline_score, score_predictions, split
from memory_service.train.pretrained import planned_members
from memory_service.train.problem import Member, Prediction, Problem
from memory_service.train.reading import Data
from memory_service.train.series import SERIES_MEMBERS, BoostedLags
from memory_service.train.table_network import NETWORKS, TableNetwork
from memory_service.train.tables import TABLE_MEMBERS, Factors, LightGBM, variation
from memory_service.train.texts import TEXT_MEMBERS, SentenceEncoder, TextTrees
from memory_service.train.words import price_of_words
from memory_service.train.writing import load_result, save_result, write_answers, write_submission

ALL = 0  # the number of the fold that holds out nothing
MOST_CLIMB = 20  # steps of the hill climb: a weight is a whole number of them
LEVEL_STEPS = 6  # of them without a gain: then the climb ends
MOST_BLENDED = 8  # members, the best ones
MOST_JUDGED = 20_000  # rows that judge a blend, drawn at random
LOSSES = 15  # further members in a row that gain nothing: then the run ends
LEAST_COUNT = 0.02  # of the mean count, that is expected at least
LEFT_SHARE = 0.6  # of the time that the members leave, for one that was too dear before
READ_SHARE = 0.2  # of the minutes, for reading files to see which are alike
LEAST_UNITS = 6  # groups that judge features
TRIAL_SHARE = 0.15  # of the minutes, for choosing features


@dataclass
class Loop:
    """One run: its folds, and what has been fitted so far.

    results   (member, fold) -> what it predicted
    seconds   member -> what its last fit took
    paces     of each fit so far, its seconds by those of its law: a busy machine is slower
    """

    data: Data
    problem: Problem
    folds: list[tuple[np.ndarray, np.ndarray]]
    run: Any
    results: dict[tuple[str, int], Prediction] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    paces: list[float] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    weights: dict[str, float] = field(default_factory=dict)
    best: float = -np.inf
    shown: float | None = None  # the score of the blend, as the metric has it
    series: bool = False  # every window before the test set counts, not the latest alone
    latest: bool = False  # the latest rows alone judge

    # One fit

    def rows(self, fold: int) -> tuple[np.ndarray, np.ndarray]:
        if fold == ALL:
            return np.arange(len(self.problem.targets)), np.arange(0)
        return self.folds[fold - 1]

    def price(self, member: Member) -> float:
        """Seconds of one more fit: what the last took, else by its law, the cores, and how much slower than
        their laws the fits so far were."""
        if member.name in self.seconds and not member.once:
            return self.seconds[member.name]
        return self.law(member) * max(1.0, float(np.median([1.0, *self.paces])))

    def law(self, member: Member) -> float:
        return float(member.price(self.problem)) / max(self.problem.cores**0.7, 1.0)

    def fit(self, member: Member, fold: int, seconds: float) -> bool:
        """Whether the member has a result of this fold now. A failure costs nothing but the member."""
        key = (member.name, fold)
        if key in self.results:
            return True
        if member.name in self.failed:
            return False
        if (known := self.load(member, fold)) is not None:
            self.results[key] = known
            return True
        if state.stop or state.seconds_left() <= 0:
            return False
        train_rows, valid_rows = self.rows(fold)
        began, clock, law = time.monotonic(), Deadline(min(seconds, state.seconds_left())), self.law(member)
        try:
            seed = plan.SEED + fold + zlib.crc32(member.name.encode()) % 1000
            found = member.fit(self.problem, train_rows, valid_rows, seed, clock, self.memo(member))
            if self.problem.loss == "poisson":  # an expected count of 0 has no deviance
                least = LEAST_COUNT * self.problem.targets.mean(axis=0)
                found.valid, found.test = found.valid.clip(least), found.test.clip(least)
            if self.problem.loss == "quantile":
                shift_to_quantiles(self.problem, valid_rows, found, self.memo(member))
            if not (np.isfinite(found.valid).all() and np.isfinite(found.test).all()):
                raise ValueError("predictions that are no finite numbers")
            if self.problem.kind != "values":
                sharpen(self.problem, valid_rows, found, self.memo(member))
        except Exception as error:  # another member may do
            self.failed.add(member.name)
            print(f"WARNING: {member.name} failed: {error!r:.200}", flush=True)
            traceback.print_exc()
            return False
        took = time.monotonic() - began
        self.seconds[member.name] = took
        if not member.anytime:
            self.paces.append(took / max(law, 0.5))
        self.results[key] = found
        self.save(member, fold, found)
        if fold != ALL:
            score = score_predictions(self.data, self.problem.targets[valid_rows], found.valid)[0]
            told = f"{member.name}, fold {fold}: {plan.METRIC}={score:.5g} ({took:.1f} s)"
            print(told, flush=True)
            columns, rounds = len(self.problem.columns) or None, found.memo.get("rounds")
            rounds = None if rounds is None else int(np.median(rounds))
            facts = {"fold": fold, "seconds": took, "rows": len(train_rows), "columns": columns}
            report(self.run, "note", told, **facts, rounds=rounds, metric=score, fit=member.name)
            state.follow(None if self.run is None else self.run.verdict)
        else:
            print(f"{member.name}, all rows ({took:.1f} s)", flush=True)
        return True

    def memo(self, member: Member) -> dict[str, Any]:
        """What a further fit is told: the medians of what the folds found, of a copy at first those of the
        member that it copies."""
        names = (member.name, re.sub(r", (?:longer|seed \d+)$", "", member.name))
        folds = range(1, len(self.folds) + 1)
        have = [[self.results[name, n].memo for n in folds if (name, n) in self.results] for name in names]
        found = have[0] or have[1]
        if not found:
            return {}
        told = dict(found[0])
        for name, value in told.items():
            if isinstance(value, int | float | list) and not isinstance(value, bool):
                whole = all(isinstance(each, int) for each in np.ravel(value).tolist())
                middle = np.median([each[name] for each in found if name in each], axis=0)
                told[name] = np.round(middle).astype(int).tolist() if whole else middle.tolist()
        return told

    # What earlier starts left

    def file(self, member: Member, fold: int) -> str:
        return f"{re.sub(r'[^a-z0-9]+', '-', member.name.lower())}_{fold}"

    def save(self, member: Member, fold: int, found: Prediction) -> None:
        facts: dict[str, Any] = {"valid": found.valid, "test": found.test, "memo": np.array(repr(found.memo))}
        facts |= {"split": self.split_of(fold), "done": found.complete}
        save_result(self.file(member, fold), {**facts, "test_set": self.data.test_set})

    def split_of(self, fold: int) -> int:
        return zlib.crc32(np.asarray(self.rows(fold)[1], np.int64).tobytes())

    def load(self, member: Member, fold: int) -> Prediction | None:
        known = load_result(self.file(member, fold))
        valid_rows = self.rows(fold)[1]
        if known is None or int(known["test_set"]) != self.data.test_set:
            return None
        if len(known["valid"]) != len(valid_rows) or int(known.get("split", -1)) != self.split_of(fold):
            return None
        memo = ast.literal_eval(str(known["memo"]))
        return Prediction(known["valid"], known["test"], memo, bool(known["done"]))

    def restore(self, members: list[Member]) -> int:
        """Take what an earlier start of this run has fitted, and add the further members that it had tried.
        How many these are."""
        number, kept, more = 0, 0, list(members)
        while more:
            known = 0
            for member in more:
                for fold in range(ALL, len(self.folds) + 1):
                    if (found := self.load(member, fold)) is not None:
                        self.results[member.name, fold] = found
                        known += 1
            another = further(members, number + 1, *self.members([1])[:1])
            more = [another] if another is not None and known and self.load(another, 1) is not None else []
            members += more
            number, kept = number + len(more), kept + known
        if kept:  # a trial of this start is no fit of an earlier one
            print(f"{kept} fits of an earlier start are kept", flush=True)
            self.submit()
        return number

    # The blend

    def held_out(self, name: str, folds: list[int]) -> np.ndarray:
        return np.concatenate([self.results[name, fold].valid for fold in folds])

    def score(self, folds: list[int], predictions: np.ndarray) -> float:
        """Higher is better."""
        rows = np.concatenate([self.rows(fold)[1] for fold in folds])
        if len(rows) > MOST_JUDGED:
            drawn = np.random.default_rng(len(rows)).choice(len(rows), MOST_JUDGED, replace=False)
            rows, predictions = rows[drawn], predictions[drawn]
        if plan.best_thresholds or self.problem.weights is not None:  # a score of cuts is noisy
            return -float(self.problem.losses(rows, predictions).mean())
        return self.problem.score(self.problem.targets[rows], predictions)

    def members(self, folds: list[int]) -> list[str]:
        """Names of those that have all of these folds, the best first."""
        have = [name for name, fold in self.results if fold == folds[0]]
        have = [name for name in dict.fromkeys(have) if all((name, fold) in self.results for fold in folds)]
        return sorted(have, key=lambda name: -self.score(folds, self.held_out(name, folds)))

    def climb(self, folds: list[int]) -> tuple[dict[str, float], float]:
        """(weight of each member, the score of the blend) on the rows that these folds hold out: from the
        best member on, what gains the most, or loses the least, is added again and again, and the best blend
        on the way is taken (Caruana et al., 2004)."""
        ranked = self.members(folds)
        kinds = [n for place, n in enumerate(ranked) if kind_of(n) not in map(kind_of, ranked[:place])]
        others = [each for each in ranked if each not in kinds]
        names = sorted([*kinds, *others][:MOST_BLENDED], key=ranked.index)
        if not names:
            return {}, -np.inf
        answers = [self.held_out(name, folds) for name in names]
        counts, total = np.zeros(len(names)), np.zeros_like(answers[0])
        best, found = -np.inf, counts
        for step in range(MOST_CLIMB):
            tried = [self.score(folds, (total + each) / (step + 1)) for each in answers]
            place = int(np.argmax(np.nan_to_num(tried, nan=-np.inf)))
            total, counts = total + answers[place], counts + (np.arange(len(names)) == place)
            if tried[place] > best + 1e-9:
                best, found = tried[place], counts
            elif step + 1 - found.sum() >= LEVEL_STEPS:
                break
        if not found.any():  # no score is a number
            return {}, -np.inf
        return dict(zip(names, found / found.sum(), strict=True)), best

    def submit(self) -> float:
        """Blend what there is and write it. The score of the blend, higher is better."""
        have = {fold for _, fold in self.results}
        done = [*takewhile(have.__contains__, range(1, len(self.folds) + 1))]  # that some member has
        for last in range(len(done), 0, -1):
            folds = done[:last]
            if self.latest:
                folds = folds[:1]  # the latest is most like the test set
            weights, score = self.climb(folds)
            if weights:
                break
        else:
            return -np.inf
        self.weights, self.best = {name: weight for name, weight in weights.items() if weight}, score
        rows = np.concatenate([self.rows(fold)[1] for fold in folds])
        blended = sum(weight * self.held_out(name, folds) for name, weight in self.weights.items())
        shown, thresholds = score_predictions(self.data, self.problem.targets[rows], np.asarray(blended))
        self.data.thresholds = [thresholds["thresholds"]] if thresholds else []
        constant = baseline_score(self.data, self.rows(folds[0])[0], self.rows(folds[0])[1])
        if not (shown >= constant if plan.HIGHER_IS_BETTER else shown <= constant):
            told = f"the blend ({shown:.5g}) is no better than a constant ({constant:.5g})"
            print(f"WARNING: {told}", flush=True)
            self.shown = None
            return score
        test = sum(weight * self.answers(name, folds) for name, weight in self.weights.items())
        write_submission(self.data, plan.submission_of(self.data, np.asarray(test)), state.out_dir)
        write_answers(self.data, rows, np.asarray(blended), np.asarray(test))
        self.shown = shown
        return score

    def answers(self, name: str, folds: list[int]) -> np.ndarray:
        """A member's predictions of the test set: by time those of the fit to all rows, where there is one;
        else the mean over the folds and that fit, which counts as two."""
        whole = self.results.get((name, ALL))
        found = [self.results[name, fold].test for fold in folds]
        if whole is not None and whole.complete:  # one that the time cut knows less than the folds
            found = [whole.test] if self.latest or self.series else [*found, whole.test, whole.test]
        return np.mean(found, axis=0)

    # The order of work

    def affordable(self, member: Member, share: float) -> bool:
        return self.price(member) < share * state.seconds_left()

    def try_members(self, members: list[Member]) -> None:
        """The first fold of each, as long as it costs no more than a third of what is left."""
        for member in members:
            if state.stop or state.seconds_left() <= 0:
                return
            fits = [self.seconds.get(name, 0.0) for name in self.weights]
            kept = 1.3 * sum(each for each in fits if each < 0.2 * state.seconds_left())  # to fit all rows
            if kept and state.seconds_left() < kept + min(self.price(member), 0.34 * state.seconds_left()):
                print(f"NOTE: no time for {member.name} and to fit all rows behind it", flush=True)
                continue
            share = 0.65 if member.once else 0.34
            anytime = member.anytime and state.seconds_left() > 20
            anytime = anytime and member.least * self.price(member) < share * state.seconds_left()
            if not anytime and not self.affordable(member, share):
                told = f"{self.price(member):.0f} s of {state.seconds_left():.0f} s left"
                print(f"NOTE: no time for {member.name}: a fit takes about {told}", flush=True)
                continue
            seconds = share * state.seconds_left()
            if self.fit(member, 1, seconds if anytime else max(seconds, 1.5 * self.price(member))):
                self.submit()

    def try_left(self, members: list[Member]) -> None:
        """Members that were too dear beside others, where the others have ended and there is time for one."""
        for member in members:
            known = (member.name, 1) in self.results or member.name in self.failed
            if not known and self.affordable(member, LEFT_SHARE):
                self.fit(member, 1, state.seconds_left())
                self.complete(members, extra=0)

    def try_longer(self, members: list[Member]) -> None:
        """Those that the clock cut once more, where much more time is left for nothing else."""
        for member in members:
            found, seconds = self.results.get((member.name, 1)), 0.8 * state.seconds_left()
            if found and member.anytime and not found.complete and seconds > 1.2 * self.price(member):
                longer = copy.copy(member)
                longer.name = f"{member.name}, longer"
                self.fit(longer, 1, seconds)
                self.submit()

    def complete(self, members: list[Member], extra: int = 1) -> None:
        """The other folds of those that the blend wants, and of the next best; by time and where folds do not
        fit a fit to all rows."""
        by_name = {member.name: member for member in members}
        if not (names := self.members([1])):
            return
        weights, _ = self.climb([1])
        wanted = [name for name in names if weights.get(name)]
        wanted += [name for name in names if name not in wanted][:extra]
        wanted = [name for name in wanted if name in by_name]
        each = sum(self.price(by_name[name]) for name in wanted)
        more = len(self.folds) - 1
        whole = not more or self.latest or self.series or 1.2 * each * more > 0.8 * state.seconds_left()
        if self.series:
            for fold in range(2, len(self.folds) + 1):
                for name in wanted:
                    if 2 * each < state.seconds_left():
                        self.fit(by_name[name], fold, state.seconds_left())
        if whole:
            weighted = [name for name in wanted if weights.get(name)]
            fitting = [n for n in weighted if 1.1 * self.price(by_name[n]) < state.seconds_left()]
            for name in sorted(fitting, key=lambda name: self.price(by_name[name])):
                self.fit(by_name[name], ALL, max(0.9 * state.seconds_left(), 0.1))
            self.submit()
            return
        for fold in range(2, len(self.folds) + 1):
            for name in wanted:
                if state.stop or 1.2 * self.price(by_name[name]) > state.seconds_left():
                    return
                self.fit(by_name[name], fold, state.seconds_left())
            self.submit()


POWERS = (0.4, 0.5, 0.63, 0.8, 1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0)
"""Of probabilities: below 1 they are too sure, above 1 not sure enough."""


def sharpen(problem: Problem, valid_rows: np.ndarray, found: Prediction, memo: dict[str, Any]) -> None:
    """Raise a member's probabilities to the power that the rows which validate ask for (a temperature; Guo et
    al., 2017); without such rows, to that of the folds. Few rows move it less."""
    power = float(memo.get("power", 1.0))
    if len(valid_rows):
        raised = [problem.losses(valid_rows, powered(found.valid, p, problem.kind)).mean() for p in POWERS]
        losses = np.array(raised) + 2 * np.log(POWERS) ** 2 / len(valid_rows)
        found.memo["power"] = power = POWERS[int(np.argmin(losses))]
        found.valid = powered(found.valid, power, problem.kind)
    found.test = powered(found.test, power, problem.kind)


def powered(chances: np.ndarray, power: float, kind: str) -> np.ndarray:
    """Probabilities (rows, outputs) to a power, as probabilities again."""
    if power == 1.0:
        return chances
    raised = np.asarray(chances, dtype=float).clip(0.0, 1.0) ** power
    other = (1 - chances.clip(0.0, 1.0)) ** power if kind == "labels" else 0.0
    whole = raised + other if kind == "labels" else raised.sum(axis=1, keepdims=True)
    return np.asarray(np.where(whole > 0, raised / np.where(whole > 0, whole, 1.0), chances))


def shift_to_quantiles(
    problem: Problem, valid_rows: np.ndarray, found: Prediction, memo: dict[str, Any]
) -> None:
    """Move what a member expects to where the quantiles of the rows that validate lie, if that is clearly
    better: many members learn nothing but a mean. A fit to all rows moves as the folds did."""
    if not len(valid_rows):
        found.test = found.test + np.asarray(memo.get("shift", 0.0))
        return
    off = problem.targets[valid_rows] - found.valid
    shift = np.array([np.quantile(off[:, n], level) for n, level in enumerate(problem.levels)])
    before, behind = (problem.losses(valid_rows, found.valid + each).mean() for each in (0 * shift, shift))
    shift = shift if behind < 0.99 * before else 0 * shift
    found.valid, found.test = found.valid + shift, found.test + shift
    found.memo = {**found.memo, "shift": [float(each) for each in shift]}


def kind_of(name: str) -> str:
    """ "LightGBM" of "LightGBM, variation 3"."""
    return name.partition(",")[0]


def problem_of(data: Data) -> Problem:
    """What members are told of the data."""
    sign = 1 if plan.HIGHER_IS_BETTER else -1
    kind = "values" if plan.ANSWER == "values" else "classes" if data.targets.ndim == 1 else "labels"
    loss = "log_loss" if kind != "values" else "absolute" if plan.ABSOLUTE else "squared"
    loss = "poisson" if plan.SCORE == "poisson" and (data.targets >= 0).all() else loss
    loss = "quantile" if plan.SCORE == "quantile" and kind == "values" else loss
    shared = ["inputs", "test_inputs", "targets", "groups", "times", "test_times"]
    shared += ["columns", "beside", "weights"]
    return Problem(
        kind=kind,  # type: ignore[arg-type]
        loss=loss,  # type: ignore[arg-type]
        outputs=list(data.outputs),
        score=lambda truth, predictions: sign * score_predictions(data, truth, predictions)[0],
        cores=usable_cores(),
        metric=plan.SCORE,
        cache=state.out_dir,
        levels=list(plan.LEVELS) if loss == "quantile" else [],
        **{name: getattr(data, name) for name in shared},
    )


def choose_features(loop: Loop) -> None:
    """Turn each possible input on or off where the first fold, the one most like the test set, gains by it:
    more than chance would give it, by a paired test over rows or groups, of few groups in further folds."""
    problem, folds = loop.problem, loop.folds[:1]
    units = np.arange(len(problem.targets)) if problem.groups is None else pd.factorize(problem.groups)[0]
    while len(folds) < len(loop.folds) and len({*units[np.concatenate([v for _, v in folds])]}) < LEAST_UNITS:
        folds = loop.folds[: len(folds) + 1]
    judged = units[np.concatenate([valid_rows for _, valid_rows in folds])]
    by_time = loop.data.times is not None
    choice = Choice(time=not by_time)
    problem.shared["choice"] = choice
    end = state.seconds_left() * (1 - TRIAL_SHARE)
    quick = LightGBM("trial", {"learning_rate": 0.1, "num_leaves": 31}, patience=30)
    price = len(folds) * quick.price(problem) if quick.applies(problem) else np.inf
    if price > TRIAL_SHARE * state.seconds_left() / 3:
        return

    first: Prediction | None = None

    def errors(tried: Choice) -> np.ndarray | None:
        nonlocal first
        problem.shared["choice"], losses = tried, []
        try:
            for rows in folds:
                clock = Deadline(state.seconds_left() - end)
                found = quick.fit(problem, *rows, plan.SEED, clock, {})
                first = first or found
                losses.append(problem.losses(rows[1], found.valid))
        except Exception as error:
            print(f"NOTE: features cannot be tried: {error!r:.200}", flush=True)
            return None
        return np.concatenate(losses)

    best = errors(choice)
    if first is not None and not loop.results:
        loop.results["LightGBM, trial", 1] = first
        loop.submit()  # better than the baseline, should nothing else end in time
    for what, change in choices(problem, choice, problem.shared.get("gains", {})):
        if best is None or state.seconds_left() < end:
            break
        if change.get("texts"):
            if (price := price_of_words(problem)) > TRIAL_SHARE * state.seconds_left():
                continue
            end -= price  # which members of texts share
        tried = choice.changed(change)
        found = errors(tried)
        if found is None:
            continue
        gain = pd.Series(best - found).groupby(judged).mean()
        errs = (1.5 + 6 / len(gain)) * gain.std() / len(gain) ** 0.5  # standard errors, of few units more
        if gain.mean() > errs:
            print(f"Features: {what} ({100 * (1 - found.mean() / best.mean()):.2g} % less loss)", flush=True)
            best, choice = found, tried
    problem.shared["choice"] = choice


def months_return(problem: Problem, latest: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether rows of the test set's months are there to learn from, while the latest rows' months are not
    before them: then these judge what a month is worth by months that nothing was learned of."""
    if problem.times is None or problem.test_times is None or "date" not in problem.columns.values():
        return False
    both = (np.asarray(days, float) * 86_400 for days in (problem.times, problem.test_times))
    known, asked = (pd.to_datetime(seconds, unit="s").month for seconds in both)
    before, behind = (known[rows] for rows in latest)
    return bool(asked.isin(known).mean() >= 0.5 > behind.isin(before).mean())


def days_at_random(times: np.ndarray, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(rows that train, rows that validate) of each fold: whole days."""
    _, days = np.unique(times, return_inverse=True)
    fold = np.random.default_rng(plan.SEED).permutation(days.max() + 1)[days] % folds
    return [(np.flatnonzero(fold != n), np.flatnonzero(fold == n)) for n in range(folds)]


def is_series(problem: Problem) -> bool:
    """Whether rows are forecasts of series: as the plan says, or as a table without texts looks."""
    told = plan.TASK.startswith("time-series") or "text" not in problem.columns.values()
    told = told and not problem.blocks
    return told and any(member.applies(problem) for member in SERIES_MEMBERS)


def members_of(problem: Problem) -> list[Member]:
    """Those that apply, that of the plan first."""
    if isinstance(problem.inputs, list):
        return [member for member in plan.file_members if member.applies(problem)]
    rows = (*TEXT_MEMBERS, *TABLE_MEMBERS, *plan.file_members, Factors(), TableNetwork())
    if plan.MODEL in NETWORKS:
        rows += (TableNetwork(plan.MODEL, plan.BATCH_SIZE, plan.EPOCHS, plan.LEARNING_RATE, plan.PATIENCE),)
    planned = planned_members(problem)
    if not planned and plan.PLANNED_FROM:
        told = f"{plan.MODEL} needs {plan.PLANNED_FROM} and its weights"
        print(f"NOTE: {told}: other members learn", flush=True)
    if is_series(problem):
        others = rows if not plan.TASK.startswith("time-series") else TABLE_MEMBERS[:1]
        return [*planned, *(member for member in (*SERIES_MEMBERS, *others) if member.applies(problem))]
    found = [*planned, *(member for member in rows if member.applies(problem))]
    some = 0.2 * state.seconds_left()

    def order(member: Member) -> tuple[bool, float]:
        """The plan's model and what all others are compared with, then what is cheaper."""
        price = some if member.anytime else member.price(problem)
        return plan.MODEL.lower() != member.name.lower() and not member.base, price

    found = sorted(found, key=order)
    encoders = [member for member in found if isinstance(member, SentenceEncoder)]
    for trees in [member for member in found if isinstance(member, TextTrees)] if encoders else ():
        if encoders[0].price(problem) + trees.price(problem) < 0.7 * state.seconds_left():
            found.remove(trees)  # they learn from the vectors
            found.insert(found.index(encoders[0]) + 1, trees)
    return found


def further(members: list[Member], number: int, best: str = "") -> Member | None:
    """One more member: of series the best boosting with another seed; else by turns `best`, where seeds
    matter to it, with another one, and LightGBM with other settings."""
    boosted = [member for member in SERIES_MEMBERS if isinstance(member, BoostedLags) and member in members]
    trees = any(isinstance(member, LightGBM) for member in members)
    leading = [member for member in members if member.name == best and member.seeded]
    if boosted or (leading and (number % 2 or not trees)):
        another = copy.copy(boosted[number % len(boosted)] if boosted else leading[0])
        another.name = f"{another.name.partition(', seed')[0]}, seed {number}"
        return another
    return variation(number) if trees else None


def copies_of(problem: Problem) -> np.ndarray | None:
    """Numbers of near copies among files, where there are some: they stay on one side of every split."""
    for member in plan.file_members:
        if member.alike is None or not member.applies(problem):
            continue
        if member.price(problem) > READ_SHARE * state.seconds_left():  # it reads all files
            return None
        try:
            groups: np.ndarray | None = member.alike(problem.inputs, problem.test_inputs)
        except Exception as error:
            print(f"NOTE: files are not compared: {error!r:.200}", flush=True)
            return None
        if groups is not None:
            several = int((np.bincount(groups)[groups] > 1).sum())
            print(f"NOTE: {several} files are near copies of others: these stay together", flush=True)
        return groups
    return None


def train_members(data: Data, run: Any) -> list[float]:
    """Fit and blend until the minutes end, or nothing gains. The score of the blend, if there is one."""
    state.predict_seconds = 1e-3  # every fit predicts the test set at once
    state.reserve_minutes = min(state.reserve_minutes, 0.03 * state.minutes + 0.03)
    problem = problem_of(data)
    if data.media:
        plan.add_media(problem, data)
    if data.groups is None and data.times is None and isinstance(data.inputs, list):
        data.groups = problem.groups = copies_of(problem)
    folds = split(data)
    series = is_series(problem)
    latest = data.times is not None and not series
    if latest and months_return(problem, folds[0]):
        told = "the test set's months are known, the latest rows' are not"
        print(f"NOTE: {told}: whole days validate", flush=True)
        folds, latest = days_at_random(np.asarray(data.times), max(plan.FOLDS, 5)), False
    loop = Loop(data, problem, folds, run, series=series, latest=latest)
    if not loop.series and not state.stop:
        choose_features(loop)
    members = members_of(problem)
    number = loop.restore(members)
    loop.try_members(members)
    loop.complete(members)
    loop.try_left(members)
    losses = 0
    ended = "there is nothing else to try"
    trees = any(isinstance(member, LightGBM) for member in members)
    while (member := further(members, number + 1, *loop.members([1])[:1])) is not None:
        number += 1
        if trees and not loop.affordable(member, 0.5):
            member = variation(number)
        if state.stop or not loop.affordable(member, 0.5):
            ended = "the time is over"
            break
        before = loop.best
        if not loop.fit(member, 1, 0.5 * state.seconds_left()):
            break
        members.append(member)
        loop.complete(members, extra=0)
        losses = 0 if loop.best > before + 1e-6 * abs(before) else losses + 1
        if losses >= (LOSSES if not loop.series else 4):
            ended = "nothing gains any more"
            break
    else:
        loop.try_longer(members)
    order = sorted(loop.weights.items(), key=lambda each: -each[1])
    shares = ", ".join(f"{name} {weight:.2f}" for name, weight in order) or "none"
    print(f"BLEND: {shares}; {ended}, {state.elapsed():.0f} of {60 * state.minutes:.0f} s", flush=True)
    return [] if loop.shown is None else [loop.shown]
