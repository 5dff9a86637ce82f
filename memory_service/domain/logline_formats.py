"""Which trainer wrote this line, and what does it say? One function per form: (line, context) -> events.

A form answers None where the line is not its own. The order of `FORMATS` matters: the stricter come first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from memory_service.domain.logline_values import (
    duration_of,
    memory_of,
    pairs_of,
    scores_of,
    settings_of,
    without_memory,
)

__all__ = ["FORMATS", "Context"]

Body = dict[str, Any]
Events = list[tuple[str, Body]]


@dataclass(frozen=True, slots=True)
class Context:
    """What earlier lines of the same log established. JSON form by `as_dict`.

    steps         in an epoch, as Keras said; longest_bar: steps of the longest bar without a name
    evaluating    Hugging Face's header of an evaluation came last: its sizes are not the training's
    trainer       "hf" once Hugging Face's lines were seen, "keras" once Keras' were; tail: an unfinished line
    """

    fold: int = 1
    folds: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    steps: int | None = None
    longest_bar: int = 0
    evaluating: bool = False
    trainer: str = ""
    tail: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Context:
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in raw.items() if name in known})


SIDE_BAR = 0.6
"""A bar without a name that is this much shorter than another one is the validation's."""

Form = Callable[[str, Context], "tuple[Events, Context] | None"]

_EPOCH = re.compile(
    r"\bepoch\b[\s:\[#=]{0,4}(\d{1,7})(?!\.\d)(?:\s{0,3}(?:/|of)\s{0,3}(\d{1,7}))?", re.IGNORECASE
)
_FOLD = re.compile(r"\bfold\b[\s:#=\[]{0,4}(\d{1,4})(?:\s{0,3}(?:/|of)\s{0,3}(\d{1,4}))?", re.IGNORECASE)
_STEP = re.compile(
    r"\b(?:step|batch|iter(?:ation)?)\b[\s:\[#=]{0,4}(\d{1,9})(?:\s{0,3}(?:/|of)\s{0,3}(\d{1,9}))?",
    re.IGNORECASE,
)
_BAR = re.compile(
    r"(\d{1,12})/(\d{1,12})\s{0,3}\[\s{0,3}(\d[\d:]{0,12})<\s{0,3}([\d:?]{1,12})(?:,\s{0,4}([\d.?]{1,12})\s?(it/s|s/it|[A-Za-z]{1,12}/s))?"
)
_OPEN_BAR = re.compile(r"(\d{1,12})it\s\[(\d[\d:]{0,12})")
_SIDE = re.compile(
    r"valid|eval|test|predict|infer|sanity|download|loading|map\b|token|shard|files?\b", re.IGNORECASE
)
_EPOCHS_BAR = re.compile(r"^\W{0,3}epochs?\W{0,3}$", re.IGNORECASE)
_KERAS = re.compile(
    r"^\s{0,6}(\d{1,9})/(\d{1,9})\s{1,3}(?:\[[=>.\s]{0,120}\]|[━─╸╺ ]{1,200}|-)\s{0,8}(?:-\s)?(.*)$"
)
_KERAS_TIME = re.compile(
    r"^\s{0,4}(?:(\d{1,4}:\d{2}(?::\d{2})?)|(\d{1,7})s)(?:\s{1,3}([\d.]{1,9})(us|µs|ms|s|min)/(?:step|epoch))?"
)
_TREES = re.compile(r"^\[(\d{1,7})\][\t ]{1,8}(\S.*)$")
_TREE_SCORE = re.compile(
    r"([\w.]{1,40})(?:'s |-)([\w@.\-]{1,40}):\s?([-+]?[\d.]{1,24}(?:[eE][-+]?\d{1,3})?|nan|inf)"
)
_CATBOOST = re.compile(
    r"^(\d{1,7}):\s{1,4}(?:learn: ([-\d.einfa]{1,24})\s{1,4})?(?:test: ([-\d.einfa]{1,24})\s{1,4})?"
    r"(?:best: \S{1,24} \(\d{1,7}\)\s{1,4})?"
    r"total: ([\d.]{1,9})(us|ms|s|m)(?: ([\d.]{1,9})(s|ms))?"
)
_TIMM = re.compile(r"^\s{0,4}Train:\s{0,4}(\d{1,6})\s{0,4}\[\s{0,6}(\d{1,9})/(\d{1,9})")
_TIMM_TIME = re.compile(r"Time:[^()]{0,60}\(([\d.]{1,9})s")
_OOM = ("out of memory", "outofmemoryerror", "oom when allocating", "cuda_error_out_of_memory")
_DONE = re.compile(r"best|score|oof|\bcv\b|done|finished|complete", re.IGNORECASE)
_LOWER_IS_BETTER = re.compile(
    r"loss|rmse|mae|mse|l1|l2|error|mape|poisson|quantile|huber|tweedie|gamma|rmsle", re.IGNORECASE
)
_SECTION = re.compile(r"\*{5} Running (training|evaluation|prediction|test)", re.IGNORECASE)
_SIZES = re.compile(r"\s{0,8}(?:Num examples|Batch size)\b", re.IGNORECASE)
_HEADERS = (
    "num examples", "num epochs", "batch size per device", "total optimization steps",
    "total train batch", "gradient accumulation steps", "number of trainable parameters", "early stopping",
    "training until validation", "trainer.fit", "max_epochs", "[lightgbm]", "sanity check", "gpu available",
    "using device",
)  # fmt: skip
"""Lines that trainers print and that say nothing to act upon."""


