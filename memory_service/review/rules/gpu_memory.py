"""Is the card's memory read, at the right moment, by the right figure?"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.script import Function, last_name, name_of, words, words_in
from memory_service.review.stopping import guards_of
from memory_service.review.training import Loop

__all__ = ["memory_rules"]

_PEAK = words(
    "max_memory_allocated max_memory_reserved memory_reserved mem_get_info nvmlDeviceGetMemoryInfo "
    "memory_cached max_memory_cached memory_summary list_gpu_processes nvidia_smi getGPUs"
)
_NOW = frozenset(("memory_allocated",))
_ANY = _PEAK | _NOW | {"memory_stats", "get_memory_info", "get_memory_usage"}
_SAYS = re.compile(
    r"(gpu|vram|cuda|peak)_?\w*(mem|usage|report|stat|print|log)|"
    r"mem\w*_(gpu|report|log|line|use|stat|peak)|"
    r"(log|print|report|show|read|check|get)\w*_(mem|gpu|vram)|peak_gib|peak_gb|gpu_line|gpu_stat",
    re.IGNORECASE,
)
_PASTE = 'print(f"GPU={torch.cuda.max_memory_allocated() / 2**30:.1f}GB", flush=True)'
_CALLBACKS = re.compile(r"DeviceStats|GPUStats|Memory|Vram|GpuMon|GPUMon|NvidiaSmi|Telemetry", re.IGNORECASE)
_BATCH_HOOKS = re.compile(
    r"on_(train_)?batch_end|on_step_end|on_train_batch_start|after_batch|on_substep_end|training_step|"
    r"on_batch_start"
)
_EPOCH_HOOKS = re.compile(
    r"on_(train_|validation_)?epoch_(end|start)|after_epoch|before_epoch|on_evaluate|on_log|"
    r"after_validate|on_validation_end|epoch_callback"
)
_BEFORE_BACKWARD = words("after_pred after_loss before_backward on_before_backward")
_MOVES = words(
    "to cuda pop get next items dict tuple list len int float long half double bool type view reshape "
    "unsqueeze squeeze permute contiguous detach item time monotonic perf_counter range zip size"
)
"""Calls that fetch and move a batch, or look at the clock."""

_OF_EACH_EPOCH = words(
    "len step i batch_idx torch cuda is_available is_global_zero is_world_process_zero global_rank "
    "local_rank rank"
)
"""What the condition of a reading may ask for and be met in every epoch."""

_MOST_NAMES = 4
_MOST_HELPERS = 2
_MOST_CALLERS = 8
_MOST_READINGS = 20
"""Names that lead to the loss through one another, helpers within one another, callers of each, readings."""


def memory_rules(facts: Facts) -> Iterator[Finding]:
    """memory-read-between-steps, no-memory-at-first-batch, no-memory-every-epoch."""
    yield from _between_steps(facts)
    if not facts.for_card or _by_service(facts):
        return
    done = False
    for loop in facts.training.loops:
        if loop.epoch is None or not facts.script.runs(loop.epoch):
            continue
        if done:
            break
        done = True
        yield from _of_loop(facts, loop)
    for fit in facts.training.fits:
        if fit.kind in ("lightning", "transformers", "keras") and not done:
            done = True
            yield from _of_callbacks(facts, fit.call)


def _between_steps(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    if not facts.training.offers:
        return
    peaks = {
        _where(facts, n) for n in (*script.all(ast.Attribute), *script.all(ast.Name)) if last_name(n) in _PEAK
    }
    if "nvidia-smi" in script.text or re.search(r"\['peak'\]|\[\"peak\"\]", script.text):
        return
    for at, call in enumerate(script.called("memory_allocated")):
        followed = at < _MOST_READINGS
        if _where(facts, call) in peaks or (followed and _between_forward_and_backward(facts, call)):
            continue
        yield finding(
            "memory-read-between-steps",
            call,
            "memory_allocated() between steps shows weights and optimizer only: the activations of the "
            "step, most "
            "of the peak, are freed already. The card looks empty.",
            "torch.cuda.max_memory_allocated() / 2**30  # peak, in GiB; reset_peak_memory_stats() per epoch",
        )
    for subscript in script.all(ast.Subscript):
        key = facts.values.text(subscript.slice)
        made = last_name(subscript.value.func) if isinstance(subscript.value, ast.Call) else ""
        if (made == "get_memory_info" and key == "current") or (
            made == "memory_stats" and key and key.endswith("current")
        ):
            yield finding(
                "memory-read-between-steps",
                subscript,
                f"{made}()[{key!r}] between steps leaves out what the step itself needs.",
                "the entry 'peak' instead",
            )


def _where(facts: Facts, node: ast.AST) -> tuple[ast.AST | None, ast.AST | None]:
    """The function and the innermost loop of a reading: what is read there beside it is shown beside it."""
    return facts.script.function(node), next(iter(facts.script.loops(node)), None)


def _between_forward_and_backward(facts: Facts, call: ast.Call, deep: int = 0) -> bool:
    """Read while the activations live: something that the loss comes from is computed, and the backward pass
    is still to come, in the same loop or function, or around the calls of a helper that reads."""
    script = facts.script
    here, home, loop = script.order[call], script.function(call), next(iter(script.loops(call)), None)
    if home is not None and home.name in _BEFORE_BACKWARD:
        return True

    def beside(node: ast.AST) -> bool:
        return script.function(node) is home and (loop is None or loop in script.loops(node))

    backward = [c for c in facts.training.backwards if beside(c)]
    since = max((script.order[c] for c in backward if script.order[c] < here), default=-1)
    ends: list[ast.AST] = [c for c in backward if script.order[c] > here]
    if home is not None and _leaves_backward(facts, home):
        ends += [n for n in script.all(ast.Return) if beside(n) and script.order[n] > here]
    if not ends and not backward and home is not None and deep < _MOST_HELPERS:
        callers = [c for c in script.calls_by_name.get(home.name, ()) if script.function(c) is not home]
        return 0 < len(callers) <= _MOST_CALLERS and all(
            _between_forward_and_backward(facts, c, deep + 1) for c in callers
        )
    names = {n.id for end in ends for n in ast.walk(end) if isinstance(n, ast.Name)}
    computed = _set_in(facts)
    for _ in range(_MOST_NAMES):
        leading = [node for name in names for node in computed.get((home, name), ()) if beside(node)]
        if any(since < script.order[node] < here and _computes(node.value) for node in leading):
            return True
        names = {n.id for node in leading for n in ast.walk(node.value) if isinstance(n, ast.Name)}
    return False


def _set_in(facts: Facts) -> dict[tuple[ast.AST | None, str], list[ast.Assign]]:
    """(function, name) -> what sets it there; read once a script."""
    held = facts.kept.get("set_in")
    if not isinstance(held, dict):
        held = facts.kept["set_in"] = defaultdict(list)
        for node in facts.script.all(ast.Assign):
            home = facts.script.function(node)
            for name in {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}:
                held[home, name].append(node)
    return held


def _leaves_backward(facts: Facts, function: Function) -> bool:
    """A step that returns the loss, whose backward pass the framework makes."""
    owner = facts.script.class_of(function)
    bases = [last_name(b) for b in owner.bases] if owner is not None else []
    of_trainer = any(base.endswith("Trainer") for base in bases)
    return (function.name == "compute_loss" and of_trainer) or (
        function.name in ("training_step", "forward") and bool(bases) and not of_trainer
    )


def _computes(value: ast.AST) -> bool:
    """Whether a network or a loss may be called, not just data fetched and moved."""
    return any(isinstance(n, ast.Call) and name_of(n) not in _MOVES for n in ast.walk(value))


def _by_service(facts: Facts) -> bool:
    """The client of this service reads the card by itself."""
    return facts.script.uses("memory_service", "wandb", "neptune", "comet_ml", "clearml") and (
        facts.script.uses("memory_service") or bool(facts.script.called("watch_gpu", "log_system_metrics"))
    )


def _reads(facts: Facts, node: ast.AST) -> bool:
    """Whether a node reads memory itself, or calls a helper from elsewhere that says so."""
    if isinstance(node, ast.Attribute | ast.Name) and last_name(node) in _ANY:
        return True
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and "nvidia-smi" in node.value:
        return True
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        return bool(_SAYS.search(name)) and name not in facts.script.functions
    return False


def _of_loop(facts: Facts, loop: Loop) -> Iterator[Finding]:
    script = facts.script
    if loop.epoch is None:
        return
    steps = _steps_listed(facts, loop) if loop.batch is None else None
    if loop.batch is None:  # an imported helper has the batches: it may read there
        first = steps is None or any(_reads(facts, n) for n in script.within(steps)) or _before_epochs(facts)
    else:
        first = any(_reads(facts, n) for n in script.within(loop.batch.body)) or _before_epochs(facts)
    if not first:
        yield finding(
            "no-memory-at-first-batch",
            loop.batch or steps or loop.epoch,
            "Memory is not read after the first batch: a batch far too small shows only when the budget "
            "is gone.",
            f"if step == 0:\n    {_PASTE}",
        )
    if not _every_epoch(facts, loop) and (loop.batch or steps) is not None:
        yield finding(
            "no-memory-every-epoch",
            loop.epoch,
            "Memory is not read in every epoch: a leak or a half-empty card stays unseen.",
            _PASTE,
        )


def _steps_listed(facts: Facts, loop: Loop) -> ast.AST | None:
    """`[train_step(batch) for batch in loader]`: the loop over batches as one expression."""
    step = facts.script.function(loop.backward)
    if step is None or loop.epoch is None or facts.script.function(loop.epoch) is step:
        return None
    for node in facts.script.within(loop.epoch.body):
        if isinstance(node, ast.ListComp | ast.GeneratorExp) and any(
            last_name(call.func) == step.name for call in ast.walk(node.elt) if isinstance(call, ast.Call)
        ):
            return node
    return None


def _before_epochs(facts: Facts) -> bool:
    """A trial batch before the training: a function named for it that reads memory."""
    names = re.compile(r"warm|trial|probe|first_batch|dry|check_mem|sanity|find_batch", re.IGNORECASE)
    for name, functions in facts.script.functions.items():
        if names.search(name) and any(_reads(facts, n) for f in functions for n in facts.script.within(f)):
            return True
    return False


def _every_epoch(facts: Facts, loop: Loop) -> bool:
    script, epoch, batch = facts.script, loop.epoch, loop.batch
    if epoch is None:
        return False
    inner = set(script.within(batch.body)) if batch is not None else set()
    steps = (
        {n.id for n in ast.walk(batch.target) if isinstance(n, ast.Name)}
        if isinstance(batch, ast.For)
        else set()
    )
    for node in script.within(epoch.body):
        if not _reads(facts, node):
            continue
        if node not in inner:
            if not any(_once(test, epoch) for test in guards_of(script, node, epoch)):
                return True
            continue
        guards = guards_of(script, node, batch) if batch is not None else []
        if all(
            words_in(test) <= steps | {"len", "LOG_EVERY", "log_every", "step", "i", "batch_idx"}
            for test in guards
        ):
            return True
    return False


def _once(test: ast.AST, epoch: ast.For | ast.While) -> bool:
    """`if epoch == 0`: only once."""
    named = (
        {n.id for n in ast.walk(epoch.target) if isinstance(n, ast.Name)}
        if isinstance(epoch, ast.For)
        else set()
    )
    return any(
        isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.Eq) and words_in(n.left) & named
        for n in ast.walk(test)
    )


def _again(facts: Facts, name: str, function: Function) -> bool:
    """Whether a hook of batches reads memory in each epoch anew: `if batch_idx == 0` without asking for the
    epoch."""
    if not _BATCH_HOOKS.search(name):
        return False
    steps = {a.arg for a in function.args.args} | _OF_EACH_EPOCH

    def holds(test: ast.AST) -> bool:
        named = words_in(test)
        if any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in ast.walk(test)):
            return not any("epoch" in word for word in named)
        return named <= steps

    ends = [s.test for s in function.body if isinstance(s, ast.If) and isinstance(s.body[-1], ast.Return)]
    return all(holds(test) for test in ends) and any(
        all(holds(test) for test in guards_of(facts.script, node, function))
        for node in ast.walk(function)
        if _reads(facts, node) or _helper_reads(facts, node)
    )


def _helper_reads(facts: Facts, node: ast.AST) -> bool:
    """A helper of the file that reads memory; each is looked through once."""
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return False
    helpers = facts.script.meant(node)
    known = facts.kept.setdefault("helpers_that_read", {})
    for helper in helpers:
        if helper not in known:
            known[helper] = any(_reads(facts, n) for n in facts.script.within(helper))
    return any(known[helper] for helper in helpers)


def _of_callbacks(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """Frameworks with their own loop: a callback, or a hook of the module, reads memory."""
    script = facts.script
    made = (*script.imports, *(last_name(c.func) for c in script.calls))
    named = [n for n in made if n[:1].isupper() and _CALLBACKS.search(n)]
    if any(n not in script.classes for n in named):
        return
    first = every = False
    for name, functions in script.functions.items():
        for function in functions:
            if script.class_of(function) is None and not _EPOCH_HOOKS.search(name):
                continue
            if not script.runs(function):
                continue
            own = script.within(function, follow=False)
            if any(_reads(facts, n) or _helper_reads(facts, n) for n in own):
                first = first or bool(_BATCH_HOOKS.search(name))
                every = every or bool(_EPOCH_HOOKS.search(name)) or _again(facts, name, function)
    for call_of in script.called("LambdaCallback"):
        for keyword in call_of.keywords:
            if keyword.arg and any(_reads(facts, n) for n in script.within(keyword.value)):
                first = first or "batch" in keyword.arg
                every = every or "epoch" in keyword.arg
    if not first:
        yield finding(
            "no-memory-at-first-batch",
            call,
            "Nothing reads memory after the first batch.",
            "a callback whose on_train_batch_end prints the peak at batch 0",
        )
    if not every:
        yield finding(
            "no-memory-every-epoch",
            call,
            "Nothing reads memory in every epoch.",
            "a callback whose on_train_epoch_end prints torch.cuda.max_memory_allocated()",
        )
