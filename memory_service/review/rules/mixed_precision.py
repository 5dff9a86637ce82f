"""Training in full precision on a card, and deprecated interfaces of mixed precision."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.rules.data_loader import has_reason
from memory_service.review.source.nodes import last_name, name_of
from memory_service.review.tables import name_maps, patterns
from memory_service.review.training import LIGHTNING

_MAP = name_maps("mixed_precision")
_RE = patterns("mixed_precision")
_SCALED = (
    '\n# scaler = torch.amp.GradScaler("cuda") before the loop; the card has no bf16\n'
    "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()"
)
_TYPES = ("dtype", "torch_dtype", "param_dtype", "amp_dtype")


def precision_rules(facts: Facts) -> Iterator[Finding]:
    """no-mixed-precision and deprecated-amp."""
    yield from _deprecated(facts)
    if facts.for_card and facts.context.tensor_cores is not False:
        kinds = facts.training.kinds
        for kind, rule in _FRAMEWORKS.items():
            if kind in kinds:
                yield from rule(facts)


def _deprecated(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    for node in script.all(ast.ImportFrom):
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            if full == "apex.amp" and not any(script.around(node, ast.Try)):
                yield finding("deprecated-amp", node, "apex", paste=_paste(facts, "autocast"))
            if _RE.old.match(full) and not _is_fallback(facts, node):
                names = ", ".join(a.name for a in node.names)
                paste = _paste(facts, alias.name)
                yield finding("deprecated-amp", node, "import", full=full, names=names, paste=paste)
    for named in script.all(ast.Attribute):
        full = script.qualified(named)
        if _RE.old.match(full) and not _is_fallback(facts, named):
            yield finding("deprecated-amp", named, "name", full=full, paste=_paste(facts, named.attr))


def _paste(facts: Facts, name: str) -> str:
    """The interface of now, in fp16 on a card without bf16."""
    return (
        _MAP.paste[name].replace("bfloat16", "float16") if facts.context.bf16 is False else _MAP.paste[name]
    )


def _is_fallback(facts: Facts, node: ast.AST) -> bool:
    """Within the `except ImportError` or the test of the version that old versions of torch need."""
    tests = (ast.dump(up.test)[:2000] for up in facts.script.around(node, ast.If, ast.IfExp))
    return any(facts.script.around(node, ast.ExceptHandler)) or any(map(_RE.tests_version.search, tests))


def _torch(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    loops = [x for x in facts.training.loops if x.batch is not None]
    loops = [x for x in loops if x.epoch is None or script.runs(x.epoch)]
    if not loops or not script.runs(loops[0].backward) or switched_on(facts):
        return
    place = loops[0].batch or loops[0].backward
    comment = script.comment_near(getattr(place, "lineno", 0))
    if has_reason(facts, place) and re.search(r"fp32|precision|float32|amp", comment):
        return
    scaled = _SCALED if facts.context.bf16 is False else ""
    shown = loops[0].backward if place in script.loops(loops[0].backward) else place
    case = "accelerate" if script.called("Accelerator") else "loop"
    yield finding("no-mixed-precision", shown, case, place, paste=_paste(facts, "autocast"), scaled=scaled)


def switched_on(facts: Facts) -> bool:
    """Whether autocast, half weights or a trainer's setting is there; what is switched off does not count."""
    script = facts.script
    for call in script.called("autocast"):
        kind = facts.argument(call, "dtype", 1)
        full = kind is not None and last_name(kind) in ("float32", "float", "float64")
        if not full and facts.value(call, "enabled") is not False:
            return True
    if any(_asks_for_half(facts, call) for call in script.called("Accelerator", "Fabric", "initialize")):
        return True
    if any(isinstance(call.func, ast.Attribute) for call in script.called("half", "bfloat16")):
        return True
    typed = [*script.given_as(*_TYPES), *(given for call in script.called("to") for given in call.args)]
    if any(re.search(r"'(float16|bfloat16|half)'", ast.dump(node)[:400]) for node in typed):
        return True
    if any(re.search(r"autocast|amp_ctx|amp_context|precision_context", name) for name in script.imports):
        return True
    contexts = (name_of(item.context_expr) for item in script.all(ast.withitem))
    return any(re.search(r".autocast|autocast.|amp_", name) for name in contexts)


def _asks_for_half(facts: Facts, call: ast.Call) -> bool:
    """Accelerator, Fabric or apex with half precision, or with an unknown one."""
    if facts.script.qualified(call.func).endswith("amp.initialize"):
        return True
    given = facts.argument(call, "mixed_precision") or facts.argument(call, "precision")
    if given is None:  # `accelerate launch` may say it
        return last_name(call.func) == "Accelerator" and facts.values.open_ended(call)
    return facts.values.one(given) not in ("no", "32", 32, "32-true")


def _lightning(facts: Facts) -> Iterator[Finding]:
    for trainer in facts.script.called("Trainer") if facts.script.uses(*LIGHTNING) else ():
        given = facts.argument(trainer, "precision")
        open_ended = given is None and facts.values.open_ended(trainer)
        if open_ended or facts.text(trainer, "accelerator") == "cpu":
            continue
        value = facts.values.one(given)
        if given is None:
            yield finding("no-mixed-precision", trainer, "trainer-default")
        elif value in (32, "32", "32-true"):
            yield finding("no-mixed-precision", given, "trainer", value=value)


def _transformers(facts: Facts) -> Iterator[Finding]:
    for call in facts.training.arguments:
        given = [facts.argument(call, name) for name in ("fp16", "bf16", "half_precision_backend")]
        on = any(node is not None and facts.values.one(node) is not False for node in given)
        if not on and not facts.values.open_ended(call) and facts.value(call, "use_cpu") is not True:
            yield finding("no-mixed-precision", call, "arguments")


def _keras(facts: Facts) -> Iterator[Finding]:
    for call in facts.script.called("set_global_policy", "set_policy", "set_dtype_policy", "Policy"):
        policy = facts.values.text(call.args[0] if call.args else None)
        if policy is None or "mixed" in policy or policy in ("bfloat16", "float16"):
            return
    if facts.modality != "tabular":
        place = next(fit.call for fit in facts.training.fits if fit.kind == "keras")
        yield finding("no-mixed-precision", place, "keras")


def _fastai(facts: Facts) -> Iterator[Finding]:
    tables = facts.modality == "tabular" or facts.script.uses("fastai.tabular")
    if not tables and not facts.script.called("to_fp16", "to_bf16", "MixedPrecision"):
        place = next(fit.call for fit in facts.training.fits if fit.kind == "fastai")
        yield finding("no-mixed-precision", place, "fastai")


def _ultralytics(facts: Facts) -> Iterator[Finding]:
    for fit in facts.training.fits:
        if fit.kind == "ultralytics" and facts.value(fit.call, "amp") is False:
            place = facts.argument(fit.call, "amp") or fit.call
            yield finding("no-mixed-precision", place, "ultralytics")


_FRAMEWORKS = {
    "torch": _torch, "lightning": _lightning, "transformers": _transformers, "keras": _keras,
    "fastai": _fastai, "ultralytics": _ultralytics,
}  # fmt: skip
