"""Settings at the head of a script of this service that make no sense there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding, wrong
from memory_service.review.rules.data_loader import has_reason
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
LEAST_RESERVE = 0.05
"""Of the minutes; plans keep 15 % and more (R14)."""


def own_rules(facts: Facts) -> Iterator[Finding]:
    """Of a script of this service: wrong-parameter, loader-workers, no-deadline, groups-across-folds."""
    own = facts.script.own
    for name, node in own.items():
        whole = isinstance(node.value, int) and not isinstance(node.value, bool)
        if name in COUNTS and not (whole and (node.value or name == "SEED")):
            message = f"{name} = {node.value!r}: it is a whole number{'' if name == 'SEED' else ' over 0'}."
            yield wrong(node, message, f"{name} = {42 if name == 'SEED' else 3 if name == 'PATIENCE' else 1}")
        if name in _CHOICES and node.value not in _CHOICES[name]:
            known = ", ".join(sorted(_CHOICES[name]))
            yield wrong(node, f"{name} = {node.value!r}: the script knows {known}.", f"one of {known}")
        if name in _CHECKS:
            yield from _CHECKS[name](facts, node)


def _workers(facts: Facts, node: ast.Constant) -> Iterator[Finding]:
    if node.value == 0 and facts.context.cpu_count != 1 and not has_reason(facts, node, node):
        message = "NUM_WORKERS = 0: the step waits while the main process reads and prepares each batch."
        yield finding("loader-workers", node, message, "NUM_WORKERS = 8")


def _rate(facts: Facts, node: ast.Constant) -> Iterator[Finding]:
    own, rate = facts.script.own, node.value
    if not isinstance(rate, int | float):
        yield wrong(node, f"LEARNING_RATE = {rate!r} is no number.", "LEARNING_RATE = 0.001")
        return
    most = largest_tuning_rate(facts.script) if "HUB_NAME" in own else LARGEST_RATE["AdamW"]
    if "BATCH_SIZE" in own and not 0 < rate <= most:
        message = f"LEARNING_RATE = {rate:g} with AdamW: training diverges or stands still."
        yield wrong(node, message, f"LEARNING_RATE = {'2e-5' if 'HUB_NAME' in own else '1e-3'}")


def _precision(facts: Facts, node: ast.Constant) -> Iterator[Finding]:
    if node.value == "bf16" and facts.context.bf16 is False and facts.for_card:
        yield wrong(node, f"{facts.context.card} has no bf16 in hardware.", 'PRECISION = "fp16"')
    if node.value == "fp32" and facts.context.tensor_cores and facts.for_card:
        fix = 'PRECISION = "fp16"' if facts.context.bf16 is False else 'PRECISION = "bf16"'
        yield finding("no-mixed-precision", node, "Every step is computed in fp32.", fix)


def _weights(facts: Facts, node: ast.Constant) -> Iterator[Finding]:
    if node.value is False and "weights = os.environ" in facts.script.text:
        message = "PRETRAINED = False with epochs and a rate for pretrained weights."
        yield wrong(node, message, "PRETRAINED = True; WEIGHTS=none in the environment sets all three")


def _groups(facts: Facts, node: ast.Constant) -> Iterator[Finding]:
    split = facts.script.own.get("SPLIT")
    if node.value and split is not None and split.value in ("random", "stratified"):
        message = f"SPLIT = {split.value!r} leaves rows of one {node.value!r} on both sides of the split."
        yield finding("groups-across-folds", split, message, 'SPLIT = "group"')


def _reserve(_facts: Facts, node: ast.Constant) -> Iterator[Finding]:
    if not isinstance(node.value, int | float) or not LEAST_RESERVE <= node.value < 1:
        message = f"RESERVE_SHARE = {node.value!r}: no time is kept for predicting and writing."
        yield finding("no-deadline", node, message, "RESERVE_SHARE = 0.15")


_CHECKS = {
    "NUM_WORKERS": _workers, "LEARNING_RATE": _rate, "PRECISION": _precision, "PRETRAINED": _weights,
    "GROUP_BY": _groups, "RESERVE_SHARE": _reserve,
}  # fmt: skip
