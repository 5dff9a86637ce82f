"""What a training loop of plain PyTorch forgets: to zero gradients, to shuffle, to let go of a loss."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding, wrong
from memory_service.review.rules.data_loader import Loader, has_reason, loaders_of, own_targets
from memory_service.review.source.script import (
    arguments_of,
    bases_of,
    calls_in,
    is_call,
    last_name,
    names_in,
    receiver,
    receiver_name,
    texts_in,
    words_in,
)
from memory_service.review.tables import name_sets, patterns
from memory_service.review.training import Loop, guards_of

_RE = patterns("torch_loop")
_SET = name_sets("torch_loop")
_LOGS = ("math.", "numpy.", "torch.", "tensorflow.")
_LETS_GO = frozenset(("item", "detach", "float", "tolist", "numpy", "cpu_item"))


def loop_rules(facts: Facts) -> Iterator[Finding]:
    """Rules of a PyTorch loop, by what `rules.toml` calls them."""
    yield from _across_folds(facts)
    yield from _by_wrong_numbers(facts)
    yield from _on_cpu(facts)
    yield from _overwritten(facts)
    loops = [loop for loop in facts.training.loops if isinstance(loop.batch, ast.For)]
    loops = [loop for loop in loops if isinstance(loop.backward, ast.Call)]
    steps: dict[int, list[ast.Call]] = defaultdict(list)
    for call in facts.script.called("step") if not _RE.zeroes.search(facts.script.text) else ():
        if loops and _is_optimizer(facts, call):
            steps[id(facts.script.function(call))].append(call)
    for loop in loops:
        yield from _not_zeroed(facts, loop, steps[id(facts.script.function(loop.backward))])
        yield from _keeps_graph(facts, loop)
        yield from _accumulated(facts, loop)
        batch = loop.batch or loop.backward
        last = getattr(batch, "body", [None])[-1]
        if isinstance(last, ast.Break) and not any(isinstance(n, ast.Continue) for n in ast.walk(batch)):
            yield finding("result-thrown-away", last, "one-batch")
        for call in calls_in(batch):
            of_torch = re.match(r"torch\.optim\.[A-Z]\w+$", facts.script.qualified(call.func))
            if of_torch and facts.script.loops(call)[:1] == [loop.batch]:
                yield wrong(call, "optimizer-anew", name=last_name(call.func))
    yield from _off_card(facts, loops)
    if facts.training.epoch_loops and not _RE.used.search(facts.script.text):
        yield finding("result-thrown-away", facts.training.epoch_loops[0], "network")
    in_own_order = _RE.ordered.search(facts.script.text.replace("shuffle=", ""))
    for loader in loaders_of(facts) if loops and not in_own_order else ():
        yield from _not_shuffled(facts, loader, loops)


def _by_wrong_numbers(facts: Facts) -> Iterator[Finding]:
    """`10 * np.log(ratio)` of decibels; a mean of a batch that is divided by the rows of it, or of all."""
    script, summed = facts.script, set[str]()
    for node in script.all(ast.BinOp):
        tens = isinstance(node.op, ast.Mult) and facts.values.number(node.left) in (10, 20)
        if tens and is_call(node.right, "log") and script.qualified(node.right.func).startswith(_LOGS):
            yield wrong(node, "decibels")
    for change in script.all(ast.AugAssign) if "reduction" not in script.text else ():
        share = change.value if isinstance(change.value, ast.BinOp) else None
        value = share.left if share is not None else change.value
        if not is_call(value, "item") or "loss" not in receiver_name(value).lower():
            continue
        if share is not None and isinstance(share.op, ast.Div) and _counts_rows(share.right):
            yield wrong(change, "mean-divided", by=ast.unparse(share.right))
        summed |= {last_name(change.target)} if share is None else set()
    for node in script.all(ast.BinOp):
        rows = is_call(node.right, "len") and node.right.args and last_name(node.right.args[0]) == "dataset"
        if rows and isinstance(node.op, ast.Div) and last_name(node.left) in summed:
            yield wrong(node, "mean-divided", by=ast.unparse(node.right))


def _counts_rows(node: ast.AST) -> bool:
    """`x.size(0)`, `x.shape[0]`."""
    return is_call(node, "size") or (isinstance(node, ast.Subscript) and last_name(node.value) == "shape")


def _overwritten(facts: Facts) -> Iterator[Finding]:
    """`loss = f(x).item()` in a loop, after `loss = 0`, and `loss / n` behind it: the last batch counts."""
    script = facts.script
    for loop in script.all(ast.For):
        inside = [node for statement in loop.body for node in ast.walk(statement)]
        searches = any(isinstance(node, ast.Break | ast.Continue) for node in inside)
        read = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        for node in () if searches or is_call(loop.iter, "range") else loop.body:
            set_to = isinstance(node, ast.Assign) and is_call(node.value, "item") and node.targets[0]
            name = set_to.id if isinstance(set_to, ast.Name) else ""
            home, order = script.function(loop), script.order
            before = (n.value for n in script.set_in.get((home, name), ()) if order[n] < order[loop])
            behind = (n for n in script.all(ast.BinOp) if _is(n.left, name) and order[n] > order[loop])
            behind = (n for n in behind if script.function(n) is home and n not in inside)
            begun = any(isinstance(value, ast.Constant) and value.value == 0 for value in before)
            if begun and name not in read and any(isinstance(n.op, ast.Div) for n in behind):
                yield finding("result-thrown-away", node, "overwritten", name=name)


def _off_card(facts: Facts, loops: Sequence[Loop]) -> Iterator[Finding]:
    """Nothing goes to a GPU, and nothing says that the CPU is meant; tables may stay there."""
    rows = facts.script.called("TensorDataset") and not facts.script.called("from_pretrained")
    if facts.modality in ("tabular", "time-series") or rows:
        return
    own = [loop.batch for loop in loops if loop.batch is not None and facts.script.runs(loop.batch)]
    if (
        own
        and facts.context.card != "cpu"
        and not facts.training.on_card
        and "cpu" not in facts.script.text
        and not facts.script.uses("deepspeed")
    ):
        yield finding("not-on-gpu", own[0])


def _on_cpu(facts: Facts) -> Iterator[Finding]:
    """`device = "cpu"`, whatever the machine has."""
    script, named = facts.script, {"device", "device_map"}
    if not facts.training.trains or facts.context.card == "cpu" or _RE.other_device.search(script.text):
        return
    stated = [node.value for node in script.all(ast.Assign) if last_name(node.targets[0]).lower() in named]
    for node in (*stated, *script.given_as(*named)):
        if "cpu" in (facts.values.one(node), facts.text(node, "type", 0) if is_call(node, "device") else ""):
            yield finding("not-on-gpu", node)
            return


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
    handed = any(
        _RE.optimizer.search(last_name(argument)) for call in others for argument in arguments_of(call)
    )
    if handed or any("torch.optim" in script.qualified(call.func) for call in calls):
        return  # a helper from elsewhere may do anything with it; one made anew has no gradients
    yield finding("gradients-not-zeroed", loop.backward)


def _accumulated(facts: Facts, loop: Loop) -> Iterator[Finding]:
    """The optimizer steps once in several batches; gradients are zeroed in each, or no loss is divided."""
    script, batch = facts.script, loop.batch
    assert batch is not None  # noqa: S101 - as the caller looked
    inside = [call for statement in batch.body for call in calls_in(statement)]
    for step in (call for call in inside if is_call(call, "step") and _is_optimizer(facts, call)):
        counts = [_every(facts, test) for test in guards_of(script, step, batch)]
        found = [every for every in counts if every is not None]
        if len(found) != 1:
            continue
        every = found[0]
        optimizer = last_name(step.args[0] if step.args else receiver(step) or step)
        zeroed = [c for c in inside if is_call(c, "zero_grad") and receiver_name(c) == optimizer]
        always = (c for c in zeroed if not guards_of(script, c, batch))
        each = next((c for c in always if script.loops(c)[:1] == [batch]), None)
        count = ast.unparse(every)
        if each is not None:
            yield finding("accumulation-voided", each, optimizer=optimizer, count=count)
        elif not _divides(facts, loop, batch, every):
            place = loop.backward
            yield finding("accumulation-unscaled", place, count=count)
        return


def _every(facts: Facts, test: ast.AST) -> ast.expr | None:
    """`n` of `(step + 1) % n == 0`, where it is not known to be one."""
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return None if facts.values.number(node.right) == 1 else node.right
    return None


def _divides(facts: Facts, loop: Loop, batch: ast.AST, every: ast.expr) -> bool:
    """Whether something divides the loss, or knows over how many batches it is summed."""
    loss = receiver(loop.backward) if isinstance(loop.backward, ast.Call) else None
    loss = loss.args[0] if is_call(loss, "scale") and loss.args else loss
    name = loss.id if isinstance(loss, ast.Name) else ""
    named = {name for name in words_in(every) if name not in ("self", "args", "cfg", "config", "CFG")}
    texts = set(texts_in(every))
    body = batch.body if isinstance(batch, ast.For | ast.While) else []
    for node in facts.script.within([*body, loop.backward]):
        made = isinstance(node, ast.Assign) and any(_is(to, name) for to in node.targets)
        if made and any(isinstance(one, ast.Div) for one in ast.walk(node)):
            return True
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div | ast.Mult):
            parts = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
            if any(words_in(part) & named or set(texts_in(part)) & texts for part in parts):
                return True
            if isinstance(node.op, ast.Div) and (not name or any(_carries(part, name) for part in parts[:1])):
                return True
        given = arguments_of(node) if isinstance(node, ast.Call) else []
        if any(words_in(one) & named or set(texts_in(one)) & texts for one in given):
            return True
    by_wrapper = facts.script.called("Accelerator", "Fabric", "initialize")
    return is_call(loop.backward, "backward") and bool(by_wrapper)


def _across_folds(facts: Facts) -> Iterator[Finding]:
    """The optimizer, or Keras model, of all folds is made before them, and nothing makes it anew."""
    script, training = facts.script, facts.training
    for loop in training.fold_loops:
        inside = list(script.within(loop.body))
        made = {name for n in inside if isinstance(n, ast.Assign) for name in names_in(*n.targets)}
        calls = [n for n in inside if isinstance(n, ast.Call)]
        anew = any(is_call(c, *_SET.resets) or "torch.optim." in script.qualified(c.func) for c in calls)
        ends = any(isinstance(n, ast.Break) and script.loops(n)[:1] == [loop] for n in inside)
        for call in calls if not anew and not ends else ():
            keras = any(fit.call is call and fit.kind == "keras" for fit in training.fits)
            learns = keras or (is_call(call, "step") and _is_optimizer(facts, call))
            holder = call.args[0] if is_call(call, "step") and call.args else receiver(call)
            if not learns or not isinstance(holder, ast.Name) or holder.id in made:
                continue
            makers = [m for m in facts.values.makers(holder) if script.order.get(m, 0) < script.order[loop]]
            of_torch = [m for m in makers if "torch.optim." in script.qualified(m.func)]
            if (makers if keras else of_torch) and len(makers) == len(facts.values.makers(holder)):
                line = getattr(makers[0], "lineno", 0)
                yield finding("model-across-folds", loop, name=holder.id, at=line)
                return


def _is_optimizer(facts: Facts, step: ast.Call) -> bool:
    """`optimizer.step()`, `scaler.step(optimizer)`; not with a closure, which zeroes for itself."""
    base = step.args[0] if len(step.args) == 1 else receiver(step)
    named = base is not None and bool(_RE.optimizer.search(last_name(base)))
    if step.keywords or base is None or (step.args and not named):
        return False
    makers = facts.values.makers(base)
    return named or any(re.match(r"torch\.optim\.\w+$", facts.script.qualified(m.func)) for m in makers)


def _keeps_graph(facts: Facts, loop: Loop) -> Iterator[Finding]:
    """A loss kept as it is, beyond its batch, behind or before the backward pass that is made of it."""
    loss = receiver(loop.backward) if isinstance(loop.backward, ast.Call) else None
    if is_call(loss, "scale") and loss.args:
        loss = loss.args[0]
    if isinstance(loss, ast.Name | ast.BinOp) and isinstance(loop.batch, ast.For):
        for name in sorted(
            names_in(loss) & (_of_rows(loop.batch) if isinstance(loss, ast.BinOp) else {loss.id})
        ):
            yield from _kept(facts, loop, loop.batch, name)


def _of_rows(batch: ast.For) -> set[str]:
    """Names that a loop makes of its batch; not a factor beside it that is drawn, or grows by step."""
    parts: list[ast.AST] = getattr(batch.target, "elts", [batch.target])
    made = names_in(*(parts[-1:] if is_call(batch.iter, "enumerate") else parts))
    for node in (n for statement in batch.body for n in ast.walk(statement) if isinstance(n, ast.Assign)):
        if _tensors(node.value) & made:
            made |= names_in(*node.targets)
    return made


def _tensors(value: ast.AST) -> set[str]:
    """Names that a value is made of, but for numbers of them: `len(x) / n`, `y.mean().item()`."""
    if is_call(value, "len", "size", *_LETS_GO) or getattr(value, "attr", "") == "shape":
        return set()
    parts = (_tensors(part) for part in ast.iter_child_nodes(value))
    return {value.id} if isinstance(value, ast.Name) else set().union(*parts)


def _kept(facts: Facts, loop: Loop, batch: ast.For, name: str) -> Iterator[Finding]:
    """What the backward pass starts from, or a part of it, by its name."""
    inside = [n for statement in batch.body for n in ast.walk(statement)]
    if loop.backward not in inside or not any(_is(to, name) for n in inside for to in _targets(n)):
        return
    stated = [(to, n.value) for n in inside if isinstance(n, ast.Assign) for to in n.targets]
    if any(is_call(c, *_LETS_GO) for to, value in stated if _is(to, name) for c in calls_in(value)):
        return
    fresh = {to.id for to, value in stated if isinstance(to, ast.Name) and to.id not in names_in(value)}
    fresh |= {to.id for to, value in stated if isinstance(to, ast.Name) and any(_let_go(value))}
    for node in inside:
        holder: ast.AST | None = None
        if isinstance(node, ast.Call) and is_call(node, "append") and len(node.args) == 1:
            holder = receiver(node) if _is(node.args[0], name) else None
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and _carries(node.value, name):
            holder = node.target
        elif (
            isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and _carries(node.value, name)
        ):
            to = node.targets[0]
            holder = to if isinstance(to, ast.Name) and to.id in names_in(node.value) else None
        contexts = facts.script.contexts(node) if isinstance(node, ast.AugAssign | ast.Assign) else ()
        without_grad = any(is_call(context, "no_grad", "inference_mode") for context in contexts)
        if holder is None or last_name(holder) in fresh | {name} or without_grad:
            continue
        yield finding("loss-keeps-graph", node, name=name)


def _targets(node: ast.AST) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else []


def _let_go(value: ast.AST) -> Iterator[ast.Call]:
    return (call for call in calls_in(value) if is_call(call, *_LETS_GO))


def _carries(value: ast.AST, name: str) -> bool:
    """Whether arithmetic keeps the graph of a tensor: `loss * n`, `(loss - mean) / step`."""
    if isinstance(value, ast.BinOp):
        return _carries(value.left, name) or _carries(value.right, name)
    if isinstance(value, ast.Call) and is_call(value, "mean", "sum") and not value.args:
        return _is(receiver(value) or value, name)
    return _is(value, name)


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
    why = "False." if shuffle is not None else "not set, which means False."
    yield finding("train-not-shuffled", call, why=why)


def _is_map_style(facts: Facts, call: ast.Call) -> bool:
    dataset = facts.values.argument(call, "dataset", 0)
    names = {last_name(maker.func) for maker in facts.values.makers(dataset)}
    own = [facts.script.classes.get(name) for name in names - _SET.map_style]
    parts = ([getattr(part, "name", "") for part in owner.body] if owner is not None else [] for owner in own)
    by_key = all("__getitem__" in inside for inside in parts)
    return bool(names) and by_key and not any("IterableDataset" in bases_of(owner) for owner in own)


def _feeds(facts: Facts, loader: Loader, loops: list[Loop]) -> bool:
    """Whether a loop that learns goes over it, by its name or as an argument of a function that learns."""
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
