"""Does each fold leave a checkpoint of its own?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.script import last_name, words, words_in

__all__ = ["fold_rules"]

_SAVES = words(
    "save save_model save_pretrained save_weights dump save_checkpoint ModelCheckpoint save_state "
    "save_file booster_save model_to_file to_pickle write_checkpoint dump_model save_state_dict "
    "SaveModelCallback BackupAndRestore export atomic_save write_bytes replace"
)
_SAVING_HELPER = re.compile(r"save|checkpoint|ckpt|persist|store_model|dump", re.IGNORECASE)


def fold_rules(facts: Facts) -> Iterator[Finding]:
    """no-fold-checkpoint: a fold that writes nothing, or all to the same file."""
    loops = facts.training.fold_loops
    for loop in loops:
        if any(other is not loop and other in facts.script.above(loop) for other in loops):
            continue
        if facts.training.fold_count(loop) == 1:
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
            yield finding(
                "no-fold-checkpoint",
                saves[0],
                "Every fold writes the same file: only the last one is left.",
                'f"fold_{fold}.pt" as its name',
            )


def _saves(facts: Facts, call: ast.Call) -> bool:
    name = last_name(call.func)
    if name == "save" and facts.script.qualified(call.func).startswith(("numpy.", "PIL.", "matplotlib.")):
        return False
    if name in ("dump", "save", "to_pickle", "replace", "export") or name in _SAVES:
        if name == "replace":
            return facts.script.qualified(call.func).startswith("os.")
        return not (name == "dump" and facts.script.qualified(call.func).startswith(("json.", "yaml.")))
    return (
        isinstance(call.func, ast.Name)
        and bool(_SAVING_HELPER.search(name))
        and name not in facts.script.functions
    )


def _same_path(facts: Facts, call: ast.Call) -> bool:
    """The file's name is the same whatever the fold: a constant all the way."""
    name = last_name(call.func)
    if name == "ModelCheckpoint" or name.endswith("Callback") or name == "BackupAndRestore":
        given = [
            facts.values.argument(call, n, p)
            for n, p in (("filename", None), ("filepath", 0), ("dirpath", 0), ("fname", 0))
        ]
        known = [facts.values.all(g) for g in given if g is not None]
        if last_name(call.func) == "ModelCheckpoint" and facts.script.uses("lightning", "pytorch_lightning"):
            return (
                bool(known)
                and all(k is not None and not any("{" in str(v) for v in k) for k in known)
                and _names_are_fixed(facts, call)
            )
        return bool(known) and all(k is not None for k in known)
    given_all = [*call.args, *(k.value for k in call.keywords)]
    paths = [t for a in given_all if (t := _fixed_name(facts, a)) and re.search(_A_FILE, t)]
    others = [
        a
        for a in given_all
        if _fixed_name(facts, a) is None and not isinstance(a, ast.Constant) and _may_be_path(a)
    ]
    if last_name(call.func) == "dump":
        opened = [
            facts.values.text(n.args[0])
            for n in ast.walk(call)
            if isinstance(n, ast.Call) and last_name(n.func) == "open" and n.args
        ]
        return bool(opened and opened[0]) or (bool(paths) and not others)
    return bool(paths) and not others


_ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments")
_SETTINGS = ("cfg", "config", "conf", "hparams", "opt", "args", "settings")
_MOST_NAMES = 4
"""Names within names that are followed to settings."""

_A_FILE = r"\.\w{1,12}$|/|model|best|ckpt"


def _fixed_name(facts: Facts, node: ast.AST, deep: int = 0) -> str | None:
    """The file's name where it is a constant below folders of the module: `OUT / "best.pt"`."""
    text = facts.values.text(node)
    if text is None and isinstance(node, ast.Name) and deep < _MOST_NAMES:
        named = {_fixed_name(facts, given, deep + 1) for given in _only_sources(facts, node)}
        return named.pop() if len(named) == 1 else None
    if text is not None or not isinstance(node, ast.BinOp | ast.JoinedStr | ast.Call):
        return text
    if isinstance(node, ast.Call) and last_name(node.func) not in ("join", "Path", "str", "joinpath"):
        return None
    names = {n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id not in facts.script.imports}
    held = [n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr not in ("join", "joinpath")]
    if any(_set_in_a_loop(facts, n.attr) for n in held):
        return None
    if any(not _is_one_folder(facts, n) for n in held if "self" in words_in(n) or "args" in words_in(n)):
        return None
    names = {n for n in names if n.id not in ("self", "args")}
    if not all(_of_the_run(facts, name) for name in names if name.id not in ("str", "Path")):
        return None
    constants = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return constants[-1] if constants else None


