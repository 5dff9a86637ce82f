"""Short questions about nodes of a syntax tree that many rules ask."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from memory_service.review.source.script import Function, Script, last_name


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Every call under a node."""
    return (n for n in ast.walk(node) if isinstance(n, ast.Call))


def names_in(*nodes: ast.AST) -> set[str]:
    """Every plain name under some nodes, attributes left out."""
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}


def texts_in(node: ast.AST) -> list[str]:
    """Every literal text under a node."""
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def receiver(call: ast.Call) -> ast.expr | None:
    """The object of a method call: `a.b` of `a.b.c()`; None for a plain function."""
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def receiver_name(call: ast.Call) -> str:
    """The last name of the object of a method call, "" where there is none."""
    return last_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def is_call(node: ast.AST | None, *names: str) -> bool:
    """Whether a node is a call of one of these last names."""
    return isinstance(node, ast.Call) and last_name(node.func) in names


def is_none(node: ast.AST | None) -> bool:
    """Whether a node is the literal None."""
    return isinstance(node, ast.Constant) and node.value is None


def is_of_self(node: ast.AST) -> bool:
    """`self.x`."""
    return isinstance(node, ast.Attribute) and last_name(node.value) == "self"


def without_methods(node: ast.AST | None, names: Collection[str]) -> ast.AST | None:
    """What stands before trailing calls of these methods: `x` of `x.float().cuda()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
        node = node.func.value
    return node


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """Every expression handed to a call."""
    return [*call.args, *(k.value for k in call.keywords)]


def keyword_names(call: ast.Call) -> set[str | None]:
    """Names of its keywords; None stands for `**more`."""
    return {k.arg for k in call.keywords}


def bases_of(owner: ast.ClassDef | None) -> set[str]:
    """Last names of the classes that a class is made from."""
    return {last_name(base) for base in owner.bases} if owner is not None else set()


def parameters_of(function: Function) -> list[str]:
    """Names of the positional parameters."""
    return [a.arg for a in function.args.args]


def returned_by(function: ast.AST) -> list[ast.expr]:
    """Values of the return statements under a function."""
    return [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value is not None]


def pairs(targets: Iterable[ast.expr], value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(target, value) of an assignment; `a, b = x, y` gives two."""
    for target in targets:
        tuples = isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List)
        if tuples and len(target.elts) == len(value.elts):  # type: ignore[attr-defined]
            yield from zip(target.elts, value.elts, strict=True)  # type: ignore[attr-defined]
        else:
            yield target, value


def caller_of(script: Script, node: ast.AST) -> list[ast.Call]:
    """Calls, from other functions, of the function that a node is in."""
    function = script.function(node)
    if function is None:
        return []
    return [c for c in script.calls_by_name.get(function.name, ()) if script.function(c) is not function]
