"""Does what stops, keeps or slows training watch its figure in the direction that it gains?

A checkpoint that keeps the smallest accuracy, a schedule that waits for the accuracy to fall.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.script import last_name

__all__ = ["watched_rules"]

_GROWS = re.compile(
    r"(^|_)(acc|accuracy|auc|auroc|roc_auc|f1|dice|iou|miou|map|kappa|qwk|mcc|r2|precision|recall|pearson|"
    r"spearman)(_|$|\d)"
)
_SHRINKS = re.compile(r"(^|_)(loss|rmse|mse|mae|rmsle|logloss|log_loss|error|err|perplexity|wer|cer)(_|$)")
_LIGHTNING = ("lightning", "pytorch_lightning")
_KERAS = ("keras", "tensorflow", "tf_keras")
_FINE_TUNING_RATE = 5e-3


def watched_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter of callbacks, of schedules of a plateau and of TrainingArguments."""
    for call in facts.script.called("EarlyStopping", "ModelCheckpoint"):
        if facts.script.uses(*_LIGHTNING):
            yield from _direction(facts, call)
        elif facts.script.uses(*_KERAS):
            yield from _told_direction(facts, call)
    for call in facts.script.called("ReduceLROnPlateau"):
        if facts.script.uses(*_KERAS) and not facts.script.qualified(call.func).startswith("torch."):
            yield from _told_direction(facts, call)
    for call in facts.script.called("EarlyStoppingCallback", "SaveModelCallback"):
        if facts.script.uses("fastai"):
            yield from _told_direction(facts, call)
    yield from _plateaus(facts)
    for call in facts.training.arguments:
        yield from _arguments(facts, call)


def _right_way(name: str) -> str | None:
    """Whether a figure of this name is to be the greatest or the smallest; None where it does not say."""
    name = name.lower().replace("/", "_").replace("-", "_")
    grows, shrinks = bool(_GROWS.search(name)), bool(_SHRINKS.search(name))
    return None if grows == shrinks else "max" if grows else "min"


