"""Does each fold leave a checkpoint of its own?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.domain.review.facts import Facts
from memory_service.domain.review.findings import Finding, finding
from memory_service.domain.review.script import last_name, words, words_in

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
                loop,
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


_A_FILE = r"\.\w{1,12}$|/|model|best|ckpt"


def _fixed_name(facts: Facts, node: ast.AST) -> str | None:
    """The file's name where it is a constant below folders of the module: `OUT / "best.pt"`."""
    text = facts.values.text(node)
    if text is not None or not isinstance(node, ast.BinOp | ast.JoinedStr | ast.Call):
        return text
    if isinstance(node, ast.Call) and last_name(node.func) not in ("join", "Path", "str", "joinpath"):
        return None
    names = {n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id not in facts.script.imports}
    held = [n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr not in ("join", "joinpath")]
    if any(not _is_one_folder(facts, n) for n in held if "self" in words_in(n) or "args" in words_in(n)):
        return None
    names = {n for n in names if n.id not in ("self", "args")}
    if not all(_of_module(facts, name) for name in names if name.id not in ("str", "Path")):
        return None
    constants = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return constants[-1] if constants else None


def _is_one_folder(facts: Facts, node: ast.Attribute) -> bool:
    """`self.cfg.out`, which is a constant for the whole run; not `self.folder`, which each fold may set."""
    if node.attr == "cfg" or node.attr == "config":
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


def _of_module(facts: Facts, name: ast.Name) -> bool:
    """Set once at module level, outside every loop."""
    sources = facts.values.assigned(name.id, name)
    return (
        len(sources) == 1 and not facts.script.loops(sources[0]) and facts.script.function(sources[0]) is None
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
        if name in ("TrainingArguments", "Seq2SeqTrainingArguments"):
            path = facts.values.argument(call, "output_dir", 0)
            strategy = facts.values.text(facts.values.argument(call, "save_strategy"))
            if strategy != "no" and facts.values.text(path) is None:
                return True
        if name == "Trainer" and facts.script.uses("lightning", "pytorch_lightning"):
            return facts.values.one(facts.values.argument(call, "enable_checkpointing")) is not False
    return False
