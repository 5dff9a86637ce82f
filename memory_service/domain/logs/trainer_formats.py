"""Log formats of trainers, one function each: (line, context) -> events.

A form answers None where the line is not its own. The order of `FORMATS` matters: the stricter come first.
A fit of boosted trees is a fold: their logs seldom name folds, so rounds that begin anew are the next one's.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from memory_service.domain.common.tables import shipped_table
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
from memory_service.domain.logs.durations import duration_of
from memory_service.domain.logs.lines import Line, side_of, told, told_by
from memory_service.domain.logs.values import float_of, memory_of, pairs_of, scores_of, settings_of

_WRITTEN = shipped_table(__package__, "trainer_patterns.toml")
_PATTERNS: Mapping[str, re.Pattern[str]] = {
    **{name: re.compile(pattern) for name, pattern in _WRITTEN["as_written"].items()},
    **{name: re.compile(pattern, re.IGNORECASE) for name, pattern in _WRITTEN["any_case"].items()},
}

SIDE_BAR = 0.6
"""A bar without a name that is this much shorter than another one of its epoch is the validation's."""


_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}


def keras(line: str, context: Context) -> tuple[Events, Context] | None:
    """`1875/1875 ━━━━ 5s 2ms/step - accuracy: 0.98 - loss: 0.05 - val_loss: 0.1` after `Epoch 3/30`."""
    found = _PATTERNS["keras"].match(line)
    if found is None or "<" in line[:120]:
        return None
    step, of, rest = int(found[1]), int(found[2]), found[3]
    took = _PATTERNS["keras_time"].match(rest)
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
    found = _PATTERNS["bar"].search(line) if "/" in line else None
    if found is None:
        return _open_bar(line, context)
    name = re.split(r"\d{1,3}%\|", line[: found.start()], maxsplit=1)[0].rstrip(" |:")
    step, of, elapsed = int(found[1]), int(found[2]), duration_of(found[3])
    scores, after = scores_of(line[found.end() :]), with_fold(name, context) or context
    scores.pop("seconds", None)
    named, yolo = EPOCH.search(name), _PATTERNS["yolo"].match(name + " ")
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
    elif _PATTERNS["epochs_bar"].match(name):
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
    return _PATTERNS["side"].search(name) is not None or (
        unit is not None and _PATTERNS["step_units"].fullmatch(unit) is None
    )


def _open_bar(line: str, context: Context) -> tuple[Events, Context] | None:
    """`45it [00:05, 8.20it/s]`: nobody knows of how many."""
    found = _PATTERNS["open_bar"].search(line)
    if found is None:
        return None
    if _PATTERNS["side"].search(line[: found.start()]):
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
    found = _PATTERNS["yolo_all"].match(line)
    if found is None or context.epoch is None:
        return None
    metric = float(found[1].split()[-1])
    return [("epoch", {"fold": context.fold, "epoch": context.epoch, "metric": metric})], context


_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


def boosting(line: str, context: Context) -> tuple[Events, Context] | None:
    """LightGBM `[100] valid_0's auc: 0.9`, XGBoost `[10] train-logloss:0.45 eval-logloss:0.46`."""
    found = _PATTERNS["trees"].match(line)
    scores = [] if found is None else _PATTERNS["tree_score"].findall(found[2])
    if found is None or not scores:
        return None
    if context.ended == "best":
        return [], replace(context, ended="yes")
    after = _at_round(context, int(found[1]))
    body: Body = {"fold": after.fold, "epoch": after.epoch}
    for n, (where, what, value) in enumerate(scores):
        again = any(name == what for _, name, _ in scores[n + 1 :])  # of several sets the last is watched
        of_training = where.lower().startswith(("train", "learn")) or (where == "validation_0" and again)
        side = "train" if of_training else "valid"
        number: float | str | None = value if value in ("nan", "inf") else float_of(value)
        if number is None:
            continue
        if _PATTERNS["lower_is_better"].search(what):
            body.setdefault(f"{side}_loss", number)
        elif side == "valid":
            body.setdefault("metric", number)
            body.setdefault("metric_name", what)
    return [("epoch", body)], after


