"""Loops of plain PyTorch: what they forget, and evaluation mode and gradients where a model is judged."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding, wrong
from memory_service.review.rules.hardware import Loader, has_reason, loaders_of, own_targets
from memory_service.review.source.script import (
    Function,
    arguments_of,
    bases_of,
    calls_in,
    grouped,
    is_call,
    is_of_self,
    keyword_names,
    last_name,
    name_of,
    names_in,
    parameters_of,
    receiver,
    receiver_name,
    texts_in,
    words_in,
)
from memory_service.review.tables import words_of
from memory_service.review.training import Loop, guards_of

_RE, _SET, *_ = words_of("torch_loop")


def words_passed(call: ast.Call) -> set[str]:
    return {word for argument in arguments_of(call) for word in words_in(argument)}


def goes_beside_training(facts: Facts, call: ast.Call, near: ast.For) -> bool:
    """A loop over batches beside the one that trains: the model gets its rows, and nothing is learned."""
    script, function, home = facts.script, facts.script.function(call), facts.script.loops(near)[:1]
    if (function is not None and _RE.other_passes.search(function.name)) or _within(facts, near):
        return False
    supervised = {ast.dump(loop.iter) for loop in facts.training.batches if isinstance(loop, ast.For)}
    if not words_passed(call) & names_in(near.target) or ast.dump(near.iter) in supervised:
        return False
    behind = (s for s in facts.training.backwards if script.order[s] > script.order[near])
    behind = (s for s in behind if script.loops(s)[:1] == home)
    if any(home or function is None or function in script.above(step) for step in behind):
        return False
    callers = script.callers(call) if function is not None and not home else []
    return bool(function is None or home or callers) and not any(_within(facts, c) for c in callers)


def _within(facts: Facts, node: ast.AST) -> bool:
    """Within the loop that trains, and not only at some steps: `if step % 500 == 0:`."""
    trained = facts.training.batches
    for up in facts.script.above(node):
        sometimes = isinstance(up, ast.If) and any(isinstance(n, ast.Mod) for n in ast.walk(up.test))
        if up in trained or sometimes or isinstance(up, Function):
            return up in trained
    return False


def only_predicts(facts: Facts, call: ast.Call, rows: list[ast.For]) -> ast.For | None:
    """In a file that learns nothing and loads weights: the loop whose batches the model gets."""
    script, called = facts.script, facts.script.called
    loads = called("load_state_dict") or any(script.qualified(c.func) == "torch.load" for c in called("load"))
    if facts.training.backwards or facts.training.offers or not loads:
        return None
    passed = words_passed(call)
    return next((loop for loop in rows if names_in(loop.target) & passed), None)


_READY_MADE = ("torchvision.models.", "timm.create_model", "segmentation_models_pytorch.")
MOST_CALLERS = 4  # functions above one another that are followed


def mode_at(facts: Facts, call: ast.Call, seen: frozenset[ast.AST] = frozenset()) -> str:
    """ "eval", "train" or "" where it is unknown."""
    script, function = facts.script, facts.script.function(call)
    earlier = takewhile(lambda other: script.order[other] < script.order[call], script.calls)
    beside = (other for other in earlier if script.function(other) is function)
    switches = [(switch, other) for other in beside if (switch := switch_of(facts, other))]
    for last, since in reversed(switches):
        around = [up for up in script.around(since, ast.If) if isinstance(up.test, ast.Name)]
        off = [up for up in around if facts.values.one(up.test) is False and up not in script.above(call)]
        if not any(since in ast.walk(part) for up in off for part in up.body):  # `if TRAIN:` that is False
            anew = last == "eval" and _made_anew(facts, call, script.order[since])
            return "train" if anew else last
    if function is None:
        return "" if _comes_in_eval(facts) else "train"
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    loads = (c for c in script.called("load_state_dict") if script.function(c) is function)
    if any(receiver_name(load) in stored for load in loads):
        return "train"  # it makes the model that it loads weights into: nobody can have switched it before
    if len(seen) > MOST_CALLERS or function in seen:
        return ""
    found = {mode_at(facts, caller, seen | {function}) for caller in script.callers(call)}
    if "train" in found and not _comes_in_eval(facts):
        return "train"
    return "eval" if found == {"eval"} else ""


def _made_anew(facts: Facts, call: ast.Call, since: int) -> bool:
    """The network that is called, or handed on, was built after the last switch: that was of another one."""
    script, order = facts.script, facts.script.order
    used = {ast.unparse(n) for n in (call.func, *call.args) if isinstance(n, ast.Name) or is_of_self(n)}
    before = takewhile(lambda node: order[node] < order[call], script.all(ast.Assign))
    beside = (node for node in before if script.function(node) is script.function(call))
    built = [node for node in beside if any(ast.unparse(target) in used for target in node.targets)]
    if not built or order[built[-1]] <= since:
        return False
    value = built[-1].value  # `timm.create_model(...).cuda()`, `Net()`, `build()`: in training mode
    called = {name_of(call) for call in calls_in(value)}
    helpers = (f for name in called for f in facts.script.functions.get(name, ()))
    if _SET.switched & (called | {name_of(call) for helper in helpers for call in calls_in(helper)}):
        return False
    made = facts.values.made_by(value)
    own = bases_of(facts.script.classes.get(made)) & {"Module", "LightningModule"}
    return bool(own) or made in ("create_model", "Sequential") or is_ready_made(facts, value)


def is_ready_made(facts: Facts, node: ast.AST) -> bool:
    """A network of torchvision, timm or segmentation_models_pytorch, also by a helper of the file."""
    makers = facts.values.makers(node)
    return any(facts.script.qualified(maker.func).startswith(_READY_MADE) for maker in makers)


def switch_of(facts: Facts, call: ast.Call) -> str:
    """What a call does to the mode of the model: itself, or as a function of this file does last."""
    name, model = last_name(call.func), receiver(call)
    if model is not None and name == "eval" and not call.args:
        return "eval"
    if model is not None and name == "train" and len(call.args) <= 1 and keyword_names(call) <= {"mode"}:
        if call.args or call.keywords:
            value = facts.value(call, "mode", 0)
            return "eval" if value is False else "train" if value is True else ""
        owner = facts.script.classes.get(facts.values.made_by(model))
        own = (facts.script.class_of(f) is owner for f in facts.script.functions.get("train", ()))
        return "" if owner is not None and any(own) else "train"
    helpers = facts.script.functions.get(name, ()) if model is None or is_of_self(call.func) else ()
    inside = [call for helper in helpers[:1] for call in calls_in(helper) if receiver(call) is not None]
    switches = [switch_of(facts, call) for call in inside if last_name(call.func) in ("eval", "train")]
    return next((switch for switch in reversed(switches) if switch), "")


def _comes_in_eval(facts: Facts) -> bool:
    """from_pretrained hands models out in evaluation mode; nothing here trains them."""
    called = facts.script.called
    loaded = called("from_pretrained", "load", "load_model") and not called("load_state_dict")
    return bool(loaded) and not called("backward")


LONGEST_HEAD = 12  # lines from the head of a function to its loop that are shown as one place


def eval_rules(facts: Facts) -> Iterator[Finding]:
    """eval-mode-missing and no-grad-missing, for PyTorch loops of the script's own."""
    script = facts.script
    if not script.uses("torch", "timm", "transformers"):
        return
    shared = dict.fromkeys(script.statement(call) for call in _shared_passes(facts))
    for stated in shared:
        yield finding("eval-mode-missing", stated, "call")
    seen = set(shared)
    yield from _trained_in_evaluation(facts)
    phased = _both_phases(facts)
    for call in (c for c in script.calls if _is_model(facts, c)):
        loop = next((up for up in script.loops(call) if up in phased), None)
        if loop is not None and loop not in seen:
            seen.add(loop)
            yield finding("eval-mode-missing", loop, "phases")
        place = _judging(facts, call)
        if place is None or place in seen:
            continue
        seen.add(place)
        if mode_at(facts, call) == "train":
            yield finding("eval-mode-missing", place, "loop", _single_pass(facts, place))
        if not _without_grad(facts, call):
            yield finding("no-grad-missing", place, "it", _single_pass(facts, place))


