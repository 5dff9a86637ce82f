"""Is the model in evaluation mode, and are gradients off, where it is judged or predicts?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from memory_service.review.beside import (
    goes_beside_training,
    held_out,
    only_predicts,
    outside_training,
    over_rows,
)
from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.modes import is_ready_made, mode_at, switch_of
from memory_service.review.script import Function, last_name, name_of, words_in

__all__ = ["eval_rules"]

_MODEL = re.compile(
    r"(^|_)(model|net|network|classifier|regressor|unet|student|ema|scorer|backbone|mdl|learner|encoder|"
    r"transformer|cnn|lstm|mlp)\d*$|^m$|^nn_?model",
    re.IGNORECASE,
)
_JUDGES = re.compile(
    r"^_?(valid|eval|test|predict|infer|score|evaluate|run_inference|get_pred)|(_valid|_eval|_validation|"
    r"_predict|_inference|_test)(_|$)|_preds?$|inference|validate|validation|prediction",
    re.IGNORECASE,
)
_ROWS = re.compile(
    r"(^|_)(val|valid|validation|test|dev|holdout|eval|infer|inference|oof|sub|submission)(_|\d|$)|^(val|"
    r"valid|test|eval|dev)(dl|ld|loader|_?set|_?ds|iter)?$|valid|test_?|val_?(loader|dl)|X_va|^xv|^v(l|dl|ld)$",
    re.IGNORECASE,
)
_OFF = frozenset(("no_grad", "inference_mode"))
LONGEST_HEAD = 12
"""Lines from the head of a function to its loop that are shown as one place."""

_STILL_TRAINING = "The model is judged with dropout active and batch norm learning from what it is judged on."
_NOT_ROWS = re.compile(r"train_test|latest|greatest|contest|interval|value", re.IGNORECASE)


def eval_rules(facts: Facts) -> Iterator[Finding]:
    """eval-mode-missing and no-grad-missing, for PyTorch loops of the script's own."""
    script = facts.script
    if not script.uses("torch", "timm", "transformers"):
        return
    seen: set[ast.AST] = set()
    phased = _both_phases(facts)
    batches: dict[ast.AST | None, int] = {
        loop.epoch: script.order[loop.batch] for loop in facts.training.loops if loop.batch is not None
    }
    for call in _shared_passes(facts):
        stated = script.statement(call)
        if stated not in seen:
            seen.add(stated)
            yield finding("eval-mode-missing", stated, _STILL_TRAINING, "model.eval()  # before this call")
    for call in script.calls:
        if not _is_model(facts, call):
            continue
        loop = next((up for up in script.loops(call) if up in phased), None)
        if loop is not None and loop not in seen:
            seen.add(loop)
            yield finding(
                "eval-mode-missing",
                loop,
                "The loop trains in one phase, judges in the other, and nothing switches to evaluation.",
                'model.train(phase == "train")  # before this loop',
            )
        place = _judging(facts, call, batches)
        if place is None or place in seen:
            continue
        seen.add(place)
        if mode_at(facts, call) == "train":
            yield finding(
                "eval-mode-missing",
                place,
                _STILL_TRAINING,
                "model.eval()  # before this loop; model.train() at the start of each epoch",
                since=_pass_of(facts, place),
            )
        if not _without_grad(facts, call):
            yield finding(
                "no-grad-missing",
                place,
                "Every batch keeps the graph for a backward pass that never comes: memory grows, steps "
                "are slower.",
                "with torch.inference_mode():  # around this loop, or as the function's decorator",
                since=_pass_of(facts, place),
            )


def _pass_of(facts: Facts, place: ast.AST) -> Function | None:
    """The function that is nothing but this pass: what is missing may stand anywhere from its head on."""
    script = facts.script
    function = script.function(place)
    if function is None or script.loops(place) or any(
        isinstance(up, ast.If) for up in script.above(place) if up in set(ast.walk(function))
    ):  # fmt: skip
        return None
    trains = {*script.called("backward", "manual_backward")}
    others = [
        n for n in ast.walk(function) if isinstance(n, ast.For) and n is not place and not script.loops(n)
    ]
    if others or any(n in trains for n in script.within(function)):
        return None
    return function if getattr(place, "lineno", 0) - function.lineno <= LONGEST_HEAD else None


def _both_phases(facts: Facts) -> set[ast.AST]:
    """Loops over batches whose backward pass is for one phase only, where no mode is ever switched."""
    script = facts.script
    batches = {loop.batch for loop in facts.training.loops if loop.batch is not None}
    found: set[ast.AST] = set()
    for step in script.called("backward"):
        tests = [up.test for up in script.above(step) if isinstance(up, ast.If)]
        if any(
            isinstance(test, ast.Compare)
            and (
                any(re.search("phase|split|mode|stage", w) for w in words_in(test))
                or _is_a_phase(facts, test, step)
            )
            for test in tests
        ):
            found |= batches & set(script.loops(step))
    switched = any(c.args or c.keywords for c in script.called("train")) or any(
        switch_of(facts, other) == "eval" for other in (script.calls if found else ())
    )
    return set() if switched else found