def trouble(line: str, context: Context) -> tuple[Events, Context] | None:
    """Out of memory, and the beginning of a traceback."""
    plain = line.lower()
    if any(word in plain for word in _OOM):
        return [("note", {"out_of_memory": True, "text": line[:300]})], context
    if line.startswith("Traceback (most recent call last)"):
        return [("note", {"error": True, "text": line[:300]})], context
    return None


def keras(line: str, context: Context) -> tuple[Events, Context] | None:
    """`1875/1875 ━━━━ 5s 2ms/step - accuracy: 0.98 - loss: 0.05 - val_loss: 0.1` after `Epoch 3/30`."""
    found = _KERAS.match(line)
    if found is None or "<" in line[:120]:
        return None
    step, of, rest = int(found[1]), int(found[2]), found[3]
    took = _KERAS_TIME.match(rest)
    if took is None and "/step" not in rest:
        return None
    each = None if took is None or took[3] is None else _seconds(took[3], took[4])
    scores = scores_of(rest[took.end() :] if took else rest)
    scores.pop("seconds", None)
    if context.epoch is None or (context.steps is not None and of != context.steps) or not scores:
        return [], replace(context, trainer="keras")
    after = replace(context, trainer="keras", steps=of)
    where = {"fold": context.fold, "epoch": context.epoch}
    if step >= of:
        elapsed = duration_of(took[1] or took[2]) if took else None
        body = {**where, **scores, **({} if elapsed is None else {"seconds": elapsed})}
        return [("epoch", body), ("batch", {**where, "step": of, "of": of, "scope": "epoch"})], after
    body = {**where, "step": step, "of": of, "scope": "epoch"}
    if each is not None:
        body["elapsed_seconds"] = each * step
    return [("batch", {**body, **_only(scores, "train_loss")})], after


def bar(line: str, context: Context) -> tuple[Events, Context] | None:
    """tqdm and Lightning: `Epoch 3:  45%|███ | 45/100 [00:05<00:06, 8.20it/s, loss=0.5]`."""
    if "[" not in line:
        return None
    found = _BAR.search(line) if "/" in line else None
    if found is None:
        unbounded = _OPEN_BAR.search(line)
        if unbounded is None:
            return None
        body: Body = {
            "step": int(unbounded[1]),
            "elapsed_seconds": duration_of(unbounded[2]),
            "fold": context.fold,
        }
        return [("batch", body)], context
    name = re.split(r"\d{1,3}%\|", line[: found.start()], maxsplit=1)[0].rstrip(" |:")
    step, of, elapsed = int(found[1]), int(found[2]), duration_of(found[3])
    scores, after = scores_of(line[found.end() :]), _folds(name, context)
    scores.pop("seconds", None)
    epoch = _EPOCH.search(name)
    if epoch is not None:
        after = _at_epoch(after, epoch)
    elif _EPOCHS_BAR.match(name):
        if step == 0:
            return [], after
        body = {"fold": after.fold, "epoch": step, "epochs": of, **scores}
        if elapsed is not None:
            body["seconds"] = elapsed / step
        return [("epoch", body)], replace(after, epoch=step, epochs=of)
    elif _SIDE.search(name):
        return [], after
    if epoch is None:
        if of < SIDE_BAR * after.longest_bar:
            return [], after
        after = replace(after, longest_bar=max(of, after.longest_bar))
    known = epoch is not None or (after.epoch is not None and after.trainer != "hf")
    body = {"step": step, "of": of, "fold": after.fold, **({"epochs": after.epochs} if after.epochs else {})}
    body["scope"] = "epoch" if known else "run" if after.trainer == "hf" else None
    if known:
        body["epoch"] = after.epoch
    if elapsed:
        body["elapsed_seconds"] = elapsed
    events: Events = [("batch", {**body, **_only(scores, "train_loss")})]
    if epoch is not None and step >= of > 0:
        ended = {
            "fold": after.fold,
            "epoch": after.epoch,
            **scores,
            **({"seconds": elapsed} if elapsed else {}),
        }
        events.append(("epoch", ended))
    return events, after