def _trained_in_evaluation(facts: Facts) -> Iterator[Finding]:
    """`model.eval()` in the loop over batches, then `model(x)` and the backward pass of it."""
    script = facts.script
    directly_in = grouped((inner, call) for call in script.calls for inner in script.loops(call)[:1])
    for loop in facts.training.loops:
        modes: dict[str, ast.Call] = {}
        for call in directly_in.get(loop.batch, ()) if loop.batch is not None else ():
            name, switch = receiver_name(call), modes.get(last_name(call.func))
            learns = script.order[call] < script.order[loop.backward] and not _under_no_grad(facts, call)
            if name and switch_of(facts, call):
                modes[name] = call
            elif switch is not None and learns and switch_of(facts, switch) == "eval":
                yield finding("eval-mode-missing", switch, "trained", model=name or "model")
                return


def _single_pass(facts: Facts, place: ast.AST) -> Function | None:
    """The function that is nothing but this pass: what is missing may stand anywhere from its head on."""
    script, function = facts.script, facts.script.function(place)
    head = getattr(place, "lineno", 0) - function.lineno if function is not None else LONGEST_HEAD + 1
    if function is None or script.loops(place) or head > LONGEST_HEAD:
        return None
    inside = set(ast.walk(function))
    guarded = inside & {*script.around(place, ast.If)}
    others = (n for n in inside if isinstance(n, ast.For) and n is not place and not script.loops(n))
    return None if guarded or any(others) or _learns(facts, [function]) else function


