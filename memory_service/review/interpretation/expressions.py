"""Statements in the order of a run, expressions, and calls of libraries and what they do with rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from memory_service.review.interpretation.learning import aggregate, code, of_collection, sum_into, transform
from memory_service.review.interpretation.state import (
    DEFERRED,
    OTHER_ROWS,
    UNKNOWN,
    Columns,
    Scope,
    Value,
    all_of,
    derived,
    either,
    flat,
)
from memory_service.review.interpretation.walk import (
    LIBRARY,
    METHODS,
    Body,
    Use,
    Walk,
    compare_values,
    evaluates,
    invert,
    library,
    method,
    methods_in,
    runs,
    short,
    slides_along,
)
from memory_service.review.source.script import Function, arguments_of, is_call, last_name, receiver
from memory_service.review.tables import words_of
from memory_service.review.values.values import Values

_RE, _SET, *_ = words_of("interpretation")


def call_other(walk: Walk, use: Use, *, method: bool) -> Value:
    """A function or class from outside the file, or a method of what is no object of the file's classes."""
    base = use.base
    own = base.items is not None or base.keys is not None or base.element is not None
    if own and (found := of_collection(walk, use)) is not None:
        return found
    handler = (METHODS if method else LIBRARY).get(use.name)
    given = handler(walk, use) if handler is not None else None
    if given is None:
        given = (other_method if method else other_function)(walk, use)
    # `x.cuda()`, `x.to(device)`, `torch.tensor(x, device=device)`: tensors that lie on the card
    device = walk.values.argument(use.node, "device", 0 if use.name == "to" else None)
    if device is None:
        return replace(given, on_card=True) if use.name == "cuda" else given
    there = walk.values.one(device) != "cpu" and not _RE.no_card.match(last_name(device))
    return replace(given, on_card=True) if there else given


def other_method(walk: Walk, use: Use) -> Value:
    base, name = use.base, use.name
    if base.made == "columns":
        same = name in ("tolist", "to_list", "copy", "unique")
        return Value(base.rows, made="columns", names=base.names if same else None, owner=base.owner)
    if base.made and name in ("to", "cuda", "cpu", "compile", "eval", "train", "set_output"):
        return base
    found = flat(base, *use.given)
    if not (base.made or found.rows or found.stats or found.learned):
        reads = _RE.reads.match(name)
        return walk.outside_rows(use.node, file_name_in(walk, use)) if reads else Value(made=name)
    out = base.like(*use.given)
    if name in _SET.row_by_row:
        out.reads = base.reads.union(*(item.reads for item in use.given))
    if base.rows and base.made in ("groupby", "rolling", "col"):
        out.made = base.made
    return base.keeping(out, "columns", "cut", "centred", "single")


def other_function(walk: Walk, use: Use) -> Value:
    name, given = use.name, use.given
    if name == "open" and use.args:
        return Value(made=name, attrs={"0": use.args[0]})
    if name == "DictReader":
        return walk.outside_rows(use.node, file_name_in(walk, use))
    if name in _SET.empty:
        return Value(made=name)
    if name in ("intersect1d", "setdiff1d") and use.first.made == "columns":
        return Value(use.first.rows, made="columns")
    if name[:1].isupper() or name in _SET.joins:
        attrs = {str(at): item for at, item in enumerate(use.args)} | use.named
        if name in ("Dataset", "DMatrix", "QuantileDMatrix", "Pool", "TensorDataset"):
            answer = use.args[1] if len(use.args) > 1 else use.named.get("label")
            walk.supervise(use.node, use.first, answer)
        if name == "DataFrame" and use.named.keys() == {"index"} and flat(use.named["index"]).rows:
            return Value(flat(use.named["index"]).rows, columns=frozenset())
        return Value(made=name, attrs=attrs, call=use.node)
    if name in _SET.converts and use.first.rows:
        return use.first.keeping(use.first.like(*given[1:]), "reads", "single", "centred", "index")
    found = flat(*given)
    if not found.rows and not found.learned:
        reads = bool(_RE.reads.match(name))
        if reads or isinstance(walk.script.parents.get(use.node), ast.Assign):
            item = walk.outside_rows(use.node, file_name_in(walk, use), file=reads)
            item.whole = bool(_RE.tables.match(name))
            item.single = not isinstance(use.first.const, str) and bool(_RE.one_sample.search(use.dotted))
            return item
        return Value(made=name)
    out = derived(*given)
    if name in _SET.row_by_row and given:
        out.reads = frozenset().union(*(item.reads for item in given))
        return given[0].keeping(out, "columns", "whole", "dropped", "place")
    return out


