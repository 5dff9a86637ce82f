"""The plan of all the minutes, with the main run or another at the top level: why each run is there, and why
it stops where it stops."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, isfinite
from typing import Any

from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.common.units import figures, interval, minutes, plural
from memory_service.domain.common.vocabulary import OBJECTIVES, size_of
from memory_service.domain.planning import checks_and_fallbacks as advice
from memory_service.domain.planning.candidates import CandidateSet, CandidateSets, Rival, price_candidates
from memory_service.domain.planning.expected_figures import expected_of, summary, timetable_of
from memory_service.domain.planning.explanation import rationale as reasons
from memory_service.domain.planning.explanation.plan_warnings import large_on_host, warnings
from memory_service.domain.planning.option import Flags
from memory_service.domain.planning.plan import Expected, Plan, Refusal, gpu_facts, plan_id_of
from memory_service.domain.planning.plan_search import PRICE
from memory_service.domain.planning.plan_settings import settings_of
from memory_service.domain.planning.problem import CostProvider, DoneRun, PlanningProblem
from memory_service.domain.planning.refusal import refuse, unsupported
from memory_service.domain.planning.request import Done
from memory_service.domain.portfolio.portfolio import Portfolio, Run, choose_portfolio
from memory_service.domain.portfolio.run_sets import EARLY_WORTH, FIRST_SHARE, LEAST_GAIN, RunSets, run_sets
from memory_service.domain.recipe.vocabulary import families_of
from memory_service.errors import FieldError, InvalidInput

SMALLER = 0.6
"""A "smaller" alternative has at most this share of the parameters, and needs less memory."""


def plan_portfolio(
    problem: PlanningProblem, costs: CostProvider, all_sets: CandidateSets | None = None
) -> Plan | Refusal:
    """The plan for a problem with the use of all its minutes, or the refusal with what would fit.

    InvalidInput where `run` names none of its runs.
    """
    question = problem.question
    all_sets = all_sets or price_candidates(problem, costs)
    found = None if unsupported(problem) else _chosen(all_sets, problem.done)
    if found is None:
        return refuse(problem, costs, all_sets)
    sets, portfolio = found
    whole = question.run is None
    run = portfolio.main if question.run is None else run_of(portfolio.runs, question.run, "run")
    candidate, option = run.candidate, run.candidate.option
    each = {other.number: settings_of(other.candidate) for other in portfolio.runs}
    settings, expected = each[run.number], expected_of(candidate, run.seeds)
    stages = timetable_of(candidate, run.seeds)
    training = stages[-3].deadline_minute
    minutes = question.minutes if whole else run.minutes
    others = portfolio.runs[-1].deadline - (run.deadline - run.start)
    fold, planned = candidate.run().first_fold.value / 60, _planned(portfolio)
    of_stage = all_sets if run.role != "retriever" else CandidateSets(problem, (candidate.candidates,))
    spare, rival = _spare_folds(run, expected, others, fold), of_stage.rival(candidate)
    settings = {**settings, "seeds": run.seeds}
    said = reasons.rationale(candidate, settings, expected, spare, of_stage, planned.values(), rival)
    return Plan(
        plan_id=_plan_id(problem, portfolio, each),
        run=question.run,
        task=problem.task,
        size=size_of(problem.n_train),
        gpu=gpu_facts(problem.cards, problem.visible, candidate.candidates.table.usable_gib),
        minutes=minutes,
        metric=problem.metric,
        settings=settings,
        split=problem.split[0],
        group_by=problem.split[1],
        expected=_of_blend(expected, portfolio) if whole else expected,
        timetable=stages,
        reserve_minutes=minutes - (portfolio.runs[-1].training_end if whole else training),
        checks=advice.checks_of(
            option.model.name,
            option.model.params_m,
            expected.memory_percent if problem.on_gpu and not option.is_trees else None,
            problem.policy,
        ),
        on_trouble=advice.trouble_ladder(
            settings,
            trees=option.is_trees,
            on_gpu=problem.on_gpu,
            first_fold_percent=100 * fold / minutes,
            training_percent=100 * training / minutes,
            spare_folds=spare,
        ),
        alternatives=() if of_stage is not all_sets else _alternatives(sets, run, minutes),
        portfolio=tuple(_as_dict(portfolio, other, each[other.number]) for other in portfolio.runs),
        blend=portfolio.blend,
        used_percent=portfolio.used_percent,
        similar=problem.similar,
        rationale=(*said, *why_it_stops(portfolio)),
        runner_up=None if rival is None else _runner_up(run, rival),
        warnings=(
            *problem.warnings,
            *problem.inferred,
            *warnings(candidate, settings, expected, others > 0),
            *_of_runs(sets, portfolio, run),
        ),
        evidence=(*problem.evidence, *reasons.evidence(candidate, expected, costs)),
        facts=problem.facts,
        recipe=None if problem.recipe is None else problem.recipe.as_dict(planned),
        targets=problem.targets,
    )


def _chosen(all_sets: CandidateSets, done: Sequence[DoneRun] = ()) -> tuple[RunSets, Portfolio] | None:
    """What the minutes hold, and the best of it; None where nothing fits."""
    question = all_sets.problem.question
    if all_sets.least_minutes() > question.minutes:
        return None
    sets = run_sets(all_sets, question.minutes, done)
    portfolio = choose_portfolio(sets, question.objective, question.minutes)
    return None if portfolio is None else (sets, portfolio)


def _spare_folds(run: Run, expected: Expected, others: float, fold_minutes: float) -> int | None:
    """Folds to go on to where time is left; none by time, where more add nothing to what is submitted."""
    problem = run.candidate.problem
    if problem.by_time or problem.search is not None:
        return None
    left = (
        problem.question.minutes * (1 - problem.policy.reserve_share) - expected.total_minutes.value - others
    )
    gain, n_train = run.candidate.option.learning.fold_gain, float(problem.n_train)
    return advice.spare_folds(run.candidate.folds, left, fold_minutes, gain, n_train, problem.most_folds)


def _runner_up(run: Run, rival: Rival) -> dict[str, Any]:
    """The best model of another family in the same minutes; index points by quality alone."""
    _, option, index = rival
    model, said = run.candidate.option.model, run.candidate.problem.preferences
    size: dict[str, int] = {} if option.is_trees else {str(option.model.input_kind): option.input_size}
    points = said.winner_points(families_of(model.name, model.family), model.params_m)
    behind = round(run.candidate.quality - points - index, 2)
    return {"model": option.model.name, **size, "quality_index": round(index, 2), "behind": behind}


def _alternatives(sets: RunSets, run: Run, minutes: float) -> tuple[dict[str, Any], ...]:
    """What the other objectives would choose where that is another run, and a smaller model that needs less
    memory."""
    question, chosen = sets.all_sets.problem.question, run.candidate
    shown, out = summary(chosen), list[dict[str, Any]]()
    for name in OBJECTIVES:
        if name != question.objective and (best := sets.best(name, question.minutes)) is not None:
            other = summary(sets.candidate(sets.places(best)[0]))
            out += [{"objective": name, **other}] if other != shown else []
    mine, peak = chosen.option.model, chosen.grid.batches.peak_gib[chosen.pick.row]

    def is_smaller(each: CandidateSet) -> Flags:
        columns = each.table.columns
        lighter: Flags = ~(each.grid.batches.peak_gib >= peak)  # of trees it is not known
        lighter &= (columns.params_m < SMALLER * mine.params_m) & (columns.names != mine.name)
        return lighter[:, None, None]

    smaller = sets.all_sets.best(question.objective, minutes, is_smaller)
    if smaller is not None:
        out.append({"objective": "smaller", **summary(smaller)})
    return tuple(out)


def _of_runs(sets: RunSets, portfolio: Portfolio, answered: Run) -> Iterator[Sentence]:
    """Whether all of them are hardly worth it; what the others take of the host, where it is much."""
    stages, problem = portfolio.main.candidate.candidates.stages, sets.all_sets.problem
    if stages is not None and stages.documents and not problem.question.done and sets.all_sets.before is None:
        yield sentence("one-stage", minutes=problem.question.minutes, stage=stages.name, instead=stages.name)
    if portfolio.done and portfolio.quality - sets.quality_of([]) < LEAST_GAIN:
        yield sentence("stop-here")
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
    found = _chosen(all_sets)
    first = found[1].runs if found else ()
    if later := next((each.run for each in done if each.run > len(first) > 0), None):
        message = (
            f"was planned after the first plan's {plural(len(first), 'run')}: ask anew, with the minutes left"
        )
        raise InvalidInput(f"done {later} {message}", [FieldError("done", message, later)])
    runs = (run_of(first, each.run, "done") for each in done)
    return tuple(
        DoneRun(run.number, run.model, run.family, run.quality) for run in runs if run.role != "retriever"
    )


def _planned(portfolio: Portfolio) -> dict[str, str]:
    """Family -> the model of it that is trained; of several the main one."""
    out: dict[str, str] = {}
    for run in (portfolio.main, *portfolio.runs):
        option = run.candidate.option
        for name in families_of(option.model.name, option.model.family):
            out.setdefault(name, option.model.name)
    return out


def _plan_id(problem: PlanningProblem, portfolio: Portfolio, settings: Mapping[int, dict[str, Any]]) -> str:
    """The same whichever of the runs is answered; another metric of the competition is another script."""
    runs = [{**settings[run.number], "seeds": run.seeds} for run in portfolio.runs]
    metric = {"metric": problem.metric.name} if problem.metric else {}
    return plan_id_of(replace(problem.question, run=None).canonical(), {"portfolio": runs, **metric})


def _as_dict(portfolio: Portfolio, run: Run, settings: Mapping[str, Any]) -> dict[str, Any]:
    option, stage = run.candidate.option, _stage_of(run)
    return {
        "run": run.number,
        "model": option.model.name,
        option.model.input_kind: option.input_size,
        **{name: value for name, value in settings.items() if name not in _OF_MAIN},
        "seeds": run.seeds,
        "start_minute": round(run.start, 2),
        "deadline_minute": round(run.deadline, 2),
        "expected_gain": round(run.gain, 2),
        "why": why_run(portfolio, run, stage),
        **({"stage": stage} if stage else {}),
    }


def _stage_of(run: Run) -> dict[str, Any]:
    """Of a search which stage the run is, what it learns from and keeps, its memory and minutes."""
    stages = run.candidate.candidates.stages
    if stages is None:
        return {}
    expected = expected_of(run.candidate, run.seeds)
    return {
        "name": stages.name,
        "queries": stages.queries,
        "pairs": stages.pairs or 1,
        "negatives": max(stages.pairs or run.candidate.batch_size // 2, 1) - 1,
        "documents": stages.documents,
        "kept": stages.kept,
        "peak_memory_gib": expected.peak_memory_gib.as_dict(),
        "total_minutes": expected.total_minutes.as_dict(),
    }


_OF_MAIN = ("model", "effective_batch_size", "compile", "data_loader", "techniques", "sample_rows")
"""Settings that a run of the portfolio says by its model, or that are the same of all runs."""


def _of_blend(expected: Expected, portfolio: Portfolio) -> Expected:
    """The main run's figures, its index moved to where the blend is expected."""
    index = expected.quality_index
    if len(portfolio.blend["runs"]) == 1 and portfolio.main.seeds == 1:
        return expected
    more = portfolio.quality - index.value
    high = max(min(100.0, index.high + more), portfolio.quality)
    basis = f"{index.basis}; of the blend, {more:+.2f} over the main run once"
    moved = replace(index, value=portfolio.quality, low=index.low + more, high=high, basis=basis)
    return replace(expected, quality_index=moved)