def _learns(facts: Facts, places: Iterable[ast.AST]) -> bool:
    return any(is_call(c, *_SET.backward) for c in facts.script.within_calls(places))


def _both_phases(facts: Facts) -> set[ast.AST]:
    """Loops over batches whose backward pass is for one phase only, where no mode is ever switched."""
    script = facts.script
    found: set[ast.AST] = set()
    for step in script.called("backward"):
        parts = names_in(*(loop.target for loop in script.loops(step) if isinstance(loop, ast.For)))
        tests = [up.test for up in script.around(step, ast.If) if isinstance(up.test, ast.Compare)]
        named = any(last_name(t.left) in parts and any(map(texts_in, t.comparators)) for t in tests)
        if named or any(_RE.phase.search(word) for test in tests for word in words_in(test)):
            found |= facts.training.batches & set(script.loops(step))
    switched = any(c.args or c.keywords for c in script.called("train"))
    return set() if switched or any(found and switch_of(facts, c) == "eval" for c in script.calls) else found


def _is_model(facts: Facts, call: ast.Call) -> bool:
    """`model(x)`, `self.model(x)`; not `Model(...)`."""
    script, name, base = facts.script, last_name(call.func), receiver(call)
    if _is_own_method(facts, call):
        return bool(call.args)
    if not name or name[0].isupper() or not (call.args or call.keywords):
        return False
    known = name in script.functions or name in script.classes or name in script.imports
    if known or (base is not None and last_name(base) not in ("self", "ema", "cls")):
        return False
    if bases_of(script.class_of(call)) & {"Module", "LightningModule", "LightningDataModule", "Trainer"}:
        return False
    if not _RE.model.search(name) and not _is_one_of_models(facts, call):
        made = facts.values.made_by(call.func)
        if not bases_of(script.classes.get(made)) & _SET.modules:
            ready = made in ("create_model", "Sequential") or is_ready_made(facts, call.func)
            return ready and script.uses("torch")
    return not (call.args and isinstance(getattr(call.args[0], "value", None), str))


def _is_own_method(facts: Facts, call: ast.Call) -> bool:
    """`model.validation_step(batch)`: a method of a network of this file that calls the network itself."""
    if not _RE.model.search(receiver_name(call)):
        return False
    methods = facts.script.functions.get(last_name(call.func), ())
    own = (method for method in methods if "Module" in bases_of(facts.script.class_of(method)))
    plain = (method for method in own if not words_in(method) & (_SET.off | {"eval"}))
    return any(last_name(c.func) in ("self", "forward") for method in plain for c in calls_in(method))