@library("hstack", "column_stack", "concatenate", "concat")
def side_by_side(walk: Walk, use: Use) -> Value | None:
    """`np.hstack([X, df[more].to_numpy()])`: the columns that are known by name are still among them."""
    operand = use.first.items
    axis = walk.constant(walk.values.argument(use.node, "axis", 1), use.scope)
    if use.name.startswith("concat") and axis not in (1, -1, "columns"):
        if not operand or not all(one.whole for one in operand):
            return None
        out = derived(*(one.bare() for one in operand))  # below one another: what is still in every table
        out.whole, out.dropped = True, frozenset().union(*(one.dropped for one in operand))
        for one in operand:
            out.attrs |= {k: either(out.attrs.get(k), v) for k, v in one.single_columns().items()}
        return out
    named = [item for item in operand or () if item.columns]
    if not named or any(item.whole for item in operand or ()):
        return None
    columns = frozenset[str]().union(*(item.columns or () for item in named))
    attrs = {k: v for item in named for k, v in item.single_columns().items()}
    return replace(derived(use.first), columns=columns, attrs=attrs, place=named[-1].place)


@method("isin", "is_in")
@library("isin", "in1d")
def is_in(_walk: Walk, use: Use) -> Value:
    return replace(derived(use.base, *use.args), cut=("isin", short(use.node), "in"))


@method(*_SET.random, *_SET.orders)
@library(*_SET.random, *_SET.orders)
def by_chance(_walk: Walk, use: Use) -> Value | None:
    """`rand(n)`; positions in an order: `permutation(n)`, `arange(n)`; `shuffle(rows)` in place."""
    if use.name == "shuffle" and flat(use.base).rows:
        return use.base  # `ds.shuffle(1000)`
    own = not flat(use.base, *use.given).rows
    return Value(order=use.name in _SET.orders, made=use.name) if own else None


@method(*_SET.of_the_past, *_SET.running)
def of_the_past(walk: Walk, use: Use) -> Value | None:
    """Of earlier or later rows; what is running, as `cumsum`, holds each row's own value too."""
    base = use.base
    if not flat(base).rows:
        return None
    made = "rolling" if use.name in ("rolling", "ewm", "expanding") else base.made
    made = "cumsum" if use.name in _SET.running and base.made != "col" else made
    closed = walk.constant(walk.values.argument(use.node, "closed"), use.scope)
    by = walk.constant(walk.values.argument(use.node, "periods", 0), use.scope)
    ahead = use.name == "shift" and isinstance(by, int | float) and by < 0
    out = replace(derived(base), made=made, columns=None if ahead else base.columns)
    out.series |= {use.node}
    if (use.name in ("shift", "lag") and not ahead) or closed == "left":
        out.attrs[OTHER_ROWS] = Value()
    else:
        out.reads = base.reads
    return out


@library("merge", "merge_asof")
def merge_tables(_walk: Walk, use: Use) -> Value | None:
    """`pd.merge(left, right)` has the rows of the first."""
    given = [*use.args, *(use.named[side] for side in ("left", "right") if side in use.named)]
    return given[0].with_more(given[1:]) if given and not flat(use.base).rows else None


@method(*_SET.keeps_rows)
def keep_method(walk: Walk, use: Use) -> Value:
    out = use.base.with_more(use.given)
    same = (one for one in use.args if one.columns == use.base.columns)
    means = {s for s in flat(*same).stats if s.kind == "mean" and all_of(use.base.rows) & s.rows}
    if use.name in ("fillna", "fill_null") and means:
        rows = frozenset().union(*(s.rows for s in means))
        out.learned |= {walk.learned_from(use.node, "a mean to fill gaps with", "fit", rows)}
    return out


