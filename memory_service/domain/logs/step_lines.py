"""Lines printed every so many steps: timm, the ImageNet example, Kaggle templates."""

import re

from memory_service.domain.logs.context import Body, Context, Events, at_epoch, only
from memory_service.domain.logs.values import float_of, memory_of, scores_of, without_memory

_TIMM = re.compile(r"^\s{0,4}Train:\s{0,4}(\d{1,6})\s{0,4}\[\s{0,6}(\d{1,9})/(\d{1,9})")
_TIMM_TIME = re.compile(r"Time:[^()]{0,60}\(([\d.]{1,9})s")
_TIMM_DATA = re.compile(r"Data:[^()]{0,20}\(([\d.]{1,9})\)")
_EVALUATION = re.compile(
    r"^\s{0,4}(?:eval|test|valid|validation|val):?\s{0,4}\[\s{0,6}(\d{1,9})/(\d{1,9})", re.IGNORECASE
)
_AVERAGE = re.compile(r"([A-Za-z@\d]{1,20}):?\s{1,4}-?[\d.]{1,14}\s{0,3}\(\s{0,6}(-?[\d.]{1,14})\)")
_EPOCH_STEP = re.compile(
    r"^\s{0,4}Epoch:?\s{0,3}\[(?P<epoch>\d{1,6})(?:/(?P<epochs>\d{1,6}))?\]\s{0,4}"
    r"\[\s{0,8}(?P<step>\d{1,9})/(?P<of>\d{1,9})\]",
    re.IGNORECASE,
)
_BATCHES = re.compile(
    r"^\W{0,4}epoch\s{1,6}(?P<epoch>\d{1,6})\s{0,4}\|\s{0,8}(?P<step>\d{1,9})/\s{0,8}(?P<of>\d{1,9}) batches",
    re.IGNORECASE,
)
_ELAPSED = re.compile(r"Elapsed (\d{1,5})m (\d{1,2})s")
_MS_EACH = re.compile(r"ms/batch\s{1,4}([\d.]{1,10})")
_TIME_EACH = re.compile(r"\bTime:?\s{1,4}([\d.]{1,10})(?:\s{0,3}\(\s{0,6}([\d.]{1,10})\))?", re.IGNORECASE)
_DATA_EACH = re.compile(r"\bData:?\s{1,4}([\d.]{1,10})(?:\s{0,3}\(\s{0,6}([\d.]{1,10})\))?", re.IGNORECASE)
_MAX_MEM = re.compile(r"\bmax mem: (\d{1,7})\b")
_COUNTED = re.compile(
    r"^\W{0,3}(?:train(?:ing)? )?(?:global[_ ])?(?:step|iter(?:ation)?)\b[\s:\[#=]{0,4}(\d{1,9})"
    r"(?:\s{0,3}(?:/|of)\s{0,3}(\d{1,9}))?",
    re.IGNORECASE,
)
_MS = re.compile(r"\btime:? ([\d.]{1,10})ms", re.IGNORECASE)

SETTLED_STEPS = 20
"""The first batches wait for workers that are only being started: waiting counts from the twentieth on."""


def timm(line: str, context: Context) -> tuple[Events, Context] | None:
    """`Train: 0 [ 100/781 ( 13%)]  Loss: 6.9 (6.9)  Time: 0.5s, 256/s (0.51s, 250/s)  Data: 0.01 (0.02)`."""
    found = _TIMM.match(line)
    if found is None:
        return None
    after = at_epoch(context, int(found[1]))
    step, of = int(found[2]), int(found[3])
    body: Body = {"fold": after.fold, "epoch": after.epoch, "step": step, "of": of, "scope": "epoch"}
    each, data = _number(_TIMM_TIME, line), _number(_TIMM_DATA, line)
    if each is not None:
        body["elapsed_seconds"] = each * max(step, 1)
    body |= _waiting(step, each, data)
    return [("batch", {**body, **only(scores_of(line), "train_loss")})], after


