"""Early stopping, deadlines and seeds; schedules and checkpoints that watch a figure wrongly or unlogged."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding, wrong
from memory_service.review.rules.libraries.parameters import largest_tuning_rate
from memory_service.review.source.script import (
    entries_of,
    is_call,
    last_name,
    receiver,
    receiver_name,
    targets_of,
)
from memory_service.review.tables import words_of
from memory_service.review.training import KERAS, LIGHTNING, STOPS, TRAINS_TREES

_RE, _SET, _LIST, _MAP = words_of("stopping_and_schedules")
MOST_WITHOUT_STOPPING = 5  # so few epochs end within R16's patience of 3-5 anyway
MANY_ROUNDS = 500


def time_rules(facts: Facts) -> Iterator[Finding]:
    """no-early-stopping, no-deadline and no-seed."""
    yield from _loops(facts)
    for fit in facts.training.fits_of("boosting"):
        rounds = boosted_rounds(facts, fit)
        if rounds is not None and rounds >= MANY_ROUNDS and not stops_rounds(facts, fit):
            yield finding("no-early-stopping", fit, "boosting", rounds=rounds)
    first = {kind: call for call, kind in reversed(facts.training.fits.items())}
    for kind in _LIST.own_loops:
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
        if not few and not training.stops_early(loop) and not _imported(facts, _RE.stopper):
            what = "steps" if once else "epochs"
            many = "All" if epochs is None else epochs
            inside = [n for n in facts.script.within(loop.body, follow=False) if isinstance(n, ast.For)]
            alone = [one.batch for one in training.loops] == inside and not facts.script.loops(loop)
            seen = not alone or _RE.judged.search(facts.script.text)
            yield finding("no-early-stopping", loop, "loop" if seen else "blind", many=many, what=what)
        if not (_alarm(facts) or training.clocked(loop) or _clocked_around(facts, loop)):
            yield finding("no-deadline", loop, "loop", what="batches" if once else "epochs")


def _clocked_around(facts: Facts, node: ast.AST) -> bool:
    """A loop around a place, or around the calls of its function, stops by the clock."""
    loops = [*facts.script.around(node, ast.For, ast.While)]
    loops += [loop for call in facts.script.callers(node) for loop in facts.script.loops(call)]
    return any(facts.training.clocked(loop) for loop in loops)


def _alarm(facts: Facts) -> bool:
    alarms = map(facts.script.qualified, (c.func for c in facts.script.called("alarm", "setitimer", "Timer")))
    served = re.search(r"stop_and_predict|\.verdict", facts.script.text)
    ours = facts.script.uses("memory_service") and bool(served)
    return ours or any(name.startswith(("signal.", "threading.")) for name in alarms)


def _imported(facts: Facts, pattern: re.Pattern[str]) -> bool:
    """A helper or callback of that name from elsewhere is used: it does what its name says."""
    own = {*facts.script.classes, *facts.script.functions}
    return any(pattern.search(name) and name not in own for name in facts.script.calls_by_name)


def boosted_rounds(facts: Facts, fit: ast.Call) -> float | None:
    """How many rounds a fit boosts at most; None where that cannot be told."""
    made = facts.values.makers(receiver(fit))
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


def stops_rounds(facts: Facts, fit: ast.Call) -> bool:
    """Whether this fit stops early: by its own arguments, or by settings that belong to no other fit."""
    own = [fit, *facts.values.makers(receiver(fit))]
    for call in own:
        unknown = (k for k in call.keywords if k.arg is None and facts.values.entries(k.value).open)
        if any(facts.argument(call, name) is not None for name in STOPS) or any(unknown):
            return True
    return any(whose <= {*own} for whose in facts.training.stops)


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
    script, is_clock = facts.script, facts.training.is_clock
    stated = script.all(ast.Assign, ast.AugAssign)
    flags = [node for node in stated if any(last_name(target) in _SET.flags for target in targets_of(node))]
    raised = (n for n in script.all(ast.Raise) if n.exc is not None and "Cancel" in ast.dump(n.exc)[:200])
    for place in (place for place in (*flags, *raised) if script.runs(place)):
        function = script.function(place)
        tests: list[ast.AST] = [up.test for up in script.around(place, ast.If)]
        if not isinstance(place, ast.Raise) and not isinstance(place.value, ast.Constant):
            tests.append(place.value)
        clock = any(is_clock(test) for test in tests)
        clock = clock or (not tests and function is not None and facts.training.clocked(function))
        if clock == by_clock:
            return True
    return False


def _seeds(facts: Facts) -> Iterator[Finding]:
    training, script, kinds = facts.training, facts.script, facts.training.kinds
    named = (node for node in script.all(ast.Attribute) if _RE.seed.search(node.attr))
    handed = (node for node in named if last_name(node.value) in _SET.seeded)
    seeds = [call for call in script.calls if _RE.seed.search(last_name(call.func))]
    seeded = any(map(script.runs, [*seeds, *handed]))  # `for seed in (random.seed, np.random.seed): seed(7)`
    if not kinds or seeded or ("transformers" in kinds and not kinds & {"torch", "keras"}):
        return  # TrainingArguments has seed=42
    if kinds & {"torch", "lightning", "keras", "fastai"}:
        yield finding("no-seed", training.place or script.tree)
        return
    given = {k.arg for k in script.all(ast.keyword)} | set(script.strings)
    random = script.called(*_LIST.random)
    if random and not given & _SET.seed_parameters:
        folds = last_name(random[0].func) in ("KFold", "StratifiedKFold")
        if not folds or facts.value(random[0], "shuffle", 1) is True:
            yield finding("no-seed", random[0], "estimator")


def watched_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter of callbacks, of schedules of a plateau and of TrainingArguments."""
    script = facts.script
    keras, lightning, fastai = script.uses(*KERAS), script.uses(*LIGHTNING), script.uses("fastai")
    for call in script.called("EarlyStopping", "ModelCheckpoint") if lightning or keras else ():
        yield from _callback(facts, call, "min" if lightning else None)
    for call in script.called("ReduceLROnPlateau") if keras else ():
        if not script.qualified(call.func).startswith("torch."):
            yield from _callback(facts, call, None)
    for call in script.called("EarlyStoppingCallback", "SaveModelCallback") if fastai else ():
        yield from _callback(facts, call, None)
    for call in facts.training.arguments:
        yield from _arguments(facts, call)


