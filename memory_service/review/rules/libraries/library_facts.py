"""What libraries take, and what they have removed, as text files beside this module.

`signatures.txt` holds one call a line with its parameters, read from the installed libraries (scikit-learn
1.9, torch 2.15, lightgbm 4.7, xgboost 3.2, lightning 2.6, transformers 5.23, accelerate 1.15; losses of
timm), with what a release or two before still took. `removed.txt` holds arguments, values, names and modules
that are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


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
    return _removed().get(name, [])


@cache
def _signatures() -> dict[str, list[str]]:
    parts = (line.partition(": ") for line in _lines("signatures.txt"))
    return {name: parameters.split() for name, _, parameters in parts}


@cache
def _removed() -> dict[str, list[Removed]]:
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