def _is_one_of_models(facts: Facts, call: ast.Call) -> bool:
    """`u(x) for u in unets`: what is called goes through a collection of models."""
    around = [one for up in facts.script.above(call) for one in getattr(up, "generators", [up])]
    loops = (one for one in around if isinstance(one, ast.For | ast.comprehension))
    over = (last_name(one.iter) for one in loops if last_name(one.target) == last_name(call.func))
    name = next(filter(None, over), "")
    return name.endswith("s") and bool(_RE.model.search(name[:-1]))


def _names_rows(words: Iterable[str]) -> bool:
    return any(_RE.rows.search(word) and not _RE.not_rows.search(word) for word in words)


def _judging(facts: Facts, call: ast.Call) -> ast.AST | None:
    """The loop (or the call) in which the model is judged or predicts; None where it is trained."""
    script = facts.script
    if _in_comprehension(facts, call) or _after_batches(facts, call):
        return script.statement(call)
    function = script.function(call)
    rows = [loop for loop in script.loops(call) if isinstance(loop, ast.For)]
    near = rows[0] if rows else None
    around: list[ast.AST] = [*near.body] if near is not None else [function] if function is not None else []
    if _learns(facts, around):
        return None
    learns = [any(is_call(node, *_SET.backward) for node in ast.walk(loop)) for loop in rows]
    until = learns.index(True) + 1 if True in learns else len(rows)
    judged = _names_rows(words_passed(call).union(*(words_in(loop.iter) for loop in rows[:until])))
    if not judged and function is not None:
        judged = bool(_RE.judges.search(function.name)) and not _learns(facts, [function])
    if not judged and (supervised := only_predicts(facts, call, rows)) is not None:
        return supervised
    if not judged and near is not None and facts.training.backwards:  # evaluation was switched on for it
        judged = mode_at(facts, call) == "eval" or goes_beside_training(facts, call, near)
    if near is None or not judged:
        return call if judged else None
    named = [word.lower() for word in words_in(near.iter)]
    return None if any("train" in word and not re.search("val|test", word) for word in named) else near


def _after_batches(facts: Facts, call: ast.Call) -> bool:
    """In the loop over epochs, behind the one over batches, on rows of validation."""
    near, order, found = facts.script.loops(call)[:1], facts.script.order, words_passed(call)
    batches = [loop.batch for loop in facts.training.loops if loop.batch and [loop.epoch] == near]
    if not batches or order[batches[-1]] >= order[call]:
        return False
    stated = (facts.script.parents[split] for split in facts.script.called("train_test_split"))
    parts = (getattr(s.targets[0], "elts", []) for s in stated if isinstance(s, ast.Assign))
    held_out = {last_name(part) for split in parts for part in split[1::2]}  # `X_b` and `y_b` of four
    return bool(found & held_out) or _names_rows(found)


def _in_comprehension(facts: Facts, call: ast.Call) -> bool:
    """`[model(x) for x in valid_loader]`: rows are gone through on the spot, and nothing is learned there."""
    for up in facts.script.above(call):
        if isinstance(up, ast.ListComp | ast.GeneratorExp):
            if _names_rows(word for generator in up.generators for word in words_in(generator.iter)):
                return True
            evaluated = mode_at(facts, call) == "eval" and bool(facts.training.backwards)
            learning = facts.training.batches & {*facts.script.above(call)}
            return not learning and (_under_no_grad(facts, call) or evaluated)
        if isinstance(up, ast.stmt):
            break
    return False


def _under_no_grad(facts: Facts, call: ast.Call) -> bool:
    return any(_turns_off(facts, context) for context in facts.script.contexts(call))


def _shared_passes(facts: Facts) -> Iterator[ast.Call]:
    """Calls without gradients of a function that trains where it may, and that never switches the mode."""
    script = facts.script
    for step in facts.training.backwards:
        function = script.function(step)
        if function is None or not any(script.around(step, ast.If)):
            continue
        inside = [c for c in script.calls if script.function(c) is function]
        switched = any(last_name(c.func) in ("eval", "train") for c in inside)
        if not switched and any(_is_model(facts, c) for c in inside):
            calls = script.calls_by_name.get(function.name, ())
            yield from (c for c in calls if _under_no_grad(facts, c) and mode_at(facts, c) == "train")


