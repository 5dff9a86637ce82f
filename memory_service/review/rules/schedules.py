"""Schedules, stops and checkpoints that watch a figure: the wrong way round, or stepped by the wrong loop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, wrong
from memory_service.review.rules.libraries.parameters import largest_tuning_rate
from memory_service.review.source.nodes import (
    calls_in,
    is_call,
    last_name,
    receiver,
    receiver_name,
    words,
    words_in,
)
from memory_service.review.training.training import KERAS, LIGHTNING

_GROWS = re.compile(
    r"(^|_)(acc|accuracy|auc|auroc|roc_auc|f1|dice|iou|miou|map|kappa|qwk|mcc|r2|precision|recall|pearson|"
    r"spearman)(_|$|\d)"
)
_SHRINKS = re.compile(r"(^|_)(loss|rmse|mse|mae|rmsle|logloss|log_loss|error|err|perplexity|wer|cer)(_|$)")


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
    yield from _plateaus(facts)
    for call in facts.training.arguments:
        yield from _arguments(facts, call)


def _direction(name: str) -> str | None:
    """Whether a metric of this name is to be the greatest or the smallest; None where it does not say."""
    name = name.lower().replace("/", "_").replace("-", "_")
    grows, shrinks = bool(_GROWS.search(name)), bool(_SHRINKS.search(name))
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


def _plateaus(facts: Facts) -> Iterator[Finding]:
    """ReduceLROnPlateau waits for what it is given to fall, unless mode is max."""
    made = facts.script.called("ReduceLROnPlateau")
    if len(made) != 1 or not facts.script.qualified(made[0].func).startswith("torch."):
        return
    given = facts.argument(made[0], "mode", 1)
    mode = "min" if given is None else facts.values.text(given)
    holders = {last_name(t) for t in getattr(facts.script.statement(made[0]), "targets", [])}
    for call in facts.script.called("step"):
        name = last_name(call.args[0]).lower() if len(call.args) == 1 else ""
        right = _direction(name)
        if receiver_name(call) in holders and right is not None and mode in ("min", "max") and mode != right:
            yield wrong(made[0], "plateau-mode", mode=mode, name=name, right=right)


def _arguments(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """What transformers' TrainingArguments contradict in themselves."""
    open_ended, stops = facts.values.open_ended(call), facts.script.called("EarlyStoppingCallback")
    if facts.value(call, "load_best_model_at_end") is True and not open_ended:
        yield from _strategies(facts, call)
    if facts.argument(call, "load_best_model_at_end") is None and stops and not open_ended:
        yield wrong(call, "best-model-needed")
    metric = facts.text(call, "metric_for_best_model") or ""
    given, greatest = facts.argument(call, "greater_is_better"), facts.value(call, "greater_is_better")
    right = _direction(metric)
    if given is None and _SHRINKS.search(metric.lower()) and not metric.endswith("loss") and not open_ended:
        yield wrong(call, "greatest-guessed", metric=metric)
    if right is not None and greatest is (right == "min"):
        yield wrong(call, "greatest-wrong", greatest=greatest, metric=metric, right=not greatest)
    if facts.value(call, "fp16") is True and facts.value(call, "bf16") is True:
        yield wrong(call, "two-precisions")
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
    every, each = facts.number(call, "save_steps"), facts.number(call, "eval_steps")
    if strategy == saved == "steps" and every is not None and each and every % each:
        yield wrong(call, "save-steps", every=every, each=each, steps=int(each))


_BY_BATCH = re.compile(r"^(OneCycleLR|CyclicLR|get_\w+_schedule(_with_\w+)?|get_scheduler)$")
_LOADER = re.compile(r"loader|(^|_)dl(_|$)|^dl|_dl$|batches|dataloader|iterator", re.IGNORECASE)


def step_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter: a schedule of batches that steps by epochs, or a plateau without its metric."""
    for call in facts.script.called("step"):
        makers = facts.training.objects.makers(receiver(call))
        if len(makers) != 1:
            continue
        maker, name = makers[0], last_name(makers[0].func)
        if name == "ReduceLROnPlateau" and not call.args and not call.keywords:
            yield wrong(call, "plateau-metric")
        elif _BY_BATCH.match(name) and _counts_batches(facts, maker) and _once_an_epoch(facts, call):
            yield wrong(call, "stepped-by-epoch", name=name)
        elif name == "CosineAnnealingLR" and _every_batch(facts, call) and _counts_epochs(facts, maker):
            yield wrong(call, "stepped-by-batch", name=name)


def _counts_batches(facts: Facts, maker: ast.Call) -> bool:
    """Whether the number of steps was computed from the length of a loader."""
    if any(k.arg == "steps_per_epoch" and facts.values.one(k.value) != 1 for k in maker.keywords):
        return True
    over = (loop.iter for loop in facts.training.batches if isinstance(loop, ast.For))
    supervised = {word for node in over for word in words_in(node)} - words("self enumerate tqdm range zip")
    given: list[ast.AST] = [*maker.args[1:], *(k.value for k in maker.keywords)]
    for _ in range(3):
        lengths = (c for node in given for c in calls_in(node) if is_call(c, "len"))
        if any(w in supervised or _LOADER.search(w) for c in lengths for a in c.args for w in words_in(a)):
            return True
        names = [n for node in given for n in ast.walk(node) if isinstance(n, ast.Name)]
        given = [source for name in names for source in facts.values.assigned(name.id, name)]
    return False


def _counts_epochs(facts: Facts, maker: ast.Call) -> bool:
    given = facts.argument(maker, "T_max", 1)
    named = given is not None and bool(re.search(r"epochs?$", last_name(given), re.IGNORECASE))
    number, epochs = facts.values.number(given), map(facts.training.epochs, facts.training.epoch_loops)
    return (named or (number is not None and number in set(epochs))) and not _counts_batches(facts, maker)


def _has_inner(facts: Facts, loop: ast.For) -> bool:
    """Another loop within it holds the backward pass: this one goes over epochs."""
    inner = (node for node in facts.script.within(loop.body) if isinstance(node, ast.For))
    return any(is_call(call, "backward") for node in inner for call in calls_in(node))


def _nearest(facts: Facts, call: ast.Call) -> ast.For | None:
    return next((up for up in facts.script.loops(call) if isinstance(up, ast.For)), None)


def _every_batch(facts: Facts, call: ast.Call) -> bool:
    loop = _nearest(facts, call)
    if loop is None or loop in facts.training.epoch_loops or _has_inner(facts, loop):
        return False
    return any(is_call(node, "backward") for node in facts.script.within(loop.body))


def _once_an_epoch(facts: Facts, call: ast.Call) -> bool:
    loop = _nearest(facts, call)
    if loop is None or _every_batch(facts, call):
        return False
    over_epochs = loop in {x.epoch for x in facts.training.loops} - facts.training.batches
    return over_epochs or _has_inner(facts, loop)