NOTHING_MORE = 0.25
"""Points: what a doubling of the minutes must buy to be called a gain. A tenth of an index's interval."""


def why_run(portfolio: Portfolio, run: Run, stage: Mapping[str, Any]) -> str:
    """One sentence; of several seeds one more. stage: as of `_stage_of`."""
    early = run is portfolio.runs[0] and run.first <= FIRST_SHARE * portfolio.minutes
    if run.role == "first":
        return sentence("run-first", minute=run.first, share=FIRST_SHARE)
    if stage and run.role != "other":
        expected = interval(stage["peak_memory_gib"], "GiB"), interval(stage["total_minutes"], "min")
        shown = {"batch": run.candidate.batch_size, "then": "candidates" if stage["kept"] else "order"}
        said = [sentence(f"run-{stage['name']}", **stage, **shown, expected=", ".join(expected))]
    else:
        code = "run-main" if run.role == "main" else "run-other"
        said = [sentence(code, index=run.quality, main=portfolio.main.model)]
    if run.seeds > 1:
        fits = run.candidate.fits(run.seeds)
        folds = "" if fits.by_time else f" x {plural(fits.folds, 'fold')}"
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
        blend_words = f"; they blend to an expected index of {figures(blend)}, {gained:.2f} over the main run"
    used = {"runs": count, "percent": portfolio.used_percent, "left": left}
    out = [sentence("runs-use", **used, blend=blend_words)]
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
            now = f"{nothing}: the next better plan needs {minutes(needed)}"
        elif portfolio.unused <= limit:
            now = f"{nothing}: they would buy {portfolio.unused:.2f}"
        out.append(sentence("more-time", points=portfolio.doubling, now=now))
    first, cost = portfolio.runs[0], EARLY_WORTH[portfolio.objective]
    late = first.first > FIRST_SHARE * portfolio.minutes and first.role != "retriever"
    if not portfolio.done and late:
        why = f"beside the others, and room for one would cost more than {cost:g} index points"
        if portfolio.objective == "fast":
            why = "in half of what the plan takes"
        out.append(sentence("no-early-submission", share=FIRST_SHARE, why=why, minute=first.first))
    return tuple(out)