def _without_grad(facts: Facts, call: ast.Call, seen: frozenset[ast.AST] = frozenset()) -> bool:
    script, function = facts.script, facts.script.function(call)
    around = script.around(call, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    decorators = (decorator for up in around for decorator in up.decorator_list)
    if _under_no_grad(facts, call) or any(_turns_off(facts, decorator) for decorator in decorators):
        return True
    switches = (c for c in script.called("set_grad_enabled") if script.order[c] < script.order[call])
    plain = (c for c in switches if not isinstance(script.parents.get(c), ast.withitem))
    if any(_turns_off(facts, switch) for switch in plain):
        return True
    if function is None or len(seen) > 4 or function in seen:
        return False
    callers = script.callers(call)
    if not callers:  # a helper offered to others that evaluates should not leave that to them
        return not script.runs(function) and not _RE.judges.search(function.name)
    return all(_without_grad(facts, caller, seen | {function}) for caller in callers)


def _turns_off(facts: Facts, node: ast.AST) -> bool:
    name = name_of(node)
    if name == "set_grad_enabled" and isinstance(node, ast.Call):
        return facts.value(node, "mode", 0) is not True
    return bool(_RE.turns_off.search(name))


def loop_rules(facts: Facts) -> Iterator[Finding]:
    """Rules of a PyTorch loop, by what `rules.toml` calls them."""
    yield from _across_folds(facts)
    yield from _by_wrong_numbers(facts)
    yield from _on_cpu(facts)
    loops = [loop for loop in facts.training.loops if isinstance(loop.batch, ast.For)]
    loops = [loop for loop in loops if isinstance(loop.backward, ast.Call)]
    for loop in loops:
        batch: Any = loop.batch
        yield from _not_zeroed(facts, loop, batch)
        yield from _keeps_graph(facts, loop, batch)
        yield from _accumulated(facts, loop, batch)
        last = batch.body[-1]
        if isinstance(last, ast.Break) and not any(isinstance(n, ast.Continue) for n in ast.walk(batch)):
            yield finding("result-thrown-away", last, "one-batch")
        for call in calls_in(batch):
            if _is_of_torch(facts, call) and facts.script.loops(call)[:1] == [batch]:
                yield wrong(call, "optimizer-anew", name=last_name(call.func))
    yield from _off_card(facts, loops)
    in_own_order = _RE.ordered.search(facts.script.text.replace("shuffle=", ""))
    for loader in loaders_of(facts) if loops and not in_own_order else ():
        yield from _not_shuffled(facts, loader, loops)


def _by_wrong_numbers(facts: Facts) -> Iterator[Finding]:
    """A mean of a batch that is divided by the rows of it, or of all."""
    script, summed = facts.script, set[str]()
    singly = names_in(*(loop.iter for loop in facts.training.batches if isinstance(loop, ast.For)))
    for change in script.all(ast.AugAssign) if "reduction" not in script.text else ():
        share = change.value if isinstance(change.value, ast.BinOp) else None
        value = share.left if share is not None else change.value
        if not is_call(value, "item") or "loss" not in receiver_name(value).lower() or _is_sum(facts, value):
            continue
        by = share.right if share is not None and isinstance(share.op, ast.Div) else None  # `x.size(0)`
        shape = isinstance(by, ast.Subscript) and last_name(by.value) == "shape"  # `x.shape[0]`
        if by is not None and (shape or is_call(by, "size")):
            yield wrong(change, "mean-divided", by=ast.unparse(by))
        summed |= {last_name(change.target)} if share is None else set()
    for node in script.all(ast.BinOp) if "dataset" not in singly else ():
        shared = isinstance(node.op, ast.Div) and last_name(node.left) in summed
        if shared and is_call(node.right, "len") and "dataset" in map(last_name, node.right.args[:1]):
            yield wrong(node, "mean-divided", by=ast.unparse(node.right))


def _is_sum(facts: Facts, item: ast.Call) -> bool:
    """A function or class of the file adds up what it is the loss of, not rows that are right."""
    made = [call for one in facts.values.sources(receiver(item) or item) for call in calls_in(one)]
    classes = [facts.script.classes.get(facts.values.made_by(call.func)) for call in made]
    inside = facts.script.within_calls([*made, *(one for one in classes if one is not None)])
    return any(is_call(call, "sum") for call in inside)


def _off_card(facts: Facts, loops: Sequence[Loop]) -> Iterator[Finding]:
    """Nothing goes to a GPU, and nothing says that the CPU is meant; tables may stay there."""
    script = facts.script
    rows = script.called("TensorDataset") and not script.called("from_pretrained")
    own = [loop.batch for loop in loops if loop.batch is not None and script.runs(loop.batch)]
    meant = facts.modality in ("tabular", "time-series") or facts.context.card == "cpu"
    meant = meant or "cpu" in script.text or script.uses("deepspeed") or facts.training.on_card
    if own and not rows and not meant:
        yield finding("not-on-gpu", own[0])


def _on_cpu(facts: Facts) -> Iterator[Finding]:
    """`device = "cpu"`, whatever the machine has."""
    script, named = facts.script, ("device", "device_map")
    meant = facts.context.card == "cpu" or facts.modality == "tabular" or script.called("TensorDataset")
    own = facts.training.backwards or script.uses("ultralytics")  # Trainers move the network themselves
    stated = [node.value for node in script.all(ast.Assign) if last_name(node.targets[0]).lower() in named]
    for node in (*stated, *script.given_as(*named)) if own and not meant else ():
        made = facts.text(node, "type", 0) if is_call(node, "device") else ""
        if "cpu" in (facts.values.one(node), made) and not _RE.other_device.search(script.text):
            yield finding("not-on-gpu", node)
            return


def _not_zeroed(facts: Facts, loop: Loop, batch: ast.For) -> Iterator[Finding]:
    """Only where nothing in the file zeroes gradients and the optimizer steps beside the backward pass."""
    script, home = facts.script, facts.script.function
    if _RE.zeroes.search(script.text) or bases_of(script.class_of(loop.backward)) - {"object"}:
        return  # what it inherits may zero them
    steps = [c for c in script.called("step") if home(c) is home(loop.backward) and _is_optimizer(facts, c)]
    others = (c for c in script.within_calls(batch.body) if not is_call(c, "step", "unscale_"))
    handed = (last_name(argument) for call in others for argument in arguments_of(call))
    inside = bool(steps) and all(batch in script.loops(c) for c in steps)
    if not inside or any(map(_RE.optimizer.search, handed)):
        return  # a helper from elsewhere may do anything with it
    calls = (call for node in batch.body for call in calls_in(node))
    if not any("torch.optim" in script.qualified(call.func) for call in calls):  # made anew it has none
        yield finding("gradients-not-zeroed", loop.backward)


def _accumulated(facts: Facts, loop: Loop, batch: ast.For) -> Iterator[Finding]:
    """The optimizer steps once in several batches; gradients are zeroed in each, or no loss is divided."""
    script = facts.script
    inside = [call for statement in batch.body for call in calls_in(statement)]
    for step in (call for call in inside if is_call(call, "step") and _is_optimizer(facts, call)):
        tests = ([n for n in ast.walk(t) if isinstance(n, ast.BinOp)] for t in guards_of(script, step, batch))
        rests = ([n.right for n in each if isinstance(n.op, ast.Mod)] for each in tests)
        found = [each[0] for each in rests if each and facts.values.number(each[0]) != 1]  # `% n == 0`
        if len(found) != 1:
            continue
        optimizer = last_name(step.args[0] if step.args else receiver(step) or step)
        zeroed = [c for c in inside if is_call(c, "zero_grad") and receiver_name(c) == optimizer]
        always = (c for c in zeroed if not guards_of(script, c, batch))
        each = next((c for c in always if script.loops(c)[:1] == [batch]), None)
        count = ast.unparse(found[0])
        if each is not None:
            yield finding("accumulation-voided", each, optimizer=optimizer, count=count)
        elif not _divides(facts, loop, batch, found[0]):
            yield finding("accumulation-unscaled", loop.backward, count=count)
        return


def _divides(facts: Facts, loop: Loop, batch: ast.For, every: ast.expr) -> bool:
    """Whether something divides the loss, or knows over how many batches it is summed."""
    loss = _loss_of(loop.backward)
    name = loss.id if isinstance(loss, ast.Name) else ""
    named = {name for name in words_in(every) if name not in ("self", "args", "cfg", "config", "CFG")}
    texts = set(texts_in(every))
    for node in facts.script.within([*batch.body, loop.backward]):
        given = arguments_of(node) if isinstance(node, ast.Call) else []
        if isinstance(node, ast.Assign) and any(_is(to, name) for to in node.targets):
            if any(isinstance(one, ast.Div) for one in ast.walk(node)):
                return True
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div | ast.Mult):
            given = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.target, node.value]
            if isinstance(node.op, ast.Div) and (not name or _carries(given[0], name)):
                return True
        if any(words_in(one) & named or set(texts_in(one)) & texts for one in given):
            return True
    by_wrapper = facts.script.called("Accelerator", "Fabric", "initialize")
    return is_call(loop.backward, "backward") and bool(by_wrapper)