@method("pipe", "map", "map_rows", "imap", "imap_unordered")
def map_rows(walk: Walk, use: Use) -> Value:
    """`table.pipe(f)`, `ds.map(f)`, `column.map(table)`, `pool.map(f, files)`."""
    out = walk.by_row(use)
    if isinstance(use.node.args[0] if use.node.args else None, ast.Dict):
        out.reads = use.base.reads  # each row's own value under another name
    return out


@method("assign")
def assign_columns(walk: Walk, use: Use) -> Value:
    """`df.assign(rate=...)`, polars' `with_columns(rate=...)`: new columns by name."""
    out = use.base.with_more(use.args)
    for name, given in use.named.items():
        item = walk.call_value(given, [use.base], {}) if given.function is not None else given
        walk.set_column(out, name, item, use.node, walk.values.argument(use.node, name))
    return out


@method("unique")
@library("unique")
def distinct(walk: Walk, use: Use) -> Value:
    """`df["patient"].unique()`: one each."""
    item = use.base if use.base.rows else use.first
    return replace(derived(item), rows=frozenset(walk.grouped_rows(rows, use.node) for rows in item.rows))


@method("pop")
def pop_column(walk: Walk, use: Use) -> Value | None:
    key = walk.constant(use.node.args[0], use.scope) if use.node.args else None
    if not isinstance(key, str) or not use.base.rows:
        return None
    out = use.base.column(key)
    use.base.drop_column(key)
    return out


@method("factorize")
@library("factorize", "get_dummies")
def number_categories(walk: Walk, use: Use) -> Value:
    """Categories numbered by the rows given: `pd.factorize(df[c])`, `pd.get_dummies(df)`."""
    item = use.base if use.base.rows else use.first
    code(walk, use.node, use.name, item)
    return item.like() if walk.values.argument(use.node, "columns") is not None else derived(item)


@library("col")
def polars_column(_walk: Walk, use: Use) -> Value | None:
    if not use.dotted.startswith("polars"):
        return None
    text = use.args[0].const if use.args else None
    columns = frozenset((text,)) if isinstance(text, str) else None
    return Value(frozenset((DEFERRED,)), made="col", columns=columns, reads=columns or frozenset())


