"""Does training end by itself, in time, and can it be repeated? Early stopping, the clock, seeds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.script import Function, last_name

__all__ = ["MOST_WITHOUT_STOPPING", "time_rules"]

MOST_WITHOUT_STOPPING = 5
"""So few epochs end within R16's patience of 3-5 anyway."""

MANY_ROUNDS = 500

_STOPPER = re.compile(r"early_?stop", re.IGNORECASE)
_TIMER = re.compile(r"deadline|time_?(limit|out|budget|stop|guard|up|r\b)|budget|Timer$", re.IGNORECASE)
_SEED = re.compile(r"seed", re.IGNORECASE)
_SEEDED = ("random", "torch", "cuda", "np", "numpy", "tf")
_RANDOM = (
    "train_test_split",
    "KFold",
    "StratifiedKFold",
    "ShuffleSplit",
    "RandomForestClassifier",
    "sample",
    "RandomForestRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "MLPClassifier",
    "MLPRegressor",
)
_CLOCK_PASTE = (
    "if time.monotonic() - STARTED > MINUTES * 60 * 0.85:\n"
    "    break  # then predict with the folds that exist"
)


def time_rules(facts: Facts) -> Iterator[Finding]:
    """no-early-stopping, no-deadline and no-seed."""
    yield from _loops(facts)
    for fit in facts.training.fits:
        if fit.kind == "boosting":
            yield from _rounds(facts, fit.call)
    kinds = {fit.kind: fit.call for fit in reversed(facts.training.fits)}
    for kind in ("lightning", "transformers", "keras", "fastai"):
        if kind in kinds:
            yield from _framework(facts, kind, kinds[kind])
    yield from _seed(facts)


def _loops(facts: Facts) -> Iterator[Finding]:
    training, script = facts.training, facts.script
    outer_alarm = _alarm(facts)
    for loop in training.epoch_loops:
        epochs = training.epochs(loop)
        few = epochs is not None and epochs <= MOST_WITHOUT_STOPPING
        if not few and not training.stops_early(loop) and not _imported(facts, _STOPPER):
            what = "steps" if any(x.batch is loop for x in training.loops) else "epochs"
            much = f"{epochs} {what}" if epochs is not None else f"All {what}"
            yield finding(
                "no-early-stopping",
                loop,
                f"{much} run to the end, whether validation gains or not; the best is often among the "
                "first five.",
                "if score > best:\n    best, bad = score, 0\nelse:\n    bad += 1\n    if bad >= 3:\n     "
                "   break",
            )
        around = [up for up in script.above(loop) if isinstance(up, ast.For | ast.While)]
        if not (
            outer_alarm
            or training.clocked(loop)
            or any(training.clocked(up) for up in around)
            or _caller_clocked(facts, loop)
        ):
            yield finding(
                "no-deadline",
                loop,
                "The loop over epochs never looks at the clock: when the budget ends there is no prediction.",
                _CLOCK_PASTE,
            )


def _caller_clocked(facts: Facts, loop: ast.AST) -> bool:
    """The function that holds the loop is called under a clock: `for fold in ...: if late(): break`."""
    function = facts.script.function(loop)
    if function is None:
        return False
    for call in facts.script.calls_by_name.get(function.name, ()):
        if any(facts.training.clocked(up) for up in facts.script.loops(call)):
            return True
    return False


def _alarm(facts: Facts) -> bool:
    qualified = {facts.script.qualified(call.func) for call in facts.script.calls}
    return bool(qualified & {"signal.alarm", "signal.setitimer", "threading.Timer"}) or (
        facts.script.uses("memory_service")
        and bool(re.search(r"stop_and_predict|\.verdict", facts.script.text))
    )


def _imported(facts: Facts, pattern: re.Pattern[str]) -> bool:
    """A helper from elsewhere of that name is used: it is believed."""
    return any(
        pattern.search(last_name(call.func)) and last_name(call.func) not in facts.script.classes
        and last_name(call.func) not in facts.script.functions
        for call in facts.script.calls
    )  # fmt: skip


