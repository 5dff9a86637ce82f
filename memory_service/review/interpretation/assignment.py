"""assignment"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from memory_service.review.interpretation.grouping import sum_into
from memory_service.review.interpretation.rows import element_of
from memory_service.review.interpretation.selection import set_column
from memory_service.review.interpretation.state import Walk, constant, evaluate
from memory_service.review.interpretation.value import Scope, Value, derived, either
from memory_service.review.interpretation.vocabulary import TARGET, TARGET_COLUMN, VIEWS

LONGEST_SUM = 400
_FILLED_LATER = ("", "DataFrame", "zeros", "empty", "full", "defaultdict")


def assign(walk: Walk, target: ast.AST, value: Value, scope: Scope) -> None:
    if isinstance(target, ast.Name):
        where = walk.module if target.id in walk.shared.get(id(scope), ()) else scope
        where.names[target.id] = value
        note_target(walk, target.id, value)
    elif isinstance(target, ast.Tuple | ast.List):
        unpack(walk, target.elts, value, scope)
    elif isinstance(target, ast.Starred):
        assign(walk, target.value, value, scope)
    elif isinstance(target, ast.Attribute):
        evaluate(walk, target.value, scope).attrs[target.attr] = value
        note_target(walk, target.attr, value)
    elif isinstance(target, ast.Subscript):
        assign_item(walk, target, value, scope)


def note_target(walk: Walk, name: str, value: Value) -> None:
    """`y = df["price"]`, `TARGET = "price"`."""
    if TARGET.match(name):
        walk.answers.append(value)
    if TARGET_COLUMN.match(name) and isinstance(value.const, str):
        walk.target_names.add(value.const)


def unpack(walk: Walk, targets: Sequence[ast.expr], value: Value, scope: Scope) -> None:
    starred = [i for i, t in enumerate(targets) if isinstance(t, ast.Starred)]
    items = value.items
    if items is None and value.keys is not None and len(value.keys) == len(targets):
        items = list(value.keys.values()) if value.made == "parts" else None
    for at, target in enumerate(targets):
        fits = items is not None and (at < starred[0] < len(items) if starred else len(items) == len(targets))
        if items is not None and fits:
            assign(walk, target, items[at], scope)
        elif isinstance(value.const, list | tuple) and len(value.const) == len(targets):
            assign(walk, target, Value(const=value.const[at]), scope)
        else:
            part = element_of(walk, value) if value.element is not None else derived(value)
            assign(walk, target, part, scope)


def assign_item(walk: Walk, target: ast.Subscript, value: Value, scope: Scope) -> None:
    stated = walk.script.parents.get(target)
    given = stated.value if isinstance(stated, ast.Assign) else None
    added = given.left if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Add) else None
    if added is not None and ast.dump(target.value) in ast.dump(added)[:LONGEST_SUM]:
        value = sum_into(walk, target, evaluate(walk, target.slice, scope), value)  # `s[c] = s.get(c, 0) + y`
    base_node: ast.AST = target.value
    if isinstance(base_node, ast.Attribute) and base_node.attr in VIEWS:
        base_node = base_node.value
    base = evaluate(walk, base_node, scope)
    key = constant(walk, target.slice, scope)
    if base.keys is not None:
        if isinstance(key, str | int):
            base.keys[str(key)] = value
        else:
            base.element = either(base.element, value)
        return
    found = derived(value)
    if not base.rows and not base.items and base.made in _FILLED_LATER:
        base.rows = found.rows
        base.element = either(base.element, value) if base.element is not None or base.made else base.element
    if isinstance(target.slice, ast.Tuple) and len(target.slice.elts) == 2:
        key = constant(walk, target.slice.elts[1], scope)
    if isinstance(key, list) and key and all(isinstance(one, str) for one in key):
        for one in key:
            set_column(walk, base, one, value, target)
    elif isinstance(key, str) or (base.rows and isinstance(target.slice, ast.JoinedStr | ast.Name)):
        set_column(walk, base, key if isinstance(key, str) else None, value, target, given)
    else:
        mix_in(base, value)


def mix_in(base: Value, value: Value) -> None:
    found = derived(value)
    base.learned |= found.learned
    base.stats |= found.stats
    base.series |= found.series
    base.centred = base.centred or value.centred