def file_name_in(walk: Walk, use: Use) -> str:
    first = use.args[0] if use.args else None
    first = first.attrs.get("0") if first is not None and first.made == "open" else first
    if first is not None and isinstance(first.const, str):
        return str(first.const)
    if (given := next(iter(arguments_of(use.node)), None)) is None:
        return ""
    found = walk.values.text(given)
    texts = [n for n in ast.walk(given) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    last = max(texts, key=lambda n: (n.lineno, n.col_offset), default=None)  # `Path("in") / "train.csv"`
    return found if found is not None else str(last.value) if last is not None else ""


@method("transform")
def transform_or_aggregate(walk: Walk, use: Use) -> Value:
    """`scaler.transform(X)`, `grouped.transform("mean")`."""
    return transform(walk, use) or aggregate(walk, use)


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
        walk.evaluate(target.value, scope).attrs[target.attr] = value
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
            part = walk.element_of(value) if value.element is not None else derived(value)
            assign(walk, target, part, scope)


def assign_item(walk: Walk, target: ast.Subscript, value: Value, scope: Scope) -> None:
    stated = walk.script.parents.get(target)
    given = stated.value if isinstance(stated, ast.Assign) else None
    base_node: ast.AST = target.value
    if isinstance(base_node, ast.Attribute) and base_node.attr in _SET.views:
        base_node = base_node.value
    base = walk.evaluate(base_node, scope)
    key = walk.constant(target.slice, scope)
    if base.keys is not None and isinstance(key, str | int):
        base.keys[str(key)] = value
        return
    if base.keys is not None:
        base.element = either(base.element, value)
        return
    found = derived(value)
    if not base.rows and not base.items and base.made in _FILLED_LATER:
        base.rows = found.rows
        base.element = either(base.element, value) if base.element is not None or base.made else base.element
    if isinstance(target.slice, ast.Tuple) and len(target.slice.elts) == 2:
        key = walk.constant(target.slice.elts[1], scope)
    if isinstance(key, list) and key and all(isinstance(one, str) for one in key):
        for one in key:
            walk.set_column(base, one, value, target)
    elif isinstance(key, str) or (base.rows and isinstance(target.slice, ast.JoinedStr | ast.Name)):
        walk.set_column(base, key if isinstance(key, str) else None, value, target, given)
    else:
        for name in ("learned", "stats", "series"):
            setattr(base, name, getattr(base, name) | getattr(found, name))
        base.centred = base.centred or value.centred


Comprehension = ast.ListComp | ast.GeneratorExp | ast.SetComp
MOST_ITEMS = 200  # expressions and bodies within one another


@evaluates(
    ast.Constant, ast.Name, ast.Lambda, ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.Compare,
    ast.NamedExpr, ast.Starred, ast.Await, ast.Yield, ast.YieldFrom,
)  # fmt: skip
def eval_plain(walk: Walk, node: ast.AST, scope: Scope) -> Value:

    def of(part: ast.AST | None) -> Value:
        return walk.evaluate(part, scope)

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
            return walk.subscript(walk.outside_rows(walk.script.tree, name), node, scope)  # of a snippet
        case ast.Subscript(value=base):
            return walk.subscript(of(base), node, scope)
        case ast.BinOp(left=left, op=op, right=right):
            return walk.combine(node, op, of(left), of(right))
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
            walk.yielded[-1].append(given if isinstance(node, ast.Yield) else walk.element_of(given))
    return Value()


def attribute_of(walk: Walk, base: Value, node: ast.Attribute) -> Value:
    """`base.name`: what was put there, a method or property of the file's class, a column, a view."""
    name = node.attr
    if name in base.attrs:
        return base.attrs[name]
    if base.kind is not None:
        method = walk.method_of(base.kind, name)
        if method is None and (item := walk.class_attribute(base.kind, name)) is not None:
            return item
        if method is not None:
            if any(last_name(d) in ("property", "cached_property") for d in method.decorator_list):
                return walk.enter_function(method, [], {}, base, base.scope or walk.module)
            return Value(function=method, owner=base, scope=base.scope)
    if base.dotted and not base.rows:
        return Value(dotted=f"{base.dotted}.{name}")
    if name in _SET.views:
        return base
    if name == "codes" and last_name(node.value) == "cat" and base.rows:
        code(walk, node, "cat.codes", base)
        return base
    if name == "columns":
        return base.table_names()
    if name in ("shape", "dtypes", "size", "ndim", "dtype", "names"):
        return Value(made=name)
    return base.column(name)


@evaluates(ast.Call)
def eval_call(walk: Walk, node: ast.Call, scope: Scope) -> Value:
    base: Value | None = None
    if isinstance(node.func, ast.Attribute):
        base = walk.evaluate(node.func.value, scope)
        callee = attribute_of(walk, base, node.func) if walk.is_own(base, node.func.attr) else Value()
    else:
        callee = walk.evaluate(node.func, scope)
    args, named = spread(walk, node.args, scope), dict[str, Value]()
    for keyword in node.keywords:
        given = walk.evaluate(keyword.value, scope)
        named |= {keyword.arg: given} if keyword.arg else (given.keys or {"**": given})
    if callee.function is not None:
        walk.calling.append(node)
        given = walk.call_value(callee, args, named)
        walk.calling.pop()
        return given
    if callee.kind is not None and callee.made == "":
        return walk.make_instance(callee, args, named, node)
    if base is not None and not base.dotted:
        return call_other(walk, Use(node, last_name(node.func), args, named, scope, base), method=True)
    dotted = callee.dotted or (f"{base.dotted}.{last_name(node.func)}" if base else "")
    use = Use(node, dotted.rsplit(".", 1)[-1], args, named, scope, dotted=dotted)
    return call_other(walk, use, method=False)


@evaluates(ast.Tuple, ast.List, ast.Set)
def eval_sequence(walk: Walk, node: ast.Tuple | ast.List | ast.Set, scope: Scope) -> Value:
    return Value(items=spread(walk, node.elts[:MOST_ITEMS], scope)[:MOST_ITEMS])


def spread(walk: Walk, nodes: Sequence[ast.expr], scope: Scope) -> list[Value]:
    """The values of arguments or elements, `*more` with each of its own."""
    out: list[Value] = []
    for node in nodes:
        given = walk.evaluate(node.value if isinstance(node, ast.Starred) else node, scope)
        out += given.items if isinstance(node, ast.Starred) and given.items is not None else [given]
    return out


@evaluates(ast.Dict)
def eval_dict(walk: Walk, node: ast.Dict, scope: Scope) -> Value:
    keys: dict[str, Value] = {}
    out = Value(keys=keys)
    for key, value in zip(node.keys[:200], node.values[:200], strict=True):
        given = walk.evaluate(value, scope)
        name = walk.constant(key, scope) if key is not None else None
        if key is None:
            keys.update(given.keys or {})
        elif isinstance(name, str | int):
            keys[str(name)] = given
        else:
            out.element = either(out.element, given)
    return out


@evaluates(ast.BoolOp, ast.JoinedStr)
def eval_several(walk: Walk, node: ast.BoolOp | ast.JoinedStr, scope: Scope) -> Value:
    stated = (part.value if isinstance(part, ast.FormattedValue) else part for part in node.values)
    parts = [walk.evaluate(part, scope) for part in stated]
    if isinstance(node, ast.JoinedStr) and all(isinstance(one.const, str | int) for one in parts):
        return Value(const="".join(str(one.const) for one in parts))
    both = isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and len(parts) == 2
    return either(*parts) if both else derived(*parts)


@evaluates(ast.IfExp)
def eval_ifexp(walk: Walk, node: ast.IfExp, scope: Scope) -> Value:
    known = truth_of(walk, node.test, scope)
    if known is not None:
        return walk.evaluate(node.body if known else node.orelse, scope)
    with doubt(walk, node.test, scope):
        return either(walk.evaluate(node.body, scope), walk.evaluate(node.orelse, scope))


@contextmanager
def doubt(walk: Walk, test: ast.AST | None, scope: Scope) -> Iterator[None]:
    """Within: a condition that is unknown, or that only asks for a column: `"breed" in df`."""
    known = False
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In):
        item = walk.evaluate(test.comparators[0], scope)
        known = isinstance(test.left, ast.Constant) and bool(item.rows) and item.keys is None
    walk.present, walk.unsure = walk.present + known, walk.unsure + (not known)
    yield
    walk.present, walk.unsure = walk.present - known, walk.unsure - (not known)