def _across_folds(facts: Facts) -> Iterator[Finding]:
    """The optimizer, or Keras model, of all folds is made before them, and nothing makes it anew."""
    script, training = facts.script, facts.training
    for loop in (one for one in script.all(ast.For) if training.is_fold(one)):
        inside = list(script.within(loop.body))
        made = {name for n in inside if isinstance(n, ast.Assign) for name in names_in(*n.targets)}
        calls = [n for n in inside if isinstance(n, ast.Call)]
        anew = any(is_call(c, *_SET.resets) or "torch.optim." in script.qualified(c.func) for c in calls)
        ends = any(isinstance(n, ast.Break) and script.loops(n)[:1] == [loop] for n in inside)
        for call in calls if not anew and not ends else ():
            trainer = is_call(call, "Trainer") and "train_dataset" in keyword_names(call)
            keras = training.fits.get(call) == "keras"
            learns = keras or trainer or (is_call(call, "step") and _is_optimizer(facts, call))
            first = call.args[0] if is_call(call, "step") and call.args else receiver(call)
            holder = facts.argument(call, "model", 0) if trainer else first
            if not learns or not isinstance(holder, ast.Name) or holder.id in made:
                continue
            makers, home = facts.values.makers(holder), script.function(loop)
            known = makers if keras else [m for m in makers if "torch.optim." in script.qualified(m.func)]
            at = makers[0].lineno if makers else 0
            if trainer and home is not None and holder.id in parameters_of(home):
                at = home.lineno
            if (known or (trainer and at)) and all(
                script.order.get(m, 0) < script.order[loop] for m in makers
            ):
                yield finding("model-across-folds", loop, name=holder.id, at=at)
                return


