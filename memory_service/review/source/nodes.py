"""Short questions about nodes of a syntax tree that many rules ask."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import TypeGuard, TypeVar

Function = ast.FunctionDef | ast.AsyncFunctionDef
Key = TypeVar("Key")
Item = TypeVar("Item")


def words(text: str) -> frozenset[str]:
    """The words of a text: a set that reads well."""
    return frozenset(text.split())


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Key -> all that go by it, in their order."""
    out: dict[Key, list[Item]] = defaultdict(list)
    for key, item in pairs:
        out[key].append(item)
    return out


def last_name(node: ast.AST) -> str:
    """`a.b.c` -> "c"; "" for what has no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def name_of(node: ast.AST) -> str:
    """The last name of an expression, or of what it calls: `torch.no_grad()` -> "no_grad"."""
    return last_name(node.func if isinstance(node, ast.Call) else node)


def roots(node: ast.AST) -> set[str]:
    """Every name that an expression reads, without what is called as a function: `f(df[["a"]])` -> {"df"}."""
    called = {id(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and id(n) not in called}


def words_in(node: ast.AST) -> set[str]:
    """Every identifier of an expression, attributes and keywords included."""
    named = (n.arg if isinstance(n, ast.keyword) else last_name(n) for n in ast.walk(node))
    return {name for name in named if name}


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    return (n for n in ast.walk(node) if isinstance(n, ast.Call))


def names_in(*nodes: ast.AST) -> set[str]:
    """Every plain name under some nodes, attributes left out."""
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}


def texts_in(node: ast.AST) -> list[str]:
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def receiver(node: ast.AST | None) -> ast.expr | None:
    """The object of a method call: `a.b` of `a.b.c()`; None for a plain function, and for what is no call."""
    called = node.func if isinstance(node, ast.Call) else None
    return called.value if isinstance(called, ast.Attribute) else None


def receiver_name(call: ast.Call) -> str:
    """The last name of the object of a method call, "" where there is none."""
    return last_name(receiver(call) or call)


def is_call(node: ast.AST | None, *names: str) -> TypeGuard[ast.Call]:
    """Whether a node is a call of one of these last names."""
    return isinstance(node, ast.Call) and last_name(node.func) in names


def is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def is_of_self(node: ast.AST) -> bool:
    """`self.x`."""
    return isinstance(node, ast.Attribute) and last_name(node.value) == "self"


def without_methods(node: ast.AST | None, names: Collection[str]) -> ast.AST | None:
    """What stands before trailing calls of these methods: `x` of `x.float().cuda()`."""
    while is_call(node, *names) and receiver(node) is not None:
        node = receiver(node)
    return node


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """Every expression handed to a call."""
    return [*call.args, *(k.value for k in call.keywords)]


def entries_of(node: ast.Dict | ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Literal texts that are keys of a dict, or keywords of a call, with their values."""
    if isinstance(node, ast.Call):
        yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg)
        return
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, value


def keyword_names(call: ast.Call) -> set[str | None]:
    """Names of its keywords; None stands for `**more`."""
    return {k.arg for k in call.keywords}


def bases_of(owner: ast.ClassDef | None) -> set[str]:
    """Last names of the classes that a class is made from."""
    return {last_name(base) for base in owner.bases} if owner is not None else set()


def parameters_of(function: Function) -> list[str]:
    return [a.arg for a in function.args.args]


def all_parameters(function: Function) -> list[ast.arg]:
    """Every parameter, `*args` and `**kwargs` included."""
    a = function.args
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *(p for p in (a.vararg, a.kwarg) if p is not None)]


def targets_of(statement: ast.AST) -> list[ast.expr]:
    """What an assignment of any kind sets."""
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign | ast.AugAssign) else []


def unpacked(target: ast.AST, value: ast.AST | None) -> Iterator[tuple[ast.AST, ast.AST | None]]:
    """(target, value) of what is set: `a, b = x, y` sets two, and `a, b = f()` two to what is unknown."""
    if isinstance(target, ast.Tuple | ast.List):
        given = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        same = len(given) == len(target.elts)
        for at, item in enumerate(target.elts):
            yield from unpacked(item, given[at] if same else None)
    elif isinstance(target, ast.Starred):
        yield target.value, None
    else:
        yield target, value
