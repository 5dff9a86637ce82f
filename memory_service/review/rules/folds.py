"""Folds that leave no checkpoint of their own; prediction that fails or is wrong while a fold is missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.source.script import (
    arguments_of,
    is_call,
    last_name,
    names_in,
    parameters_of,
    roots,
    texts_in,
    words_in,
)
from memory_service.review.tables import words_of
from memory_service.review.training import LIGHTNING

_RE, _SET, *_ = words_of("folds")
_NO_SAVE = ("numpy.", "PIL.", "matplotlib.", "json.", "yaml.")
MOST_NAMES = 4  # names within names that are followed to settings


def fold_rules(facts: Facts) -> Iterator[Finding]:
    """no-fold-checkpoint: a fold that writes nothing, or all to the same file."""
    loops = facts.training.fold_loops
    outer = (loop for loop in loops if not set(loops) & {*facts.script.above(loop)})
    for loop in (loop for loop in outer if facts.training.fold_count(loop) != 1):
        saves = [c for c in facts.script.within_calls(loop.body) if _saves(facts, c)]
        imported = any(facts.training.trains_elsewhere(n) for n in facts.script.within(loop.body))
        written, off = _by_trainers(facts, [*facts.script.within_calls(loop.body)])
        if not saves and not imported and not written:
            place = off or loop
            found = finding("no-fold-checkpoint", place, "none")
            yield replace(found, severity="note") if facts.training.kinds <= _SET.of_minutes else found
        elif saves and all(_same_path(facts, c) for c in saves):
            yield finding("no-fold-checkpoint", saves[0], "same-file")


def _saves(facts: Facts, call: ast.Call) -> bool:
    name, qualified = last_name(call.func), facts.script.qualified(call.func)
    if name in _SET.saves:
        return not qualified.startswith(_NO_SAVE)
    helper = isinstance(call.func, ast.Name) and _RE.saving_helper.search(name)
    return qualified == "os.replace" or (bool(helper) and name not in facts.script.functions)


def _same_path(facts: Facts, call: ast.Call) -> bool:
    """The file's name is the same whatever the fold: a constant all the way."""
    name = last_name(call.func)
    counts = facts.value(call, "enable_version_counter") is not False  # it puts -v1, -v2 behind the name
    formatted = any("{" in text for text in texts_in(call))
    if name == "ModelCheckpoint" and facts.script.uses(*LIGHTNING) and (counts or formatted):
        return False
    given = [a.args[0] if is_call(a, "open") and a.args else a for a in arguments_of(call)]
    same = [a for a in given if _is_fixed(facts, a)]
    others = [a for a in given if a not in same]
    joined = (ast.JoinedStr, ast.BinOp)
    made = any(isinstance(a, joined) or any(map(_RE.path.search, words_in(a))) for a in others)
    texts = ((facts.values.text(a), facts.values.origin(a)) for a in same)
    files = (texts_in(origin)[-1:] if text is None else [text] for text, origin in texts)
    return not made and any(_RE.file.search(name) for names in files for name in names)


def _is_fixed(facts: Facts, node: ast.AST, deep: int = 0) -> bool:
    """Whether a path is the same for each fold: of texts, settings, and names set to such, in no loop."""
    if isinstance(node, ast.Constant) or deep > MOST_NAMES:
        return isinstance(node, ast.Constant)
    joined = is_call(node, "join", "Path", "str", "joinpath")
    if joined or isinstance(node, ast.BinOp | ast.JoinedStr | ast.FormattedValue):
        inner = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
        return all(_is_fixed(facts, part, deep) for part in (arguments_of(node) if joined else inner))  # type: ignore[arg-type]
    if not isinstance(node, ast.Name | ast.Attribute) or last_name(node) in facts.script.imports:
        return isinstance(node, ast.Name | ast.Attribute)
    sources = facts.values.definitions(node)
    set_here = facts.values.assigned(node.id, node) if isinstance(node, ast.Name) else sources
    if None in sources or any(facts.script.loops(source) for source in set_here if source is not None):
        return False
    if {last_name(node), last_name(getattr(node, "value", node))} & _SET.settings:
        return True
    return bool(sources) and all(s is not None and _is_fixed(facts, s, deep + 1) for s in sources)


