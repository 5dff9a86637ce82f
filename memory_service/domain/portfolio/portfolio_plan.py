"""The plan with its portfolio: the main run at the top level, or another of its runs, and in sentences why
each run is there and why it stops where it stops."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, isfinite
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.common.vocabulary import OBJECTIVES
from memory_service.domain.planning.candidates import CandidateSets, price_candidates
from memory_service.domain.planning.explanation.plan_warnings import large_on_host
from memory_service.domain.planning.plan import Plan, Refusal, plan_id_of
from memory_service.domain.planning.plan_search import PRICE
from memory_service.domain.planning.plan_settings import settings_of
from memory_service.domain.planning.planner import Choice, make_plan, named_settings, refuse, unsupported
from memory_service.domain.planning.problem import CostProvider, DoneRun, PlanningProblem
from memory_service.domain.planning.request import Done
from memory_service.domain.portfolio.portfolio import Portfolio, Run, choose_portfolio, main_of
from memory_service.domain.portfolio.run_sets import EARLY_WORTH, FIRST_SHARE, LEAST_GAIN, run_sets
from memory_service.domain.recipe.vocabulary import families_of
from memory_service.errors import FieldError, InvalidInput


def plan_portfolio(
    problem: PlanningProblem, costs: CostProvider, all_sets: CandidateSets | None = None
) -> Plan | Refusal:
    """The plan for a problem with the use of all its minutes, or the refusal with what would fit.

    InvalidInput where `run` names none of its runs.
    """
    question = problem.question
    all_sets = all_sets or price_candidates(problem, costs)
    if unsupported(problem) or all_sets.least_minutes() > question.minutes:
        return refuse(problem, costs, all_sets)
    sets = run_sets(all_sets, question.minutes, problem.done)
    portfolio = choose_portfolio(sets, question.objective, question.minutes)
    if portfolio is None:
        return refuse(problem, costs, all_sets)
    run = portfolio.main if question.run is None else run_of(portfolio.runs, question.run, "run")
    choice = Choice(
        run.candidate,
        run.seeds,
        question.minutes if question.run is None else run.minutes,
        portfolio.runs[-1].deadline - (run.deadline - run.start),
        {name: main_of(sets, name, question.minutes) for name in OBJECTIVES if name != question.objective},
        _planned(portfolio),
    )
    plan = make_plan(all_sets, choice, costs)
    expected, reserve = plan.expected, plan.reserve_minutes
    if question.run is None:
        expected = replace(expected, quality_index=_of_blend(expected.quality_index, portfolio))
        reserve = question.minutes - portfolio.runs[-1].training_end
    return replace(
        plan,
        plan_id=_plan_id(problem, portfolio),
        minutes=choice.minutes,
        expected=expected,
        reserve_minutes=reserve,
        warnings=(*plan.warnings, *_no_gain(portfolio), *_large_runs(portfolio, run)),
        rationale=(*plan.rationale, *why_it_stops(portfolio)),
        portfolio=tuple(_as_dict(portfolio, run) for run in portfolio.runs),
        blend=portfolio.blend,
        used_percent=portfolio.used_percent,
        run=question.run,
    )


def _no_gain(portfolio: Portfolio) -> Iterator[Sentence]:
    if portfolio.done and sum(run.gain for run in portfolio.runs) < LEAST_GAIN:
        yield sentence("stop-here")


def _large_runs(portfolio: Portfolio, answered: Run) -> Iterator[Sentence]:
    """What the other runs take of the host, where it is much."""
    for run in portfolio.runs:
        large = large_on_host(run.candidate)
        if large and run is not answered:
            named = {"run": run.number, "model": run.model}
            yield sentence("host-memory-of-run", **named, gib=large.value, p90=large.high)


def run_of(runs: Sequence[Run], number: int, field: str) -> Run:
    """The run of a number. InvalidInput where there is none."""
    for run in runs:
        if run.number == number:
            return run
    numbers = ", ".join(str(run.number) for run in runs) or "none"
    message = f"is not one of the portfolio's runs, which are: {numbers}"
    raise InvalidInput(f"{field} {number} {message}", [FieldError(field, message, number)])


def done_runs(all_sets: CandidateSets, done: Sequence[Done]) -> tuple[DoneRun, ...]:
    """What is done of the portfolio that these candidates give. InvalidInput for runs that it has not."""
    question, portfolio = all_sets.problem.question, None
    if all_sets.least_minutes() <= question.minutes:
        sets = run_sets(all_sets, question.minutes)
        portfolio = choose_portfolio(sets, question.objective, question.minutes)
    first = portfolio.runs if portfolio else ()
    if later := next((each.run for each in done if each.run > len(first) > 0), None):
        message = f"was planned after the first plan's {len(first)} runs: ask anew, with the minutes left"
        raise InvalidInput(f"done {later} {message}", [FieldError("done", message, later)])
    runs = [run_of(first, each.run, "done") for each in done]
    return tuple(DoneRun(run.number, run.model, run.family, run.quality) for run in runs)


def _planned(portfolio: Portfolio) -> dict[str, str]:
    """Family -> the model of it that is trained; of several the main one."""
    out: dict[str, str] = {}
    for run in (portfolio.main, *portfolio.runs):
        option = run.candidate.option
        for name in families_of(option.model.name, option.model.family):
            out.setdefault(name, option.model.name)
    return out


def _plan_id(problem: PlanningProblem, portfolio: Portfolio) -> str:
    """The same whichever of the runs is answered."""
    runs = [{**settings_of(run.candidate), "seeds": run.seeds} for run in portfolio.runs]
    question = replace(problem.question, run=None)
    return plan_id_of(question.canonical(), named_settings(problem, {"portfolio": runs}))


def _settings(run: Run) -> dict[str, Any]:
    option, settings = run.candidate.option, settings_of(run.candidate)
    names = ("batch_size", "folds", "epochs", "tree_device")
    return {
        "model": option.model.name,
        option.model.input_kind: option.input_size,
        **{name: settings[name] for name in names if name in settings},
        "seeds": run.seeds,
    }


def _as_dict(portfolio: Portfolio, run: Run) -> dict[str, Any]:
    return {
        "run": run.number,
        **_settings(run),
        "start_minute": round(run.start, 2),
        "deadline_minute": round(run.deadline, 2),
        "expected_gain": round(run.gain, 2),
        "why": why_run(portfolio, run),
    }


def _of_blend(index: Estimate, portfolio: Portfolio) -> Estimate:
    """The main run's index, moved to where the blend is expected."""
    if len(portfolio.blend["runs"]) == 1 and portfolio.main.seeds == 1:
        return index
    more = portfolio.quality - index.value
    high = min(100.0, index.high + more)
    basis = f"{index.basis}; of the blend, {more:+.1f} over the main run once"
    low, high = index.low + more, max(high, portfolio.quality)
    return replace(index, value=portfolio.quality, low=low, high=high, basis=basis)