def _direction(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """Lightning's callbacks take the smallest for the best unless told otherwise."""
    values, first = facts.values, 0 if last_name(call.func) == "EarlyStopping" else 2
    monitor = values.text(values.argument(call, "monitor", first))
    given = values.argument(call, "mode")
    mode = "min" if given is None else values.text(given)
    if given is not None or not values.open_ended(call):
        yield from _wrong_way(call, monitor, mode)


def _told_direction(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """Keras' callbacks tell by the name which way a figure gains, unless told otherwise; fastai's too."""
    values, name = facts.values, last_name(call.func)
    first, at = {"ModelCheckpoint": (1, 5)}.get(name, (0, 4))
    monitor = values.text(values.argument(call, "monitor", first))
    mode = values.text(values.argument(call, "mode", at))
    compared = last_name(values.argument(call, "comp", 1) or call) if facts.script.uses("fastai") else ""
    if compared in ("less", "greater"):
        mode = "min" if compared == "less" else "max"
    yield from _wrong_way(call, monitor, mode)


def _wrong_way(call: ast.Call, monitor: str | None, mode: str | None) -> Iterator[Finding]:
    right = _right_way(monitor) if monitor is not None else None
    if right is None or mode not in ("min", "max") or mode == right:
        return
    name = last_name(call.func)
    what = {"EarlyStopping": "stops while it gains", "EarlyStoppingCallback": "stops while it gains",
            "ReduceLROnPlateau": "lowers the rate while it gains"}.get(name, "keeps the worst")  # fmt: skip
    yield finding(
        "wrong-parameter", call, f"{name} of {monitor} has mode {mode!r}: it {what}.", f'mode="{right}"'
    )


def _plateaus(facts: Facts) -> Iterator[Finding]:
    """ReduceLROnPlateau waits for what it is given to fall, unless mode is max."""
    values, script = facts.values, facts.script
    made = script.called("ReduceLROnPlateau")
    if len(made) != 1 or not script.qualified(made[0].func).startswith("torch."):
        return
    given = values.argument(made[0], "mode", 1)
    mode = "min" if given is None else values.text(given)
    holders = {last_name(t) for t in getattr(script.statement(made[0]), "targets", [])}
    for call in script.called("step"):
        if not isinstance(call.func, ast.Attribute) or last_name(call.func.value) not in holders:
            continue
        name = last_name(call.args[0]).lower() if len(call.args) == 1 else ""
        if mode == "min" and _GROWS.search(name) and not _SHRINKS.search(name):
            yield finding(
                "wrong-parameter",
                made[0],
                f"ReduceLROnPlateau has mode 'min' and gets {name}: the rate falls while it gains.",
                'mode="max"',
            )
        elif mode == "max" and _SHRINKS.search(name) and not _GROWS.search(name):
            yield finding(
                "wrong-parameter",
                made[0],
                f"ReduceLROnPlateau has mode 'max' and gets {name}: the rate falls while it gains.",
                'mode="min"',
            )


def _arguments(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """What transformers' TrainingArguments contradict in themselves."""
    values = facts.values
    best = values.one(values.argument(call, "load_best_model_at_end"))
    evaluated = values.argument(call, "eval_strategy") or values.argument(call, "evaluation_strategy")
    strategy = values.text(evaluated)
    saved = values.text(values.argument(call, "save_strategy"))
    if best is True and not values.open_ended(call):
        known, kept = strategy or "no", saved or "steps"
        if (evaluated is None or strategy is not None) and known != kept and kept != "best":
            yield finding(
                "wrong-parameter",
                call,
                f"load_best_model_at_end needs the same strategy for both: eval is {known!r}, save "
                f"is {kept!r}.",
                'eval_strategy="epoch", save_strategy="epoch"',
            )
        every, each = (values.number(values.argument(call, n)) for n in ("save_steps", "eval_steps"))
        if known == kept == "steps" and every is not None and each and every % each:
            yield finding(
                "wrong-parameter",
                call,
                f"load_best_model_at_end needs save_steps ({every:g}) to be a multiple of eval_steps "
                f"({each:g}).",
                f"save_steps={int(each)}",
            )
    metric = values.text(values.argument(call, "metric_for_best_model"))
    if (
        metric is not None
        and values.argument(call, "greater_is_better") is None
        and _SHRINKS.search(metric.lower())
        and not metric.endswith("loss")
        and not values.open_ended(call)
    ):
        yield finding(
            "wrong-parameter",
            call,
            f"The best {metric} is taken to be the greatest: only names that end in loss are not.",
            "greater_is_better=False",
        )
    greatest = values.one(values.argument(call, "greater_is_better"))
    right = _right_way(metric) if metric is not None else None
    if right is not None and greatest is (right == "min"):
        yield finding(
            "wrong-parameter",
            call,
            f"greater_is_better={greatest} of {metric}: the worst model is loaded at the end.",
            f"greater_is_better={not greatest}",
        )
    if all(values.one(values.argument(call, half)) is True for half in ("fp16", "bf16")):
        yield finding("wrong-parameter", call, "fp16 and bf16 together are refused.", "bf16=True")
    rate = values.number(values.argument(call, "learning_rate"))
    if rate is not None and rate > _FINE_TUNING_RATE:
        yield finding(
            "wrong-parameter",
            values.argument(call, "learning_rate") or call,
            f"Learning rate {rate:g} of a pretrained transformer.",
            "learning_rate=2e-5",
        )
    if (
        facts.script.called("EarlyStoppingCallback")
        and values.argument(call, "load_best_model_at_end") is None
        and not values.open_ended(call)
    ):
        yield finding(
            "wrong-parameter",
            call,
            "EarlyStoppingCallback needs load_best_model_at_end=True.",
            'load_best_model_at_end=True, metric_for_best_model="eval_loss"',
        )
