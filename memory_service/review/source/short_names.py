"""Canonical names of calls: imports, short names and partials written out in the tree.

mk = torch.utils.data.DataLoader        mk(x)  -> torch.utils.data.DataLoader(x)
`from torch.utils.data import DataLoader as DL`: DL(x)  -> DataLoader(x)
mk = partial(DataLoader, num_workers=8) mk(x)  -> DataLoader(x, num_workers=8)
"""

from __future__ import annotations

import ast
import copy
from collections import defaultdict
from itertools import islice

MOST_NAMED = 1_000  # calls under a short name that are read in full: a script has a few
LONGEST_NAME = 6  # dots in a name that another name is short for: `torch.utils.data.DataLoader` has three
MOST_IN_PARTIAL = 200  # nodes of a partial that is written out: one with six arguments has fifty
Named = ast.Name | ast.Attribute


def write_in_full(tree: ast.Module) -> None:
    """Changes the tree in place; lines and columns stay those of the text."""
    nodes = list(ast.walk(tree))
    bound, imported = _bound(nodes)
    _rename_imports(nodes, bound, imported)
    names, partials = _short(nodes, bound, imported)
    left = MOST_NAMED
    for call in nodes:
        if not isinstance(call, ast.Call) or left <= 0:
            continue
        if isinstance(call.func, ast.Name) and call.func.id in names:
            call.func = _placed(names[call.func.id], call.func)
            left -= 1
        key = _key(call.func)
        if key in partials and partials[key] is not call:
            _fill(call, partials[key])
            left -= 1


def _bound(nodes: list[ast.AST]) -> tuple[dict[str, int], set[str]]:
    """How often each name is set, and the names that imports bring."""
    bound: dict[str, int] = defaultdict(int)
    imported: set[str] = set()
    for node in nodes:
        match node:
            case ast.Import() | ast.ImportFrom():
                imported |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
            case ast.Name(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                bound[_key(node)] += 1
            case ast.arg(arg=name):
                bound[name] += 1
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound[name] += 1
    return bound, imported


def _rename_imports(nodes: list[ast.AST], bound: dict[str, int], imported: set[str]) -> None:
    """`from x import LongName as LN`: LN is LongName wherever it stands."""
    renamed: dict[str, str] = {}
    plain = {
        alias.name: node.module
        for node in nodes if isinstance(node, ast.ImportFrom)
        for alias in node.names if not alias.asname
    }  # fmt: skip
    for node in nodes:
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            short, full = alias.asname, alias.name
            if not short or short == full or bound[short] or bound[full]:
                continue
            if full in imported and plain.get(full) != getattr(node, "module", None):
                continue
            if renamed.setdefault(short, full) == full:
                alias.asname = None
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in renamed:
            node.id = renamed[node.id]
    imported |= set(renamed.values())


def _short(
    nodes: list[ast.AST], bound: dict[str, int], imported: set[str]
) -> tuple[dict[str, Named], dict[str, ast.Call]]:
    """Names set once to a name of a library, and names set once to a partial."""
    names: dict[str, Named] = {}
    partials: dict[str, ast.Call] = {}
    for node in nodes:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        if not isinstance(target, Named) or bound[_key(target)] != 1:
            continue
        if isinstance(value, ast.Call) and _is_partial(value):
            partials[_key(target)] = value
        elif isinstance(target, ast.Name) and isinstance(value, Named):
            base: ast.AST = value
            for _ in range(LONGEST_NAME):
                base = base.value if isinstance(base, ast.Attribute) else base
            if isinstance(base, ast.Name) and base.id in imported:
                names[target.id] = value
    return names, partials


def _is_partial(value: ast.Call) -> bool:
    """`partial(name, ...)` that is short enough to be written out."""
    if _key(value.func).rpartition(".")[2] != "partial" or not value.args:
        return False
    if not isinstance(value.args[0], Named):
        return False
    return sum(1 for _ in islice(ast.walk(value), MOST_IN_PARTIAL + 1)) <= MOST_IN_PARTIAL


def _key(node: ast.AST) -> str:
    """`name` or `self.name`; "" for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return f"{name}.{attribute}"
    return ""


def _fill(call: ast.Call, partial: ast.Call) -> None:
    """Makes the call of a partial the call of what it is a partial of."""
    made, given = partial.args[0], {k.arg for k in call.keywords if k.arg}
    if not isinstance(made, Named):
        return
    call.func = _placed(made, call.func)
    call.args = [*(copy.deepcopy(a) for a in partial.args[1:]), *call.args]
    saved = [copy.deepcopy(k) for k in partial.keywords if k.arg is None or k.arg not in given]
    call.keywords = [*saved, *call.keywords]


def _placed(named: Named, at: ast.expr) -> Named:
    """The same dotted name anew, standing where another name stood."""
    if isinstance(named, ast.Name):
        return ast.copy_location(ast.Name(named.id, ast.Load()), at)
    base = named.value
    inner = _placed(base, at) if isinstance(base, Named) else base
    return ast.copy_location(ast.Attribute(inner, named.attr, ast.Load()), at)
