"""Settings at the head of a script of this service that make no sense there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding, wrong
from memory_service.review.rules.hardware import has_reason
from memory_service.review.rules.libraries.parameters import largest_tuning_rate
from memory_service.review.rules.loss import against_metric
from memory_service.review.tables import words_of

_RE, _SET, _, _MAP = words_of("own_settings")
COUNTS = _SET.counts
_LOSSES = {"labels": "ce", "values": "mse"}  # what is learned -> the kind of loss

LARGEST_RATE = 0.05  # of AdamW
LEAST_RESERVE = 0.05  # of the minutes; plans keep more (R14)


def own_rules(facts: Facts) -> Iterator[Finding]:
    """Settings of a script of this service, under the rules that other scripts break elsewhere."""
    for name, node in facts.script.own.items():
        whole = isinstance(node.value, int) and not isinstance(node.value, bool)
        if name in COUNTS and not (whole and (node.value or name == "SEED")):
            over, usual = ("", 42) if name == "SEED" else (" over 0", 3 if name == "PATIENCE" else 1)
            yield wrong(node, "whole-number", name=name, value=node.value, over=over, usual=usual)
        known = ", ".join(sorted(_MAP.choices.get(name, "").split()))
        if known and node.value not in known.split(", "):
            yield wrong(node, "choice", name=name, value=node.value, known=known)
        yield from _of_setting(facts, name, node)


def _of_setting(facts: Facts, name: str, node: ast.Constant) -> Iterator[Finding]:
    own, context = facts.script.own, facts.context
    value: Any = node.value
    match name:
        case "NUM_WORKERS" if value == 0 and context.cpu_count != 1 and not has_reason(facts, node, node):
            yield finding("loader-workers", node, "own")
        case "LEARNING_RATE" if not isinstance(value, int | float):
            yield wrong(node, "no-number", value=value)
        case "LEARNING_RATE" if "BATCH_SIZE" in own:
            tuned = "HUB_NAME" in own
            if not 0 < value <= (largest_tuning_rate(facts.script) if tuned else LARGEST_RATE):
                yield wrong(node, "own-rate", value=value, usual="2e-5" if tuned else "1e-3")
        case "PRECISION" if value == "bf16" and context.bf16 is False and facts.for_card:
            yield wrong(node, "no-bf16", card=context.card)
        case "PRECISION" if value == "fp32" and context.tensor_cores and facts.for_card:
            half = "fp16" if context.bf16 is False else "bf16"
            yield finding("no-mixed-precision", node, "own", half=half)
        case "PRETRAINED" if value is False and "weights = os.environ" in facts.script.text:
            yield wrong(node, "not-pretrained")
        case "ANSWER" if "BATCH_SIZE" in own and (why := against_metric(facts, _LOSSES.get(value, ""))):
            yield finding("wrong-loss", node, why[0], **why[1])
        case "GROUP_BY" if value and "SPLIT" in own and own["SPLIT"].value in ("random", "stratified"):
            split = own["SPLIT"]
            yield finding("groups-across-folds", split, "own", split=split.value, group=value)
        case "RESERVE_SHARE" if not isinstance(value, int | float) or not LEAST_RESERVE <= value < 1:
            yield finding("no-deadline", node, "reserve", value=value)
