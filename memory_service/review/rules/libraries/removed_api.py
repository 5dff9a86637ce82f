"""Arguments, values, names and modules that the libraries have removed, and arguments they never had.

Of the files beside it, `signatures.txt` holds one call a line with its parameters, read from the installed
libraries (scikit-learn 1.9, torch 2.15, lightgbm 4.7, xgboost 3.2, lightning 2.6, transformers 5.23,
accelerate 1.15; losses of timm), and what a release or two before took; `removed.txt` holds what is gone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, told, wrong
from memory_service.review.source.nodes import keyword_names, last_name, receiver
from memory_service.review.training.training import KERAS, LIGHTNING

_OWNERS = {"keras": "Keras' ", "xgboost": "xgboost's ", "lightgbm": "lightgbm."}
"""What stands before the name of a call of theirs in a message."""


@dataclass(frozen=True, slots=True)
class Removed:
    """One line of removed.txt. argument, value: "" where the call itself, or any value, is gone."""

    library: str
    argument: str
    value: str
    instead: str


def parameters_of(qualified: str) -> list[str]:
    """Parameters by the dotted name of what is called; none for a call that is not known."""
    qualified = qualified.replace("pytorch_lightning.", "lightning.pytorch.", 1)
    if qualified.startswith("lightning.") and not qualified.startswith("lightning.pytorch."):
        qualified = qualified.replace("lightning.", "lightning.pytorch.", 1)
    return _signatures().get(qualified, [])


def removed_of(name: str) -> list[Removed]:
    """What is gone of a call by its last name, or of an import by its dotted name."""
    return _gone().get(name, [])


@cache
def _signatures() -> dict[str, list[str]]:
    parts = (line.partition(": ") for line in _lines("signatures.txt"))
    return {name: parameters.split() for name, _, parameters in parts}


@cache
def _gone() -> dict[str, list[Removed]]:
    out: dict[str, list[Removed]] = {}
    groups: dict[str, str] = {}
    for line in _lines("removed.txt"):
        if " | " not in line:
            group, _, members = line.partition(" = ")
            groups[group] = members
            continue
        library, called, argument, instead = (part.strip() for part in line.split("|", 3))
        argument, _, value = argument.partition("=")
        for name in groups.get(called, called).split():
            out.setdefault(name, []).append(Removed(library, argument, value, instead))
    return out


def _lines(file: str) -> Iterator[str]:
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    return (line for line in text.splitlines() if line and not line.startswith("#"))


def removed_api_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter: what a library does not have any more, or never had."""
    yield from _imports(facts)
    for call in facts.script.calls:
        yield from _unknown_arguments(facts, call)
        yield from _removed(facts, call)
        yield from _deprecated(facts, call)


def _imports(facts: Facts) -> Iterator[Finding]:
    for node in facts.script.all(ast.ImportFrom):
        if any(facts.script.around(node, ast.Try)):
            continue
        module = node.module or ""
        yield from (
            wrong(node, "module-gone", module=module, instead=removed.instead)
            for removed in removed_of(module)
        )
        for alias in node.names:
            for removed in removed_of(f"{module}.{alias.name}"):
                yield wrong(node, "name-gone", module=module, name=alias.name, instead=removed.instead)


def _unknown_arguments(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    qualified, name = facts.script.qualified(call.func), last_name(call.func)
    allowed = parameters_of(qualified)
    removed = {one.argument for known in (name, qualified) for one in removed_of(known)}
    for keyword in call.keywords if allowed else ():
        if keyword.arg is None or keyword.arg in allowed or keyword.arg in removed:
            continue
        near = get_close_matches(keyword.arg, allowed, n=1, cutoff=0.4)
        near = ["lr"] if keyword.arg == "learning_rate" and "lr" in allowed else near
        inside = facts.script.statement(keyword.value) is facts.script.statement(call)
        same_line = call.lineno == keyword.value.lineno
        rule = "timm-trap" if qualified.startswith("timm.") else "wrong-parameter"
        place = call if inside and not same_line else keyword.value
        fix = f"{near[0]}=..." if near else f"leave it out; there are {', '.join(allowed[:6])} ..."
        yield told(rule, place, f"{name} has no parameter {keyword.arg}.", fix)


def _removed(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """The call itself, an argument of it, or a value of an argument is removed."""
    name, qualified = last_name(call.func), facts.script.qualified(call.func)
    made = facts.training.objects.made_by(receiver(call)) if name == "fit" else ""
    fit = next((f"{family}.fit" for family in ("LGBM", "XGB") if made.startswith(family)), "")
    for removed in (one for known in (name, qualified, fit, "*") for one in removed_of(known)):
        library = removed.library
        if not _is_of(facts, name, qualified, library):
            continue
        rule = "albumentations-trap" if library == "albumentations" else "wrong-parameter"
        shown = f"fit() of {made}" if fit else _OWNERS.get(library, "") + name
        shown += "()" if library == "keras" and name.islower() else ""
        if not removed.argument:
            gone = f"{name} is gone from {library.replace('keras', 'Keras')}."
            yield told(rule, call, gone, removed.instead)
        for keyword in call.keywords:
            if not removed.argument or keyword.arg != removed.argument:
                continue
            if not removed.value:
                message = f"{shown} takes no {keyword.arg} any more."
                yield told(rule, keyword.value, message, removed.instead.replace("MODEL", made))
            elif facts.values.text(keyword.value) == removed.value:
                message = f"{shown} takes no {keyword.arg}={removed.value!r}."
                yield told(rule, keyword.value, message, removed.instead)


def _is_of(facts: Facts, name: str, qualified: str, library: str) -> bool:
    """Whether a call of this name is one of the library; several have an `Adam` or a `Trainer`."""
    uses = facts.script.uses
    if library == "keras":
        return uses(*KERAS) and not qualified.startswith("torch.")
    if library == "lightning":
        return uses(*LIGHTNING) and not qualified.startswith("transformers.")
    if library == "albumentations":
        return qualified.startswith("albumentations.")
    return uses(library) and not (name == "Trainer" and uses(*LIGHTNING))


def _deprecated(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    of_torchvision = facts.script.qualified(call.func).startswith("torchvision.models.")
    if of_torchvision and "pretrained" in keyword_names(call):
        name = last_name(call.func)
        yield wrong(call, "torchvision-pretrained", name=name)
