"""Is training done in mixed precision, and by an interface that stays?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.rules.data_loader import has_reason
from memory_service.review.script import last_name, name_of

__all__ = ["precision_rules", "switched_on"]

_OLD = re.compile(r"torch\.(cuda|cpu)\.amp\.(autocast|GradScaler|custom_fwd|custom_bwd)$")
_PASTE = {
    "autocast": 'torch.amp.autocast("cuda", dtype=torch.bfloat16)',
    "GradScaler": 'torch.amp.GradScaler("cuda")',
    "custom_fwd": 'torch.amp.custom_fwd(device_type="cuda")',
    "custom_bwd": 'torch.amp.custom_bwd(device_type="cuda")',
}


def precision_rules(facts: Facts) -> Iterator[Finding]:
    """no-mixed-precision and deprecated-amp."""
    yield from _deprecated(facts)
    if not facts.for_card or not facts.half_useful:
        return
    yield from _plain(facts)
    yield from _lightning(facts)
    yield from _transformers(facts)
    yield from _keras(facts)
    yield from _fastai(facts)


def _deprecated(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    imported: set[str] = set()
    for node in script.all(ast.ImportFrom):
        module = node.module or ""
        for alias in node.names:
            full = f"{module}.{alias.name}"
            tried = any(isinstance(up, ast.Try) for up in script.above(node))
            if full == "apex.amp" and not tried:
                yield finding("deprecated-amp", node, "apex.amp is not kept up any more.", _PASTE["autocast"])
            if _OLD.match(full) and not _fallback(facts, node):
                imported.add(alias.asname or alias.name)
                names = [a.name for a in node.names]
                yield finding(
                    "deprecated-amp",
                    node,
                    f"{full} is deprecated since torch 2.4.",
                    f"from torch.amp import {', '.join(names)}  # {_PASTE.get(alias.name, '')}",
                )
    for call in script.all(ast.Attribute):
        qualified = script.qualified(call)
        if _OLD.match(qualified) and not _fallback(facts, call):
            name = qualified.rsplit(".", 1)[-1]
            yield finding("deprecated-amp", call, f"{qualified} is deprecated since torch 2.4.", _PASTE[name])


def _fallback(facts: Facts, node: ast.AST) -> bool:
    """Within the `except ImportError` (or a test of the version) that old versions of torch need."""
    for up in facts.script.above(node):
        if isinstance(up, ast.ExceptHandler):
            return True
        if isinstance(up, ast.If | ast.IfExp) and re.search(
            r"version|hasattr|greater_equal|_ge_|available", ast.dump(up.test)[:2000], re.IGNORECASE
        ):
            return True
    return False


def _plain(facts: Facts) -> Iterator[Finding]:
    if "torch" not in facts.training.kinds:
        return
    loops = [
        x
        for x in facts.training.loops
        if x.batch is not None and (x.epoch is None or facts.script.runs(x.epoch))
    ]
    if not loops or not facts.script.runs(loops[0].backward):
        return
    if switched_on(facts):
        return
    place = loops[0].batch or loops[0].backward
    if has_reason(facts, place) and re.search(
        r"fp32|precision|float32|amp", facts.script.comment_near(getattr(place, "lineno", 0))
    ):
        return
    step = loops[0].backward if place in facts.script.loops(loops[0].backward) else place
    yield finding(
        "no-mixed-precision",
        step,
        "Every step is computed in fp32: no autocast, no precision of the trainer.",
        'with torch.amp.autocast("cuda", dtype=torch.bfloat16):\n    loss = criterion(model(images), labels)',
        since=place,
    )


def switched_on(facts: Facts) -> bool:
    """Whether autocast, half weights or a trainer's setting is there; what is switched off does not count."""
    script, values = facts.script, facts.values
    for call in script.called("autocast"):
        enabled, kind = values.argument(call, "enabled"), values.argument(call, "dtype", 1)
        full = kind is not None and last_name(kind) in ("float32", "float", "float64")
        if not full and (enabled is None or values.one(enabled) is not False):
            return True
    if any(_asks_for_half(facts, call) for call in script.called("Accelerator", "Fabric", "initialize")):
        return True
    if any(isinstance(call.func, ast.Attribute) for call in script.called("half", "bfloat16")):
        return True
    typed = [k.value for k in script.all(ast.keyword) if k.arg in _TYPES]
    typed += [argument for call in script.called("to") for argument in call.args]
    if any(re.search(r"'(float16|bfloat16|half)'", ast.dump(node)[:400]) for node in typed):
        return True
    if any(re.search(r"autocast|amp_ctx|amp_context|precision_context", name) for name in script.imports):
        return True
    return any(
        re.search(r".autocast|autocast.|amp_", name_of(item.context_expr))
        for item in script.all(ast.withitem)
    )