def _rounds(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    made = _constructor(facts, call)
    rounds = _rounds_of(facts, call, made)
    if rounds is None:
        for function, factory in _factories(facts, call):
            with facts.values.called_by(function, factory):
                rounds = _rounds_of(facts, call, made)
    if rounds is None:
        rounds = _fewest(facts, made)
    if rounds is None or rounds < MANY_ROUNDS or _stops_rounds(facts, call, made):
        return
    yield finding(
        "no-early-stopping",
        call,
        f"{rounds:g} rounds are boosted whether validation gains or not.",
        "callbacks=[lgb.early_stopping(100)]  # xgboost: early_stopping_rounds=100 of the model; "
        "catboost: od_wait=100",
    )


def _rounds_of(facts: Facts, call: ast.Call, made: list[ast.Call]) -> float | None:
    """How many rounds are boosted at least, where the text says."""
    for one in (call, *made):
        for name in _ROUNDS:
            if (found := _number(facts, one, name)) is not None:
                return found
    if re.search(r"^(lightgbm|xgboost)\.(train|cv)$", facts.script.qualified(call.func)):
        return facts.values.number(facts.values.argument(call, "num_boost_round", 2))
    return None


def _fewest(facts: Facts, made: list[ast.Call]) -> float | None:
    """The fewest rounds of several that are said: of a class that is made with 600, then with 2000."""
    for one in made:
        for name in _ROUNDS:
            said = facts.values.all(facts.values.argument(one, name)) or ()
            numbers = [n for n in said if isinstance(n, int | float) and not isinstance(n, bool)]
            if numbers and len(numbers) == len(said):
                return min(numbers)
    return None


def _factories(facts: Facts, call: ast.Call) -> list[tuple[Function, ast.Call]]:
    """The function of the file that made the model which is fitted, with the call of it that stands last
    before: `model = make(rounds=2000); model.fit(X, y)`."""
    script = facts.script
    model = call.func.value if isinstance(call.func, ast.Attribute) else None
    sources: list[ast.AST] = [model] if model is not None else []
    if isinstance(model, ast.Name):
        here = script.order[call]
        passed = facts.values.assigned(model.id, model)
        sources = [s for s in passed if script.order.get(s, here) < here][-1:]
    elif isinstance(model, ast.Attribute):
        sources = facts.values.sources(model)[-1:]
    return [
        (script.functions[last_name(s.func)][0], s)
        for s in sources
        if isinstance(s, ast.Call) and last_name(s.func) in script.functions
    ]


_ROUNDS = (
    "num_boost_round",
    "n_estimators",
    "iterations",
    "num_iterations",
    "num_trees",
    "n_iter",
    "num_rounds",
)
_STOPS = ("early_stopping_rounds", "early_stopping_round", "od_wait", "od_type", "early_stopping")


def _constructor(facts: Facts, call: ast.Call) -> list[ast.Call]:
    """The calls that made the model that is fitted."""
    return facts.training.makers(call.func.value) if isinstance(call.func, ast.Attribute) else []


def _number(facts: Facts, call: ast.Call, name: str) -> float | None:
    found = facts.values.number(facts.values.argument(call, name))
    if found is not None:
        return found
    params = facts.values.argument(call, "params", 0)
    held = facts.values.mapping(params) if params is not None else None
    return facts.values.number(held[name]) if held and name in held else None


def _stops_rounds(facts: Facts, call: ast.Call, made: list[ast.Call]) -> bool:
    for one in (call, *made):
        if any(facts.values.argument(one, name) is not None for name in _STOPS) or any(
            keyword.arg is None and facts.values.mapping(keyword.value) is None for keyword in one.keywords
        ):
            return True
    others = {fit.call for fit in facts.training.fits} - {call}
    others |= {c for fit in others for c in _constructor(facts, fit)} - set(made)
    for stop in facts.script.called("early_stopping", "EarlyStopping"):
        if not others & {stop, *facts.script.above(stop)}:
            return True
    keys = set(facts.script.strings)
    for keyword in facts.script.all(ast.keyword):
        if keyword.arg and facts.script.parents.get(keyword) not in others:
            keys.add(keyword.arg)
    return any(name in keys for name in _STOPS)


def _framework(facts: Facts, kind: str, call: ast.Call) -> Iterator[Finding]:
    epochs = _epochs_asked(facts, kind)
    few = epochs is not None and epochs <= MOST_WITHOUT_STOPPING
    if not few and not _callback(facts, _STOPPER) and not _sets_stop(facts, by_clock=False):
        much = f"{epochs:g} epochs" if epochs is not None else "All epochs"
        yield finding(
            "no-early-stopping",
            call,
            f"{much} run to the end, whether validation gains or not.",
            _STOP_PASTE[kind],
        )
    if kind == "lightning" and any(
        facts.values.argument(t, "max_time") is not None or facts.values.open_ended(t)
        for t in facts.script.called("Trainer")
    ):
        return
    if (
        _callback(facts, _TIMER)
        or _sets_stop(facts, by_clock=True)
        or _alarm(facts)
        or _around_clocked(facts, call)
    ):
        return
    yield finding(
        "no-deadline",
        call,
        "Training never looks at the clock: when the budget ends there is no prediction.",
        _TIME_PASTE[kind],
    )


_STOP_PASTE = {
    "lightning": 'callbacks=[EarlyStopping(monitor="val_loss", patience=3)]',
    "transformers": "callbacks=[EarlyStoppingCallback(3)]  # with load_best_model_at_end=True",
    "keras": "callbacks=[keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)]",
    "fastai": "cbs=[EarlyStoppingCallback(patience=3)]",
}
_TIME_PASTE = {
    "lightning": 'Trainer(max_time={"minutes": 25})',
    "transformers": "class Deadline(TrainerCallback):\n"
    "    def on_step_end(self, args, state, control, **kw):\n"
    "        control.should_training_stop = time.monotonic() > END",
    "keras": "class Deadline(keras.callbacks.Callback):\n"
    "    def on_train_batch_end(self, batch, logs=None):\n"
    "        self.model.stop_training = time.monotonic() > END",
    "fastai": "class Deadline(Callback):\n"
    "    def after_batch(self):\n"
    "        if time.monotonic() > END: raise CancelFitException()",
}


def _epochs_asked(facts: Facts, kind: str) -> float | None:
    values, script = facts.values, facts.script
    if kind == "lightning":
        for trainer in script.called("Trainer"):
            if (given := values.argument(trainer, "max_epochs")) is not None:
                return values.number(given)
        return None
    if kind == "transformers":
        for arguments in facts.training.arguments:
            given = values.argument(arguments, "num_train_epochs")
            if given is None and values.argument(arguments, "max_steps") is None:
                return 3.0
            return values.number(given)
        return 3.0
    if kind == "keras":
        known = [
            values.number(values.argument(f.call, "epochs")) for f in facts.training.fits if f.kind == "keras"
        ]
        return (
            None if any(k is None for k in known) else max((k for k in known if k is not None), default=None)
        )
    known = [
        values.number(values.argument(f.call, "n_epoch", 0))
        for f in facts.training.fits
        if f.kind == "fastai"
    ]
    known += [
        values.number(values.argument(f.call, "epochs")) for f in facts.training.fits if f.kind == "fastai"
    ]
    return max((k for k in known if k is not None), default=None)


def _callback(facts: Facts, pattern: re.Pattern[str]) -> bool:
    """A callback of that name is made; one of this file must do what it says (`_sets_stop`)."""
    return _imported(facts, pattern)


_FLAGS = ("stop_training", "should_training_stop", "should_stop", "should_epoch_stop")


def _sets_stop(facts: Facts, *, by_clock: bool) -> bool:
    """A callback or hook of this file ends training, by the clock or for another reason."""
    script = facts.script
    places: list[ast.AST] = [
        node for node in script.all(ast.Assign) if any(last_name(target) in _FLAGS for target in node.targets)
    ]
    places += [node for node in script.all(ast.AugAssign) if last_name(node.target) in _FLAGS]
    places += [n for n in script.all(ast.Raise) if n.exc is not None and "Cancel" in ast.dump(n.exc)[:200]]
    for place in (p for p in places if script.runs(p)):
        function = script.function(place)
        value = place.value if isinstance(place, ast.Assign | ast.AugAssign) else None
        tests: list[ast.AST] = [up.test for up in script.above(place) if isinstance(up, ast.If)]
        if value is not None and not isinstance(value, ast.Constant):
            tests.append(value)
        clock = any(facts.training.is_clock(t) for t in tests) or (
            not tests and function is not None and facts.training.clocked(function)
        )
        if clock == by_clock:
            return True
    return False


def _around_clocked(facts: Facts, call: ast.Call) -> bool:
    return any(facts.training.clocked(up) for up in facts.script.loops(call)) or _caller_clocked(facts, call)


def _seed(facts: Facts) -> Iterator[Finding]:
    training, script = facts.training, facts.script
    kinds = training.kinds
    if not kinds:
        return
    if any(_SEED.search(last_name(call.func)) and script.runs(call) for call in script.calls):
        return
    references = [n for n in script.all(ast.Attribute) if _SEED.search(n.attr) and script.runs(n)]
    if any(last_name(n.value) in _SEEDED for n in references):
        return  # `for seed in (random.seed, np.random.seed, torch.manual_seed): seed(7)`
    if "transformers" in kinds and not kinds & {"torch", "keras"}:
        return  # TrainingArguments has seed=42
    networks = kinds & {"torch", "lightning", "keras", "fastai"}
    given = [
        k
        for k in script.all(ast.keyword)
        if k.arg in ("random_state", "seed", "random_seed", "generator", "rng")
    ]
    keys = {"random_state", "seed", "random_seed", "bagging_seed"} & set(script.strings)
    if networks:
        place: Any = training.epoch_loops[0] if training.epoch_loops else training.fits[0].call
    else:
        chance = list(script.called(*_RANDOM))
        if given or keys or not chance:
            return
        place = chance[0]
        if (
            last_name(place.func) in ("KFold", "StratifiedKFold")
            and facts.values.one(facts.values.argument(place, "shuffle", 1)) is not True
        ):
            return
    yield finding(
        "no-seed",
        place,
        "Nothing fixes the random numbers: two runs cannot be compared.",
        "random.seed(42); np.random.seed(42); torch.manual_seed(42)" if networks else "random_state=42",
    )
