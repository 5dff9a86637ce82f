"""What a training loop of plain PyTorch forgets: to zero gradients, to shuffle, to let go of a loss."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from memory_service.review.analysis.data_loaders import Loader, loaders_of, own_targets
from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.rules.data_loader import has_reason
from memory_service.review.source.nodes import arguments_of, bases_of, calls_in, is_call, last_name, receiver
from memory_service.review.training.training import Loop

_ZEROES = re.compile(r"(?i)zero_?grad|\.grad\s*=\s*None|grad(\.data)?\.(zero|fill)_|deepspeed|LBFGS")
_OPTIMIZER = re.compile(r"^(opt|optim|optimi[sz]er)s?\d*$|_(opt|optim|optimi[sz]er)\d*$", re.IGNORECASE)
_ORDERED = re.compile(r"randperm|permutation|shuffle|sample\(frac|time_?series|stateful", re.IGNORECASE)
_MAP_STYLE = frozenset(
    ("TensorDataset", "ImageFolder", "DatasetFolder", "CIFAR10", "CIFAR100", "MNIST", "FashionMNIST")
)
_LETS_GO = frozenset(("item", "detach", "float", "tolist", "numpy", "cpu_item"))


def loop_rules(facts: Facts) -> Iterator[Finding]:
    """gradients-not-zeroed, train-not-shuffled and loss-keeps-graph."""
    loops = [loop for loop in facts.training.loops if isinstance(loop.batch, ast.For)]
    loops = [loop for loop in loops if isinstance(loop.backward, ast.Call)]
    steps: dict[int, list[ast.Call]] = defaultdict(list)
    for call in facts.script.called("step") if not _ZEROES.search(facts.script.text) else ():
        if loops and _is_optimizer(facts, call):
            steps[id(facts.script.function(call))].append(call)
    for loop in loops:
        yield from _not_zeroed(facts, loop, steps[id(facts.script.function(loop.backward))])
        yield from _keeps_graph(facts, loop)
    in_own_order = _ORDERED.search(facts.script.text.replace("shuffle=", ""))
    for loader in loaders_of(facts) if loops and not in_own_order else ():
        yield from _not_shuffled(facts, loader, loops)


def _not_zeroed(facts: Facts, loop: Loop, steps: Sequence[ast.Call]) -> Iterator[Finding]:
    """Only where nothing in the file zeroes gradients and the optimizer steps beside the backward pass."""
    script = facts.script
    owner = script.class_of(loop.backward)
    if owner is not None and bases_of(owner) - {"object"}:
        return  # what it inherits may zero them
    if not steps or not all(script.loops(step) and loop.batch in script.loops(step) for step in steps):
        return
    assert loop.batch is not None  # noqa: S101 - of a For, as the caller looked
    calls = (call for node in loop.batch.body for call in calls_in(node))
    others = (c for c in script.within_calls(loop.batch.body) if not is_call(c, "step", "unscale_"))
    handed = any(_OPTIMIZER.search(last_name(argument)) for call in others for argument in arguments_of(call))
    if handed or any("torch.optim" in script.qualified(call.func) for call in calls):
        return  # a helper from elsewhere may do anything with it; one made anew has no gradients
    message = "Gradients of all earlier batches are added up: nothing in the file zeroes them."
    fix = "optimizer.zero_grad(set_to_none=True)  # before loss.backward()"
    yield finding("gradients-not-zeroed", loop.backward, message, fix)


def _is_optimizer(facts: Facts, step: ast.Call) -> bool:
    """`optimizer.step()`, `scaler.step(optimizer)`; not with a closure, which zeroes for itself."""
    base = step.args[0] if len(step.args) == 1 else receiver(step)
    named = base is not None and bool(_OPTIMIZER.search(last_name(base)))
    if step.keywords or base is None or (step.args and not named):
        return False
    makers = facts.training.objects.makers(base)
    return named or any(re.match(r"torch\.optim\.\w+$", facts.script.qualified(m.func)) for m in makers)


def _keeps_graph(facts: Facts, loop: Loop) -> Iterator[Finding]:
    """A loss kept as it is, beyond its batch, behind or before the backward pass that is made of it."""
    loss = receiver(loop.backward) if isinstance(loop.backward, ast.Call) else None
    if is_call(loss, "scale") and loss.args:
        loss = loss.args[0]
    batch = loop.batch
    if not isinstance(loss, ast.Name) or not isinstance(batch, ast.For):
        return
    name, inside = loss.id, [n for statement in batch.body for n in ast.walk(statement)]
    if loop.backward not in inside:
        return
    stated = [(to, n.value) for n in inside if isinstance(n, ast.Assign) for to in n.targets]
    if any(is_call(c, *_LETS_GO) for to, value in stated if _is(to, name) for c in calls_in(value)):
        return
    fresh = {to.id for to, _ in stated if isinstance(to, ast.Name)}
    for node in inside:
        holder: ast.AST | None = None
        if isinstance(node, ast.Call) and is_call(node, "append") and len(node.args) == 1:
            holder = receiver(node) if _is(node.args[0], name) else None
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and _is(node.value, name):
            holder = node.target
        contexts = facts.script.contexts(node) if isinstance(node, ast.AugAssign) else ()
        without_grad = any(is_call(context, "no_grad", "inference_mode") for context in contexts)
        if holder is None or last_name(holder) in fresh | {name} or without_grad:
            continue
        message = f"{name!r} is kept as a tensor with its graph on the card: memory grows with every batch."
        yield finding("loss-keeps-graph", node, message, f"{name}.item()  # or {name}.detach()")


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _not_shuffled(facts: Facts, loader: Loader, loops: list[Loop]) -> Iterator[Finding]:
    call, values = loader.call, facts.values
    if loader.role not in ("train", "") or loader.open_ended:
        return
    given = {"sampler": 3, "batch_sampler": 4, "worker_init_fn": None, "generator": None}
    if any(values.argument(call, name, at) is not None for name, at in given.items()):
        return
    shuffle = values.argument(call, "shuffle", 2)
    if shuffle is not None and values.all(shuffle) != [False]:
        return
    if not _is_map_style(facts, call) or not _feeds(facts, loader, loops) or has_reason(facts, call, shuffle):
        return
    message = "The training loader gives the rows in one fixed order in every epoch: "
    message += "shuffle is False." if shuffle is not None else "shuffle is not set, which means False."
    yield finding("train-not-shuffled", call, message, "shuffle=True, drop_last=True")


def _is_map_style(facts: Facts, call: ast.Call) -> bool:
    dataset = facts.values.argument(call, "dataset", 0)
    names = {last_name(maker.func) for maker in facts.training.objects.makers(dataset)}
    own = [facts.script.classes.get(name) for name in names - _MAP_STYLE]
    parts = ([getattr(part, "name", "") for part in owner.body] if owner is not None else [] for owner in own)
    by_key = all("__getitem__" in inside for inside in parts)
    return bool(names) and by_key and not any("IterableDataset" in bases_of(owner) for owner in own)


def _feeds(facts: Facts, loader: Loader, loops: list[Loop]) -> bool:
    """Whether a loop with a backward pass goes over it: by its name in the same function; where the name says
    that it is for training, by name anywhere or as a function's argument."""
    statement = facts.script.statement(loader.place)
    if not isinstance(statement, ast.Assign):
        return False
    names = {last_name(t) for t in own_targets(statement, loader.place)} - {""}
    function = facts.script.function
    beside = [x for x in loops if loader.role or function(x.backward) is function(statement)]
    over = (node for loop in beside if isinstance(loop.batch, ast.For) for node in ast.walk(loop.batch.iter))
    if any(isinstance(node, ast.Name) and node.id in names for node in over):
        return True
    if not loader.role:
        return False
    learning = {getattr(facts.script.function(loop.backward), "name", "") for loop in loops} - {""}
    given = (argument for call in facts.script.called(*sorted(learning)) for argument in arguments_of(call))
    return any(isinstance(argument, ast.Name) and argument.id in names for argument in given)