_TYPES = ("dtype", "torch_dtype", "param_dtype", "amp_dtype")


def _asks_for_half(facts: Facts, call: ast.Call) -> bool:
    """Accelerator, Fabric or apex with half precision, or with one that cannot be told."""
    values = facts.values
    if facts.script.qualified(call.func).endswith("amp.initialize"):
        return True
    given = values.argument(call, "mixed_precision") or values.argument(call, "precision")
    if given is None:
        return last_name(call.func) == "Accelerator" and values.open_ended(call)
    return values.one(given) not in ("no", "32", 32, "32-true")


def _lightning(facts: Facts) -> Iterator[Finding]:
    if not facts.script.uses("lightning", "pytorch_lightning"):
        return
    for fit in (f for f in facts.training.fits if f.kind == "lightning"):
        for trainer in facts.script.called("Trainer"):
            given = facts.values.argument(trainer, "precision")
            if given is None and facts.values.open_ended(trainer):
                continue
            if facts.values.text(facts.values.argument(trainer, "accelerator")) == "cpu":
                continue
            value = facts.values.one(given)
            if given is None or value in (32, "32", "32-true"):
                yield finding(
                    "no-mixed-precision",
                    given or trainer,
                    "The Trainer computes in fp32, its default."
                    if given is None
                    else f"The Trainer has precision={value!r}.",
                    'precision="bf16-mixed"  # "16-mixed" on cards before Ampere',
                )
        del fit
        return


def _transformers(facts: Facts) -> Iterator[Finding]:
    if "transformers" not in facts.training.kinds:
        return
    for call in facts.training.arguments:
        values = facts.values
        if values.open_ended(call):
            continue
        given = [values.argument(call, name) for name in ("fp16", "bf16", "half_precision_backend")]
        if all(node is None or values.one(node) is False for node in given):
            if values.one(values.argument(call, "use_cpu")) is True or switched_on(facts):
                continue
            yield finding(
                "no-mixed-precision",
                call,
                "Neither fp16 nor bf16 is on: the Trainer computes in fp32.",
                "bf16=True,  # fp16=True on cards before Ampere",
            )


def _keras(facts: Facts) -> Iterator[Finding]:
    if "keras" not in facts.training.kinds or facts.modality == "tabular":
        return
    script = facts.script
    for call in script.called("set_global_policy", "set_policy", "set_dtype_policy", "Policy"):
        policy = facts.values.text(call.args[0] if call.args else None)
        if policy is None or "mixed" in policy or policy in ("bfloat16", "float16"):
            return
    if (
        "mixed_" in script.text
        and "mixed_precision" in script.text
        and script.called("set_global_policy") == []
    ) and any("mixed_float16" in s or "mixed_bfloat16" in s for s in script.strings):
        return
    fit = next(f for f in facts.training.fits if f.kind == "keras")
    yield finding(
        "no-mixed-precision",
        fit.call,
        "Keras computes in float32: no mixed precision policy is set.",
        'keras.mixed_precision.set_global_policy("mixed_float16")  # before the model; outputs float32',
    )


def _fastai(facts: Facts) -> Iterator[Finding]:
    if "fastai" not in facts.training.kinds or facts.script.called("to_fp16", "to_bf16", "MixedPrecision"):
        return
    if facts.modality == "tabular" or facts.script.uses("fastai.tabular"):
        return
    fit = next(f for f in facts.training.fits if f.kind == "fastai")
    yield finding("no-mixed-precision", fit.call, "The learner computes in fp32.", "learn = learn.to_fp16()")
