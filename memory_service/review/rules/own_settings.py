"""Settings at the head of a script of this service that make no sense there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding, wrong
from memory_service.review.rules.data_loader import STEP_WAITS, has_reason
from memory_service.review.rules.libraries.parameters import LARGEST_RATE, largest_tuning_rate
from memory_service.review.source.nodes import words

COUNTS = words(
    "BATCH_SIZE GRAD_ACCUMULATION N_GPUS IMAGE_SIZE SEQ_LEN LORA_RANK FOLDS SEEDS EPOCHS PATIENCE SEED"
)
_CHOICES = {
    "PRECISION": words("fp32 fp16 bf16"),
    "SPLIT": words("random stratified group stratified-group time"),
    "DEVICE": words("cpu cuda"),
}
LEAST_RESERVE = 0.05  # of the minutes; plans keep more (R14)


def own_rules(facts: Facts) -> Iterator[Finding]:
    """Of a script of this service: wrong-parameter, loader-workers, no-deadline, groups-across-folds."""
    for name, node in facts.script.own.items():
        whole = isinstance(node.value, int) and not isinstance(node.value, bool)
        if name in COUNTS and not (whole and (node.value or name == "SEED")):
            message = f"{name} = {node.value!r}: it is a whole number{'' if name == 'SEED' else ' over 0'}."
            yield wrong(node, message, f"{name} = {42 if name == 'SEED' else 3 if name == 'PATIENCE' else 1}")
        if name in _CHOICES and node.value not in _CHOICES[name]:
            known = ", ".join(sorted(_CHOICES[name]))
            yield wrong(node, f"{name} = {node.value!r}: the script knows {known}.", f"one of {known}")
        yield from _of_setting(facts, name, node)


def _of_setting(facts: Facts, name: str, node: ast.Constant) -> Iterator[Finding]:
    own, context = facts.script.own, facts.context
    value: Any = node.value
    match name:
        case "NUM_WORKERS" if value == 0 and context.cpu_count != 1 and not has_reason(facts, node, node):
            yield finding("loader-workers", node, f"NUM_WORKERS = 0{STEP_WAITS}", "NUM_WORKERS = 8")
        case "LEARNING_RATE" if not isinstance(value, int | float):
            yield wrong(node, f"LEARNING_RATE = {value!r} is no number.", "LEARNING_RATE = 0.001")
        case "LEARNING_RATE" if "BATCH_SIZE" in own:
            tuned = "HUB_NAME" in own
            if not 0 < value <= (largest_tuning_rate(facts.script) if tuned else LARGEST_RATE["AdamW"]):
                message = f"LEARNING_RATE = {value:g} with AdamW: training diverges or stands still."
                yield wrong(node, message, f"LEARNING_RATE = {'2e-5' if tuned else '1e-3'}")
        case "PRECISION" if value == "bf16" and context.bf16 is False and facts.for_card:
            yield wrong(node, f"{context.card} has no bf16 in hardware.", 'PRECISION = "fp16"')
        case "PRECISION" if value == "fp32" and context.tensor_cores and facts.for_card:
            fix = 'PRECISION = "fp16"' if context.bf16 is False else 'PRECISION = "bf16"'
            yield finding("no-mixed-precision", node, "Every step is computed in fp32.", fix)
        case "PRETRAINED" if value is False and "weights = os.environ" in facts.script.text:
            message = "PRETRAINED = False with epochs and a rate for pretrained weights."
            fix = "PRETRAINED = True; WEIGHTS=none in the environment sets all three"
            yield wrong(node, message, fix)
        case "GROUP_BY" if value and "SPLIT" in own and own["SPLIT"].value in ("random", "stratified"):
            split = own["SPLIT"]
            message = f"SPLIT = {split.value!r} leaves rows of one {value!r} on both sides of the split."
            yield finding("groups-across-folds", split, message, 'SPLIT = "group"')
        case "RESERVE_SHARE" if not isinstance(value, int | float) or not LEAST_RESERVE <= value < 1:
            message = f"RESERVE_SHARE = {value!r}: no time is kept for predicting and writing."
            yield finding("no-deadline", node, message, "RESERVE_SHARE as the plan set it")
