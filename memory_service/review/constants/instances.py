"""Objects of classes of the file: dataclasses, classes of settings, named tuples, with their fields."""

from __future__ import annotations

import ast

from memory_service.review.constants.lookup import ValueLookup
from memory_service.review.source.nodes import all_parameters, arguments_of, last_name, words

DEEPEST = 8  # names, attributes and calls followed to the class of an object
MOST_OBJECTS = 8
_SETTINGS_MAKERS = words("structured cli parse from_args load merge instantiate")

Instance = tuple[str, ast.Call | None]
"""A class of the file and the call that makes the object, None where none is seen."""


def instances(values: ValueLookup, node: ast.AST, deep: int = 0) -> list[Instance]:
    """Classes of this file whose object an expression is, with the calls that make it."""
    classes = values.script.classes
    if deep > DEEPEST:
        return []
    if isinstance(node, ast.Name) and node.id in classes:
        return [(node.id, None)]
    given = [d for d in values.definitions(node, deep) if d is not None and d is not node]
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if name in classes:
            return [(name, node)]
        if name == "replace":
            given = [*node.args[:1]]
        elif name in _SETTINGS_MAKERS:
            given = [g for g in arguments_of(node) if last_name(g) in classes]
    found = [made for one in given[:MOST_OBJECTS] for made in instances(values, one, deep + 1)]
    if isinstance(node, ast.Name) and not found:
        annotated = _annotation(values, node)
        return _parsed(values, node) or ([(annotated, None)] if annotated in classes else [])
    return found[:MOST_OBJECTS]


def _parsed(values: ValueLookup, node: ast.Name) -> list[Instance]:
    """`a, b = HfArgumentParser((A, B)).parse_args_into_dataclasses()` gives an A and a B."""
    script = values.script
    for call in script.called("parse_args_into_dataclasses", "parse_dict", "parse_json_file"):
        statement = script.statement(call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        parser = call.func.value if isinstance(call.func, ast.Attribute) else call
        makers = [parser, *values.sources(parser)]
        given = next((m.args[0] for m in makers if isinstance(m, ast.Call) and m.args), None)
        if isinstance(target, ast.Tuple) and isinstance(given, ast.Tuple | ast.List):
            for item, kind in zip(target.elts, given.elts, strict=False):
                if last_name(item) == node.id and last_name(kind) in script.classes:
                    return [(last_name(kind), None)]
    return []


def _annotation(values: ValueLookup, name: ast.Name) -> str:
    """The class that a parameter is annotated with: `def main(cfg: Config)`."""
    function = values.script.function(name)
    own = [p for p in all_parameters(function) if p.arg == name.id] if function is not None else []
    return next((last_name(p.annotation) for p in own if p.annotation is not None), "")


def fields(values: ValueLookup, name: str, call: ast.Call | None) -> dict[str, list[ast.AST]]:
    """The fields of an object of a class of this file: as it was made, else as the class sets them."""
    out = dict(values.attributes.get(name, {}))
    body = values.script.classes[name].body if name in values.script.classes else []
    if call is None or any(isinstance(n, ast.FunctionDef) and n.name == "__init__" for n in body):
        return out
    declared = [last_name(n.target) for n in body if isinstance(n, ast.AnnAssign)]
    starred = any(isinstance(a, ast.Starred) for a in call.args)
    given: dict[str, ast.AST] = {} if starred else dict(zip(declared, call.args, strict=False))
    for keyword in call.keywords:
        given |= {keyword.arg: keyword.value} if keyword.arg else values.entries(keyword.value).known
    return out | {field: [node] for field, node in given.items()}
