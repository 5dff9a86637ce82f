"""Folds that leave no checkpoint of their own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.source.nodes import (
    arguments_of,
    calls_in,
    is_call,
    is_of_self,
    last_name,
    texts_in,
    words,
    words_in,
)
from memory_service.review.training.training import LIGHTNING

_SAVES = words(
    "save save_model save_pretrained save_weights dump save_checkpoint ModelCheckpoint save_state "
    "save_file booster_save model_to_file to_pickle write_checkpoint dump_model save_state_dict "
    "SaveModelCallback BackupAndRestore export atomic_save write_bytes"
)
_NO_SAVE = ("numpy.", "PIL.", "matplotlib.", "json.", "yaml.")
_SAVING_HELPER = re.compile(r"save|checkpoint|ckpt|persist|store_model|dump", re.IGNORECASE)
_ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments")
_SETTINGS = ("cfg", "config", "conf", "hparams", "opt", "args", "settings")
_FILE = re.compile(r"\.\w{1,12}$|/|model|best|ckpt")
_PATH = re.compile(r"path|file|name|ckpt|dir|fold|out|dest", re.IGNORECASE)
MOST_NAMES = 4
"""Names within names that are followed to settings."""


def fold_rules(facts: Facts) -> Iterator[Finding]:
    """no-fold-checkpoint: a fold that writes nothing, or all to the same file."""
    loops = facts.training.fold_loops
    for loop in loops:
        if set(loops) & {*facts.script.above(loop)} or facts.training.folds.count(loop) == 1:
            continue
        saves = [c for c in facts.script.within_calls(loop.body) if _saves(facts, c)]
        imported = any(facts.training.trains_elsewhere(n) for n in facts.script.within(loop.body))
        if not saves and not imported and not _trainer_saves(facts, loop):
            yield finding(
                "no-fold-checkpoint",
                _switched_off(facts, loop) or loop,
                "No fold leaves a checkpoint: a run that is killed in the last fold has nothing to "
                "predict with.",
                'torch.save(model.state_dict(), f"fold_{fold}.pt")  # trees: save_model(f"fold_{fold}.txt")',
            )
        elif saves and all(_same_path(facts, c) for c in saves):
            message = "Every fold writes the same file: only the last one is left."
            yield finding("no-fold-checkpoint", saves[0], message, 'f"fold_{fold}.pt" as its name')


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
            # Lightning writes -v1, -v2 behind a name that is taken
            formatted = any("{" in str(v) for k in known for v in k or ())
            return fixed and not formatted and facts.value(call, "enable_version_counter") is False
        return fixed
    if name == "dump":
        opened = [c for c in calls_in(call) if is_call(c, "open") and c.args]
        if opened and facts.values.text(opened[0].args[0]):
            return True
    named = [(a, _fixed_name(facts, a)) for a in arguments_of(call)]
    others = [a for a, text in named if text is None and not isinstance(a, ast.Constant) and _may_be_path(a)]
    return any(text and _FILE.search(text) for _, text in named) and not others


def _may_be_path(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr | ast.BinOp) or any(_PATH.search(w) for w in words_in(node))


def _fixed_name(facts: Facts, node: ast.AST, deep: int = 0) -> str | None:
    """The file's name where it is a constant below folders of the module: `OUT / "best.pt"`."""
    text = facts.values.text(node)
    if text is None and isinstance(node, ast.Name) and deep < MOST_NAMES:
        named = {_fixed_name(facts, given, deep + 1) for given in _only_sources(facts, node)}
        return named.pop() if len(named) == 1 else None
    if text is not None or not isinstance(node, ast.BinOp | ast.JoinedStr | ast.Call):
        return text
    if isinstance(node, ast.Call) and not is_call(node, "join", "Path", "str", "joinpath"):
        return None
    attributes = [n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr[:4] != "join"]
    if any(_set_in_a_loop(facts, n.attr) for n in attributes):
        return None
    if any(words_in(n) & {"self", "args"} and not _is_one_folder(facts, n) for n in attributes):
        return None
    known = {"self", "args", "str", "Path", *facts.script.imports}
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id not in known]
    constants = texts_in(node)
    return constants[-1] if constants and all(_is_of_the_run(facts, name) for name in names) else None


def _only_sources(facts: Facts, name: ast.Name) -> list[ast.AST]:
    """What a name is set to, where that is once; what all callers give for a parameter."""
    sources, home = facts.values.assigned(name.id, name), facts.script.function(name)
    if sources or home is None or facts.values.binding(name.id, name) != (home, []):
        return sources if len(sources) == 1 else []
    given = facts.values.passed(home, name.id)
    return [g for g in given if g is not None] if None not in given else []


def _is_one_folder(facts: Facts, node: ast.Attribute) -> bool:
    """`self.cfg.out`, which is a constant for the whole run; not `self.folder`, which each fold may set."""
    if node.attr in _SETTINGS or (isinstance(node.value, ast.Attribute) and node.value.attr in _SETTINGS):
        return True
    sources = facts.values.sources(node)
    found = sources[0] if len(sources) == 1 else None
    if isinstance(found, ast.Call) and is_call(found, "Path") and found.args:
        found = found.args[0]
    return isinstance(found, ast.Constant)


def _is_of_the_run(facts: Facts, name: ast.Name, deep: int = 0) -> bool:
    """Set once, outside every loop: at module level, or in a function to what is the same for the whole
    run: `cfg = self.cfg`, a parameter that is such in every call."""
    script, values = facts.script, facts.values
    sources, home = values.assigned(name.id, name), script.function(name)
    if sources:
        once = len(sources) == 1 and not script.loops(sources[0])
        here = script.function(sources[0])
        return once and (
            here is None or (deep < MOST_NAMES and here is home and _is_settings(facts, sources[0], deep + 1))
        )
    if home is None or deep >= MOST_NAMES or values.binding(name.id, name) != (home, []):
        return False
    given = values.passed(home, name.id)
    return bool(given) and all(g is not None and _is_settings(facts, g, deep + 1) for g in given)


def _is_settings(facts: Facts, node: ast.AST, deep: int) -> bool:
    """Settings, or a folder of theirs, that no loop sets anew."""
    if isinstance(node, ast.Name):
        return _is_of_the_run(facts, node, deep)
    if isinstance(node, ast.Call):
        made = is_call(node, "parse_args", "load", "safe_load", *facts.script.classes)
        return made and not facts.script.loops(node)
    if not isinstance(node, ast.Attribute) or _set_in_a_loop(facts, node.attr):
        return isinstance(node, ast.Constant)
    if is_of_self(node):
        return _is_one_folder(facts, node)
    return isinstance(node.value, ast.Name) and _is_of_the_run(facts, node.value, deep)


def _set_in_a_loop(facts: Facts, attribute: str) -> bool:
    """`cfg.out = f"fold_{fold}"`."""
    return any(
        isinstance(target, ast.Attribute) and target.attr == attribute and facts.script.loops(node)
        for node in facts.script.all(ast.Assign)
        for target in node.targets
    )


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
    told = [c for c in calls if is_call(c, *_ARGUMENTS) or _is_lightning(facts, c)]
    if not told and any(last_name(c.func).endswith("Trainer") for c in calls):
        told = facts.training.arguments
    return next((place for call in told if (place := _no_checkpoints(facts, call)) is not None), None)


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