def _by_trainers(facts: Facts, calls: list[ast.Call]) -> tuple[bool, ast.AST | None]:
    """(whether trainers that a fold calls write checkpoints, where they are told not to)."""
    trainer = ("Trainer",) if facts.script.uses(*LIGHTNING) else ()
    known = [call for call in calls if is_call(call, *_SET.arguments, *trainer)]
    open_to = (c for c in known if is_call(c, *trainer) or facts.text(c, "output_dir", 0) is None)
    written = any(_no_checkpoints(facts, call) is None for call in open_to)
    return written, next((place for call in known if (place := _no_checkpoints(facts, call))), None)


def _no_checkpoints(facts: Facts, call: ast.Call) -> ast.AST | None:
    """`save_strategy="no"`, `enable_checkpointing=False`."""
    given = facts.argument(call, "save_strategy") or facts.argument(call, "enable_checkpointing")
    off = given is not None and (last_name(given) == "NO" or facts.values.one(given) in ("no", False))
    return given if off else None


needs_all = partial(finding, "prediction-needs-all-folds")
Comprehension = ast.ListComp | ast.GeneratorExp


def missing_fold_rules(facts: Facts) -> Iterator[Finding]:
    """prediction-needs-all-folds: every checkpoint loaded unseen, or a share of the folds planned."""
    if any(_RE.loads.match(name) for name in facts.script.calls_by_name):
        yield from _loaded_unseen(facts)
    yield from _fixed_share(facts)


def _loaded_unseen(facts: Facts) -> Iterator[Finding]:
    """`for fold in range(N_FOLDS): load(f"fold_{fold}.pt")` where nothing asks whether the file is there."""
    script, trained = facts.script, set(facts.training.fold_loops)
    for loop in (x for x in script.all(ast.For) if x not in trained and _is_range_of_folds(facts, x.iter)):
        loads = [c for c in script.within_calls(loop.body) if _loads_fold(facts, c, loop, loop.target)]
        if loads and not _is_checked(facts, loop):
            place = loads[0] if script.function(loads[0]) is script.function(loop) else loop
            yield needs_all(place, "loop", loop)
    training = {node for loop in trained for node in script.within(loop.body)}
    whole = (c for c in script.all(ast.ListComp, ast.GeneratorExp) if c not in training)
    numbered = ((c, c.generators[0]) for c in whole if _is_range_of_folds(facts, c.generators[0].iter))
    for comp, over in ((c, over) for c, over in numbered if not over.ifs):
        loads_fold = any(_loads_fold(facts, c, comp, over.target) for c in script.within_calls(comp.elt))
        if loads_fold and not _is_checked(facts, comp):
            yield needs_all(comp, "expression")


def _fixed_share(facts: Facts) -> Iterator[Finding]:
    """`test_pred += model.predict(test) / N_FOLDS`: wrong as soon as one fold is missing."""
    training = facts.training
    trained, fits = set(training.fold_loops), set(training.fits)
    for change in facts.script.all(ast.AugAssign):
        whole = change.value
        divisions = [n for n in ast.walk(whole) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
        scaled = isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Div | ast.Mult)
        loops = [up for up in facts.script.loops(change) if up in trained or training.is_fold(up)]
        if not isinstance(change.op, ast.Add) or not scaled or not divisions or not loops:
            continue
        share = divisions[0].right
        learning = (up for up in loops if up in trained or fits & {*facts.script.within_calls(up.body)})
        over, number = next(learning, None), facts.values.number(share)
        fixed = isinstance(over, ast.For) and number is not None and number == training.fold_count(over)
        counted = is_call(share, "len") and not re.search(r"fold|split", " ".join(roots(share)).lower())
        if (fixed or _says_folds(share)) and not counted and (over is None or _may_leave_out(facts, over)):
            yield needs_all(change, "planned-share")


