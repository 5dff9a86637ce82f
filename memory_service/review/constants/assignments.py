"""Indices of what names, attributes and command line arguments are set to; nothing is computed."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from memory_service.review.source.nodes import grouped, last_name, targets_of, unpacked
from memory_service.review.source.script import Script

Assigned = dict[tuple[ast.AST, str], list[ast.AST | None]]


def assignments(script: Script) -> Assigned:
    """(scope, name) -> what it is set to; None for what comes from a loop, an unpacking or `with`."""
    pairs = (pair for target, value in _settings(script) for pair in unpacked(target, value))
    named = ((item, given) for item, given in pairs if isinstance(item, ast.Name))
    out: Assigned = grouped(((script.scope(item), item.id), given) for item, given in named)
    for stated in script.all(ast.Global):
        for name in stated.names:
            inner = out.pop((script.scope(stated), name), [])
            out[script.tree, name] = [*out.get((script.tree, name), []), *inner]
    return {key: _without_retries(script, operand) for key, operand in out.items()}


def _settings(script: Script) -> Iterator[tuple[ast.AST, ast.AST | None]]:
    """Every target with what is put there."""
    yield from ((target, node.value) for node in script.all(ast.Assign) for target in node.targets)
    yield from ((stated.target, stated.value) for stated in script.all(ast.AnnAssign) if stated.value)
    yield from ((walrus.target, walrus.value) for walrus in script.all(ast.NamedExpr))
    yield from ((loop.target, None) for loop in script.all(ast.For))
    yield from ((item.optional_vars, None) for item in script.all(ast.withitem) if item.optional_vars)
    for change in script.all(ast.AugAssign):
        retried = any(script.around(change, ast.ExceptHandler, ast.For, ast.While))
        if isinstance(change.target, ast.Name) and not retried:
            yield change.target, None


def _without_retries(script: Script, value: list[ast.AST | None]) -> list[ast.AST | None]:
    """What an `except` sets (a batch halved when memory is out) is not what a run starts with; nor is what
    a trial run sets: `if args.debug: args.epochs = 2`."""
    first = [node for node in value if node is None or not any(script.around(node, ast.ExceptHandler))]
    return [node for node in first if node is None or not of_trial(script, node)] or first or value


_TRIAL = re.compile(
    r"(^|_)(debug|debugging|smoke|smoke_test|dry_run|sanity|toy|test_run|fast_dev_run)(_|$)", re.IGNORECASE
)


def is_trial(script: Script, test: ast.AST) -> bool:
    """`DEBUG`, `args.debug`, `cfg["debug"]`: a condition of trial runs, which the file does not switch on."""
    name = last_name(test)
    if isinstance(test, ast.Subscript) and isinstance(test.slice, ast.Constant):
        name = str(test.slice.value)
    return bool(_TRIAL.search(name)) and name not in _switched_on(script)


def _switched_on(script: Script) -> set[str]:
    """Names that are set to True."""
    true = (n for n in script.all(ast.Assign) if isinstance(n.value, ast.Constant) and n.value.value is True)
    return {last_name(target) for node in true for target in node.targets}


def of_trial(script: Script, node: ast.AST) -> bool:
    """Whether a place runs in trials alone."""
    below = node
    for up in script.above(node):
        if isinstance(up, ast.If):
            negated = isinstance(up.test, ast.UnaryOp) and isinstance(up.test.op, ast.Not)
            test = up.test.operand if isinstance(up.test, ast.UnaryOp) and negated else up.test
            if below in (up.orelse if negated else up.body) and is_trial(script, test):
                return True
        below = up
    return False


def attributes(script: Script) -> dict[str, dict[str, list[ast.AST]]]:
    """Class or variable -> attribute -> what it is set to: class bodies, `self.x =`, `cfg.x =`."""
    out: dict[str, dict[str, list[ast.AST]]] = defaultdict(lambda: defaultdict(list))
    for owner in script.all(ast.ClassDef):
        for base in owner.bases:
            for name, values in out.get(last_name(base), {}).items():
                out[owner.name][name] = list(values)
        for statement in owner.body:
            for target in targets_of(statement):
                for item, value in unpacked(target, getattr(statement, "value", None)):
                    if isinstance(item, ast.Name) and value is not None:
                        out[owner.name][item.id] = [value]
    for node in script.all(ast.Assign):
        for target in node.targets:
            for item, value in unpacked(target, node.value):
                if isinstance(item, ast.Attribute) and value is not None and not of_trial(script, node):
                    holder = last_name(item.value)
                    around = script.class_of(node) if holder in ("self", "cls") else None
                    out[around.name if around is not None else holder][item.attr].append(value)
    return out


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
