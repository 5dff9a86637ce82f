"""Any line about a step, an epoch or an evaluation: a tag, a position and named figures become events.

A line is of training or validation by its tag (`Epoch(val)`, `[EVAL]`, `Test:`); its position is an epoch, a
step or both (`Epoch: [3][ 50/6200]`, `iter: 19`); its figures are read by their names (`values`). Steps are
progress. An epoch ends with its evaluation, with a line about it without a step, or with the first step of
the next one.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

from memory_service.domain.logs.context import EPOCH, Body, Context, Events, at_epoch, only, search, with_fold
from memory_service.domain.logs.values import (
    TRAIN_WORDS,
    VALID_WORDS,
    memory_of,
    pairs_of,
    scores_of,
    step_figures,
    step_memory_of,
    without_memory,
)

SETTLED_STEPS = 20
"""The first batches wait for workers that are only being started: waiting counts from the twentieth on."""

MOST_INFERRED = 40
"""Epochs; of more, the estimate is not near enough to count them."""

_VALIDATION = ("valid_loss", "metric", "metric_name")

SAME = 0.5
"""An estimate of what is left that is this near to the steps left of the epoch is the epoch's."""

_N = r"(\d{1,9})(?!\d|[:.]\d)(?:\s{0,3}(?:/|of)\s{0,8}(\d{1,9}))?"
_STEP_WORD = r"(?:per-|global[_ ])?(?:step|iter(?:ation)?|batch)(?:es|s)?\b(?:\((\w{3,10})\))?"
_AFTER_EPOCH = re.compile(
    rf"\]?[\s,|:;\-]{{0,8}}(?:{_STEP_WORD}[\s:\[#=]{{0,8}}|\[|(?=\d{{1,9}}\s?/\s?\d))\s{{0,8}}{_N}"
    r"(?!\s?(?:s\b|%))",
    re.IGNORECASE,
)
_STEP = re.compile(rf"(?<![/\w-]){_STEP_WORD}[\s:\[#=]{{0,8}}{_N}", re.IGNORECASE)
_SIDE_STEP = re.compile(
    r"^\W{0,4}(train(?:ing)?|test|val(?:id(?:ation)?)?|eval)\w{0,6}:?\s{0,4}"
    r"(?:(\d{1,6})\s{1,4}|\[\s{0,4}(\d{1,6})/(\d{1,6})\]\s{0,3})?\[\s{0,8}(\d{1,9})/(\d{1,9})",
    re.IGNORECASE,
)
_BARE_STEP = re.compile(
    r"^\s{0,4}\[?\s{0,4}(\d{1,9})/(\d{1,9})\]?\s{0,2}[,:|]?\s|\[\s{0,8}(\d{1,9})/(\d{1,9})\]\s{0,4}$"
)
_TAG = re.compile(
    r"^[^A-Za-z\n]{0,6}(?:result\W{1,5})?(train(?:ing)?|learn|val(?:id(?:ation)?)?|eval(?:uation)?|test(?:ing)?|dev)\b",
    re.IGNORECASE,
)
_SECTIONS = re.compile(r"\[(train|valid|val|eval|test)\]")
_TOLD_AGAIN = re.compile(
    r"\b(?:best|max|decreased|increased|improved?|counter|patience|saving|saved?|from|parameters|params)\b|-->",
    re.IGNORECASE,
)


def side_of(text: str) -> str:
    """ "train" | "valid" | "": of a tag as it stands, or of the one that begins the text."""
    if text.lstrip().startswith("* "):  # `* Acc@1 71.2 Acc@5 90.3 loss 1.2`
        return "valid"
    found = _TAG.match(text)
    word = found[1].lower() if found else ""
    return "train" if word in TRAIN_WORDS else "valid" if word in VALID_WORDS else ""


@dataclass(frozen=True, slots=True)
class Line:
    """A tag, a position and the text behind it."""

    side: str
    text: str
    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None
    of: int | None = None