def _is_a_phase(facts: Facts, test: ast.Compare, step: ast.Call) -> bool:
    """`part == "fit"`, where a loop around goes through the parts."""
    gone_through = {
        n.id
        for loop in facts.script.loops(step) if isinstance(loop, ast.For)
        for n in ast.walk(loop.target) if isinstance(n, ast.Name)
    }  # fmt: skip
    given = [c.value for c in test.comparators if isinstance(c, ast.Constant)]
    return last_name(test.left) in gone_through and any(isinstance(value, str) for value in given)


def _is_own_method(facts: Facts, call: ast.Call) -> bool:
    """`model.validation_step(batch)`: a method of a network of this file that calls the network itself."""
    script = facts.script
    if not (isinstance(call.func, ast.Attribute) and _MODEL.search(last_name(call.func.value))):
        return False
    for method in script.functions.get(call.func.attr, ()):
        owner = script.class_of(method)
        bases = {last_name(b) for b in owner.bases} if owner is not None else set()
        own = any(
            isinstance(n, ast.Call) and (last_name(n.func) in ("self", "forward")) for n in ast.walk(method)
        )
        if (
            own
            and "Module" in bases
            and not words_in(method) & (_OFF | {"eval"})
            and not any(name_of(d) in _OFF for d in method.decorator_list)
        ):
            return True
    return False


def _is_model(facts: Facts, call: ast.Call) -> bool:
    """`model(x)`, `self.model(x)`, `net.forward(x)`; not `Model(...)`."""
    name = last_name(call.func)
    if _is_own_method(facts, call):
        return bool(call.args)
    if name == "forward" and isinstance(call.func, ast.Attribute):
        name = last_name(call.func.value)
        return bool(_MODEL.search(name))
    if not (call.args or call.keywords) or name in facts.script.functions or name in facts.script.classes:
        return False
    if isinstance(call.func, ast.Attribute) and last_name(call.func.value) not in ("self", "ema", "cls"):
        return False
    if facts.script.imports.get(name) or not name or name[0].isupper():
        return False
    around = facts.script.class_of(call)
    if around is not None and any(
        last_name(b) in ("Module", "LightningModule", "LightningDataModule", "Trainer") for b in around.bases
    ):
        return False
    if not _MODEL.search(name) and not _one_of_models(facts, call):
        made = facts.training.made_by(call.func)
        owner = facts.script.classes.get(made)
        if not (
            owner is not None
            and any(last_name(b) in ("Module", "LightningModule", "PreTrainedModel") for b in owner.bases)
        ):
            ready = made in ("create_model", "Sequential") or is_ready_made(facts, call.func)
            return ready and facts.script.uses("torch")
    first = call.args[0] if call.args else None
    return not (isinstance(first, ast.Constant) and isinstance(first.value, str))


def _one_of_models(facts: Facts, call: ast.Call) -> bool:
    """`u(x) for u in unets`: what is called goes through a collection of models."""
    for up in facts.script.above(call):
        over: list[ast.comprehension | ast.For] = []
        if isinstance(up, ast.ListComp | ast.GeneratorExp):
            over = list(up.generators)
        elif isinstance(up, ast.For):
            over = [up]
        for one in over:
            if last_name(one.target) == last_name(call.func) and isinstance(
                one.iter, ast.Name | ast.Attribute
            ):
                held = last_name(one.iter)
                return held.endswith("s") and bool(_MODEL.search(held[:-1]))
    return False


def _judging(facts: Facts, call: ast.Call, batches: Mapping[ast.AST | None, int]) -> ast.AST | None:
    """The loop (or the call) in which the model is judged or predicts; None where it is trained."""
    script = facts.script
    if _in_comprehension(facts, call) or _after_batches(facts, call, batches):
        return script.statement(call)
    loops = script.loops(call)
    function = script.function(call)
    rows = [loop for loop in loops if isinstance(loop, ast.For)]
    near = rows[0] if rows else None
    trains = {*script.called("backward", "manual_backward")}
    bounds: list[ast.AST] = (
        list(near.body) if near is not None else [function] if function is not None else []
    )
    if any(n in trains for n in script.within(bounds)) or (
        near is None and function is None and _feeds_backward(facts, call)
    ):
        return None
    said = set()
    for loop in rows:
        said |= words_in(loop.iter)
        if trains & set(ast.walk(loop)):
            break
    for argument in (*call.args, *(k.value for k in call.keywords)):
        said |= words_in(argument)
    judged = any(_ROWS.search(w) and not _NOT_ROWS.search(w) for w in said)
    if not judged and function is not None:
        judged = bool(_JUDGES.search(function.name)) and not any(n in trains for n in script.within(function))
    if not judged and (fed := only_predicts(facts, call, rows)) is not None:
        return fed
    if not judged and near is not None:  # whatever it is called: evaluation was switched on for it
        judged = bool(facts.training.backwards) and (
            mode_at(facts, call) == "eval" or goes_beside_training(facts, call, near)
        )
    if not judged or any(
        "train" in w.lower() and not re.search("val|test", w.lower())
        for w in said
        if near is not None and w in words_in(near.iter)
    ):
        return None
    if near is not None and not over_rows(near):
        return None
    return near or call


