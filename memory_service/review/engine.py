"""Runs a review: text, tree, index, then every group of rules.

    review_source(b"...", Asked(task="image-classification")) -> Reviewed

Linear in the length of the script up to bounds that a training script does not reach; what is over them is
said, not followed. Nothing of the script is imported or run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from memory_service.review.constants.mappings import expand
from memory_service.review.constants.values import Values
from memory_service.review.facts import Asked, Facts
from memory_service.review.findings import Finding, finding, in_order
from memory_service.review.rules.data.fit_before_split import split_rules
from memory_service.review.rules.data.label_encoding import code_rules
from memory_service.review.rules.data.split_leakage import row_rules
from memory_service.review.rules.data.target_leakage import target_rules
from memory_service.review.rules.data_loader import loader_rules
from memory_service.review.rules.eval_mode import eval_rules
from memory_service.review.rules.fold_checkpoints import fold_rules
from memory_service.review.rules.fold_ensembles import missing_fold_rules
from memory_service.review.rules.gpu_memory import memory_rules
from memory_service.review.rules.libraries.albumentations import albumentations_rules
from memory_service.review.rules.libraries.boosted_trees import boosting_rules
from memory_service.review.rules.libraries.parameters import parameter_rules
from memory_service.review.rules.libraries.removed_api import removed_api_rules
from memory_service.review.rules.libraries.timm import timm_rules
from memory_service.review.rules.logged_metric import logged_rules
from memory_service.review.rules.loss import loss_rules
from memory_service.review.rules.lr_schedule import step_rules
from memory_service.review.rules.mixed_precision import precision_rules
from memory_service.review.rules.monitored_metric import watched_rules
from memory_service.review.rules.objective import objective_rules
from memory_service.review.rules.probability_metrics import score_rules
from memory_service.review.rules.stopping_and_seeds import time_rules
from memory_service.review.source.parsing import (
    MOST_EXPRESSIONS,
    MOST_TOKENS,
    TooLong,
    Unreadable,
    parsed,
    text_of,
)
from memory_service.review.source.script import Script
from memory_service.review.training.training import Training

MOST_FINDINGS = 200
FAILED = "could not be applied to this script"

_GROUPS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    loader_rules, precision_rules, memory_rules, time_rules, fold_rules, missing_fold_rules, split_rules,
    row_rules, target_rules, code_rules, eval_rules, timm_rules, albumentations_rules, parameter_rules,
    boosting_rules, watched_rules, logged_rules, removed_api_rules, step_rules, score_rules, loss_rules,
    objective_rules,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reviewed:
    """Findings by line, what was left out and why, and the facts (None where the text could not be read)."""

    findings: tuple[Finding, ...]
    not_checked: tuple[str, ...]
    facts: Facts | None


def review_source(script: bytes | str, asked: Asked | None = None) -> Reviewed:
    """The review of a script as far as its text alone tells. TooLarge over 1 MiB; never another error."""
    try:
        text = text_of(script)
        tree = parsed(text)
    except Unreadable as why:
        return Reviewed((finding("syntax-error", why.line, why.why, why.fix),), ("every other rule",), None)
    except TooLong:
        return Reviewed(
            (),
            (f"every rule: over {MOST_TOKENS} tokens, or {MOST_EXPRESSIONS} expressions in one f-string",),
            None,
        )
    script_read = Script(tree, text)
    values = Values(script_read)
    expand(values)
    facts = Facts(script_read, values, Training(script_read, values), asked or Asked())
    found: list[Finding] = []
    left_out: list[str] = []
    for group in _GROUPS:
        try:
            for item in group(facts):
                found.append(item)
                if len(found) > MOST_FINDINGS:
                    break
        except RecursionError:
            left_out.append(f"{group.__name__.replace('_', ' ')}: the script is nested too deep for them")
        except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError) as error:
            # a mistake of a rule costs its findings, not those of all others
            left_out.append(f"{group.__name__.replace('_', ' ')}: {FAILED} ({type(error).__name__})")
    if len(found) > MOST_FINDINGS:
        left_out.append(f"findings past the first {MOST_FINDINGS}")
    return Reviewed(in_order(found), tuple(left_out), facts)