def line_of(line: str) -> Line:
    """Where a line says that it is. Steps of a line are found only beside figures."""
    begun = _SIDE_STEP.match(line)
    if begun is not None:
        epoch = begun[2] or begun[3]
        whole = int(begun[4]) if begun[4] else None
        rest, number = line[begun.end() :], int(epoch) if epoch else None
        return Line(side_of(line), rest, number, whole, int(begun[5]), int(begun[6]))
    found = search(EPOCH, "ep", line)
    if found is not None:
        rest = line[found.end() :]
        after = _AFTER_EPOCH.match(rest) or _STEP.search(rest)
        side = side_of(found["side"] or "") or side_of(line) or side_of(rest)
        epoch, whole = int(found["epoch"]), int(found["epochs"]) if found["epochs"] else None
        if after is None:
            return Line(side, rest, epoch, whole)
        return Line(side, _beside(after), epoch, whole, *_step_of(after))
    after = _STEP.search(line)
    if after is not None:
        side = side_of(after[1] or "") or side_of(line)
        return Line(side, _beside(after), None, None, *_step_of(after))
    bare = _BARE_STEP.search(line)
    if bare is not None:
        step, of = (int(bare[n] or bare[n + 2]) for n in (1, 2))
        return Line(side_of(line), _beside(bare), step=step, of=of)
    return Line(side_of(line), line)


def _beside(found: re.Match[str]) -> str:
    """The text without what was found."""
    return f"{found.string[: found.start()]} {found.string[found.end() :]}"


def _step_of(found: re.Match[str]) -> tuple[int, int | None]:
    """(step, of how many) of a position in the form `_N`."""
    return int(found[2]), int(found[3]) if found[3] else None


def told(line: str, context: Context) -> tuple[Events, Context] | None:
    """The events of a line about a step, an epoch or an evaluation; None for any other."""
    context = with_fold(line, context) or context
    return told_by(line_of(line), context, memory_of(line, alone_is_total=False))


def told_by(here: Line, context: Context, memory: Body) -> tuple[Events, Context] | None:
    """The events of a line that says where it is."""
    if here.step is not None:
        return _step(here, context)
    if here.epoch is None:
        return _under_an_epoch(here, context, memory)
    closed, after = _begun(here, context)
    scores = _scores(without_memory(here.text), here.side)
    planned: Body = {"epochs": after.epochs} if after.epochs and here.epochs else {}
    if _is_scored(scores) or memory or "seconds" in scores:
        ended, after = _ended(planned | scores | memory, after, here.side)
        return [*closed, *ended], after
    note: Events = [("note", planned)] if planned else []
    return [*closed, *note], after


def _step(here: Line, context: Context) -> tuple[Events, Context] | None:
    if here.side == "valid":
        return _evaluation(here, context)
    scores = scores_of(here.text, here.side, timed=here.epoch is None and bool(here.of))
    if "train_loss" not in scores and "metric" in scores and here.step == here.of:
        return _evaluation(here, context)
    if "train_loss" not in scores and (here.epoch is None or not _is_scored(scores)):
        known = here.epoch is not None and (here.of or _STEP.search(here.text) is None)
        if not known and "learning_rate" not in scores:
            return None
    if here.epoch is None and "valid_loss" in scores and here.of and "seconds" in scores:
        return told_by(replace(here, epoch=here.step, epochs=here.of, step=None, of=None), context, {})
    closed, after = _begun(here, context)
    figures = step_figures(here.text)
    run = here.epoch is None and (context.epoch is None or context.trainer == "iterations")
    scope = "run" if run and here.of else None if here.epoch is None and not here.of else "epoch"
    body: Body = {"fold": after.fold, "step": here.step, **only(scores, "train_loss", "learning_rate")}
    body |= {"epoch": after.epoch} if not run and after.epoch is not None else {}
    body |= {"epochs": after.epochs} if here.epochs else {}
    body |= {"of": here.of} if here.of else {}
    body |= {"scope": scope} if scope else {}
    step = here.step or 0
    before = 0 if here.of and not run else step  # where an earlier part of the log was not seen
    made = step - (after.step if after.step is not None and after.step <= step else before)
    if figures.elapsed is not None:
        body["elapsed_seconds"] = figures.elapsed
    elif figures.each is not None:
        body["elapsed_seconds"] = figures.each * max(step, 1)
        if made:
            body |= {"steps": made, "seconds": made * figures.each}
            body |= {"samples": round(made * figures.each * figures.rate)} if figures.rate else {}
    if step >= SETTLED_STEPS and figures.each and figures.data is not None and figures.data <= figures.each:
        body["loader_wait_percent"] = round(100.0 * figures.data / figures.each, 1)
    if figures.eta:
        body |= _own_estimate(here, figures.eta, figures.each, after.epochs)
    after = replace(after, step=step, loss=body.get("train_loss", after.loss), side="")
    memory = step_memory_of(here.text)
    events: Events = [*closed, ("batch", body), *([("gpu", memory)] if memory else [])]
    if not here.of and "valid_loss" in scores:
        evaluated, after = _scored(only(scores, *_VALIDATION), here.epoch, after)
        events += evaluated
    return events, after