def _may_leave_out(facts: Facts, loop: ast.For | ast.While) -> bool:
    """Whether a loop over folds can pass one over or end early; else the sum over folds is right."""
    inside = [*facts.script.within(loop.body, follow=False)]
    ends = (node for node in inside if isinstance(node, ast.Break | ast.Continue))
    own = any(facts.script.loops(node)[0] is loop for node in ends)
    return own or any(isinstance(node, ast.Return | ast.Try) for node in inside)


def _says_folds(node: ast.AST) -> bool:
    """`N_FOLDS`, `cfg.folds`, `CONFIG["n_folds"]`."""
    keys = [n.slice for n in ast.walk(node) if isinstance(n, ast.Subscript)]
    found = words_in(node) | {str(key.value) for key in keys if isinstance(key, ast.Constant)}
    return any(_RE.folds.search(word) for word in found)


def _is_range_of_folds(facts: Facts, node: ast.AST) -> bool:
    """`range(N_FOLDS)`, `range(5)`, `[0, 1, 2]`, `CFG.folds`, or the paths of all folds written down."""
    if isinstance(node, ast.Call) and node.args:
        if is_call(node, "tqdm", "enumerate"):
            return _is_range_of_folds(facts, node.args[0])
        counted = bool(facts.values.number(node.args[0])) or _says_folds(node.args[0])
        return is_call(node, "range", "trange") and counted
    if isinstance(node, ast.List | ast.Tuple):
        found = facts.values.one(node)
        listed = found if isinstance(found, list) else [None]
        numbered = len(listed) > 1 and all(isinstance(v, str) and _RE.numbered.search(v) for v in listed)
        return numbered or all(isinstance(v, int) for v in listed)
    if isinstance(node, Comprehension):
        over = node.generators[0]
        named = re.search(r"fold|cv", ast.dump(node.elt) + ast.dump(over.iter), re.IGNORECASE)
        return bool(named) and not over.ifs and _is_range_of_folds(facts, over.iter)
    sources = facts.values.assigned(node.id, node) if isinstance(node, ast.Name) else []
    if len(sources) == 1 and isinstance(sources[0], ast.ListComp):
        return _is_range_of_folds(facts, sources[0])
    named = re.search(r"folds$", last_name(node), re.IGNORECASE)
    return bool(named) and facts.values.one(node) is not None


def _loads_fold(facts: Facts, call: ast.Call, around: ast.AST, target: ast.AST) -> bool:
    """A load whose path has the loop's variable in it."""
    others = facts.script.qualified(call.func).startswith(("json.", "yaml.", "numpy."))
    if others or not _RE.loads.match(last_name(call.func)):
        return False
    names, given = names_in(target), arguments_of(call)
    read = [n for g in given for n in ast.walk(g) if isinstance(n, ast.Name)]
    paths = [*given, *(path for name in read for path in facts.values.assigned(name.id, name))]
    function = facts.script.function(call)
    helper = function is not None and function is not facts.script.function(around)
    parameters = parameters_of(function) if function is not None and helper else []
    handed = any(re.search(r"fold|path|ckpt|weight", name, re.IGNORECASE) for name in parameters)
    return handed or any(words_in(path) & names for path in paths)


def _is_checked(facts: Facts, around: ast.AST) -> bool:
    """Existence is looked at, or a missing file is caught."""
    nodes = [*facts.script.within(around), *facts.script.above(around)]
    called = {last_name(n.func) for n in nodes if isinstance(n, ast.Call)}
    looked = any(name in _SET.checks or re.search(r"exist|available|find_", name) for name in called)
    return looked or any(isinstance(n, ast.Try) for n in nodes)
