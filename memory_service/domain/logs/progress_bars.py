"""Progress bars of tqdm (Lightning, Ultralytics) and Keras."""

import re
from dataclasses import replace

from memory_service.domain.logs.context import EPOCH, Body, Context, Events, at_epoch, only, with_fold
from memory_service.domain.logs.durations import duration_of
from memory_service.domain.logs.lines import side_of
from memory_service.domain.logs.values import float_of, scores_of

SIDE_BAR = 0.6
"""A bar without a name that is this much shorter than another one of its epoch is the validation's."""

_BAR = re.compile(
    r"(\d{1,12})/(\d{1,12})\s{0,3}\[\s{0,3}(\d[\d:]{0,12})<\s{0,3}([\d:?]{1,12})(?:,\s{0,4}([\d.?]{1,12})\s?(it/s|s/it|[A-Za-z]{1,12}/s))?"
)
_OPEN_BAR = re.compile(r"(\d{1,12})it\s\[(\d[\d:]{0,12})")
_SIDE = re.compile(
    r"valid|eval|test|predict|infer|sanity|download|loading|map\b|token|shard|files?\b|generat|extract|cach|"
    r"preproc|resiz|filter|scan|fetch|images\s+instances",
    re.IGNORECASE,
)
_STEP_UNITS = re.compile(r"(?:it|batch|batches|step|steps|b|ba)/s|s/it", re.IGNORECASE)
"""A bar of so many files, examples or bytes a second is no training."""

_EPOCHS_BAR = re.compile(r"^\W{0,3}epochs?\W{0,3}$", re.IGNORECASE)
_YOLO = re.compile(r"^\s{0,12}(\d{1,6})/(\d{1,6})\s{1,12}([\d.]{1,8})G((?:\s{1,12}\d{1,9}\.\d{1,9}){1,6})\s")
_YOLO_ALL = re.compile(
    r"^\s{1,40}all\s{1,12}\d{1,9}\s{1,12}\d{1,9}((?:\s{1,12}\d?\.?\d{1,9}){4})(?:(?:\s{1,12}\d?\.?\d{1,9}){4})?\s{0,4}$"
)
_KERAS = re.compile(
    r"^\s{0,6}(\d{1,9})/(\d{1,9})\s{1,3}(?:\[[=>.\s]{0,120}\]|[━─╸╺ ]{1,200}|-)\s{0,8}(?:-\s)?(.*)$"
)
_KERAS_TIME = re.compile(
    r"^\s{0,4}(?:(\d{1,4}:\d{2}(?::\d{2})?)|(\d{1,7})s)(?:\s{1,3}([\d.]{1,9})(us|µs|ms|s|min)/(?:step|epoch))?"
)
_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}


def keras(line: str, context: Context) -> tuple[Events, Context] | None:
    """`1875/1875 ━━━━ 5s 2ms/step - accuracy: 0.98 - loss: 0.05 - val_loss: 0.1` after `Epoch 3/30`."""
    found = _KERAS.match(line)
    if found is None or "<" in line[:120]:
        return None
    step, of, rest = int(found[1]), int(found[2]), found[3]
    took = _KERAS_TIME.match(rest)
    if took is None and "/step" not in rest and not rest.startswith("ETA:"):
        return None
    each = None if took is None else float_of(took[3])
    scores = scores_of(rest[took.end() :] if took else rest)
    scores.pop("seconds", None)
    if context.epoch is None or (context.steps is not None and of != context.steps) or not scores:
        return [], replace(context, trainer="keras")
    after = replace(context, trainer="keras", steps=of)
    where = {"fold": context.fold, "epoch": context.epoch}
    if step >= of and took is not None:
        elapsed = duration_of(took[1] or took[2])
        body = {**where, **scores, **({} if elapsed is None else {"seconds": elapsed})}
        return [("epoch", body), ("batch", {**where, "step": of, "of": of, "scope": "epoch"})], after
    body = {**where, "step": step, "of": of, "scope": "epoch"}
    if took is not None and each is not None:
        body["elapsed_seconds"] = each * _UNITS[took[4]] * step
    return [("batch", {**body, **only(scores, "train_loss")})], after