@evaluates(ast.ListComp, ast.GeneratorExp, ast.SetComp)
def eval_comprehension(walk: Walk, node: Comprehension, scope: Scope) -> Value:
    inner = comprehension_scope(walk, node.generators, scope)
    over = walk.evaluate(node.generators[0].iter, scope)
    names = filter_columns(walk, node, over, scope)
    if names is not None:
        return names
    through = node.generators[0]
    few = len(node.generators) == 1 and over.items is not None and len(over.items) <= 4 and not through.ifs
    if few and over.items:
        items = []
        for item in over.items:
            assign(walk, through.target, item, inner)
            items.append(walk.evaluate(node.elt, inner))
        return Value(items=items)
    out = Value(element=walk.evaluate(node.elt, inner))
    if slides_along(through, node.elt):
        out.series = frozenset((node,))
    return out


def filter_columns(walk: Walk, node: Comprehension, over: Value, scope: Scope) -> Value | None:
    """`[c for c in df.columns if c not in ("id", "y")]`: names of columns."""
    through = node.generators[0]
    if over.whole and over.names is None:
        over = over.table_names()
    known = over.names
    if len(node.generators) > 1 or last_name(node.elt) != last_name(through.target):
        return None
    matched = matching(walk, through, over.owner, scope)
    if matched:
        return Value(over.rows, made="columns", names=Columns(matched), place=node)
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
            stated = walk.listed_columns(one.comparators[0], scope)
            if stated is None or not isinstance(one.ops[0], ast.NotIn | ast.NotEq):
                return Value(made="columns", rows=over.rows)
            known = known.without(stated)
    return Value(over.rows, made="columns", names=known, place=node)


