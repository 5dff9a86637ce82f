"""Where do the rows of a data set lie: in files, in memory, or on the card already?"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.script import last_name

__all__ = ["in_memory", "on_card"]

_IN_MEMORY = ("TensorDataset", "ArrayDataset")
_PARTS_OF = ("Subset", "random_split", "split_dataset", "ConcatDataset")
_NO_CARD = re.compile(r"^(float|double|half|bfloat|int|long|short|uint|bool|cpu)\w*$")

MOST_LOOKED_AT = 60
"""Names and calls of helpers that one question follows."""


def in_memory(facts: Facts, dataset: ast.AST | None) -> bool:
    """Tensors that lie in memory already: workers only cost there."""
    return dataset is not None and _in_memory(facts, dataset, {})


def _in_memory(facts: Facts, node: ast.AST, seen: dict[ast.AST, bool]) -> bool:
    if node not in seen and len(seen) <= MOST_LOOKED_AT:
        seen[node] = False  # while it is looked at
        seen[node] = _lies_there(facts, node, seen)
    return seen.get(node, False)


def _lies_there(facts: Facts, node: ast.AST, seen: dict[ast.AST, bool]) -> bool:
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if name in _IN_MEMORY or facts.training.made_by(node) in _IN_MEMORY:
            return True
        if name in _PARTS_OF and node.args:
            return _in_memory(facts, node.args[0], seen)
        return any(_in_memory(facts, given, seen) for given in _returned(facts, node.func))
    if isinstance(node, ast.Tuple | ast.List | ast.Dict):
        parts = node.values if isinstance(node, ast.Dict) else node.elts
        return bool(parts) and all(_in_memory(facts, one, seen) for one in parts[:4])
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return _in_memory(facts, node.elt, seen)
    if isinstance(node, ast.Subscript | ast.Starred):
        return _in_memory(facts, node.value, seen)
    if isinstance(node, ast.Attribute):
        sources = facts.values.sources(node)
        return bool(sources) and all(_in_memory(facts, source, seen) for source in sources)
    if not isinstance(node, ast.Name):
        return False
    sources = _sources(facts, node)
    if sources:
        return any(_in_memory(facts, source, seen) for source in sources)
    function = facts.script.function(node)
    if function is None:
        return False
    given = facts.values.handed(function, node.id)  # a wrapper: in memory where every caller gives such
    return bool(given) and all(g is not None and _in_memory(facts, g, seen) for g in given)


def on_card(facts: Facts, dataset: ast.AST | None) -> bool:
    """Whether a data set holds tensors that were put on the card: there is nothing to pin."""
    return dataset is not None and _on_card(facts, dataset, set())


def _on_card(facts: Facts, node: ast.AST, seen: set[ast.AST]) -> bool:
    return any(_put_there(facts, n) or _led_there(facts, n, seen) for n in ast.walk(node))


def _put_there(facts: Facts, node: ast.AST) -> bool:
    """`x.cuda()`, `x.to(device)`, `torch.tensor(x, device=device)`."""
    if not isinstance(node, ast.Call):
        return False
    device = next((k.value for k in node.keywords if k.arg == "device"), None)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "to" and node.args:
        device = node.args[0]
    if device is not None:
        return facts.values.one(device) != "cpu" and not _NO_CARD.match(last_name(device))
    return isinstance(node.func, ast.Attribute) and node.func.attr == "cuda"


def _led_there(facts: Facts, node: ast.AST, seen: set[ast.AST]) -> bool:
    """By a name, an attribute or a function of the file."""
    further: list[ast.AST] = []
    if isinstance(node, ast.Call):
        further = _returned(facts, node.func)
        if last_name(node.func) in ("map", "partial") and node.args:
            further = [*further, *_returned(facts, node.args[0])]
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        further = _sources(facts, node)
    elif isinstance(node, ast.Attribute):
        further = facts.values.sources(node)
    for one in further:
        if one not in seen and len(seen) <= MOST_LOOKED_AT:
            seen.add(one)
            if _on_card(facts, one, seen):
                return True
    return False


def _returned(facts: Facts, name: ast.AST) -> list[ast.AST]:
    """What a function of the file, or a lambda that a name holds, gives back."""
    if not isinstance(name, ast.Name):
        return []
    functions = facts.script.functions.get(name.id, [])[:1]
    out = [
        n.value for f in functions for n in ast.walk(f) if isinstance(n, ast.Return) and n.value is not None
    ]
    held = [] if functions else facts.values.assigned(name.id, name)
    return [*out[:4], *(source.body for source in held if isinstance(source, ast.Lambda))]


def _sources(facts: Facts, name: ast.Name) -> list[ast.AST]:
    """What a name is set to; of `a, b = random_split(...)` the whole right side, `for a in (b, c)` them."""
    found = facts.values.assigned(name.id, name)
    return found or list(_unpacked(facts, name))[:4]


def _unpacked(facts: Facts, name: ast.Name) -> Iterator[ast.AST]:
    script, home = facts.script, facts.script.function(name)
    for up in script.above(name):
        if isinstance(up, ast.ListComp | ast.GeneratorExp | ast.DictComp):
            yield from (one.iter for one in up.generators if last_name(one.target) == name.id)
        elif isinstance(up, ast.For) and last_name(up.target) == name.id:
            yield up.iter
    index = _unpackings(facts)
    for scope in dict.fromkeys((home, None)):
        yield from index.get((scope, name.id), ())


def _unpackings(facts: Facts) -> dict[tuple[ast.AST | None, str], list[ast.AST]]:
    """(function, name) -> right sides that are unpacked into the name there."""
    held = facts.kept.get("unpackings")
    if isinstance(held, dict):
        return held
    out: dict[tuple[ast.AST | None, str], list[ast.AST]] = defaultdict(list)
    for node in facts.script.all(ast.Assign):
        for target in node.targets:
            for one in target.elts if isinstance(target, ast.Tuple | ast.List) else ():
                out[facts.script.function(node), last_name(one)].append(node.value)
    facts.kept["unpackings"] = out
    return out