def bar(line: str, context: Context) -> tuple[Events, Context] | None:
    """tqdm and Lightning: `Epoch 3:  45%|███ | 45/100 [00:05<00:06, 8.20it/s, loss=0.5]`."""
    if "[" not in line:
        return None
    found = _BAR.search(line) if "/" in line else None
    if found is None:
        return _open_bar(line, context)
    name = re.split(r"\d{1,3}%\|", line[: found.start()], maxsplit=1)[0].rstrip(" |:")
    step, of, elapsed = int(found[1]), int(found[2]), duration_of(found[3])
    scores, after = scores_of(line[found.end() :]), with_fold(name, context) or context
    scores.pop("seconds", None)
    named, yolo = EPOCH.search(name), _YOLO.match(name + " ")
    if named is not None:
        after = at_epoch(after, int(named["epoch"]), int(named["epochs"]) if named["epochs"] else None)
        if side_of(name[named.end() :]) == "valid":
            scores = only(scores_of(line[found.end() :], "valid"), "valid_loss", "metric", "metric_name")
            is_over = step >= of and scores
            return (
                [("epoch", {"fold": after.fold, "epoch": after.epoch, **scores})] if is_over else []
            ), after
    elif yolo is not None:
        after = at_epoch(after, int(yolo[1]))
        scores["train_loss"] = sum(float(loss) for loss in yolo[4].split()[:3])
    elif _EPOCHS_BAR.match(name):
        return _bar_of_epochs(step, of, elapsed, scores, after)
    elif _is_side(name, found[6]) or of < SIDE_BAR * after.longest_bar:
        return [], after
    else:
        after = replace(after, longest_bar=max(of, after.longest_bar))
    of_epoch = named is not None or yolo is not None
    known = of_epoch or (after.epoch is not None and after.trainer != "hf")
    body: Body = {"step": step, "of": of, "fold": after.fold}
    body |= {"epochs": after.epochs} if after.epochs else {}
    body["scope"] = "epoch" if known else "run" if after.trainer == "hf" else None
    if known:
        body["epoch"] = after.epoch
    else:
        after = replace(after, step=step)
    if elapsed:
        body["elapsed_seconds"] = elapsed
    events: Events = [("batch", {**body, **only(scores, "train_loss")})]
    if of_epoch and step >= of > 0:
        ended = {"fold": after.fold, "epoch": after.epoch, **scores}
        ended |= {"seconds": elapsed} if elapsed else {}
        ended |= {"reserved_gib": float(yolo[3])} if yolo is not None else {}
        events.append(("epoch", ended))
    return events, after


def _is_side(name: str, unit: str | None) -> bool:
    return _SIDE.search(name) is not None or (unit is not None and _STEP_UNITS.fullmatch(unit) is None)


def _open_bar(line: str, context: Context) -> tuple[Events, Context] | None:
    """`45it [00:05, 8.20it/s]`: nobody knows of how many."""
    found = _OPEN_BAR.search(line)
    if found is None:
        return None
    if _SIDE.search(line[: found.start()]):
        return [], context
    elapsed = duration_of(found[2])
    return [("batch", {"step": int(found[1]), "elapsed_seconds": elapsed, "fold": context.fold})], context


def _bar_of_epochs(
    step: int, of: int, elapsed: float | None, scores: Body, context: Context
) -> tuple[Events, Context]:
    if step == 0:
        return [], context
    body = {"fold": context.fold, "epoch": step, "epochs": of, **scores}
    if elapsed is not None:
        body["seconds"] = elapsed / step
    return [("epoch", body)], replace(context, epoch=step, epochs=of)


def yolo_scores(line: str, context: Context) -> tuple[Events, Context] | None:
    """`all  128  929  0.669  0.54  0.62  0.45`: precision, recall, mAP50, mAP50-95 of the epoch before."""
    found = _YOLO_ALL.match(line)
    if found is None or context.epoch is None:
        return None
    metric = float(found[1].split()[-1])
    return [("epoch", {"fold": context.fold, "epoch": context.epoch, "metric": metric})], context
