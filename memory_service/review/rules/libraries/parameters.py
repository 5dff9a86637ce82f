"""Parameters that contradict each other, shares outside 0 to 1, and learning rates that diverge."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding, wrong
from memory_service.review.source.nodes import is_none, keyword_names, last_name, receiver, word_pairs, words
from memory_service.review.source.script import Script

LARGEST_RATE = {"Adam": 0.05, "AdamW": 0.05, "NAdam": 0.05, "RAdam": 0.05, "SGD": 5.0, "RMSprop": 0.1}
FINE_TUNING_RATE = 5e-3  # no pretrained transformer is trained at more
_ENCODER = re.compile(r"(deberta|roberta|electra|bert|mpnet|longformer)[\w.-]*", re.IGNORECASE)
_ADAPTED = re.compile(r"\bpeft\b|\blora|requires_grad_?\s*(=|\()\s*false", re.IGNORECASE)
ENCODER_RATE = 5e-4
"""Nor is an encoder of text trained as a whole at more: papers of BERT to DeBERTa search 5e-6 to 3e-4."""

_SHARES = ("label_smoothing", "p", "dropout", "drop_rate", "drop_path_rate", "pct_start", "subsample")
_BOOSTED = re.compile(r"^(LGBM|XGB|CatBoost|GradientBoosting|dict$)")
"""Whose `subsample` is a share of the rows; elsewhere it is a number of rows."""


_CHECKED = word_pairs(
    "KFold:sklearn StratifiedKFold:sklearn GroupKFold:sklearn StratifiedGroupKFold:sklearn OneCycleLR:torch "
    "ReduceLROnPlateau:torch train_test_split:sklearn DataLoader:torch"
)
"""Whose these are: a class of that name from elsewhere takes other parameters."""


def largest_tuning_rate(script: Script) -> float:
    """For the pretrained transformer of a script, whose every layer learns at one rate."""
    whole = not _ADAPTED.search(script.text)
    return ENCODER_RATE if whole and any(map(_ENCODER.search, script.strings)) else FINE_TUNING_RATE


def parameter_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter and result-thrown-away."""
    yield from _thrown_away(facts)
    yield from _deterministic(facts)
    for call in facts.script.calls:
        yield from _contradictions(facts, call)
        yield from _shares(facts, call)
        yield from _learning_rates(facts, call)


_GIVES = words(
    "convert dropna fillna drop_duplicates reset_index set_index rename astype replace drop resize"
)


def _thrown_away(facts: Facts) -> Iterator[Finding]:
    """`img.convert("RGB")`, `df.dropna()` as a statement of its own; the last of a cell is shown."""
    script = facts.script
    for node in script.all(ast.Expr):
        call = node.value
        name = last_name(call.func) if isinstance(call, ast.Call) else ""
        if name not in _GIVES or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        behind = script.lines[(node.end_lineno or node.lineno) :]
        following = next((line for line in behind if line.strip()), "#%%")
        if (
            not isinstance(call.func.value, ast.Name)
            or _LAST.match(following.lstrip())
            or _changes(facts, call, name)
        ):
            continue
        what = ast.unparse(call.func)
        yield finding("result-thrown-away", node, what=what, name=what.split(".")[0])


_LAST = re.compile(r"# ?(In\[|%%)")


def _changes(facts: Facts, call: ast.Call, name: str) -> bool:
    """Whether the object may be another, which changes in place."""
    script, base = facts.script, receiver(call) or call
    if any(keyword.arg in ("inplace", None) for keyword in call.keywords) or name in script.functions:
        return True
    made = [last_name(maker.func) for maker in facts.training.objects.makers(base)]
    if name in ("convert", "resize"):
        return not any(one == "open" and script.uses("PIL") for one in made)
    return not (script.uses("pandas") and any(_TABLE.match(one) for one in made))


_TABLE = re.compile(r"read_\w{1,20}$|DataFrame$|merge$|concat$|copy$")