def matching(walk: Walk, through: ast.comprehension, table: Value | None, scope: Scope) -> frozenset[str]:
    """`c for c in df.columns if c.startswith("lag_")`: the columns made here that begin or end so."""
    test = through.ifs[0] if len(through.ifs) == 1 and table is not None else None
    name = receiver(test)
    if table is None or name is None or not is_call(test, "startswith", "endswith") or len(test.args) != 1:
        return frozenset()
    stated = walk.constant(test.args[0], scope)
    ends = (stated,) if isinstance(stated, str) else tuple(stated) if isinstance(stated, list | tuple) else ()
    if last_name(name) != last_name(through.target) or not all(isinstance(one, str) for one in ends):
        return frozenset()
    made = {column[1:-1] for column in table.attrs if column[:1] == "[" and column != "[?]"}
    return frozenset(column for column in made if getattr(column, last_name(test.func))(ends))


@evaluates(ast.DictComp)
def eval_dictcomp(walk: Walk, node: ast.DictComp, scope: Scope) -> Value:
    inner = comprehension_scope(walk, node.generators, scope)
    walk.evaluate(node.key, inner)
    walk.loops.append(node)
    value = walk.evaluate(node.value, inner)
    walk.loops.pop()
    return Value(keys={}, element=value)


def comprehension_scope(walk: Walk, generators: list[ast.comprehension], scope: Scope) -> Scope:
    inner = Scope({}, scope)
    for generator in generators:
        assign(walk, generator.target, walk.element_of(walk.evaluate(generator.iter, inner)), inner)
        for test in generator.ifs:
            walk.evaluate(test, inner)
    return inner


def truth_of(walk: Walk, test: ast.AST, scope: Scope) -> bool | None:
    """Whether a condition holds in this run, None where that is unknown."""

    def held(name: str) -> Any:
        item = scope.find(name)
        return item.const if item is not None else UNKNOWN

    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = truth_of(walk, operand, scope)
            return None if found is None else not found
        case ast.Name(id=name) if (value := held(name)) is not UNKNOWN:
            return bool(value)
        case ast.Compare(left=ast.Name(id="__name__"), ops=[_]):
            return True
        case ast.Compare(
            left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]
        ):
            item = walk.evaluate(left, scope)
            known = item.rows or item.made or item.items or item.state or item.function
            if item.const is None or known or item.const is not UNKNOWN:
                return isinstance(op, ast.Is) is (item.const is None)
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq() | ast.NotEq() as op], comparators=[right]):
            value, other = held(name), walk.constant(right, scope)
            if value is not UNKNOWN and isinstance(other, str | int):
                return (value == other) is isinstance(op, ast.Eq)
    return None


@runs(
    ast.Expr, ast.AnnAssign, ast.Assign, ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Return,
    ast.Global, ast.Delete,
)  # fmt: skip
def run_plain(walk: Walk, node: ast.stmt, scope: Scope) -> bool:
    match node:
        case ast.Expr(value=value):
            walk.evaluate(value, scope)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            assign(walk, target, walk.evaluate(value, scope), scope)
        case ast.Assign(value=value):
            given = walk.evaluate(value, scope)
            for to in node.targets:
                assign(walk, to, given, scope)
        case ast.AugAssign():
            change(walk, node, scope)
        case ast.Return(value=value) if walk.returned:
            walk.returned[-1].append(walk.evaluate(value, scope) if value else Value(const=None))
        case ast.Global(names=names):
            walk.shared.setdefault(id(scope), set()).update(names)
        case ast.Delete():
            for to in node.targets:
                delete(walk, to, scope)
    return isinstance(node, ast.Raise | ast.Continue | ast.Break | ast.Return)


def change(walk: Walk, node: ast.AugAssign, scope: Scope) -> None:
    before, more = walk.evaluate(node.target, scope), walk.evaluate(node.value, scope)
    if isinstance(node.target, ast.Subscript) and isinstance(node.op, ast.Add):
        more = sum_into(walk, node, walk.evaluate(node.target.slice, scope), more)
    after = walk.combine(node, node.op, before, more)
    if before.items is not None or before.element is not None:
        after.element = either(before.element, after.element) if after.element else before.element
    assign(walk, node.target, after, scope)


def delete(walk: Walk, target: ast.expr, scope: Scope) -> None:
    if isinstance(target, ast.Name):
        scope.names.pop(target.id, None)
    elif isinstance(target, ast.Subscript):
        key, base = walk.constant(target.slice, scope), walk.evaluate(target.value, scope)
        if isinstance(key, str):
            base.drop_column(key)


