"""Evaluation of expressions, and assignments to names, attributes, items and columns."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from memory_service.review.interpretation.calls import call_library, call_method
from memory_service.review.interpretation.functions import (
    call_value,
    class_attribute,
    enter_function,
    is_own,
    make_instance,
    method_of,
)
from memory_service.review.interpretation.learning import code, sum_into
from memory_service.review.interpretation.rows import (
    column_value,
    combine,
    compare_values,
    element_of,
    invert,
    listed_columns,
    names_of_table,
    outside_rows,
    set_column,
    slides_along,
    subscript,
)
from memory_service.review.interpretation.state import (
    UNKNOWN,
    ColumnNames,
    Scope,
    Use,
    Value,
    Walk,
    constant,
    derived,
    either,
    evaluate,
    evaluates,
)
from memory_service.review.source.nodes import is_call, last_name, receiver
from memory_service.review.tables import name_sets, patterns

_RE = patterns("interpretation")
_SET = name_sets("interpretation")
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
    if _RE.target.match(name):
        walk.answers.append(value)
    if _RE.target_column.match(name) and isinstance(value.const, str):
        walk.target_names.add(value.const)


def unpack(walk: Walk, targets: Sequence[ast.expr], value: Value, scope: Scope) -> None:
    starred = [i for i, t in enumerate(targets) if isinstance(t, ast.Starred)]
    items = value.items
    for at, target in enumerate(targets):
        fits = items is not None and (at < starred[0] < len(items) if starred else len(items) == len(targets))
        if items is not None and fits:
            assign(walk, target, items[at], scope)
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
    if isinstance(base_node, ast.Attribute) and base_node.attr in _SET.views:
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


Comprehension = ast.ListComp | ast.GeneratorExp | ast.SetComp
MOST_ITEMS = 200  # expressions and bodies within one another


@evaluates(
    ast.Constant, ast.Name, ast.Lambda, ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.Compare,
    ast.NamedExpr, ast.Starred, ast.Await, ast.Yield, ast.YieldFrom,
)  # fmt: skip
def eval_plain(walk: Walk, node: ast.AST, scope: Scope) -> Value:

    def of(part: ast.AST | None) -> Value:
        return evaluate(walk, part, scope)

    match node:
        case ast.Constant(value=value):
            return Value(const=value)
        case ast.Name(id=name):
            return scope.find(name) or Value(dotted=walk.script.imports.get(name, name))
        case ast.Lambda():
            return Value(function=node, scope=scope)
        case ast.Attribute(value=base):
            return attribute_of(walk, of(base), node)
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str())) if name in walk.unbound:
            return subscript(walk, outside_rows(walk, walk.script.tree, name), node, scope)  # of a snippet
        case ast.Subscript(value=base):
            return subscript(walk, of(base), node, scope)
        case ast.BinOp(left=left, op=op, right=right):
            return combine(walk, node, op, of(left), of(right))
        case ast.UnaryOp(operand=operand):
            return invert(node, of(operand))
        case ast.Compare(left=left, comparators=others):
            return compare_values(node, [of(one) for one in (left, *others)])
        case ast.NamedExpr(target=target):
            assign(walk, target, given := of(node.value), scope)
            return given
        case ast.Starred(value=inner) | ast.Await(value=inner):
            return of(inner)
        case ast.Yield(value=inner) | ast.YieldFrom(value=inner):
            given = of(inner)
            walk.yielded[-1].append(given if isinstance(node, ast.Yield) else element_of(walk, given))
    return Value()


@evaluates(ast.JoinedStr)
def eval_joinedstr(walk: Walk, node: ast.JoinedStr, scope: Scope) -> Value:
    stated = (part.value if isinstance(part, ast.FormattedValue) else part for part in node.values)
    parts = [evaluate(walk, part, scope) for part in stated]
    if all(isinstance(one.const, str | int) for one in parts):
        return Value(const="".join(str(one.const) for one in parts))
    return derived(*parts)


def attribute_of(walk: Walk, base: Value, node: ast.Attribute) -> Value:
    """`base.name`: what was put there, a method or property of the file's class, a column, a view."""
    name = node.attr
    if name in base.attrs:
        return base.attrs[name]
    if base.kind is not None:
        method = method_of(walk, base.kind, name)
        if method is not None:
            if any(last_name(d) in ("property", "cached_property") for d in method.decorator_list):
                return enter_function(walk, method, [], {}, base, base.scope or walk.module)
            return Value(function=method, owner=base, scope=base.scope)
        item = class_attribute(walk, base.kind, name)
        if item is not None:
            return item
    if base.dotted and not base.rows:
        return Value(dotted=f"{base.dotted}.{name}")
    if name in _SET.views:
        return base
    if name == "codes" and last_name(node.value) == "cat" and base.rows:
        code(walk, node, "cat.codes", base)
        return base
    if name == "columns":
        return names_of_table(base)
    if name in ("shape", "dtypes", "size", "ndim", "dtype", "names"):
        return Value(made=name)
    return column_value(base, name)