def _deterministic(facts: Facts) -> Iterator[Finding]:
    """`cudnn.deterministic = True` beside `cudnn.benchmark = True`."""
    found: dict[str, ast.Assign] = {}
    for node in facts.script.all(ast.Assign):
        for target in node.targets:
            if (
                last_name(getattr(target, "value", target)) == "cudnn"
                and facts.values.one(node.value) is True
            ):
                found[last_name(target)] = node
    if {"deterministic", "benchmark"} <= found.keys():
        yield wrong(found["benchmark"], "benchmark")


def _contradictions(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    name, open_ended = last_name(call.func), facts.values.open_ended(call)
    if name in _CHECKED and not facts.script.is_of(call.func, _CHECKED[name]):
        return
    match name:
        case "KFold" | "StratifiedKFold" | "GroupKFold" | "StratifiedGroupKFold":
            shuffles = facts.argument(call, "shuffle", 1) and facts.value(call, "shuffle", 1) is not False
            if facts.value(call, "random_state", 2) is not None and not shuffles:
                yield wrong(call, "random-state", name=name)
        case "OneCycleLR" if not open_ended and len(call.args) <= 2:
            given = keyword_names(call)
            if "total_steps" not in given and not {"epochs", "steps_per_epoch"} <= given:
                yield wrong(call, "one-cycle-steps")
        case "ReduceLROnPlateau" if (facts.number(call, "factor", 2) or 0) >= 1 and facts.script.uses(
            "torch"
        ):
            yield wrong(call, "plateau-factor")
        case "train_test_split" if facts.value(call, "shuffle") is False:
            stratify = facts.argument(call, "stratify")
            if stratify is not None and not is_none(stratify):
                yield wrong(call, "stratify")
        case "DataLoader" if facts.script.uses("torch"):
            yield from _loader(facts, call)


def _loader(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    workers = facts.argument(call, "num_workers", 5)
    none = (workers is None and not facts.values.open_ended(call)) or facts.values.one(workers) == 0
    persistent = facts.value(call, "persistent_workers") is True
    if none and (persistent or isinstance(facts.value(call, "prefetch_factor"), int)):
        what = "persistent_workers" if persistent else "prefetch_factor"
        yield wrong(call, "workers-needed", what=what)
    samplers = (facts.argument(call, name) for name in ("sampler", "batch_sampler"))
    if facts.value(call, "shuffle", 2) is True and any(s is not None and not is_none(s) for s in samplers):
        yield wrong(call, "sampler")


def _shares(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """Probabilities, dropout, smoothing and parts of the rows that are not between 0 and 1."""
    name = last_name(call.func)
    transforms = facts.script.qualified(call.func).startswith(("albumentations.", "torchvision.transforms."))
    random = transforms or name.startswith(("Dropout", "Random"))
    for parameter in _SHARES:
        if (parameter == "p" and not random) or (parameter == "subsample" and not _BOOSTED.search(name)):
            continue
        number = facts.number(call, parameter, 0 if parameter == "p" and name == "Dropout" else None)
        if number is not None and not 0 <= number <= 1:
            yield wrong(call, "share", parameter=parameter, number=number)


def _learning_rates(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    name, place = last_name(call.func), facts.argument(call, "lr", 1)
    rate = facts.values.number(place)
    of_torch = facts.script.qualified(call.func).startswith(("torch.", "optim."))
    if rate is None or name not in LARGEST_RATE or not of_torch:
        return
    fine_tuned = bool(facts.script.called("from_pretrained")) and name.startswith("Adam")
    if rate > (FINE_TUNING_RATE if fine_tuned else LARGEST_RATE[name]) or rate <= 0:
        learner = f"{name} of a pretrained transformer" if fine_tuned else name
        usual = "lr=2e-5" if fine_tuned else "lr=1e-3" if name != "SGD" else "lr=0.1"
        yield wrong(place or call, "rate", rate=rate, learner=learner, usual=usual)