def _only_sources(facts: Facts, name: ast.Name) -> list[ast.AST]:
    """What a name is set to, where that is once; what all callers give for a parameter."""
    sources = facts.values.assigned(name.id, name)
    home = facts.script.function(name)
    if sources or home is None or facts.values.binding(name.id, name) != (home, []):
        return sources if len(sources) == 1 else []
    given = facts.values.handed(home, name.id)
    return [g for g in given if g is not None] if None not in given else []


def _is_one_folder(facts: Facts, node: ast.Attribute) -> bool:
    """`self.cfg.out`, which is a constant for the whole run; not `self.folder`, which each fold may set."""
    if node.attr in _SETTINGS or (isinstance(node.value, ast.Attribute) and node.value.attr in _SETTINGS):
        return True
    sources = facts.values.sources(node)
    if len(sources) != 1:
        return False
    found = sources[0]
    given = (
        found.args[0]
        if isinstance(found, ast.Call) and last_name(found.func) == "Path" and found.args
        else found
    )
    return isinstance(given, ast.Constant)


def _of_the_run(facts: Facts, name: ast.Name, deep: int = 0) -> bool:
    """Set once, outside every loop: at module level, or in a function to what is the same for the whole
    run: `cfg = self.cfg`, a parameter that is such in every call."""
    script, values = facts.script, facts.values
    sources = values.assigned(name.id, name)
    home = script.function(name)
    if sources:
        one = sources[0]
        if len(sources) > 1 or script.loops(one):
            return False
        return script.function(one) is None or (
            deep < _MOST_NAMES and script.function(one) is home and _is_settings(facts, one, deep + 1)
        )
    if home is None or deep >= _MOST_NAMES or values.binding(name.id, name) != (home, []):
        return False
    given = values.handed(home, name.id)
    return bool(given) and all(g is not None and _is_settings(facts, g, deep + 1) for g in given)


def _is_settings(facts: Facts, node: ast.AST, deep: int) -> bool:
    """Settings, or a folder of theirs, that no loop sets anew."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Name):
        return _of_the_run(facts, node, deep)
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        made = name in facts.script.classes or name in ("parse_args", "load", "safe_load")
        return made and not facts.script.loops(node)
    if not isinstance(node, ast.Attribute) or _set_in_a_loop(facts, node.attr):
        return False
    if last_name(node.value) == "self":
        return _is_one_folder(facts, node)
    return isinstance(node.value, ast.Name) and _of_the_run(facts, node.value, deep)


def _set_in_a_loop(facts: Facts, attribute: str) -> bool:
    """`cfg.out = f"fold_{fold}"`."""
    return any(
        isinstance(target, ast.Attribute) and target.attr == attribute and facts.script.loops(node)
        for node in facts.script.all(ast.Assign)
        for target in node.targets
    )


def _names_are_fixed(facts: Facts, call: ast.Call) -> bool:
    """Lightning writes -v1, -v2 behind a name that is taken, so only a directory per run would be lost."""
    return facts.values.one(facts.values.argument(call, "enable_version_counter")) is False


def _may_be_path(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr | ast.BinOp) or any(
        re.search(r"path|file|name|ckpt|dir|fold|out|dest", w, re.IGNORECASE) for w in words_in(node)
    )


def _trainer_saves(facts: Facts, loop: ast.For) -> bool:
    """transformers' and Lightning's trainers write checkpoints unless told not to."""
    for call in facts.script.within_calls(loop.body):
        name = last_name(call.func)
        if name in _ARGUMENTS:
            path = facts.values.argument(call, "output_dir", 0)
            if _told_not_to_save(facts, call) is None and facts.values.text(path) is None:
                return True
        if _is_lightning(facts, call):
            return _told_not_to_save(facts, call) is None
    return False


def _switched_off(facts: Facts, loop: ast.For) -> ast.AST | None:
    """Where the script tells the trainer of its folds not to save, if it does: what to change."""
    calls = list(facts.script.within_calls(loop.body))
    told = [c for c in calls if last_name(c.func) in _ARGUMENTS or _is_lightning(facts, c)]
    if not told and any(last_name(c.func).endswith("Trainer") for c in calls):
        told = facts.training.arguments
    places = (_told_not_to_save(facts, call) for call in told)
    return next((place for place in places if place is not None), None)


def _told_not_to_save(facts: Facts, call: ast.Call) -> ast.AST | None:
    """`save_strategy="no"`, `enable_checkpointing=False`."""
    if last_name(call.func) in _ARGUMENTS:
        given = facts.values.argument(call, "save_strategy")
        off = given is not None and (last_name(given) == "NO" or facts.values.text(given) == "no")
    else:
        given = facts.values.argument(call, "enable_checkpointing")
        off = facts.values.one(given) is False
    return given if off else None


def _is_lightning(facts: Facts, call: ast.Call) -> bool:
    return last_name(call.func) == "Trainer" and facts.script.uses("lightning", "pytorch_lightning")