def _direction(name: str) -> str | None:
    """Whether a metric of this name is to be the greatest or the smallest; None where it does not say."""
    name = name.lower().replace("/", "_").replace("-", "_")
    grows, shrinks = bool(_RE.grows.search(name)), bool(_RE.shrinks.search(name))
    return None if grows == shrinks else "max" if grows else "min"


def _callback(facts: Facts, call: ast.Call, default: str | None) -> Iterator[Finding]:
    """A mode against its metric; Lightning takes the smallest for the best, Keras and fastai tell by name."""
    name = last_name(call.func)
    of_keras = (1, 5) if name == "ModelCheckpoint" else (0, 4)
    first, at = of_keras if default is None else (0 if name == "EarlyStopping" else 2, None)
    given = facts.argument(call, "mode", at)
    mode = default if given is None and not facts.values.open_ended(call) else facts.values.text(given)
    compared = last_name(facts.argument(call, "comp", 1) or call) if facts.script.uses("fastai") else ""
    mode = {"less": "min", "greater": "max"}.get(compared, mode)
    monitor = facts.text(call, "monitor", first) or ""
    right = _direction(monitor)
    if right is not None and mode in ("min", "max") and mode != right:
        what = "stops while it gains" if name.startswith("EarlyStopping") else "keeps the worst"
        what = "lowers the rate while it gains" if name == "ReduceLROnPlateau" else what
        yield wrong(call, "monitor-mode", name=name, monitor=monitor, mode=mode, what=what, right=right)


