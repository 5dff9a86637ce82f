"""Fields `checks` and `on_trouble` of a plan: when to look at the run and what must be seen, and what to
change, in which order, where it goes wrong (R20 to R22)."""

import re
from collections.abc import Mapping
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.planning.hyperparameters import DEFAULT_POLICY
from memory_service.domain.planning.policy import Policy
from memory_service.domain.quality.quality_index import fold_gain

_SMALL = re.compile(
    r"resnet(10|14|18|26|34)|efficientnet_(lite|es|b[012])|tf_efficientnet_(lite|es|b[012])|efficientnetv2_b[012]"
    r"|mobilenet|mobilevit|mnasnet|ghostnet|lcnet|tinynet|fbnet|shufflenet|squeezenet|_(atto|femto|pico|nano)\b"
    r"|mlp|linear|minilm|tiny|convnext_(atto|femto|pico|nano)"
)
_LARGE = re.compile(
    r"efficientnet_b[4-8]|resnet(101|152|200)|resnext101|vit_(base|large|huge)|bert|roberta|gpt|densenet161"
    r"|efficientnetv2_(l|xl)|convnext\w*_(base|large|xlarge)"
)
LARGE_FROM_M = 22.0
"""R22 names models; where it is silent the parameters decide: ResNet-50 class (25 M) and up counts as
large."""

TARGET_PERCENT = DEFAULT_POLICY.target_percent
EVERY_S = DEFAULT_POLICY.every_seconds
FIRST_CHECK_S = 60
NOT_BEFORE_STEPS = 20
"""Peak memory and speed are read after cuDNN has chosen its kernels: about 20 steps."""

LATE = 1.3
"""A first fold that takes so many times its planned share is late."""


def model_class_of(name: str, params_m: float) -> str:
    """small | large by R22's list (EfficientNet-B0..B2, ResNet-18/34 ... / B4..B7, ViT-Base ...), else by
    parameters."""
    plain = name.lower()
    if "mini" not in plain and _LARGE.search(plain) and not plain.startswith("prajjwal1"):
        return "large"
    if _SMALL.search(plain):
        return "small"
    return "large" if params_m >= LARGE_FROM_M else "small"


def checks_of(name: str, params_m: float, fill_percent: Estimate | None, policy: Policy) -> dict[str, Any]:
    """R20-R22 for this plan. `fill_percent` is the expected driver-seen fill; None without a GPU.

    R20 kills under 50 %. Where the plan itself expects less (small data, a small model), that alarm would
    kill a good run, so it stands at 60 % of the expected low end: below it the run is not the one that was
    planned.
    """
    least = policy.kill_percent
    kill = 0 if fill_percent is None else least if fill_percent.low >= least else int(0.6 * fill_percent.low)
    return {
        "first_after_seconds": FIRST_CHECK_S,
        "every_seconds": policy.every_seconds,
        "kill_below_percent": kill,
        "target_percent": list(policy.target_percent),
        "model_class": model_class_of(name, params_m),
        "not_before_steps": NOT_BEFORE_STEPS,
        "reserve_percent": round(100.0 * policy.reserve_share, 1),
        "reading": "peak memory as the driver reports it, percent of the card",
    }


def trouble_ladder(
    settings: Mapping[str, Any],
    *,
    trees: bool,
    on_gpu: bool,
    first_fold_percent: float,
    training_percent: float,
    spare_folds: int | None,
) -> tuple[dict[str, Any], ...]:
    """What to set when something goes wrong, first remedy first.

    first_fold_percent   the share of the budget this plan itself expects the first fold to take
    training_percent     the share after which it expects training to be over, at p90
    spare_folds          folds that still fit after a first submission in the median case, None when none do
    """
    out: list[dict[str, Any]] = []
    batch, steps = int(settings["batch_size"]), int(settings["grad_accumulation"])
    epochs, folds = int(settings["epochs"]), int(settings["folds"])

    def batch_over(parts: int) -> dict[str, Any]:
        """A part of the batch, accumulated so that the effective one is at least what it was."""
        smaller = batch // parts
        return {"batch_size": smaller, "grad_accumulation": -(-steps * batch // smaller)}

    if on_gpu and not trees:
        if batch > 1:
            out.append(_entry("out_of_memory", batch_over(2), "R02"))
        if batch > 3:
            again = batch_over(4) | {"gradient_checkpointing": True}
            out.append(_entry("out_of_memory_again", again, "R02"))
        out.append(_entry("no_gpu_reading_in_the_log", {"print_gpu_memory": "every epoch"}, "R20"))
        look = {"investigate": "batch size and model"}
        out.append(_entry("memory_under_kill_below_percent_after_first_check", look, "R20"))
        resized = {"cache": "samples converted once to what the model reads", "batch_size": batch}
        out.append(_entry("loader_wait_over_20_percent", resized, "R26"))
    fewer: dict[str, Any] = {"folds": 1} if folds > 1 else {"epochs": max(1, round(epochs * 0.6))}
    if folds == 1 and trees:  # fewer rounds would only lower a cap
        fewer = {"learning_rate": min(1.0, 2 * float(settings["learning_rate"]))}
    slow = _entry("first_fold_over_20_percent_of_budget", fewer, "R13")
    slow["planned_percent"] = round(first_fold_percent, 1)
    slow["over_percent"] = max(20.0, round(LATE * first_fold_percent, 1))
    if LATE * first_fold_percent > 20:
        slow["only_if"] = f"over {LATE * first_fold_percent:.0f} %: {first_fold_percent:.0f} % are planned"
    if folds > 1 or settings["optimizer"] != "none":  # one fit at once has nothing to give up
        out.append(slow)
    late = _entry("over_70_percent_of_budget_used_and_training_not_done", {"stop_and_predict": True}, "R15")
    late["over_percent"] = max(70.0, round(training_percent, 1))
    if training_percent > 70:
        late["only_if"] = f"over {training_percent:.0f} %, where training ends by this plan"
    out.append(late)
    if spare_folds:
        out.append(_entry("time_left_after_first_submission", {"folds": spare_folds}, "R17"))
    return tuple(out)


def _entry(when: str, changes: dict[str, Any], rule: str) -> dict[str, Any]:
    return {"when": when, "set": changes, "rule": rule}


def spare_folds(
    folds: int, minutes_left: float, fold_minutes: float, gain: float, n_train: float, most: int
) -> int | None:
    """5 folds (R17), or as many as can be made, when the missing ones fit into the median time left and add
    something; else None."""
    wanted = min(5, most)
    missing = wanted - folds
    if missing <= 0 or fold_minutes * missing > minutes_left:
        return None
    return wanted if fold_gain(gain, wanted, n_train) > fold_gain(gain, folds, n_train) else None
