"""What do expressions give in a run? Names, attributes, subscripts, calls, comprehensions, conditions."""

from __future__ import annotations

import ast
from typing import Any

from memory_service.review.flow_calls import FlowCalls
from memory_service.review.flow_rows import MOST_STEPS, Use
from memory_service.review.flow_values import UNKNOWN, Scope, Value, derived, either
from memory_service.review.flow_words import VIEWS
from memory_service.review.script import Function, last_name

__all__ = ["MOST_DEEP", "FlowExpressions"]


MOST_DEEP = 120
MOST_ITEMS = 200
"""Expressions and bodies within one another."""


class FlowExpressions(FlowCalls):
    """Expressions of one run."""

    def value(self, node: ast.AST | None, scope: Scope) -> Value:
        """What an expression gives."""
        self.steps += 1
        if node is None or self.steps > MOST_STEPS or self.deep > MOST_DEEP:
            return Value()
        self.deep += 1
        try:
            handler = getattr(self, f"_of_{type(node).__name__.lower()}", None)
            if handler is None:
                held = [self.value(c, scope) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
                return derived(*held)
            found = handler(node, scope)
            return found if isinstance(found, Value) else Value()
        finally:
            self.deep -= 1

    def _of_constant(self, node: ast.Constant, _scope: Scope) -> Value:
        return Value(const=node.value)

    def _of_name(self, node: ast.Name, scope: Scope) -> Value:
        found = scope.find(node.id)
        return found if found is not None else Value(dotted=self.script.imports.get(node.id, node.id))

    def _of_namedexpr(self, node: ast.NamedExpr, scope: Scope) -> Value:
        value = self.value(node.value, scope)
        self.put(node.target, value, scope)
        return value

    def _of_attribute(self, node: ast.Attribute, scope: Scope) -> Value:
        return self.attribute(self.value(node.value, scope), node)

    def attribute(self, base: Value, node: ast.Attribute) -> Value:
        """`base.name`: what was put there, a method or property of the file's class, a column, a view."""
        name = node.attr
        if name in base.attrs:
            return base.attrs[name]
        if base.kind is not None:
            method = self.method_of(base.kind, name)
            if method is not None:
                if any(last_name(d) in ("property", "cached_property") for d in method.decorator_list):
                    return self.enter(method, [], {}, base, base.scope or self.module)
                return Value(function=method, owner=base, scope=base.scope)
            held = self.class_attribute(base.kind, name)
            if held is not None:
                return held
        if base.dotted and not base.rows:
            return Value(dotted=f"{base.dotted}.{name}")
        if base.keys is not None and name in base.keys:
            return base.keys[name]
        if name in VIEWS:
            return base
        if name == "codes" and last_name(node.value) == "cat" and base.rows:
            self.coded(node, "cat.codes", base)
        if name == "columns":
            return self.column_names(base)
        if name in ("shape", "dtypes", "size", "ndim", "dtype", "names"):
            return Value(made=name)
        return self.column(base, name)

    def _of_subscript(self, node: ast.Subscript, scope: Scope) -> Value:
        base = self.value(node.value, scope)
        return self.chosen(base, node, scope)

    def _of_call(self, node: ast.Call, scope: Scope) -> Value:
        base: Value | None = None
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value, scope)
            callee = self.attribute(base, node.func) if self.own(base, node.func.attr) else Value()
        else:
            callee = self.value(node.func, scope)
        args: list[Value] = []
        for argument in node.args:
            given = self.value(argument.value if isinstance(argument, ast.Starred) else argument, scope)
            args += given.items if isinstance(argument, ast.Starred) and given.items is not None else [given]
        named: dict[str, Value] = {}
        for keyword in node.keywords:
            given = self.value(keyword.value, scope)
            named |= {keyword.arg: given} if keyword.arg else (given.keys or {"**": given})
        if callee.function is not None:
            self.calling.append(node)
            given = self.entered(callee, args, named)
            self.calling.pop()
            return given
        if callee.kind is not None and callee.made == "":
            return self.instance(callee, args, named, node)
        if callee.made in ("partial", "method") and callee.items:
            return self.entered(callee.items[0], [*callee.items[1:], *args], {**(callee.keys or {}), **named})
        if base is not None and not base.dotted:
            return self.method(Use(node, last_name(node.func), args, named, scope, base))
        dotted = callee.dotted or (f"{base.dotted}.{last_name(node.func)}" if base else "")
        return self.library(Use(node, dotted.rsplit(".", 1)[-1], args, named, scope, dotted=dotted))

    def _of_tuple(self, node: ast.Tuple | ast.List | ast.Set, scope: Scope) -> Value:
        items: list[Value] = []
        for element in node.elts[:200]:
            if isinstance(element, ast.Starred):
                given = self.value(element.value, scope)
                items += given.items[:MOST_ITEMS] if given.items is not None else [given]
            else:
                items.append(self.value(element, scope))
        return Value(items=items[:MOST_ITEMS])

    _of_list = _of_set = _of_tuple

    def _of_dict(self, node: ast.Dict, scope: Scope) -> Value:
        keys: dict[str, Value] = {}
        out = Value(keys=keys)
        for key, value in zip(node.keys[:200], node.values[:200], strict=True):
            given = self.value(value, scope)
            name = self.const(key, scope) if key is not None else None
            if key is None:
                keys.update(given.keys or {})
            elif isinstance(name, str | int):
                keys[str(name)] = given
            else:
                out.element = either(out.element, given)
        return out

    def _of_lambda(self, node: ast.Lambda, scope: Scope) -> Value:
        return Value(function=node, scope=scope)

    def _of_ifexp(self, node: ast.IfExp, scope: Scope) -> Value:
        known = self.truth(node.test, scope)
        if known is not None:
            return self.value(node.body if known else node.orelse, scope)
        told = self.doubt(node.test, scope)
        found = either(self.value(node.body, scope), self.value(node.orelse, scope))
        self.decided(told)
        return found

    def doubt(self, test: ast.AST | None, scope: Scope) -> bool:
        """Into a condition that cannot be told. Whether it only asks for a column: `"breed" in df`."""
        told = False
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In):
            held = self.value(test.comparators[0], scope)
            told = isinstance(test.left, ast.Constant) and bool(held.rows) and held.keys is None
        self.present, self.unsure = self.present + told, self.unsure + (not told)
        return told

    def decided(self, told: bool) -> None:
        """Out of it again."""
        self.present, self.unsure = self.present - told, self.unsure - (not told)

    def _of_binop(self, node: ast.BinOp, scope: Scope) -> Value:
        return self.combined(node, node.op, self.value(node.left, scope), self.value(node.right, scope))

    def _of_boolop(self, node: ast.BoolOp, scope: Scope) -> Value:
        held = [self.value(v, scope) for v in node.values]
        return either(held[0], held[-1]) if isinstance(node.op, ast.Or) and len(held) == 2 else derived(*held)

    def _of_unaryop(self, node: ast.UnaryOp, scope: Scope) -> Value:
        return self.turned(node, self.value(node.operand, scope))

    def _of_compare(self, node: ast.Compare, scope: Scope) -> Value:
        return self.compared(node, [self.value(n, scope) for n in (node.left, *node.comparators)])

    def _of_yield(self, node: ast.Yield, scope: Scope) -> Value:
        if self.yielded and node.value is not None:
            self.yielded[-1].append(self.value(node.value, scope))
        return Value()

    def _of_yieldfrom(self, node: ast.YieldFrom, scope: Scope) -> Value:
        if self.yielded:
            self.yielded[-1].append(self.each(self.value(node.value, scope)))
        return Value()

    def _of_starred(self, node: ast.Starred, scope: Scope) -> Value:
        return self.value(node.value, scope)

    def _of_await(self, node: ast.Await, scope: Scope) -> Value:
        return self.value(node.value, scope)

    def _of_listcomp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, scope: Scope) -> Value:
        inner = self._through(node.generators, scope)
        over = self.value(node.generators[0].iter, scope)
        names = self._filtered(node, over, scope)
        if names is not None:
            return names
        if (
            len(node.generators) == 1 and over.items is not None and 1 <= len(over.items) <= 4
            and not node.generators[0].ifs
        ):  # fmt: skip
            items = []
            for item in over.items:
                self.put(node.generators[0].target, item, inner)
                items.append(self.value(node.elt, inner))
            return Value(items=items)
        return Value(element=self.value(node.elt, inner))

    def _filtered(
        self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, over: Value, scope: Scope
    ) -> Value | None:
        """`[c for c in df.columns if c not in ("id", "y")]`: names of columns."""
        through = node.generators[0]
        if over.whole and over.names is None:
            over = self.column_names(over)
        known = over.names
        if len(node.generators) > 1 or last_name(node.elt) != last_name(through.target):
            return None
        matched = self._matched(through, scope)
        if matched:
            return Value(over.rows, made="columns", names=(matched, frozenset()), place=node)
        if known is None:
            return None
        named, gone = known
        for test in through.ifs:
            for one in (
                test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
            ):
                if not isinstance(one, ast.Compare) or last_name(one.left) != last_name(through.target):
                    return Value(made="columns", rows=over.rows)
                said = self.listed(one.comparators[0], scope)
                if said is None or not isinstance(one.ops[0], ast.NotIn | ast.NotEq):
                    return Value(made="columns", rows=over.rows)
                gone |= said
                named = named - said if named is not None else None
        return Value(over.rows, made="columns", names=(named, gone), place=node)

    def _matched(self, through: ast.comprehension, scope: Scope) -> frozenset[str]:
        """`c for c in df.columns if c.startswith("lag_")`: of the columns made here, and of the target, those
        that begin or end so."""
        table: ast.AST = through.iter
        while isinstance(table, ast.Call | ast.Attribute) and (
            last_name(table) == "columns" or isinstance(table, ast.Call)
        ):
            inside = table.args[0] if isinstance(table, ast.Call) and table.args else None
            table = inside or (table.func if isinstance(table, ast.Call) else table.value)
            if isinstance(table, ast.Attribute) and table.attr in ("tolist", "to_list", "copy"):
                table = table.value
        if len(through.ifs) != 1 or not isinstance(table, ast.Name | ast.Attribute):
            return frozenset()
        test: Any = through.ifs[0]
        how = test.func.attr if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) else ""
        if how not in ("startswith", "endswith") or len(test.args) != 1:
            return frozenset()
        said = self.const(test.args[0], scope)
        ends = (said,) if isinstance(said, str) else tuple(said) if isinstance(said, list | tuple) else ()
        if last_name(test.func.value) != last_name(through.target) or not all(
            isinstance(one, str) for one in ends
        ):
            return frozenset()
        held = self.value(table, scope)
        made = {name[1:-1] for name in held.attrs if name[:1] == "[" and name != "[?]"}
        return frozenset(name for name in made if getattr(name, how)(ends))

    _of_generatorexp = _of_setcomp = _of_listcomp

    def _of_dictcomp(self, node: ast.DictComp, scope: Scope) -> Value:
        inner = self._through(node.generators, scope)
        self.value(node.key, inner)
        over = node.generators[0].iter
        if isinstance(over, ast.Call) and last_name(over.func) == "enumerate" and _as_they_come(over):
            self.coded(node, "enumerate", self.value(over, scope))
        self.loops.append(node)
        value = self.value(node.value, inner)
        self.loops.pop()
        return Value(keys={}, element=value)

    def _through(self, generators: list[ast.comprehension], scope: Scope) -> Scope:
        inner = Scope({}, scope)
        for generator in generators:
            self.put(generator.target, self.each(self.value(generator.iter, inner)), inner)
            for test in generator.ifs:
                self.value(test, inner)
        return inner

    def own(self, base: Value, name: str) -> bool:
        raise NotImplementedError

    def enter(
        self,
        function: Function,
        args: list[Value],
        named: dict[str, Value],
        owner: Value | None,
        scope: Scope,
    ) -> Value:
        raise NotImplementedError

    def instance(
        self, held: Value, args: list[Value], named: dict[str, Value], node: ast.Call | None
    ) -> Value:
        raise NotImplementedError

    def method_of(self, owner: ast.ClassDef, name: str, deep: int = 0) -> Function | None:
        raise NotImplementedError

    def class_attribute(self, owner: ast.ClassDef, name: str, deep: int = 0) -> Value | None:
        raise NotImplementedError

    def const(self, node: ast.AST | None, scope: Scope) -> Any:
        """The constant that an expression is in this run, else None."""
        if node is None:
            return None
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            found = scope.find(node.id)
            if found is not None and found.const is not UNKNOWN:
                return found.const
        if isinstance(node, ast.Slice | ast.Compare) or last_name(node) == "columns":
            return None
        return self.values.one(node)

    def truth(self, test: ast.AST, scope: Scope) -> bool | None:
        """Whether a condition holds in this run, None where that cannot be told."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            found = self.truth(test.operand, scope)
            return None if found is None else not found
        if isinstance(test, ast.Name):
            held = scope.find(test.id)
            return bool(held.const) if held is not None and held.const is not UNKNOWN else None
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._compared(test, scope)
        return None

    def _compared(self, test: ast.Compare, scope: Scope) -> bool | None:
        left, right, op = test.left, test.comparators[0], test.ops[0]
        if isinstance(left, ast.Name) and left.id == "__name__":
            return True
        if isinstance(right, ast.Constant) and right.value is None and isinstance(op, ast.Is | ast.IsNot):
            held = self.value(left, scope)
            if held.const is None:
                return isinstance(op, ast.Is)
            known = (
                held.const is not UNKNOWN
                or held.rows
                or held.made
                or held.items
                or held.state
                or held.function
            )
            return isinstance(op, ast.IsNot) if known else None
        if (
            isinstance(op, ast.In | ast.NotIn)
            and isinstance(left, ast.Constant)
            and isinstance(right, ast.Name)
        ):
            table = scope.find(right.id)
            if table is not None and table.columns is not None and table.made == "":
                return (left.value in table.columns) is isinstance(op, ast.In)
        if isinstance(op, ast.Eq | ast.NotEq) and isinstance(left, ast.Name):
            held_name = scope.find(left.id)
            other = self.const(right, scope)
            if held_name is not None and held_name.const is not UNKNOWN and isinstance(other, str | int):
                return (held_name.const == other) is isinstance(op, ast.Eq)
        return None

    def each(self, over: Value) -> Value:
        """What a loop over a value gets."""
        if over.element is not None:
            return over.element
        if over.items:
            out = over.items[0]
            for item in over.items[1:8]:
                out = either(out, item)
            return out
        if over.keys:
            return Value()
        if over.made == "groupby":
            group = self.part(over, self.script.tree, "", "group")
            group.made = ""
            return Value(items=[Value(), group])
        found = derived(over)
        found.single, found.reads = True, over.reads
        found.index = over.index
        return found


def _as_they_come(node: ast.AST) -> bool:
    """Whether values are numbered in the order of the rows, not sorted."""
    called = {last_name(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    return not called & {"sorted", "sort", "sort_values"}