@runs(
    ast.If, ast.While, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith, ast.Try, ast.ClassDef, ast.FunctionDef,
    ast.AsyncFunctionDef,
)  # fmt: skip
def run_block(walk: Walk, node: ast.stmt, scope: Scope) -> bool:
    match node:
        case ast.If(test=test, body=body, orelse=orelse):
            walk.evaluate(test, scope)
            known = truth_of(walk, test, scope)
            if known is not None:
                return walk.run_body(body if known else orelse, scope)
            return run_branches(walk, [body, orelse], scope, test)
        case ast.While(test=test, body=body):
            walk.evaluate(test, scope)
            walk.run_body(body, scope)
        case ast.For() | ast.AsyncFor():
            over = walk.evaluate(node.iter, scope)
            few = over.items is not None and 1 < len(over.items) <= 4
            passes = [*(over.items or ())] if few else [walk.element_of(over)]
            walk.loops.append(node)
            for item in passes:
                assign(walk, node.target, item, scope)
                walk.run_body(node.body, scope)
            walk.loops.pop()
            walk.run_body(node.orelse, scope)
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            for one in items:
                given = walk.evaluate(one.context_expr, scope)
                if one.optional_vars is not None:
                    assign(walk, one.optional_vars, given, scope)
            return walk.run_body(body, scope)
        case ast.Try(handlers=handlers):
            ended = walk.run_body([*node.body, *node.orelse], scope)
            for handler in handlers:
                if not any(isinstance(s, ast.Raise) for s in handler.body):
                    run_branches(walk, [handler.body, []], scope)
            return walk.run_body(node.finalbody, scope) or (ended and not handlers)
        case ast.ClassDef(body=body):
            inner = Scope({}, scope)
            walk.run_body([s for s in body if not isinstance(s, Function)], inner)
            scope.names[node.name] = Value(kind=node, scope=scope, attrs=inner.names)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            scope.names[node.name] = Value(function=node, scope=scope)
    return False


def run_branches(walk: Walk, bodies: Sequence[Body], scope: Scope, test: ast.AST | None = None) -> bool:
    """One of these runs; what follows is true for any of them."""
    before = dict(scope.names)
    left: list[dict[str, Value]] = []
    with doubt(walk, test, scope):
        for body in bodies:
            scope.names = dict(before)
            walk.steps += len(before) // 10
            if not walk.run_body(body, scope):
                left.append(scope.names)
    if not left:
        scope.names = before
        return True
    merged = left[0]
    for names in left[1:]:
        merged = {name: either(merged.get(name), names.get(name)) for name in {**merged, **names}}
    scope.names = merged
    return False


def walk_script(values: Values) -> Walk:
    """What a run would do. Where the walk asks for the targets, it is made again with those found."""
    first = _walk(Walk(values))
    targets = set(first.target_names)
    for value in first.answers:  # columns that targets are, and those of which one is the logarithm or root
        own = value.columns if value.columns is not None and len(value.columns) == 1 else frozenset[str]()
        targets |= (
            value.reads | own if len(value.reads | own) <= 1 or len(value.reads - own) == len(own) else set()
        )
    return _walk(Walk(values, frozenset(targets))) if first.needs_targets and targets else first


def _walk(walk: Walk) -> Walk:
    """The module, then what nothing in it calls: methods that a framework calls, offered functions."""
    walk.returned.append([])
    walk.yielded.append([])
    walk.run_body(walk.script.tree.body, walk.module)
    for made in list(walk.made):
        for own in methods_in(made.kind):
            if own not in walk.times and not own.name.startswith("__"):
                walk.enter_function(own, [], {}, made, walk.module)
    objects: dict[ast.ClassDef, Value] = {}  # methods of one class are of one object
    for function in [function for functions in walk.script.functions.values() for function in functions]:
        if function in walk.times or isinstance(walk.script.scope(function), Function):
            continue
        around = walk.script.class_of(function)
        if around is not None and around not in objects:
            item = walk.module.find(around.name) or Value(kind=around)
            objects[around] = walk.make_instance(item, [], {}, None)
        if function not in walk.times:
            walk.enter_function(function, [], {}, objects.get(around) if around else None, walk.module)
    return walk