def catboost(line: str, context: Context) -> tuple[Events, Context] | None:
    """`100: learn: 0.5 test: 0.55 best: 0.54 (98) total: 1.2s remaining: 10.1s`."""
    found = _PATTERNS["catboost"].match(line)
    if found is None:
        return None
    after = _at_round(context, int(found[1]))
    whole, part = float_of(found[4]), float_of(found[6] or "0")
    body: Body = {"fold": after.fold, "epoch": after.epoch}
    if whole is not None and part is not None:
        total = whole * _SECONDS[found[5]] + part * _SECONDS[found[7] or "s"]
        body["seconds"] = total / (int(found[1]) + 1)
    for name, value in (("train_loss", found[2]), ("valid_loss", found[3])):
        if value is not None and _PATTERNS["plain"].fullmatch(value):
            body[name] = value if value in ("nan", "inf") else float(value)
    return [("epoch", body)], after


def fit_ended(line: str, context: Context) -> tuple[Events, Context] | None:
    """`Early stopping, best iteration is:` and the round again on the next line; CatBoost's end."""
    best = _PATTERNS["best_follows"].search(line) is not None
    if not best and _PATTERNS["ended"].search(line) is None:
        return None
    after = replace(context, ended="best" if best else "yes")
    if context.ended or context.epoch is None:
        return [], after
    return [("fold", {"fold": context.fold, "done": True})], after


def _at_round(context: Context, number: int) -> Context:
    anew = context.epoch is not None and (bool(context.ended) or number < context.epoch)
    return replace(context, fold=context.fold + anew, epoch=number, ended="")


__all__ = ["FORMATS", "Context"]

_OOM = ("out of memory", "outofmemoryerror", "oom when allocating", "cuda_error_out_of_memory")
MOST_BEFORE_A_DICTIONARY, MOST_COLUMNS = 60, 40
_FIRST_COLUMNS = ("epoch", "step", "ep")
_HEADERS = shipped_table(__package__, "words.toml")["headers"]["phrases"]
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
    plain = line[line.find("{") :].strip() if "{" in line else ""
    if not (plain.endswith("}") and "epoch" in plain) or len(line) - len(plain) > MOST_BEFORE_A_DICTIONARY:
        return None
    found = {pair.name: pair.value for pair in pairs_of(plain)}
    if not found.get("epoch", "")[-1:].isdigit():
        return None
    at, scores = float(found["epoch"]), scores_of(plain)
    if "iter" in found and "mode" in plain:  # OpenMMLab's JSON
        side = "valid" if _PATTERNS["valid_mode"].search(plain) else "train"
        step = None if side == "valid" else round(float(found["iter"]))
        here = Line(side, plain, round(at), step=step)
        return told_by(here, context, {})
    after = replace(context, trainer="hf" if "'" in plain else context.trainer)
    if "train_runtime" in found:
        whole = {name: float(found.get(f"train_{name}_per_second", 0)) for name in ("samples", "steps")}
        seconds = float(found["train_runtime"])
        ran = {what: round(rate * seconds) for what, rate in whole.items() if rate}
        return [("batch", {"fold": context.fold, "seconds": seconds, **ran})], after
    memory = memory_of(plain)
    whole_epoch = round(at)
    if (abs(at - whole_epoch) < 0.02 and at >= 0.5) or "." not in found["epoch"]:
        body = {"fold": context.fold, "epoch": whole_epoch, **scores, **memory}
        if "eval_runtime" in found:
            body["valid_seconds"] = float(found["eval_runtime"])
        return [("epoch", body)], replace(after, epoch=whole_epoch)
    if "valid_loss" in scores:
        return [("note", {"text": plain[:300]})], after
    where: Body = {"fold": context.fold, "epoch": int(at)}
    if context.total_steps and context.epochs:
        total = context.total_steps
        where |= {"step": min(total, round(at / context.epochs * total)), "of": total, "scope": "run"}
    else:
        where["steps"] = 1
    events: Events = [("batch", {**where, **only(scores, "train_loss", "learning_rate")})]
    return [*events, *([("gpu", memory)] if memory else [])], after