@evaluates(ast.Call)
def eval_call(walk: Walk, node: ast.Call, scope: Scope) -> Value:
    base: Value | None = None
    if isinstance(node.func, ast.Attribute):
        base = evaluate(walk, node.func.value, scope)
        callee = attribute_of(walk, base, node.func) if is_own(walk, base, node.func.attr) else Value()
    else:
        callee = evaluate(walk, node.func, scope)
    args: list[Value] = []
    for argument in node.args:
        given = evaluate(walk, argument.value if isinstance(argument, ast.Starred) else argument, scope)
        args += given.items if isinstance(argument, ast.Starred) and given.items is not None else [given]
    named: dict[str, Value] = {}
    for keyword in node.keywords:
        given = evaluate(walk, keyword.value, scope)
        named |= {keyword.arg: given} if keyword.arg else (given.keys or {"**": given})
    if callee.function is not None:
        walk.calling.append(node)
        given = call_value(walk, callee, args, named)
        walk.calling.pop()
        return given
    if callee.kind is not None and callee.made == "":
        return make_instance(walk, callee, args, named, node)
    if base is not None and not base.dotted:
        return call_method(walk, Use(node, last_name(node.func), args, named, scope, base))
    dotted = callee.dotted or (f"{base.dotted}.{last_name(node.func)}" if base else "")
    return call_library(walk, Use(node, dotted.rsplit(".", 1)[-1], args, named, scope, dotted=dotted))


@evaluates(ast.Tuple, ast.List, ast.Set)
def eval_sequence(walk: Walk, node: ast.Tuple | ast.List | ast.Set, scope: Scope) -> Value:
    items: list[Value] = []
    for element in node.elts[:200]:
        if isinstance(element, ast.Starred):
            given = evaluate(walk, element.value, scope)
            items += given.items[:MOST_ITEMS] if given.items is not None else [given]
        else:
            items.append(evaluate(walk, element, scope))
    return Value(items=items[:MOST_ITEMS])


@evaluates(ast.Dict)
def eval_dict(walk: Walk, node: ast.Dict, scope: Scope) -> Value:
    keys: dict[str, Value] = {}
    out = Value(keys=keys)
    for key, value in zip(node.keys[:200], node.values[:200], strict=True):
        given = evaluate(walk, value, scope)
        name = constant(walk, key, scope) if key is not None else None
        if key is None:
            keys.update(given.keys or {})
        elif isinstance(name, str | int):
            keys[str(name)] = given
        else:
            out.element = either(out.element, given)
    return out


@evaluates(ast.IfExp)
def eval_ifexp(walk: Walk, node: ast.IfExp, scope: Scope) -> Value:
    known = truth_of(walk, node.test, scope)
    if known is not None:
        return evaluate(walk, node.body if known else node.orelse, scope)
    certain = enter_doubt(walk, node.test, scope)
    found = either(evaluate(walk, node.body, scope), evaluate(walk, node.orelse, scope))
    leave_doubt(walk, certain)
    return found


def enter_doubt(walk: Walk, test: ast.AST | None, scope: Scope) -> bool:
    """Into a condition that is unknown. Whether it only asks for a column: `"breed" in df`."""
    known = False
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In):
        item = evaluate(walk, test.comparators[0], scope)
        known = isinstance(test.left, ast.Constant) and bool(item.rows) and item.keys is None
    walk.present, walk.unsure = walk.present + known, walk.unsure + (not known)
    return known


def leave_doubt(walk: Walk, known: bool) -> None:
    walk.present, walk.unsure = walk.present - known, walk.unsure - (not known)


@evaluates(ast.BoolOp)
def eval_boolop(walk: Walk, node: ast.BoolOp, scope: Scope) -> Value:
    operands = [evaluate(walk, v, scope) for v in node.values]
    if isinstance(node.op, ast.Or) and len(operands) == 2:
        return either(*operands)
    return derived(*operands)


@evaluates(ast.ListComp, ast.GeneratorExp, ast.SetComp)
def eval_comprehension(walk: Walk, node: Comprehension, scope: Scope) -> Value:
    inner = comprehension_scope(walk, node.generators, scope)
    over = evaluate(walk, node.generators[0].iter, scope)
    names = filter_columns(walk, node, over, scope)
    if names is not None:
        return names
    through = node.generators[0]
    few = len(node.generators) == 1 and over.items is not None and len(over.items) <= 4 and not through.ifs
    if few and over.items:
        items = []
        for item in over.items:
            assign(walk, through.target, item, inner)
            items.append(evaluate(walk, node.elt, inner))
        return Value(items=items)
    out = Value(element=evaluate(walk, node.elt, inner))
    if slides_along(through, node.elt):
        out.series = frozenset((node,))
    return out


