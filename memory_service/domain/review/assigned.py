"""What is each name, attribute and command line argument set to? Indices of expressions, nothing computed."""

from __future__ import annotations

import ast
from collections import defaultdict

from memory_service.domain.review.script import Script, last_name

__all__ = ["Assigned", "assignments", "attributes", "command_line"]

Assigned = dict[tuple[ast.AST, str], list[ast.AST | None]]


def assignments(script: Script) -> Assigned:
    """(scope, name) -> what it is set to; None for a value that comes from a loop, an unpacking, `with`
    ..."""
    out: Assigned = defaultdict(list)

    def put(target: ast.AST, value: ast.AST | None) -> None:
        if isinstance(target, ast.Name):
            out[script.scope(target), target.id].append(value)
        elif isinstance(target, ast.Tuple | ast.List):
            same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            for position, item in enumerate(target.elts):
                put(item, value.elts[position] if same else None)  # type: ignore[union-attr]
        elif isinstance(target, ast.Starred):
            put(target.value, None)

    for node in script.all(ast.Assign):
        for target in node.targets:
            put(target, node.value)
    for annotated in script.all(ast.AnnAssign):
        if annotated.value is not None:
            put(annotated.target, annotated.value)
    for walrus in script.all(ast.NamedExpr):
        put(walrus.target, walrus.value)
    for loop in script.all(ast.For):
        put(loop.target, None)
    for item in script.all(ast.withitem):
        if item.optional_vars is not None:
            put(item.optional_vars, None)
    for grown in script.all(ast.AugAssign):
        if isinstance(grown.target, ast.Name) and not any(
            isinstance(up, ast.ExceptHandler | ast.For | ast.While) for up in script.above(grown)
        ):
            put(grown.target, None)
    for stated in script.all(ast.Global):
        for name in stated.names:
            inner = out.pop((script.scope(stated), name), [])
            out[script.tree, name] += inner
    return {key: _without_retries(script, held) for key, held in out.items()}


def _without_retries(script: Script, held: list[ast.AST | None]) -> list[ast.AST | None]:
    """What an `except` sets (a batch halved after an out-of-memory) is not the value that a run starts
    with."""
    first = [
        node for node in held
        if node is None or not any(isinstance(up, ast.ExceptHandler) for up in script.above(node))
    ]  # fmt: skip
    return first or held


def attributes(script: Script) -> dict[tuple[str, str], list[ast.AST | None]]:
    """(class or variable, attribute) -> what it is set to: class bodies, `self.x =`, `cfg.x =`."""
    out: dict[tuple[str, str], list[ast.AST | None]] = defaultdict(list)
    for owner in script.all(ast.ClassDef):
        for statement in owner.body:
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    if isinstance(target, ast.Name):
                        out[owner.name, target.id].append(statement.value)
            elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                if statement.value is not None:
                    out[owner.name, statement.target.id].append(statement.value)
        for base in owner.bases:
            for (holder, inherited), held in list(out.items()):
                if holder == last_name(base) and (owner.name, inherited) not in out:
                    out[owner.name, inherited] = list(held)
    for node in script.all(ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                base = last_name(target.value)
                around = script.class_of(node)
                holder = around.name if base in ("self", "cls") and around is not None else base
                out[holder, target.attr].append(node.value)
    return dict(out)


def command_line(script: Script) -> dict[str, list[ast.AST]]:
    """Attribute of the parsed arguments -> defaults of `add_argument`, `click.option`."""
    out: dict[str, list[ast.AST]] = defaultdict(list)
    for call in script.called("add_argument", "option"):
        flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        named = {k.arg: k.value for k in call.keywords if k.arg}
        flag = next((f for f in flags if f.startswith("--")), flags[0] if flags else "")
        stated = named.get("dest")
        name = stated.value if isinstance(stated, ast.Constant) else flag.lstrip("-").replace("-", "_")
        action = named.get("action")
        if "default" in named:
            out[str(name)].append(named["default"])
        elif isinstance(action, ast.Constant) and action.value in ("store_true", "store_false"):
            out[str(name)].append(ast.Constant(action.value == "store_false"))
    return dict(out)