def _after_batches(facts: Facts, call: ast.Call, batches: Mapping[ast.AST | None, int]) -> bool:
    """In the loop over epochs, behind the one over batches, on rows of validation."""
    near = next(iter(facts.script.loops(call)), None)
    if near is None or batches.get(near, facts.script.order[call]) >= facts.script.order[call]:
        return False
    said = {w for a in (*call.args, *(k.value for k in call.keywords)) for w in words_in(a)}
    return bool(said & held_out(facts)) or any(_ROWS.search(w) and not _NOT_ROWS.search(w) for w in said)


def _in_comprehension(facts: Facts, call: ast.Call) -> bool:
    """`[model(x) for x in valid_loader]`: rows are gone through on the spot, and nothing is learned there."""
    for up in facts.script.above(call):
        if isinstance(up, ast.ListComp | ast.GeneratorExp):
            said = {w for generator in up.generators for w in words_in(generator.iter)}
            if any(_ROWS.search(w) and not _NOT_ROWS.search(w) for w in said):
                return True
            return outside_training(facts, call) and (
                _under_no_grad(facts, call)
                or (mode_at(facts, call) == "eval" and bool(facts.training.backwards))
            )
        if isinstance(up, ast.stmt):
            break
    return False


def _under_no_grad(facts: Facts, call: ast.Call) -> bool:
    return any(
        _turns_off(facts, item.context_expr)
        for up in facts.script.above(call) if isinstance(up, ast.With) for item in up.items
    )  # fmt: skip


def _shared_passes(facts: Facts) -> Iterator[ast.Call]:
    """Calls without gradients of a function that trains where it may, and that never switches the mode."""
    script = facts.script
    for step in facts.training.backwards:
        function = script.function(step)
        if function is None or not any(isinstance(up, ast.If) for up in script.above(step)):
            continue
        inside = [c for c in script.calls if script.function(c) is function]
        if not any(_is_model(facts, c) for c in inside) or any(
            last_name(c.func) in ("eval", "train") for c in inside
        ):
            continue
        for call in script.calls_by_name.get(function.name, ()):
            if _under_no_grad(facts, call) and mode_at(facts, call) == "train":
                yield call


def _feeds_backward(facts: Facts, call: ast.Call) -> bool:
    """At module level without a loop: the output leads to a backward pass."""
    statement = facts.script.statement(call)
    targets = {
        n.id for t in getattr(statement, "targets", ()) for n in ast.walk(t) if isinstance(n, ast.Name)
    }
    return (
        bool(targets & {"loss", "out", "outputs", "output", "logits", "pred"})
        and bool(facts.training.backwards)
        and not any(_ROWS.search(w) for a in call.args for w in words_in(a))
    )


def _without_grad(
    facts: Facts, call: ast.Call, deep: int = 0, seen: frozenset[ast.AST] = frozenset()
) -> bool:
    script = facts.script
    for up in script.above(call):
        if isinstance(up, ast.With | ast.AsyncWith):
            for item in up.items:
                if _turns_off(facts, item.context_expr):
                    return True
        if isinstance(up, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and any(
            _turns_off(facts, d) for d in up.decorator_list
        ):
            return True
    for other in script.called("set_grad_enabled"):
        given = facts.values.argument(other, "mode", 0)
        if (
            facts.values.one(given) is not True
            and script.order[other] < script.order[call]
            and not isinstance(script.parents.get(other), ast.withitem)
        ):
            return True
    function = script.function(call)
    if function is None or deep > 4 or function in seen:
        return False
    callers = [c for c in script.calls_by_name.get(function.name, ()) if script.function(c) is not function]
    if not callers:
        return not script.runs(function) and not _judges_itself(function)
    return all(_without_grad(facts, c, deep + 1, seen | {function}) for c in callers)


def _judges_itself(function: Function) -> bool:
    """A helper offered to others that evaluates should not leave that to them."""
    return bool(_JUDGES.search(function.name))


def _turns_off(facts: Facts, node: ast.AST) -> bool:
    name = name_of(node)
    if name in _OFF:
        return True
    if name == "set_grad_enabled" and isinstance(node, ast.Call):
        return facts.values.one(facts.values.argument(node, "mode", 0)) is not True
    if name and name in facts.script.functions:
        return any(last_name(n) in _OFF for n in ast.walk(facts.script.functions[name][0]))
    return bool(re.search(r"no_?grad|inference|eval_mode|evaluat", name, re.IGNORECASE))