def evaluation_step(line: str, context: Context) -> tuple[Events, Context] | None:
    """`Test: [48/48]  Time: 0.1 (0.2)  Loss: 0.9 (0.8)  Acc@1: 71.2 (70.1)`: the last has the averages."""
    found = _EVALUATION.match(line)
    if found is None:
        return None
    averages = {name.lower(): value for name, value in _AVERAGE.findall(line[found.end() :])}
    if int(found[1]) < int(found[2]) or context.epoch is None or not averages:
        return [], context
    named = [f"valid_{name}={value}" for name, value in averages.items() if name not in ("time", "data")]
    text = " ".join(named)
    scores = only(scores_of(text), "valid_loss", "metric")
    return ([("epoch", {"fold": context.fold, "epoch": context.epoch, **scores})] if scores else []), context


def epoch_step(line: str, context: Context) -> tuple[Events, Context] | None:
    """`Epoch: [1][100/312] Elapsed 0m 31s (remain 1m 4s) Loss: 0.69(0.71)`,
    `Epoch: [0][ 10/5005] Time 0.31 ( 0.51) Data 0.002 ( 0.12)`,
    `| epoch 1 |  200/ 2983 batches | ms/batch 12.31 | loss 8.12`."""
    found = _EPOCH_STEP.match(line) or _BATCHES.match(line)
    if found is None:
        return None
    epoch, step, of = int(found["epoch"]), int(found["step"]), int(found["of"])
    epochs = found.groupdict().get("epochs")
    after = at_epoch(context, epoch, int(epochs) if epochs else None)
    body: Body = {"fold": after.fold, "epoch": epoch, "step": step, "of": of, "scope": "epoch"}
    elapsed, each, most = _ELAPSED.search(line), _average(_TIME_EACH, line), _MAX_MEM.search(line)
    ms = _number(_MS_EACH, line)
    if elapsed is not None:
        body["elapsed_seconds"] = int(elapsed[1]) * 60.0 + int(elapsed[2])
    elif ms is not None or each is not None:
        body["elapsed_seconds"] = max(step, 1) * (ms / 1000.0 if ms is not None else each or 0.0)
    body |= _waiting(step, each, _average(_DATA_EACH, line))
    events: Events = [("batch", {**body, **only(scores_of(line), "train_loss")})]
    if most is not None:
        events.append(("gpu", {"peak_allocated_gib": int(most[1]) / 1024.0}))
    return events, after


def counted_step(line: str, context: Context) -> tuple[Events, Context] | None:
    """`step 100/1000 loss=0.3`, `iter 100: loss 2.3421, time 152.31ms`: a run that counts no epochs."""
    found = _COUNTED.match(line)
    scores = {} if found is None else scores_of(without_memory(line[found.end() :]))
    if found is None or not scores:
        return None
    body: Body = {"fold": context.fold, "step": int(found[1])}
    if found[2]:
        body |= {"of": int(found[2]), "scope": "run" if context.epoch is None else "epoch"}
    each = _number(_MS, line)
    if each is not None:
        body["elapsed_seconds"] = int(found[1]) * each / 1000.0
    memory = memory_of(line, alone_is_total=False)
    events: Events = [("batch", {**body, **only(scores, "train_loss", "learning_rate")})]
    return [*events, *([("gpu", memory)] if memory else [])], context


def _waiting(step: int, each: float | None, data: float | None) -> Body:
    if step < SETTLED_STEPS or not each or data is None or data > each:
        return {}
    return {"loader_wait_percent": round(100.0 * data / each, 1)}


def _number(pattern: re.Pattern[str], line: str, group: int = 1) -> float | None:
    found = pattern.search(line)
    return None if found is None else float_of(found[group])


def _average(pattern: re.Pattern[str], line: str) -> float | None:
    """The mean in brackets, else the figure before it."""
    mean = _number(pattern, line, 2)
    return _number(pattern, line) if mean is None else mean