def dictionary(line: str, context: Context) -> tuple[Events, Context] | None:
    """Hugging Face's `{'loss': 0.5, 'learning_rate': 5e-05, 'epoch': 1.0}`, and JSON lines with an epoch."""
    plain = line.strip()
    if not (plain.startswith("{") and plain.endswith("}") and "epoch" in plain):
        return None
    found = {name: value for name, value, _ in pairs_of(plain)}
    if "epoch" not in found or not found["epoch"][-1].isdigit():
        return None
    at, scores = float(found["epoch"]), scores_of(plain)
    scores.pop("seconds", None)
    after = replace(context, trainer="hf" if "'" in plain else context.trainer)
    if "train_runtime" in found:
        return [("note", {"text": plain[:300]})], after
    whole = round(at)
    if (abs(at - whole) < 0.02 and at >= 0.5) or "." not in found["epoch"]:
        body = {"fold": context.fold, "epoch": whole, **scores, **memory_of(plain)}
        if "eval_runtime" in found:
            body["valid_seconds"] = float(found["eval_runtime"])
        return [("epoch", body)], replace(after, epoch=whole)
    if "valid_loss" in scores:
        return [("note", {"text": plain[:300]})], after
    body = {
        "steps": 1,
        "fold": context.fold,
        "epoch": int(at),
        **_only(scores, "train_loss", "learning_rate"),
    }
    return [("batch", body)], after


def boosting(line: str, context: Context) -> tuple[Events, Context] | None:
    """LightGBM `[100] valid_0's auc: 0.9`, XGBoost `[10] train-logloss:0.45 eval-logloss:0.46`."""
    found = _TREES.match(line)
    scores = [] if found is None else _TREE_SCORE.findall(found[2])
    if found is None or not scores:
        return None
    body: Body = {"fold": context.fold, "epoch": int(found[1])}
    for where, what, value in scores:
        side = "train" if where.lower().startswith(("train", "learn")) else "valid"
        number: float | str = value if value in ("nan", "inf") else float(value)
        if _LOWER_IS_BETTER.search(what):
            body.setdefault(f"{side}_loss", number)
        elif side == "valid":
            body.setdefault("metric", number)
    return [("epoch", body)], replace(context, epoch=int(found[1]))


def catboost(line: str, context: Context) -> tuple[Events, Context] | None:
    """`100: learn: 0.5 test: 0.55 best: 0.54 (98) total: 1.2s remaining: 10.1s`."""
    found = _CATBOOST.match(line)
    if found is None:
        return None
    rounds = int(found[1])
    total = _seconds(found[4], found[5]) + (_seconds(found[6], found[7]) if found[6] else 0.0)
    body: Body = {"fold": context.fold, "epoch": rounds, "seconds": total / (rounds + 1)}
    for name, value in (("train_loss", found[2]), ("valid_loss", found[3])):
        if value is not None and re.fullmatch(r"-?\d{1,12}(?:\.\d{1,20})?(?:e-?\d{1,3})?|nan|inf", value):
            body[name] = value if value in ("nan", "inf") else float(value)
    return [("epoch", body)], replace(context, epoch=rounds)


def timm(line: str, context: Context) -> tuple[Events, Context] | None:
    """`Train: 0 [ 100/781 ( 13%)]  Loss: 6.9 (6.9)  Time: 0.5s, 256/s (0.51s, 250/s)`."""
    found = _TIMM.match(line)
    if found is None:
        return None
    epoch, step, of = int(found[1]), int(found[2]), int(found[3])
    body = {"fold": context.fold, "epoch": epoch, "step": step, "of": of, "scope": "epoch"}
    each = _TIMM_TIME.search(line)
    if each is not None:
        body["elapsed_seconds"] = float(each[1]) * max(step, 1)
    return [("batch", {**body, **_only(scores_of(line), "train_loss")})], replace(context, epoch=epoch)