NOTHING_MORE = 0.25
"""Points: what a doubling of the minutes must buy to be called a gain. A tenth of an index's interval."""


def why_run(portfolio: Portfolio, run: Run) -> str:
    """One sentence; of several seeds one more."""
    early = run is portfolio.runs[0] and run.first <= FIRST_SHARE * portfolio.minutes
    if run.role == "first":
        return sentence("run-first", minute=run.first, share=FIRST_SHARE)
    code = "run-main" if run.role == "main" else "run-other"
    said = [sentence(code, index=run.quality, main=portfolio.main.model)]
    if run.seeds > 1:
        fits = run.candidate.fits(run.seeds)
        folds = "" if fits.by_time else f" x {fits.folds} folds"
        said.append(sentence("run-seeds", seeds=run.seeds, folds=folds, models=fits.averaged))
    if early and not portfolio.done:
        said.append(sentence("run-early", minute=run.first))
    return " ".join(said)


def why_it_stops(portfolio: Portfolio) -> tuple[Sentence, ...]:
    """What the minutes are for, and what more of them would buy."""
    runs, price = len(portfolio.runs), PRICE[portfolio.objective]
    count = "One run takes" if runs == 1 else f"{runs} runs take"
    left = portfolio.minutes - portfolio.runs[-1].deadline
    blend_words = ""
    if len(portfolio.blend["runs"]) > 1:
        gained, blend = portfolio.quality - portfolio.main.quality, portfolio.quality
        blend_words = f"; they blend to an expected index of {blend:.1f}, {gained:.1f} over the main run"
    out = [sentence("runs-use", runs=count, percent=portfolio.used_percent, left=left, blend=blend_words)]
    if portfolio.objective != "quality":
        more = f"; all of the minutes would buy {portfolio.unused:.2f}" * (portfolio.unused >= LEAST_GAIN)
        out.append(sentence("doubling", objective=portfolio.objective, points=price, more=more))
    limit = max(NOTHING_MORE, price)
    if portfolio.doubling <= limit:
        out.append(sentence("nothing-more", points=portfolio.doubling, noise=limit))
    else:
        now, nothing = "", "; nothing more to gain within these minutes"
        if portfolio.unused < LEAST_GAIN and isfinite(portfolio.next_needed):
            needed = ceil(10 * portfolio.next_needed) / 10
            now = f"{nothing}: the next better plan needs {needed:.1f}"
        elif portfolio.unused <= limit:
            now = f"{nothing}: they would buy {portfolio.unused:.2f}"
        out.append(sentence("more-time", points=portfolio.doubling, now=now))
    first, cost = portfolio.runs[0], EARLY_WORTH[portfolio.objective]
    if not portfolio.done and first.first > FIRST_SHARE * portfolio.minutes:
        why = f"beside the others, and room for one would cost more than {cost:g} index points"
        if portfolio.objective == "fast":
            why = "in half of what the plan takes"
        out.append(sentence("no-early-submission", share=FIRST_SHARE, why=why, minute=first.first))
    return tuple(out)
