"""Schedules, stops and checkpoints that watch a figure the wrong way round, or one that nobody logs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding, wrong
from memory_service.review.rules.libraries.parameters import largest_tuning_rate
from memory_service.review.source.nodes import entries_of, last_name, receiver, receiver_name, words
from memory_service.review.tables import name_maps, name_sets, patterns
from memory_service.review.training import KERAS, LIGHTNING

_MAP = name_maps("schedules")
_RE = patterns("schedules")
_SET = name_sets("schedules")


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
    if facts.value(call, "load_best_model_at_end") is True and not facts.values.open_ended(call):
        yield from _strategies(facts, call)
    metric = facts.text(call, "metric_for_best_model") or ""
    greatest = facts.value(call, "greater_is_better")
    right = _direction(metric)
    if right is not None and greatest is (right == "min"):
        yield wrong(call, "greatest-wrong", greatest=greatest, metric=metric, right=not greatest)
    place, rate = facts.argument(call, "learning_rate"), facts.number(call, "learning_rate")
    if place is not None and rate is not None and rate > largest_tuning_rate(facts.script):
        yield wrong(place, "pretrained-rate", rate=rate)


def _strategies(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """To load the best model at the end it must be saved when it is evaluated."""
    given = facts.argument(call, "eval_strategy") or facts.argument(call, "evaluation_strategy")
    strategy = facts.values.text(given) if given is not None else "no"
    saved = facts.text(call, "save_strategy") or "steps"
    if strategy is not None and saved not in (strategy, "best"):
        yield wrong(call, "strategies", strategy=strategy, saved=saved)


_ALWAYS_IN_KERAS = words("loss lr learning_rate")
_TRAINERS = ("Trainer", "Seq2SeqTrainer")
_MOST_RETURNS = 20
_MOST_TRAINERS = 20
_MOST_WATCHED = 100


def logged_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter: a figure that nobody logs."""
    if facts.script.uses(*LIGHTNING):
        yield from _lightning(facts)
    elif facts.script.uses(*KERAS):
        known = _compiled(facts)
        for call in facts.script.called("EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau"):
            if known is not None and not facts.script.qualified(call.func).startswith("torch."):
                yield from _keras(facts, call, known)
    for call in facts.training.arguments[:_MOST_TRAINERS]:
        yield from _trainer(facts, call)


def _nobody(place: ast.AST, name: str, known: Iterable[str], fix: str) -> Finding:
    there = ", ".join(sorted(known)[:6])
    return finding("wrong-parameter", place, "not-logged", name=name, there=there, fix=fix)


def _lightning(facts: Facts) -> Iterator[Finding]:
    """No module of the file logs it: Lightning ends with an error, or keeps nothing."""
    known = _logged(facts)
    if not known:
        return
    for place, given in islice(_watched(facts), _MOST_WATCHED):
        monitor = facts.values.text(given)
        if monitor is not None and not any(monitor in (n, f"{n}_epoch", f"{n}_step") for n in known):
            yield _nobody(place, monitor, known, f"monitor={max(known)!r}")


def _watched(facts: Facts) -> Iterator[tuple[ast.AST, ast.AST | None]]:
    """(where, figure) of callbacks, and of what configure_optimizers says of a plateau's schedule."""
    script, values = facts.script, facts.values
    for call in script.called("EarlyStopping", "ModelCheckpoint"):
        yield call, values.argument(call, "monitor", 0 if last_name(call.func) == "EarlyStopping" else 2)
    if not script.called("ReduceLROnPlateau"):
        return  # no other schedule looks at its figure
    places: list[ast.Dict | ast.Call] = [*script.all(ast.Dict), *script.called("dict", "update")]
    for place in places:
        stated = dict(entries_of(place))
        home = getattr(script.function(place), "name", "")
        if "monitor" not in stated or home != "configure_optimizers":
            continue
        schedule = stated.get("scheduler", stated.get("lr_scheduler"))
        made = facts.values.made_by(schedule)
        if isinstance(schedule, ast.Dict) or made in ("", "ReduceLROnPlateau"):
            yield stated["monitor"], stated["monitor"]


def _logged(facts: Facts) -> set[str]:
    """Figures that the modules of the file log; none where one is unknown."""
    values, script = facts.values, facts.script
    known: set[str] = set()
    for log in script.called("log", "log_dict"):
        if not receiver_name(log) or script.class_of(log) not in facts.training.lightning_classes:
            continue
        if script.qualified(log.func).startswith(("numpy.", "torch.", "math.", "wandb.")):
            continue
        name = values.argument(log, "name" if last_name(log.func) == "log" else "dictionary", 0)
        if last_name(log.func) == "log_dict":
            value = values.entries(name)
            if value.open:
                return set()
            known |= set(value.known)
            continue
        stated = values.all(name)
        if stated is None:
            return set()
        known |= {str(s) for s in stated}
    bases = {last_name(b) for c in facts.training.lightning_classes for b in c.bases}
    return known if bases == {"LightningModule"} else set()


def _keras(facts: Facts, call: ast.Call, known: set[str]) -> Iterator[Finding]:
    """Keras warns once an epoch and goes on: the callback does nothing."""
    at = 1 if last_name(call.func) == "ModelCheckpoint" else 0
    monitor = facts.values.text(facts.values.argument(call, "monitor", at))
    figure = (monitor or "").removeprefix("val_")
    if not figure or figure in _ALWAYS_IN_KERAS or _plain(figure) in {_plain(name) for name in known}:
        return
    best = next((name for name in sorted(known) if name in figure or figure in name), "loss")
    yield _nobody(call, str(monitor), known | {"loss"}, f'monitor="val_{best}"')


def _compiled(facts: Facts) -> set[str] | None:
    """Words of the metrics that models of the file are compiled with; None where one is unknown."""
    script = facts.script
    methods = (call for call in script.called("compile") if receiver(call) is not None)
    calls = [call for call in methods if not script.qualified(call.func).startswith(("torch.", "re."))]
    if not calls or _RE.own_logs.search(script.text):
        return None
    given: list[ast.AST | None] = []
    for call in calls:
        loss = facts.argument(call, "loss", 1)
        if facts.values.open_ended(call) or loss is None or isinstance(loss, ast.Dict | ast.List):
            return None
        given += call.args[2:]  # the third are weights of the loss in Keras 3, metrics before
        given += [facts.argument(call, name) for name in ("metrics", "weighted_metrics")]
    changed = {receiver_name(call) for call in script.called("append", "extend", "insert")}
    if any(one is not None and last_name(one) in changed for one in given):
        return None
    listed = [_only_source(facts, one) for one in given if one is not None]
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


def _plain(name: str) -> str:
    """`AUC`, `auc` and `auc_1` alike."""
    return re.sub(r"_\d+$", "", name.lower()).replace("_", "")


def _trainer(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """transformers' Trainer ends with a KeyError after the first evaluation."""
    values, script = facts.values, facts.script
    given = values.argument(call, "metric_for_best_model")
    metric = values.text(given)
    if given is None or metric is None:
        return
    known: set[str] = set(_SET.always_in_trainer)
    heirs = [heir for name in _TRAINERS for heir in script.heirs.get(name, ())]
    made = [one.name for one in heirs if not _SET.evaluates & {getattr(s, "name", "") for s in one.body}]
    users = script.called(*_TRAINERS, *made)[:_MOST_TRAINERS]
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
    if not returned or len(returned) > _MOST_RETURNS:
        return None
    items = [facts.values.entries(value) for value in returned]
    if any(item.open or not item.known for item in items):
        return None
    return {key for item in items for key in item.known}