def filter_columns(walk: Walk, node: Comprehension, over: Value, scope: Scope) -> Value | None:
    """`[c for c in df.columns if c not in ("id", "y")]`: names of columns."""
    through = node.generators[0]
    if over.whole and over.names is None:
        over = names_of_table(over)
    known = over.names
    if len(node.generators) > 1 or last_name(node.elt) != last_name(through.target):
        return None
    matched = matched_columns(walk, through, over.owner, scope)
    if matched:
        return Value(over.rows, made="columns", names=ColumnNames(matched), place=node)
    if known is None:
        return None
    for test in through.ifs:
        for one in test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]:
            if isinstance(one, ast.Compare) and last_name(one.left) == "dtype":
                averaged = any(one.kind == "target" for one in walk.known.values())
                if not walk.predicts_numbers and not averaged:  # the target may be a text
                    known = known.without(walk.targets)
                continue
            if not isinstance(one, ast.Compare) or last_name(one.left) != last_name(through.target):
                return Value(made="columns", rows=over.rows)
            stated = listed_columns(walk, one.comparators[0], scope)
            if stated is None or not isinstance(one.ops[0], ast.NotIn | ast.NotEq):
                return Value(made="columns", rows=over.rows)
            known = known.without(stated)
    return Value(over.rows, made="columns", names=known, place=node)


def matched_columns(
    walk: Walk, through: ast.comprehension, table: Value | None, scope: Scope
) -> frozenset[str]:
    """`c for c in df.columns if c.startswith("lag_")`: the columns made here that begin or end so."""
    test = through.ifs[0] if len(through.ifs) == 1 and table is not None else None
    name = receiver(test)
    if table is None or name is None or not is_call(test, "startswith", "endswith") or len(test.args) != 1:
        return frozenset()
    stated = constant(walk, test.args[0], scope)
    ends = (stated,) if isinstance(stated, str) else tuple(stated) if isinstance(stated, list | tuple) else ()
    if last_name(name) != last_name(through.target) or not all(isinstance(one, str) for one in ends):
        return frozenset()
    made = {column[1:-1] for column in table.attrs if column[:1] == "[" and column != "[?]"}
    return frozenset(column for column in made if getattr(column, last_name(test.func))(ends))


@evaluates(ast.DictComp)
def eval_dictcomp(walk: Walk, node: ast.DictComp, scope: Scope) -> Value:
    inner = comprehension_scope(walk, node.generators, scope)
    evaluate(walk, node.key, inner)
    walk.loops.append(node)
    value = evaluate(walk, node.value, inner)
    walk.loops.pop()
    return Value(keys={}, element=value)


def comprehension_scope(walk: Walk, generators: list[ast.comprehension], scope: Scope) -> Scope:
    inner = Scope({}, scope)
    for generator in generators:
        assign(walk, generator.target, element_of(walk, evaluate(walk, generator.iter, inner)), inner)
        for test in generator.ifs:
            evaluate(walk, test, inner)
    return inner


def truth_of(walk: Walk, test: ast.AST, scope: Scope) -> bool | None:
    """Whether a condition holds in this run, None where that is unknown."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        found = truth_of(walk, test.operand, scope)
        return None if found is None else not found
    if isinstance(test, ast.Name):
        item = scope.find(test.id)
        return bool(item.const) if item is not None and item.const is not UNKNOWN else None
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return truth_of_comparison(walk, test, scope)
    return None


def truth_of_comparison(walk: Walk, test: ast.Compare, scope: Scope) -> bool | None:
    left, right, op = test.left, test.comparators[0], test.ops[0]
    if isinstance(left, ast.Name) and left.id == "__name__":
        return True
    if isinstance(right, ast.Constant) and right.value is None and isinstance(op, ast.Is | ast.IsNot):
        item = evaluate(walk, left, scope)
        if item.const is None:
            return isinstance(op, ast.Is)
        known = item.rows or item.made or item.items or item.state or item.function
        return isinstance(op, ast.IsNot) if known or item.const is not UNKNOWN else None
    if isinstance(op, ast.Eq | ast.NotEq) and isinstance(left, ast.Name):
        held_name = scope.find(left.id)
        other = constant(walk, right, scope)
        if held_name is not None and held_name.const is not UNKNOWN and isinstance(other, str | int):
            return (held_name.const == other) is isinstance(op, ast.Eq)
    return None
