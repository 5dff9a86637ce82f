"""Log formats of trainers, one function each: (line, context) -> events.

A form answers None where the line is not its own. The order of `FORMATS` matters: the stricter come first.
"""

import re
from dataclasses import replace

from memory_service.domain.logs.boosting_lines import boosting, catboost, fit_ended
from memory_service.domain.logs.context import (
    EPOCH,
    Body,
    Context,
    Events,
    Form,
    at_epoch,
    only,
    search,
    with_fold,
)
from memory_service.domain.logs.progress_bars import bar, keras, yolo_scores
from memory_service.domain.logs.step_lines import counted_step, epoch_step, evaluation_step, timm
from memory_service.domain.logs.values import memory_of, pairs_of, scores_of, settings_of, without_memory

__all__ = ["FORMATS", "Context"]

_STEP = re.compile(
    r"(?<!/)\b(?:step|batch|iter(?:ation)?)\b[\s:\[#=]{0,4}(\d{1,9})(?:\s{0,3}(?:/|of)\s{0,3}(\d{1,9}))?",
    re.IGNORECASE,
)
_OOM = ("out of memory", "outofmemoryerror", "oom when allocating", "cuda_error_out_of_memory")
_DONE = re.compile(r"best|score|oof|\bcv\b|done|finished|complete", re.IGNORECASE)
_STOPPED = re.compile(r"\bearly[ _-]?stopp(?:ing|ed)\b", re.IGNORECASE)
_NOT_STOPPED = re.compile(
    r"counter|patience|rounds|out of|callback|monitor|enabled|with |[=?]", re.IGNORECASE
)
_SECTION = re.compile(r"\*{5} Running (training|evaluation|prediction|test)", re.IGNORECASE)
_SIZES = re.compile(r"\s{0,8}(?:Num examples|Batch size)\b", re.IGNORECASE)
_SIDES = re.compile(r"\b(train(?:ing)?|val(?:id(?:ation)?)?)\s{1,3}(-?\d{1,9}\.\d{1,12})\b", re.IGNORECASE)
_SIDE_FIRST = re.compile(r"\s{0,8}(train|val|valid|validation|eval|test)\b", re.IGNORECASE)
_TABLE_ROW = re.compile(r"^\s{0,4}\d{1,6}(?:\s{1,12}[\d.:einfa+-]{1,24}){1,12}\s{0,12}$")
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


def dictionary(line: str, context: Context) -> tuple[Events, Context] | None:
    """Hugging Face's `{'loss': 0.5, 'learning_rate': 5e-05, 'epoch': 1.0}`, and JSON lines with an epoch."""
    plain = line.strip()
    if not (plain.startswith("{") and plain.endswith("}") and "epoch" in plain):
        return None
    found = dict(pairs_of(plain))
    if "epoch" not in found or not found["epoch"][-1].isdigit():
        return None
    at, scores = float(found["epoch"]), scores_of(plain)
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
    where: Body = {"fold": context.fold, "epoch": int(at)}
    if context.total_steps and context.epochs:
        total = context.total_steps
        where |= {"step": min(total, round(at / context.epochs * total)), "of": total, "scope": "run"}
    else:
        where["steps"] = 1
    return [("batch", {**where, **only(scores, "train_loss", "learning_rate")})], after


def table(line: str, context: Context) -> tuple[Events, Context] | None:
    """fastai: `epoch  train_loss  valid_loss  accuracy  time` once, then `3  0.51  0.42  0.87  00:45`."""
    words = line.split()
    if words[:1] == ["epoch"] and "train_loss" in words:
        return [], replace(context, columns=tuple(word[:40] for word in words[:16]))
    if not context.columns or len(words) != len(context.columns) or _TABLE_ROW.match(line) is None:
        return None
    after = at_epoch(context, int(words[0]))
    pairs = zip(context.columns[1:], words[1:], strict=True)
    scores = scores_of(" ".join(f"{name}={value}" for name, value in pairs))
    return [("epoch", {"fold": after.fold, "epoch": after.epoch, **scores})], after


def stopped(line: str, context: Context) -> tuple[Events, Context] | None:
    """`Early stopping at epoch 8`: the fold is over. Not a counter, and not the setting."""
    if search(_STOPPED, "early", line) is None or _NOT_STOPPED.search(line) is not None:
        return None
    if context.epoch is None or context.ended:
        return [], context
    return [("fold", {"fold": context.fold, "done": True})], replace(context, ended="yes")


def fold_line(line: str, context: Context) -> tuple[Events, Context] | None:
    """`=== Fold 1/3 ===`, `Fold 2 best score: 0.87`."""
    after = with_fold(line, context)
    if after is None or search(EPOCH, "ep", line) is not None:
        return None
    body: Body = {"fold": after.fold, **({"folds": after.folds} if after.folds else {})}
    if _DONE.search(line) is not None and "===" not in line:
        body["done"] = True
        scores = scores_of(line, best=True)
        return [("fold", {**body, **only(scores, "metric")})], after
    return [("fold", body)], replace(after, epoch=None, ended="")


def epoch_line(line: str, context: Context) -> tuple[Events, Context] | None:
    """`Epoch 3/30 loss=0.5 val_loss=0.4 time=12.3s GPU=18.1GB (75.4%)`, or `Epoch 3/30` alone."""
    found = search(EPOCH, "ep", line)
    if found is None:
        return None
    epochs = int(found[2]) if found[2] else None
    after = at_epoch(with_fold(line, context) or context, int(found[1]), epochs)
    memory = memory_of(line, alone_is_total=False)
    text = without_memory(line[found.end() :])
    scores, step = scores_of(text), _STEP.search(text)
    where: Body = {"fold": after.fold, "epoch": after.epoch}
    if after.epochs and found[2]:
        where["epochs"] = after.epochs
    if step is not None:
        body = {**where, "step": int(step[1]), "scope": "epoch", **only(scores, "train_loss"), **memory}
        if step[2]:
            body["of"] = int(step[2])
        return [("batch", body)], after
    if "train_loss" not in scores and "valid_loss" not in scores:
        for side, value in _SIDES.findall(text):
            scores["train_loss" if side[0] in "tT" else "valid_loss"] = float(value)
    if scores or memory:
        return [("epoch", {**where, **scores, **memory})], after
    return ([("note", {"epochs": after.epochs})] if found[2] else []), after


def scores_line(line: str, context: Context) -> tuple[Events, Context] | None:
    """`Train Loss: 0.5 Acc: 0.8`, then `Val Loss: 0.4 Acc: 0.9`, under an `Epoch 3/30` of their own."""
    side = _SIDE_FIRST.match(line)
    if context.epoch is None or side is None:
        return None
    scores = scores_of(without_memory(line))
    if not ("train_loss" in scores or "valid_loss" in scores or "metric" in scores):
        return None
    if side[1].lower() != "train" and "train_loss" in scores:
        scores.setdefault("valid_loss", scores.pop("train_loss"))
    memory = memory_of(line, alone_is_total=False)
    return [("epoch", {"fold": context.fold, "epoch": context.epoch, **scores, **memory})], context


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
    if settings:
        planned = only(settings, "epochs", "folds", "total_steps")
        return [("note", settings)], replace(context, **planned)
    return ([], context) if any(phrase in line.lower() for phrase in _HEADERS) else None


FORMATS: tuple[Form, ...] = (
    trouble, dictionary, bar, keras, fit_ended, boosting, catboost, timm, evaluation_step, epoch_step,
    yolo_scores, table, stopped, fold_line, epoch_line, counted_step, scores_line, facts_line,
)  # fmt: skip
