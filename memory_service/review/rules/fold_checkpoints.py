"""Folds that leave no checkpoint of their own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.source.nodes import arguments_of, is_call, last_name, texts_in, words, words_in
from memory_service.review.training.training import LIGHTNING

_SAVES = words(
    "save save_model save_pretrained save_weights dump save_checkpoint ModelCheckpoint save_state "
    "save_file booster_save model_to_file to_pickle write_checkpoint dump_model save_state_dict "
    "SaveModelCallback BackupAndRestore export atomic_save write_bytes"
)
_NO_SAVE = ("numpy.", "PIL.", "matplotlib.", "json.", "yaml.")
_SAVING_HELPER = re.compile(r"save|checkpoint|ckpt|persist|store_model|dump", re.IGNORECASE)
_ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments")
_SETTINGS = words("cfg config conf hparams opt args settings")
_FILE = re.compile(r"\.\w{1,12}$|/|model|best|ckpt")
_PATH = re.compile(r"path|file|name|ckpt|dir|fold|out|dest", re.IGNORECASE)
_OF_MINUTES = {"boosting", "sklearn"}  # what is trained again soon
MOST_NAMES = 4  # names within names that are followed to settings


def fold_rules(facts: Facts) -> Iterator[Finding]:
    """no-fold-checkpoint: a fold that writes nothing, or all to the same file."""
    loops = facts.training.fold_loops
    for loop in loops:
        if set(loops) & {*facts.script.above(loop)} or facts.training.folds.count(loop) == 1:
            continue
        saves = [c for c in facts.script.within_calls(loop.body) if _saves(facts, c)]
        imported = any(facts.training.trains_elsewhere(n) for n in facts.script.within(loop.body))
        if not saves and not imported and not _trainer_saves(facts, loop):
            place = _switched_off(facts, loop) or loop
            found = finding("no-fold-checkpoint", place, "none")
            yield replace(found, severity="note") if facts.training.kinds <= _OF_MINUTES else found
        elif saves and all(_same_path(facts, c) for c in saves):
            yield finding("no-fold-checkpoint", saves[0], "same-file")


def _saves(facts: Facts, call: ast.Call) -> bool:
    name, qualified = last_name(call.func), facts.script.qualified(call.func)
    if name in _SAVES:
        return not qualified.startswith(_NO_SAVE)
    helper = isinstance(call.func, ast.Name) and _SAVING_HELPER.search(name)
    return qualified == "os.replace" or (bool(helper) and name not in facts.script.functions)


def _same_path(facts: Facts, call: ast.Call) -> bool:
    """The file's name is the same whatever the fold: a constant all the way."""
    name = last_name(call.func)
    if name in ("ModelCheckpoint", "BackupAndRestore") or name.endswith("Callback"):
        places = (("filename", None), ("filepath", 0), ("dirpath", 0), ("fname", 0))
        given = [facts.argument(call, parameter, position) for parameter, position in places]
        known = [facts.values.all(g) for g in given if g is not None]
        fixed = bool(known) and all(k is not None for k in known)
        if name == "ModelCheckpoint" and facts.script.uses(*LIGHTNING):
            formatted = any("{" in str(v) for k in known for v in k or ())  # else -v1, -v2 is put behind it
            return fixed and not formatted and facts.value(call, "enable_version_counter") is False
        return fixed
    if name == "dump":
        opened = [c for c in ast.walk(call) if is_call(c, "open") and c.args]
        if opened and facts.values.text(opened[0].args[0]):
            return True
    same = [a for a in arguments_of(call) if _is_fixed(facts, a)]
    others = [a for a in arguments_of(call) if a not in same]
    if any(isinstance(a, ast.JoinedStr | ast.BinOp) or any(map(_PATH.search, words_in(a))) for a in others):
        return False
    return any(_FILE.search(text) for a in same for text in _texts(facts, a)[-1:])


def _texts(facts: Facts, node: ast.AST) -> list[str]:
    """The literal texts of a path, the file's name last."""
    text = facts.values.text(node)
    return [text] if text is not None else texts_in(facts.values.origin(node))


def _is_fixed(facts: Facts, node: ast.AST, deep: int = 0) -> bool:
    """Whether a path is the same whatever the fold: made of texts, of settings of the run, and of names that
    are set to such, in no loop."""
    if isinstance(node, ast.Constant) or deep > MOST_NAMES:
        return isinstance(node, ast.Constant)
    if isinstance(node, ast.BinOp | ast.JoinedStr | ast.FormattedValue):
        parts = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
        return all(_is_fixed(facts, part, deep) for part in parts)
    if isinstance(node, ast.Call):
        if is_call(node, "parse_args", "load", "safe_load", *facts.script.classes):
            return not facts.script.loops(node)
        path = is_call(node, "join", "Path", "str", "joinpath")
        return path and all(_is_fixed(facts, part, deep) for part in arguments_of(node))
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    if last_name(node) in facts.script.imports:
        return True
    sources = facts.values.definitions(node)
    set_here = facts.values.assigned(node.id, node) if isinstance(node, ast.Name) else sources
    if None in sources or any(facts.script.loops(source) for source in set_here if source is not None):
        return False
    named = {last_name(node), last_name(node.value) if isinstance(node, ast.Attribute) else ""}
    if named & _SETTINGS:
        return True
    return bool(sources) and all(s is not None and _is_fixed(facts, s, deep + 1) for s in sources)


def _trainer_saves(facts: Facts, loop: ast.For) -> bool:
    """transformers' and Lightning's trainers write checkpoints unless told not to."""
    for call in facts.script.within_calls(loop.body):
        saves = _no_checkpoints(facts, call) is None
        if is_call(call, *_ARGUMENTS) and saves and facts.text(call, "output_dir", 0) is None:
            return True
        if _is_lightning(facts, call):
            return saves
    return False


def _switched_off(facts: Facts, loop: ast.For) -> ast.AST | None:
    """Where the script tells the trainer of its folds not to save, if it does: what to change."""
    calls = list(facts.script.within_calls(loop.body))
    known = [c for c in calls if is_call(c, *_ARGUMENTS) or _is_lightning(facts, c)]
    if not known and any(last_name(c.func).endswith("Trainer") for c in calls):
        known = facts.training.arguments
    return next((place for call in known if (place := _no_checkpoints(facts, call)) is not None), None)


def _no_checkpoints(facts: Facts, call: ast.Call) -> ast.AST | None:
    """`save_strategy="no"`, `enable_checkpointing=False`."""
    if is_call(call, *_ARGUMENTS):
        given = facts.argument(call, "save_strategy")
        off = given is not None and (last_name(given) == "NO" or facts.values.text(given) == "no")
    else:
        given = facts.argument(call, "enable_checkpointing")
        off = facts.values.one(given) is False
    return given if off else None


def _is_lightning(facts: Facts, call: ast.Call) -> bool:
    return is_call(call, "Trainer") and facts.script.uses(*LIGHTNING)
