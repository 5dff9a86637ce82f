"""Full precision on a GPU, deprecated interfaces of mixed precision, and readings of the GPU's memory."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.rules.data_loader import has_reason
from memory_service.review.source.script import (
    Function,
    bases_of,
    calls_in,
    is_call,
    last_name,
    name_of,
    names_in,
    parameters_of,
    words_in,
)
from memory_service.review.tables import name_maps, name_sets, patterns
from memory_service.review.training import LIGHTNING, Loop, guards_of

_MAP = name_maps("precision_and_memory")
_RE = patterns("precision_and_memory")
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


_SET = name_sets("precision_and_memory")
_ANY = _SET.peak | {"memory_allocated", "memory_stats", "get_memory_info", "get_memory_usage"}
MOST_NAMES = 4
MOST_HELPERS = 2
MOST_CALLERS = 8
MOST_READINGS = 20


def memory_rules(facts: Facts) -> Iterator[Finding]:
    """memory-read-between-steps, no-memory-at-first-batch, no-memory-every-epoch."""
    if facts.training.offers:
        yield from _between_steps(facts)
    if not facts.for_card or _is_logged(facts) or "tensorflow" in facts.training.kinds:
        return
    for loop in facts.training.loops:
        if loop.epoch is not None and facts.script.runs(loop.epoch):
            yield from _of_loop(facts, loop, loop.epoch)
            return
    for fit in facts.training.fits:
        if fit.kind in ("lightning", "transformers", "keras"):
            yield from _of_callbacks(facts, fit.call)
            return


def _is_logged(facts: Facts) -> bool:
    """The client of this service, or a tracker, reads the card by itself."""
    uses = facts.script.uses
    tracked = facts.script.called("watch_gpu", "log_system_metrics")
    return uses("memory_service") or (bool(tracked) and uses("wandb", "neptune", "comet_ml", "clearml"))


def _between_steps(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    named: list[ast.Attribute | ast.Name] = [*script.all(ast.Attribute), *script.all(ast.Name)]
    peaks = {_where(facts, node) for node in named if last_name(node) in _SET.peak}
    meters = {_meter(facts, node) for node in named if last_name(node) in _SET.peak} - {None}
    if "nvidia-smi" in script.text or re.search(r"\[['\"]peak['\"]\]", script.text):
        return
    for at, call in enumerate(script.called("memory_allocated")):
        followed = at < MOST_READINGS and _between_forward_and_backward(facts, call)
        if not followed and _where(facts, call) not in peaks and _meter(facts, call) not in meters:
            yield finding("memory-read-between-steps", call)


def _where(facts: Facts, node: ast.AST) -> tuple[ast.AST | None, ast.AST | None]:
    """The function and the innermost loop of a reading: what is read there beside it is shown beside it."""
    return facts.script.function(node), next(iter(facts.script.loops(node)), None)


def _meter(facts: Facts, node: ast.AST) -> ast.ClassDef | None:
    """A class that reads memory where it is entered or left."""
    function = facts.script.function(node)
    return facts.script.class_of(node) if getattr(function, "name", "") in ("__enter__", "__exit__") else None


def _between_forward_and_backward(facts: Facts, call: ast.Call, deep: int = 0) -> bool:
    """Read between what computes the loss and its backward pass, here or around the calls of the helper."""
    script, order = facts.script, facts.script.order
    here, (home, loop) = order[call], _where(facts, call)

    def beside(node: ast.AST) -> bool:
        return script.function(node) is home and (loop is None or loop in script.loops(node))

    backward = [c for c in facts.training.backwards if beside(c)]
    since = max((order[c] for c in backward if order[c] < here), default=-1)
    ends: list[ast.AST] = [c for c in backward if order[c] > here]
    if isinstance(home, ast.FunctionDef) and _leaves_backward(facts, home):
        ends += [n for n in script.all(ast.Return) if beside(n) and order[n] > here]
    if not ends and not backward and deep < MOST_HELPERS:
        callers = script.callers(call)
        followed = 0 < len(callers) <= MOST_CALLERS
        return followed and all(_between_forward_and_backward(facts, one, deep + 1) for one in callers)
    names = names_in(*ends)
    for _ in range(MOST_NAMES):
        leading = [n for name in names for n in script.set_in.get((home, name), ()) if beside(n)]
        between = [call for node in leading if since < order[node] < here for call in calls_in(node.value)]
        if any(name_of(call) not in _SET.moves for call in between):  # a network, or a loss
            return True
        names = names_in(*(node.value for node in leading))
    return False


def _leaves_backward(facts: Facts, function: Function) -> bool:
    """A step that returns the loss, whose backward pass the framework makes."""
    bases = bases_of(facts.script.class_of(function))
    if any(base.endswith("Trainer") for base in bases):
        return function.name == "compute_loss"
    return function.name in ("training_step", "forward") and bool(bases)


def _reads(facts: Facts, node: ast.AST) -> bool:
    """Whether a node reads memory itself, or calls a helper from elsewhere that says so."""
    match node:
        case ast.Attribute() | ast.Name():
            return last_name(node) in _ANY
        case ast.Constant(value=str(text)):
            return "nvidia-smi" in text
        case ast.Call():
            return bool(_RE.helper.search(name_of(node))) and name_of(node) not in facts.script.functions
    return False


def _reads_within(facts: Facts, place: ast.AST | list[ast.stmt]) -> bool:
    return any(_reads(facts, node) for node in facts.script.within(place))


def _of_loop(facts: Facts, loop: Loop, epoch: ast.For | ast.While) -> Iterator[Finding]:
    steps = _steps_listed(facts, loop, epoch) if loop.batch is None else None
    batches = loop.batch.body if loop.batch is not None else steps
    # an imported helper that has the batches may read there
    first = batches is None or _reads_within(facts, batches)
    trials = [f for name, found in facts.script.functions.items() if _RE.trial.search(name) for f in found]
    if not first and not any(_reads_within(facts, trial) for trial in trials):  # of a batch before the epochs
        place = loop.batch or steps or epoch
        yield finding("no-memory-at-first-batch", place, "loop")
    if batches is not None and not _every_epoch(facts, loop.batch, epoch):
        yield finding("no-memory-every-epoch", epoch, "loop")


def _steps_listed(facts: Facts, loop: Loop, epoch: ast.For | ast.While) -> ast.AST | None:
    """`[train_step(batch) for batch in loader]`: the loop over batches as one expression."""
    step = facts.script.function(loop.backward)
    if step is None or facts.script.function(epoch) is step:
        return None
    comps = (n for n in facts.script.within(epoch.body) if isinstance(n, ast.ListComp | ast.GeneratorExp))
    return next((c for c in comps if any(is_call(call, step.name) for call in calls_in(c.elt))), None)


def _every_epoch(facts: Facts, batch: ast.For | ast.While | None, epoch: ast.For | ast.While) -> bool:
    script = facts.script
    inner = set(script.within(batch.body)) if batch is not None else set()
    steps = _SET.of_each_batch | (names_in(batch.target) if isinstance(batch, ast.For) else set())
    epochs = names_in(epoch.target) if isinstance(epoch, ast.For) else set()
    for node in script.within(epoch.body):
        if not _reads(facts, node):
            continue
        if node not in inner:
            tests = [n for test in guards_of(script, node, epoch) for n in ast.walk(test)]
            compared = [n for n in tests if isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.Eq)]
            if not any(words_in(n.left) & epochs for n in compared):  # `if epoch == 0`: only once
                return True
        elif batch is not None and all(words_in(test) <= steps for test in guards_of(script, node, batch)):
            return True
    return False


def _of_callbacks(facts: Facts, fit: ast.Call) -> Iterator[Finding]:
    """Frameworks with their own loop: a callback, or a hook of the module, reads memory."""
    script = facts.script
    made = {*script.imports, *script.calls_by_name} - {*script.classes}
    if any(name[:1].isupper() and _RE.callbacks.search(name) for name in made):
        return
    first = every = False
    for function in (f for functions in script.functions.values() for f in functions):
        hook = script.class_of(function) is not None or _RE.epoch_hooks.search(function.name)
        if not hook or not script.runs(function):
            continue
        own = script.within(function, follow=False)
        if any(_reads(facts, n) or _helper_reads(facts, n) for n in own):
            first = first or bool(_RE.batch_hooks.search(function.name))
            every = every or bool(_RE.epoch_hooks.search(function.name)) or _again(facts, function)
    for keyword in (k for c in script.called("LambdaCallback") for k in c.keywords if k.arg):
        if _reads_within(facts, keyword.value):
            first = first or "batch" in str(keyword.arg)
            every = every or "epoch" in str(keyword.arg)
    if not first:
        yield finding("no-memory-at-first-batch", fit, "callbacks")
    if not every:
        yield finding("no-memory-every-epoch", fit, "callbacks")


def _again(facts: Facts, function: Function) -> bool:
    """Whether a hook of batches reads memory in each epoch anew: `if batch_idx == 0`, whatever the epoch."""
    if not _RE.batch_hooks.search(function.name):
        return False
    steps = {*parameters_of(function)} | _SET.of_each_epoch

    def holds(test: ast.AST) -> bool:
        named = words_in(test)
        if any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in ast.walk(test)):
            return not any("epoch" in word for word in named)
        return named <= steps

    ends = [s.test for s in function.body if isinstance(s, ast.If) and isinstance(s.body[-1], ast.Return)]
    reads = (n for n in ast.walk(function) if _reads(facts, n) or _helper_reads(facts, n))
    return all(map(holds, ends)) and any(all(map(holds, guards_of(facts.script, n, function))) for n in reads)


def _helper_reads(facts: Facts, node: ast.AST) -> bool:
    """A helper of the file that reads memory; each is looked through once."""
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return False
    known: dict[ast.AST, bool] = facts.cache.setdefault("helpers_that_read", {})
    helpers = facts.script.resolve(node)
    known |= {helper: _reads_within(facts, helper) for helper in helpers if helper not in known}
    return any(known[helper] for helper in helpers)