def _arguments(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """What transformers' TrainingArguments contradict in themselves."""
    given = facts.argument(call, "eval_strategy") or facts.argument(call, "evaluation_strategy")
    strategy = facts.values.text(given) if given is not None else "no"
    saved = facts.text(call, "save_strategy") or "steps"
    best = facts.value(call, "load_best_model_at_end") is True and not facts.values.open_ended(call)
    if best and strategy is not None and saved not in (strategy, "best"):  # it is saved when it is judged
        yield wrong(call, "strategies", strategy=strategy, saved=saved)
    metric = facts.text(call, "metric_for_best_model") or ""
    greatest = facts.value(call, "greater_is_better")
    right = _direction(metric)
    if right is not None and greatest is (right == "min"):
        yield wrong(call, "greatest-wrong", greatest=greatest, metric=metric, right=not greatest)
    place, rate = facts.argument(call, "learning_rate"), facts.number(call, "learning_rate")
    if place is not None and rate is not None and rate > largest_tuning_rate(facts.script):
        yield wrong(place, "pretrained-rate", rate=rate)


_MOST_LOOKED_AT = 20  # trainers, places that watch a figure, returns of a function


def logged_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter: a figure that nobody logs."""
    script = facts.script
    known = _logged(facts) if script.uses(*LIGHTNING) else _compiled(facts) if script.uses(*KERAS) else None
    if script.uses(*LIGHTNING) and known:  # Lightning ends with an error, or keeps nothing
        for place, given in islice(_watched(facts), _MOST_LOOKED_AT):
            monitor = facts.values.text(given)
            if monitor is not None and not any(monitor in (n, f"{n}_epoch", f"{n}_step") for n in known):
                yield _nobody(place, monitor, known, f"monitor={max(known)!r}")
    elif not script.uses(*LIGHTNING) and known is not None:
        for call in script.called("EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau"):
            if not script.qualified(call.func).startswith("torch."):
                at = 1 if last_name(call.func) == "ModelCheckpoint" else 0
                yield from _keras(call, facts.text(call, "monitor", at), known)
        for node in script.all(ast.Subscript):
            if getattr(node.value, "attr", "") == "history":
                yield from _keras(node, facts.values.text(node.slice), known)
    for call in facts.training.arguments[:_MOST_LOOKED_AT]:
        yield from _trainer(facts, call)


def _nobody(place: ast.AST, name: str, known: Iterable[str], fix: str) -> Finding:
    there = ", ".join(sorted(known)[:6])
    return finding("wrong-parameter", place, "not-logged", name=name, there=there, fix=fix)


def _watched(facts: Facts) -> Iterator[tuple[ast.AST, ast.AST | None]]:
    """(where, figure) of callbacks, and of what configure_optimizers says of a plateau's schedule."""
    script, values = facts.script, facts.values
    for call in script.called("EarlyStopping", "ModelCheckpoint"):
        yield call, values.argument(call, "monitor", 0 if last_name(call.func) == "EarlyStopping" else 2)
    if not script.called("ReduceLROnPlateau"):
        return  # no other schedule looks at its figure
    places: list[ast.Dict | ast.Call] = [*script.all(ast.Dict), *script.called("dict", "update")]
    for place in places:
        stated, home = dict(entries_of(place)), getattr(script.function(place), "name", "")
        schedule = stated.get("scheduler", stated.get("lr_scheduler"))
        of_plateau = isinstance(schedule, ast.Dict) or values.made_by(schedule) in ("", "ReduceLROnPlateau")
        if "monitor" in stated and home == "configure_optimizers" and of_plateau:
            yield stated["monitor"], stated["monitor"]


def _logged(facts: Facts) -> set[str]:
    """Figures that the modules of the file log; none where one is unknown."""
    values, script = facts.values, facts.script
    known: set[str] = set()
    logs = [log for log in script.called("log", "log_dict") if receiver_name(log)]
    logs = [log for log in logs if script.class_of(log) in facts.training.lightning_classes]
    others = ("numpy.", "torch.", "math.", "wandb.")
    for log in (log for log in logs if not script.qualified(log.func).startswith(others)):
        several = values.entries(values.argument(log, "dictionary", 0)) if is_call(log, "log_dict") else None
        one = values.all(values.argument(log, "name", 0))
        if (one if several is None else None if several.open else several) is None:
            return set()
        known |= {*several.known} if several is not None else {str(stated) for stated in one or ()}
    bases = {last_name(b) for c in facts.training.lightning_classes for b in c.bases}
    return known if bases == {"LightningModule"} else set()


def _keras(place: ast.AST, monitor: str | None, known: set[str]) -> Iterator[Finding]:
    """A callback that watches what is not there does nothing; a history has no such key."""
    figure = (monitor or "").removeprefix("val_")
    names = (
        re.sub(r"_\d+$", "", name.lower()) for name in (figure, *known)
    )  # `AUC`, `auc` and `auc_1` alike
    same, *others = (name.replace("_", "") for name in names)
    if not figure or figure in _SET.always_in_keras or same in others:
        return
    best = next((name for name in sorted(known) if name in figure or figure in name), "loss")
    yield _nobody(place, str(monitor), known | {"loss"}, f'"val_{best}"')


def _compiled(facts: Facts) -> set[str] | None:
    """Words of the metrics that models of the file are compiled with; None where one is unknown."""
    script = facts.script
    methods = (call for call in script.called("compile") if receiver(call) is not None)
    calls = [call for call in methods if not script.qualified(call.func).startswith(("torch.", "re."))]
    losses = [facts.argument(call, "loss", 1) for call in calls]
    own = not calls or _RE.own_logs.search(script.text) or any(map(facts.values.open_ended, calls))
    if own or any(loss is None or isinstance(loss, ast.Dict | ast.List) for loss in losses):
        return None
    behind = [one for call in calls for one in call.args[2:]]  # in Keras 3 the third are weights of the loss
    stated = [facts.argument(call, name) for call in calls for name in ("metrics", "weighted_metrics")]
    given = [*behind, *(one for one in stated if one is not None)]
    changed = {receiver_name(call) for call in script.called("append", "extend", "insert")}
    if any(last_name(one) in changed for one in given):
        return None
    listed = [_only_source(facts, one) for one in given]
    metrics = [_only_source(facts, one) for each in listed for one in getattr(each, "elts", [each])]
    made = [getattr(one, "func", one) for one in metrics if not isinstance(one, ast.Constant)]
    if any(script.qualified(one).split(".")[0] not in KERAS for one in made):
        return None
    found = {word for one in metrics for word in re.findall(r"\w+", ast.unparse(one))}
    found -= {*KERAS, "tf", "metrics", "name"}
    return found | {_MAP.short_names[word] for word in found & _MAP.short_names.keys()}


def _only_source(facts: Facts, node: ast.AST) -> ast.AST:
    """What a name or attribute is set to, where that is once; else itself."""
    sources = facts.values.sources(node)
    return sources[0] if len(sources) == 1 else node


def _trainer(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """transformers' Trainer ends with a KeyError after the first evaluation."""
    values, script = facts.values, facts.script
    given = values.argument(call, "metric_for_best_model")
    metric = values.text(given)
    if given is None or metric is None:
        return
    known: set[str] = set(_SET.always_in_trainer)
    heirs = [heir for name in _LIST.trainers for heir in script.heirs.get(name, ())]
    made = [one.name for one in heirs if not _SET.evaluates & {getattr(s, "name", "") for s in one.body}]
    users = script.called(*_LIST.trainers, *made)[:_MOST_LOOKED_AT]
    for trainer in users:
        computed = values.argument(trainer, "compute_metrics")
        rows = values.argument(trainer, "eval_dataset")
        names = _keys(facts, computed) if computed is not None else None
        several = rows is None or isinstance(_only_source(facts, rows), ast.Dict)
        if names is None or several or values.open_ended(trainer):
            return
        known |= names
    plain = {name.removeprefix("eval_") for name in known}
    if users and metric.removeprefix("eval_") not in plain:
        best = next((name for name in sorted(plain) if metric in name or name in metric), "loss")
        known = plain - _SET.always_in_trainer | {"loss"}
        yield _nobody(given, metric, known, f'metric_for_best_model="{best}"')


def _keys(facts: Facts, function: ast.AST) -> set[str] | None:
    """Names in what a function of metrics returns; None where one is unknown."""
    returned = facts.values.returned_by(function)
    if not returned or len(returned) > _MOST_LOOKED_AT:
        return None
    items = [facts.values.entries(value) for value in returned]
    if any(item.open or not item.known for item in items):
        return None
    return {key for item in items for key in item.known}
