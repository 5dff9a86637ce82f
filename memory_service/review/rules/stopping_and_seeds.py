"""Early stopping, a deadline by the clock, and seeds of random numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.source.nodes import Function, last_name, receiver, targets_of
from memory_service.review.tables import name_lists, patterns
from memory_service.review.training import TRAINS_TREES

_LIST = name_lists("stopping_and_seeds")
_RE = patterns("stopping_and_seeds")
MOST_WITHOUT_STOPPING = 5  # so few epochs end within R16's patience of 3-5 anyway
MANY_ROUNDS = 500
_SEEDED = ("random", "torch", "cuda", "np", "numpy", "tf")
_SEED_PARAMETERS = {"random_state", "seed", "random_seed", "generator", "rng", "bagging_seed"}
_STOPS = ("early_stopping_rounds", "early_stopping_round", "od_wait", "od_type", "early_stopping")
_FLAGS = ("stop_training", "should_training_stop", "should_stop", "should_epoch_stop")
_OWN_LOOPS = ("lightning", "transformers", "keras", "fastai")


def time_rules(facts: Facts) -> Iterator[Finding]:
    """no-early-stopping, no-deadline and no-seed."""
    yield from _loops(facts)
    for fit in facts.training.fits:
        if fit.kind == "boosting":
            yield from _boosting(facts, fit.call)
    first = {fit.kind: fit.call for fit in reversed(facts.training.fits)}
    for kind in _OWN_LOOPS:
        if kind in first:
            yield from _framework(facts, kind, first[kind])
    for kind, call in first.items():
        untimed = kind in _TIMED and facts.argument(call, _TIMED[kind]) is None
        if untimed and not (facts.values.open_ended(call) or _alarm(facts) or _clocked_around(facts, call)):
            yield finding("no-deadline", call, kind)
    yield from _seeds(facts)


def _loops(facts: Facts) -> Iterator[Finding]:
    training = facts.training
    for loop in training.epoch_loops:
        epochs = training.epochs(loop)
        few = epochs is not None and epochs <= MOST_WITHOUT_STOPPING
        once = any(x.batch is loop for x in training.loops)
        if not few and not training.stopping.stops_early(loop) and not _imported(facts, _RE.stopper):
            what = "steps" if once else "epochs"
            many = "All" if epochs is None else epochs
            inside = [n for n in facts.script.within(loop.body, follow=False) if isinstance(n, ast.For)]
            alone = [one.batch for one in training.loops] == inside and not facts.script.loops(loop)
            seen = not alone or _RE.judged.search(facts.script.text)
            yield finding("no-early-stopping", loop, "loop" if seen else "blind", many=many, what=what)
        if not (_alarm(facts) or training.stopping.clocked(loop) or _clocked_around(facts, loop)):
            yield finding("no-deadline", loop, "loop", what="batches" if once else "epochs")


def _clocked_around(facts: Facts, node: ast.AST) -> bool:
    """A loop around a place, or around the calls of its function, stops by the clock."""
    loops = [*facts.script.around(node, ast.For, ast.While)]
    loops += [loop for call in facts.script.callers(node) for loop in facts.script.loops(call)]
    return any(facts.training.stopping.clocked(loop) for loop in loops)


def _alarm(facts: Facts) -> bool:
    alarms = facts.script.called("alarm", "setitimer", "Timer")
    if any(facts.script.qualified(call.func).startswith(("signal.", "threading.")) for call in alarms):
        return True
    served = re.search(r"stop_and_predict|\.verdict", facts.script.text)
    return facts.script.uses("memory_service") and bool(served)


def _imported(facts: Facts, pattern: re.Pattern[str]) -> bool:
    """A helper or callback of that name from elsewhere is used: it does what its name says."""
    own = {*facts.script.classes, *facts.script.functions}
    return any(pattern.search(name) and name not in own for name in facts.script.calls_by_name)


def _boosting(facts: Facts, fit: ast.Call) -> Iterator[Finding]:
    rounds = boosted_rounds(facts, fit)
    if rounds is not None and rounds >= MANY_ROUNDS and not stops_rounds(facts, fit):
        yield finding("no-early-stopping", fit, "boosting", rounds=rounds)


def boosted_rounds(facts: Facts, fit: ast.Call) -> float | None:
    """How many rounds a fit boosts at most; None where that cannot be told."""
    model = receiver(fit)
    made = facts.values.makers(model)
    rounds = _rounds(facts, fit, made)
    for function, factory in _factories(facts, model, fit) if rounds is None else ():
        with facts.values.called_by(function, factory):
            rounds = _rounds(facts, fit, made)
    return _rounds(facts, fit, made, several=True) if rounds is None else rounds


def _rounds(facts: Facts, fit: ast.Call, made: list[ast.Call], *, several: bool = False) -> float | None:
    """How many rounds are boosted; with `several` the fewest of several that are possible."""
    for given in (facts.given(call, 0) for call in (fit, *made)):
        for name in _LIST.rounds:
            numbers = facts.values.all(given.get(name)) or []
            known_all = numbers and all(type(n) in (int, float) for n in numbers)
            if known_all and (several or len(numbers) == 1):
                return float(min(numbers))
    trains = TRAINS_TREES.match(facts.script.qualified(fit.func))
    return facts.number(fit, "num_boost_round", 2) if trains else None


def _factories(facts: Facts, model: ast.AST | None, fit: ast.Call) -> list[tuple[Function, ast.Call]]:
    """The function that made a model, and its last call before the fit: `model = make(rounds=2000)`."""
    script, order = facts.script, facts.script.order
    sources = [model] if isinstance(model, ast.Call) else facts.values.sources(model) if model else []
    before = [s for s in sources if order.get(s, 0) < order[fit] or isinstance(model, ast.Call)][-1:]
    made = [source for source in before if isinstance(source, ast.Call)]
    return [(helper, call) for call in made for helper in script.functions.get(last_name(call.func), ())[:1]]


def stops_rounds(facts: Facts, fit: ast.Call) -> bool:
    """Whether this fit stops early: by its own arguments, or by settings that belong to no other fit."""
    makers = facts.values.makers
    made = makers(receiver(fit))
    for call in (fit, *made):
        unknown = (k for k in call.keywords if k.arg is None and facts.values.entries(k.value).open)
        if any(facts.argument(call, name) is not None for name in _STOPS) or any(unknown):
            return True
    others = {other.call for other in facts.training.fits} - {fit}
    others |= {maker for other in others for maker in makers(receiver(other))} - set(made)
    for stop in facts.script.called("early_stopping", "EarlyStopping"):
        if not others.intersection((stop, *facts.script.above(stop))):
            return True
    keywords = {k.arg for k in facts.script.all(ast.keyword) if facts.script.parents.get(k) not in others}
    return bool({*keywords, *facts.script.strings} & set(_STOPS))


def _framework(facts: Facts, kind: str, fit: ast.Call) -> Iterator[Finding]:
    """Frameworks with their own loop."""
    epochs = facts.training.framework_epochs(kind)
    few = epochs is not None and epochs <= MOST_WITHOUT_STOPPING
    if not few and not _imported(facts, _RE.stopper) and not _sets_flag(facts, by_clock=False):
        yield finding("no-early-stopping", fit, kind, many="All" if epochs is None else f"{epochs:g}")
    trainers = facts.script.called("Trainer") if kind == "lightning" else []
    timed = any(facts.argument(t, "max_time") is not None or facts.values.open_ended(t) for t in trainers)
    timed = timed or _imported(facts, _RE.timer) or _sets_flag(facts, by_clock=True)
    if not (timed or _alarm(facts) or _clocked_around(facts, fit)):
        yield finding("no-deadline", fit, kind)


_TIMED = {"ultralytics": "time", "autogluon": "time_limit"}  # ends by the clock


def _sets_flag(facts: Facts, *, by_clock: bool) -> bool:
    """A callback or hook of this file ends training, by the clock or for another reason."""
    script, is_clock = facts.script, facts.training.stopping.is_clock
    stated: list[ast.Assign | ast.AugAssign] = [*script.all(ast.Assign), *script.all(ast.AugAssign)]
    flags = [node for node in stated if any(last_name(target) in _FLAGS for target in targets_of(node))]
    raised = (n for n in script.all(ast.Raise) if n.exc is not None and "Cancel" in ast.dump(n.exc)[:200])
    for place in (place for place in (*flags, *raised) if script.runs(place)):
        function = script.function(place)
        tests: list[ast.AST] = [up.test for up in script.around(place, ast.If)]
        if not isinstance(place, ast.Raise) and not isinstance(place.value, ast.Constant):
            tests.append(place.value)
        clock = any(is_clock(test) for test in tests)
        clock = clock or (not tests and function is not None and facts.training.stopping.clocked(function))
        if clock == by_clock:
            return True
    return False


def _seeds(facts: Facts) -> Iterator[Finding]:
    training, script, kinds = facts.training, facts.script, facts.training.kinds
    handed = (
        n for n in script.all(ast.Attribute) if _RE.seed.search(n.attr) and last_name(n.value) in _SEEDED
    )
    seeds = [call for call in script.calls if _RE.seed.search(last_name(call.func))]
    seeded = any(map(script.runs, [*seeds, *handed]))  # `for seed in (random.seed, np.random.seed): seed(7)`
    if not kinds or seeded or ("transformers" in kinds and not kinds & {"torch", "keras"}):
        return  # TrainingArguments has seed=42
    if kinds & {"torch", "lightning", "keras", "fastai"}:
        place = training.place or script.tree
        yield finding("no-seed", place)
        return
    given = {k.arg for k in script.all(ast.keyword)} | set(script.strings)
    random = script.called(*_LIST.random)
    if random and not given & _SEED_PARAMETERS:
        folds = last_name(random[0].func) in ("KFold", "StratifiedKFold")
        if not folds or facts.value(random[0], "shuffle", 1) is True:
            yield finding("no-seed", random[0], "estimator")