def _is_optimizer(facts: Facts, step: ast.Call) -> bool:
    """`optimizer.step()`, `scaler.step(optimizer)`; not with a closure, which zeroes for itself."""
    base = step.args[0] if len(step.args) == 1 else receiver(step)
    named = base is not None and bool(_RE.optimizer.search(last_name(base)))
    if step.keywords or base is None or (step.args and not named):
        return False
    return named or any(_is_of_torch(facts, maker) for maker in facts.values.makers(base))


def _is_of_torch(facts: Facts, call: ast.Call) -> bool:
    return bool(re.match(r"torch\.optim\.[A-Z]\w+$", facts.script.qualified(call.func)))


def _loss_of(backward: ast.AST) -> ast.AST | None:
    """`loss` of `loss.backward()`, `scaler.scale(loss).backward()`."""
    loss = receiver(backward)
    return loss.args[0] if is_call(loss, "scale") and loss.args else loss


def _keeps_graph(facts: Facts, loop: Loop, batch: ast.For) -> Iterator[Finding]:
    """A loss kept as it is, beyond its batch, behind or before the backward pass that is made of it."""
    loss = _loss_of(loop.backward)
    names = {loss.id} if isinstance(loss, ast.Name) else set()
    if isinstance(loss, ast.BinOp):  # without a factor that is not made of the batch
        parts: list[ast.AST] = getattr(batch.target, "elts", [batch.target])
        made = names_in(*(parts[-1:] if is_call(batch.iter, "enumerate") else parts))
        for node in (n for statement in batch.body for n in ast.walk(statement) if isinstance(n, ast.Assign)):
            made |= names_in(*node.targets) if _tensors(node.value) & made else set()
        names = names_in(loss) & made
    for name in sorted(names):
        yield from _kept(facts, loop, batch, name)