def _own_estimate(here: Line, eta: float, each: float | None, epochs: int | None) -> Body:
    """What is left of the run as the trainer says, and by it the epochs in all, where these are a few whole
    ones; nothing where it is the rest of the epoch."""
    if here.epoch is None or here.of is None or not each:
        return {"eta_seconds": eta}
    step = here.step or 0
    left, whole = (here.of - step) * each, here.epoch - 1 + (eta / each + step) / here.of
    if abs(eta - left) <= SAME * left + 2.0:
        return {}
    is_few = epochs is None and 1 <= here.epoch <= whole <= MOST_INFERRED and abs(whole - round(whole)) < 0.1
    return {"eta_seconds": eta} | ({"epochs": round(whole)} if is_few else {})


def _evaluation(here: Line, context: Context) -> tuple[Events, Context] | None:
    """The last step of an evaluation has its averages; without steps its figures are the whole's."""
    scores = only(scores_of(here.text, "valid", averages=True, timed=False), *_VALIDATION)
    if not scores or (here.step or 0) < (here.of or 0) - 1:
        return None if here.of is None and here.epoch is None else ([], context)
    return _scored(scores, here.epoch, context)


def _scored(scores: Body, epoch: int | None, context: Context) -> tuple[Events, Context]:
    """An evaluation ends an epoch; where no epochs are counted, evaluations are counted in their place."""
    if epoch is None and (context.epoch is None or context.trainer == "iterations"):
        epoch = (context.epoch or 0) + 1
        context = replace(context, trainer="iterations")
    return _ended(scores, context if epoch is None else at_epoch(context, epoch))


def _ended(figures: Body, context: Context, side: str = "") -> tuple[Events, Context]:
    """The present epoch's end, told for the first time with the loss of its last step."""
    body, seconds = _where(context) | figures, figures.get("seconds")
    if side == "valid" and seconds:
        body |= {"valid_seconds": seconds, "seconds": seconds + (context.seconds or 0.0)}
    if context.loss is not None and context.scored != context.epoch:
        body.setdefault("train_loss", context.loss)
    trained = seconds if side == "train" else context.seconds
    return [("epoch", body)], replace(context, scored=context.epoch, seconds=trained)


def _under_an_epoch(here: Line, context: Context, memory: Body) -> tuple[Events, Context] | None:
    """`Train Loss: 0.5 Acc: 0.8`, `val_loss 0.4`, `* Acc@1 71.2` under an `Epoch 3/30` of their own."""
    text = here.text
    side = here.side or context.side
    scores = _scores(without_memory(text), side)
    if _is_scored(scores) and _TOLD_AGAIN.search(text) is None and _leads(text):
        if context.epoch is not None and context.trainer != "iterations":
            return _ended(scores | memory, context, side)
        if side == "valid" and context.step is not None:
            return _scored(only(scores, *_VALIDATION), None, context)
        return None
    if context.epoch is not None and "seconds" in scores and "epoch" in text.lower():
        return _ended(only(scores, "seconds"), context)
    if here.side and len(text) < 40 and next(iter(pairs_of(text)), None) is None:
        return [], replace(context, side=here.side)
    return None


def _leads(text: str) -> bool:
    """Whether a line begins with a figure's name: prose that has one somewhere is no score."""
    first = next(iter(pairs_of(text)), None)
    return first is not None and len(re.split(r"[=:]|\s-?\d", text, maxsplit=1)[0].split()) <= 7


def _begun(here: Line, context: Context) -> tuple[Events, Context]:
    """The context at the line's epoch; an epoch before it that nobody has ended is over."""
    if here.epoch is None:
        return [], context
    after = at_epoch(context, here.epoch, here.epochs)
    if (after.fold, after.epoch) == (context.fold, context.epoch):
        return [], after
    closed: Events = []
    if context.epoch is not None and context.loss is not None and context.scored != context.epoch:
        closed = _ended({}, context)[0]
    return closed, replace(after, step=None, loss=None, scored=None, seconds=None, side="")


def _scores(text: str, side: str) -> dict[str, Any]:
    """The scores of a line, of a part that begins with its tag by that tag."""
    parts = _SECTIONS.split(text)
    out = scores_of(parts[0], side)
    for tag, part in zip(parts[1::2], parts[2::2], strict=True):
        for name, value in scores_of(part, side_of(tag)).items():
            out.setdefault(name, value)
    return out


def _is_scored(scores: Body) -> bool:
    return not scores.keys().isdisjoint(("train_loss", "valid_loss", "metric"))


def _where(context: Context) -> Body:
    return {"fold": context.fold, "epoch": context.epoch}