def table(line: str, context: Context) -> tuple[Events, Context] | None:
    """A head (`epoch  train_loss  valid_loss  accuracy  time` of fastai, `Step\tTraining Loss` of Hugging
    Face in a notebook, a CSV file's), then its rows."""
    cells = tuple(cell.strip()[:40] for cell in _PATTERNS["columns"].split(line.strip("| \t")))[:MOST_COLUMNS]
    if (
        cells
        and cells[0].lower() in _FIRST_COLUMNS
        and len(cells) > 1
        and _PATTERNS["row"].search(line) is None
    ):
        return [], replace(context, columns=cells)
    if not context.columns or len(cells) != len(context.columns) or not cells[0].isdigit():
        return None
    text = " | ".join(f"{name}={value}" for name, value in zip(context.columns[1:], cells[1:], strict=True))
    if context.columns[0].lower() == "step":
        if context.step is not None and int(cells[0]) <= context.step:
            return [], context  # a bar has told it
        here = Line("", text, step=int(cells[0]), of=context.total_steps)
    else:
        of_validation = "val" in " ".join(context.columns).lower()
        here = Line("valid" if of_validation else "", text, int(cells[0]))
    return told_by(here, context, {})


def html_table(line: str, context: Context) -> tuple[Events, Context] | None:
    """The same as HTML, as a notebook keeps it."""
    if "<t" not in line and "</t" not in line:
        return None
    events: Events = []
    for ends, tag, cell in _PATTERNS["html"].findall(line):
        if tag in ("th", "td") and not ends:
            context = replace(context, cells=(*context.cells, cell.strip()[:40])[:MOST_COLUMNS])
        elif tag == "tr" and ends:
            found = table("\t".join(context.cells), context) or ([], context)
            events += found[0]
            context = replace(found[1], cells=())
    return events, context


def result(line: str, context: Context) -> tuple[Events, Context] | None:
    """`CV score: 0.79`, `OOF AUC: 0.81`, `submission.csv written`: of the whole run."""
    if _PATTERNS["submission"].search(line) is not None:
        return [("note", {"submission": True, "text": line.strip()[:300]})], context
    scores = scores_of(line, "valid", best=True) if _PATTERNS["overall"].match(line) else {}
    if not scores:
        return None
    name = _PATTERNS["overall"].sub("", str(scores.get("metric_name", "")).replace("_", " ")).strip()
    named = {} if name in ("", "score") else {"metric_name": name}
    return [("note", {"text": line.strip()[:300], **named})], context


def stopped(line: str, context: Context) -> tuple[Events, Context] | None:
    """`Early stopping at epoch 8`: the fold is over. Not a counter, and not the setting."""
    if (
        search(_PATTERNS["stopped"], "early", line) is None
        or _PATTERNS["not_stopped"].search(line) is not None
    ):
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
    if _PATTERNS["done"].search(line) is not None and "===" not in line:
        body["done"] = True
        scores = scores_of(line, best=True)
        return [("fold", {**body, **only(scores, "metric")})], after
    return [("fold", body)], replace(after, epoch=None, ended="")


def facts_line(line: str, context: Context) -> tuple[Events, Context] | None:
    """R27's `RESOURCES`, `GPU Memory`, `DataLoader`, `VALIDATION` lines, and how other trainers begin."""
    section = _PATTERNS["section"].search(line)
    if section is not None:
        training = section[1].lower() == "training"
        return [], replace(context, trainer="hf", evaluating=not training)
    if context.evaluating and _PATTERNS["sizes"].match(line):
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
    trouble, dictionary, bar, keras, fit_ended, boosting, catboost, yolo_scores, html_table, table, stopped,
    result, fold_line, told, facts_line,
)  # fmt: skip