def _tensors(value: ast.AST) -> set[str]:
    """Names that a value is made of, but for numbers of them: `len(x) / n`, `y.mean().item()`."""
    if is_call(value, "len", "size", *_SET.lets_go) or getattr(value, "attr", "") == "shape":
        return set()
    parts = (_tensors(part) for part in ast.iter_child_nodes(value))
    return {value.id} if isinstance(value, ast.Name) else set().union(*parts)


def _kept(facts: Facts, loop: Loop, batch: ast.For, name: str) -> Iterator[Finding]:
    """What the backward pass starts from, or a part of it, by its name."""
    inside = [n for statement in batch.body for n in ast.walk(statement)]
    stated = [(to, n.value) for n in inside if isinstance(n, ast.Assign) for to in n.targets]
    made = [value for to, value in stated if _is(to, name)]
    plain = {v for _, v in stated if any(is_call(call, *_SET.lets_go) for call in calls_in(v))}
    if loop.backward not in inside or not made or plain.intersection(made):
        return
    named = [(to.id, value) for to, value in stated if isinstance(to, ast.Name)]
    fresh = {to for to, value in named if to not in names_in(value) or value in plain} | {name}
    for node in inside:
        holder: ast.AST | None = None
        if isinstance(node, ast.Call) and is_call(node, "append") and len(node.args) == 1:
            holder = receiver(node) if _is(node.args[0], name) else None
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and _carries(node.value, name):
            holder = node.target
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            to, again = node.targets[0], _carries(node.value, name)
            holder = to if again and isinstance(to, ast.Name) and to.id in names_in(node.value) else None
        contexts = facts.script.contexts(node) if isinstance(node, ast.AugAssign | ast.Assign) else ()
        without_grad = any(is_call(context, *_SET.off) for context in contexts)
        if holder is not None and last_name(holder) not in fresh and not without_grad:
            yield finding("loss-keeps-graph", node, name=name)


def _carries(value: ast.AST, name: str) -> bool:
    """Whether arithmetic keeps the graph of a tensor: `loss * n`, `(loss - mean) / step`."""
    if isinstance(value, ast.BinOp):
        return _carries(value.left, name) or _carries(value.right, name)
    return _is(value, name)


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _not_shuffled(facts: Facts, loader: Loader, loops: list[Loop]) -> Iterator[Finding]:
    call, values = loader.call, facts.values
    given = {"sampler": 3, "batch_sampler": 4, "worker_init_fn": None, "generator": None}
    others = any(values.argument(call, name, at) is not None for name, at in given.items())
    shuffle = values.argument(call, "shuffle", 2)
    mixed = shuffle is not None and values.all(shuffle) != [False]
    if loader.role not in ("train", "") or loader.open_ended or others or mixed:
        return
    if _is_map_style(facts, call) and _feeds(facts, loader, loops) and not has_reason(facts, call, shuffle):
        why = "False." if shuffle is not None else "not set, which means False."
        yield finding("train-not-shuffled", call, why=why)


def _is_map_style(facts: Facts, call: ast.Call) -> bool:
    dataset = facts.values.argument(call, "dataset", 0)
    names = {last_name(maker.func) for maker in facts.values.makers(dataset)}
    own = [facts.script.classes.get(name) for name in names - _SET.map_style]
    parts = ([getattr(part, "name", "") for part in getattr(owner, "body", [])] for owner in own)
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
    over = names_in(*(loop.batch.iter for loop in beside if isinstance(loop.batch, ast.For)))
    learning = {getattr(function(loop.backward), "name", "") for loop in loops if loader.role} - {""}
    given = (argument for call in facts.script.called(*sorted(learning)) for argument in arguments_of(call))
    return bool(names & (over | {last_name(one) for one in given if isinstance(one, ast.Name)}))