def fold_line(line: str, context: Context) -> tuple[Events, Context] | None:
    """`=== Fold 1/3 ===`, `Fold 2 best score: 0.87`."""
    found = _search(_FOLD, "fold", line)
    if found is None or _search(_EPOCH, "epoch", line) is not None:
        return None
    after = _folds(line, context)
    body: Body = {"fold": after.fold, **({"folds": after.folds} if after.folds else {})}
    if _DONE.search(line) is not None and "===" not in line:
        body["done"] = True
        scores = scores_of(line, best=True)
        return [("fold", {**body, **_only(scores, "metric")})], after
    return [("fold", body)], replace(after, epoch=None)


def epoch_line(line: str, context: Context) -> tuple[Events, Context] | None:
    """`Epoch 3/30 loss=0.5 val_loss=0.4 time=12.3s GPU=18.1GB (75.4%)`, or `Epoch 3/30` alone."""
    found = _search(_EPOCH, "epoch", line)
    if found is None:
        return None
    after = _at_epoch(_folds(line, context), found)
    memory = memory_of(line, alone_is_total=False)
    text = without_memory(line[found.end() :])
    scores, step = scores_of(text), _STEP.search(text)
    where: Body = {"fold": after.fold, "epoch": after.epoch}
    if after.epochs and found[2]:
        where["epochs"] = after.epochs
    if step is not None:
        body = {**where, "step": int(step[1]), "scope": "epoch", **_only(scores, "train_loss"), **memory}
        if step[2]:
            body["of"] = int(step[2])
        return [("batch", body)], after
    if scores or memory:
        return [("epoch", {**where, **scores, **memory})], after
    return ([("note", {"epochs": after.epochs})] if found[2] else []), after


def scores_line(line: str, context: Context) -> tuple[Events, Context] | None:
    """`Train Loss: 0.5 Acc: 0.8`, then `Val Loss: 0.4 Acc: 0.9`, under an `Epoch 3/30` of their own."""
    if (
        context.epoch is None
        or re.match(r"\s{0,8}(?:train|val|valid|validation|eval|test)\b", line, re.IGNORECASE) is None
    ):
        return None
    scores = scores_of(without_memory(line))
    if not ("train_loss" in scores or "valid_loss" in scores or "metric" in scores):
        return None
    if (
        re.match(r"\s{0,8}(?:val|valid|validation|eval|test)\b", line, re.IGNORECASE)
        and "train_loss" in scores
    ):
        scores.setdefault("valid_loss", scores.pop("train_loss"))
    return [
        (
            "epoch",
            {"fold": context.fold, "epoch": context.epoch, **scores, **memory_of(line, alone_is_total=False)},
        )
    ], context


def facts_line(line: str, context: Context) -> tuple[Events, Context] | None:
    """R27's `RESOURCES`, `GPU Memory`, `DataLoader`, `VALIDATION` lines, and how other trainers begin."""
    section = _SECTION.search(line)
    if section is not None:
        training = section[1].lower() == "training"
        return [], replace(context, trainer="hf", evaluating=not training)
    if context.evaluating and _SIZES.match(line):
        return [], context
    memory, settings = memory_of(line), settings_of(line)
    if memory:
        kind = "gpu" if set(memory) - {"total_gib"} else "note"
        return [(kind, {**settings, **memory})], context
    plain = line.lower()
    header = any(phrase in plain for phrase in _HEADERS)
    after = context
    if settings:
        after = replace(
            after, epochs=settings.get("epochs", after.epochs), folds=settings.get("folds", after.folds)
        )
        return [("note", settings)], after
    return ([], after) if header else None


FORMATS: tuple[Form, ...] = (
    trouble, dictionary, bar, keras, boosting, catboost, timm, fold_line, epoch_line, scores_line, facts_line,
)  # fmt: skip


def _search(pattern: re.Pattern[str], word: str, line: str) -> re.Match[str] | None:
    """A search that first looks for the word as such, which is a hundred times faster."""
    return pattern.search(line) if word in line.lower() else None


def _folds(line: str, context: Context) -> Context:
    found = _search(_FOLD, "fold", line)
    if found is None:
        return context
    fold, folds = int(found[1]), int(found[2]) if found[2] else context.folds
    return replace(context, fold=fold, folds=folds)


def _at_epoch(context: Context, found: re.Match[str]) -> Context:
    return replace(context, epoch=int(found[1]), epochs=int(found[2]) if found[2] else context.epochs)


def _seconds(value: str, unit: str) -> float:
    try:
        number = float(value)
    except ValueError:
        return 0.0
    return number * {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0}[unit]


def _only(scores: Body, *names: str) -> Body:
    return {name: scores[name] for name in names if name in scores}
