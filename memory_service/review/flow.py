"""What would a run of this script do with its rows? Its statements are walked in the order of a run,
functions and methods entered where they are called, values as `flow_values` knows them. Nothing is computed.

What comes of it: `divisions` of rows, `leaks` (learned from rows that a division sets apart), `codings`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from memory_service.review.facts import Facts
from memory_service.review.flow_expressions import MOST_DEEP
from memory_service.review.flow_functions import FlowFunctions
from memory_service.review.flow_rows import MOST_STEPS
from memory_service.review.flow_values import Scope, Value, derived, either
from memory_service.review.flow_words import VIEWS
from memory_service.review.script import Function

__all__ = ["Flow", "flow_of"]


LONGEST_SUM = 400
LEVELS_OF_A_BODY = 4
"""What a body counts for among expressions within one another: a call takes so many more frames."""


class Flow(FlowFunctions):
    """One walk: statements."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._objects: dict[ast.ClassDef, Value] = {}

    def walk(self) -> None:
        """The module, then what nothing in it calls: methods that a framework calls, offered functions."""
        self.returned.append([])
        self.yielded.append([])
        self.body(self.script.tree.body, self.module)
        for made in list(self.made):
            for method in self.methods_of(made.kind):
                if method not in self.times and not method.name.startswith("__"):
                    self.enter(method, [], {}, made, self.module)
        for functions in list(self.script.functions.values()):
            for function in functions:
                if function not in self.times and not isinstance(
                    self.script.scope(function), ast.FunctionDef | ast.AsyncFunctionDef
                ):
                    self._alone(function)

    def _alone(self, function: Function) -> None:
        """A function that nothing here calls, with rows of its own for each parameter."""
        owner: Value | None = None
        around = self.script.class_of(function)
        if around is not None:  # methods of one class are of one object
            if around not in self._objects:
                held = self.module.find(around.name) or Value(kind=around)
                self._objects[around] = self.instance(held, [], {}, None)
            owner = self._objects[around]
        if function not in self.times:
            self.enter(function, [], {}, owner, self.module)

    def body(self, body: Sequence[ast.stmt], scope: Scope) -> bool:
        """Whether it ends what is around it: `return`, `raise`, `continue`, `break`."""
        if self.deep > MOST_DEEP:
            return False
        self.deep += LEVELS_OF_A_BODY
        ended = False
        for statement in body:
            self.steps += 1
            handler = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if self.steps > MOST_STEPS or (handler is not None and handler(statement, scope)):
                ended = True
                break
        self.deep -= LEVELS_OF_A_BODY
        return ended

    def _expr(self, node: ast.Expr, scope: Scope) -> None:
        self.value(node.value, scope)

    def _assign(self, node: ast.Assign, scope: Scope) -> None:
        value = self.value(node.value, scope)
        for target in node.targets:
            self.put(target, value, scope)
            self.named(target, node.value, value)

    def _annassign(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.put(node.target, self.value(node.value, scope), scope)

    def _augassign(self, node: ast.AugAssign, scope: Scope) -> None:
        before, more = self.value(node.target, scope), self.value(node.value, scope)
        if isinstance(node.target, ast.Subscript) and isinstance(node.op, ast.Add):
            more = self.summed(node, self.value(node.target.slice, scope), more)
        after = self.combined(node, node.op, before, more)
        if before.items is not None or before.element is not None:
            after.element = either(before.element, after.element) if after.element else before.element
        self.put(node.target, after, scope)

    def _return(self, node: ast.Return, scope: Scope) -> bool:
        if self.returned:
            self.returned[-1].append(self.value(node.value, scope) if node.value else Value(const=None))
        return True

    def _raise(self, _node: ast.Raise, _scope: Scope) -> bool:
        return True

    def _continue(self, _node: ast.Continue, _scope: Scope) -> bool:
        return True

    _break = _continue

    def _if(self, node: ast.If, scope: Scope) -> bool:
        self.value(node.test, scope)
        known = self.truth(node.test, scope)
        if known is not None:
            return self.body(node.body if known else node.orelse, scope)
        return self._branches([node.body, node.orelse], scope, node.test)

    def _branches(
        self, bodies: Sequence[Sequence[ast.stmt]], scope: Scope, test: ast.AST | None = None
    ) -> bool:
        """One of these runs; what follows is true for any of them."""
        before = dict(scope.names)
        left: list[dict[str, Value]] = []
        told = self.doubt(test, scope)
        for body in bodies:
            scope.names = dict(before)
            self.steps += len(before) // 10
            if not self.body(body, scope):
                left.append(scope.names)
        self.decided(told)
        if not left:
            scope.names = before
            return True
        merged = left[0]
        for names in left[1:]:
            merged = {name: either(merged.get(name), names.get(name)) for name in {**merged, **names}}
        scope.names = merged
        return False

    def _for(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        over = self.value(node.iter, scope)
        passes = [self.each(over)]
        if over.items is not None and 1 < len(over.items) <= 4:
            passes = list(over.items)
        self.loops.append(node)
        for item in passes:
            self.put(node.target, item, scope)
            self.body(node.body, scope)
        self.loops.pop()
        self.body(node.orelse, scope)

    _asyncfor = _for

    def _while(self, node: ast.While, scope: Scope) -> None:
        self.value(node.test, scope)
        self.body(node.body, scope)

    def _with(self, node: ast.With | ast.AsyncWith, scope: Scope) -> bool:
        for item in node.items:
            held = self.value(item.context_expr, scope)
            if item.optional_vars is not None:
                self.put(item.optional_vars, held, scope)
        return self.body(node.body, scope)

    _asyncwith = _with

    def _try(self, node: ast.Try, scope: Scope) -> bool:
        ended = self.body([*node.body, *node.orelse], scope)
        for handler in node.handlers:
            if not any(isinstance(s, ast.Raise) for s in handler.body):
                self._branches([handler.body, []], scope)
        return self.body(node.finalbody, scope) or (ended and not node.handlers)

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        scope.names[node.name] = Value(function=node, scope=scope)

    _asyncfunctiondef = _functiondef

    def _classdef(self, node: ast.ClassDef, scope: Scope) -> None:
        held = Value(kind=node, scope=scope)
        inner = Scope({}, scope)
        self.body([s for s in node.body if not isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)], inner)
        held.attrs = inner.names
        scope.names[node.name] = held

    def _delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                scope.names.pop(target.id, None)
            elif isinstance(target, ast.Subscript):
                key, base = self.const(target.slice, scope), self.value(target.value, scope)
                if isinstance(key, str):
                    self.lose(base, key)

    def _global(self, node: ast.Global, scope: Scope) -> None:
        self.shared.setdefault(id(scope), set()).update(node.names)

    def put(self, target: ast.AST, value: Value, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            where = self.module if target.id in self.shared.get(id(scope), ()) else scope
            where.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, value, scope)
        elif isinstance(target, ast.Starred):
            self.put(target.value, value, scope)
        elif isinstance(target, ast.Attribute):
            held = self.value(target.value, scope)
            held.attrs[target.attr] = value
        elif isinstance(target, ast.Subscript):
            self._put_within(target, value, scope)

    def _unpack(self, targets: Sequence[ast.expr], value: Value, scope: Scope) -> None:
        starred = [i for i, t in enumerate(targets) if isinstance(t, ast.Starred)]
        items = value.items
        if items is None and value.keys is not None and len(value.keys) == len(targets):
            items = list(value.keys.values()) if value.made == "parts" else None
        for at, target in enumerate(targets):
            if (items is not None and len(items) == len(targets) and not starred) or (
                items is not None and starred and at < starred[0] < len(items)
            ):
                self.put(target, items[at], scope)
            elif isinstance(value.const, list | tuple) and len(value.const) == len(targets):
                self.put(target, Value(const=value.const[at]), scope)
            else:
                part = self.each(value) if value.element is not None else derived(value)
                self.put(target, part, scope)

    def _put_within(self, target: ast.Subscript, value: Value, scope: Scope) -> None:
        stated = self.script.parents.get(target)
        given = stated.value if isinstance(stated, ast.Assign) else None
        added = given.left if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Add) else None
        if added is not None and ast.dump(target.value) in ast.dump(added)[:LONGEST_SUM]:
            value = self.summed(target, self.value(target.slice, scope), value)  # `s[c] = s.get(c, 0) + y`
        base_node: ast.AST = target.value
        if isinstance(base_node, ast.Attribute) and base_node.attr in VIEWS:
            base_node = base_node.value
        base = self.value(base_node, scope)
        key = self.const(target.slice, scope)
        if base.keys is not None:
            if isinstance(key, str | int):
                base.keys[str(key)] = value
            else:
                base.element = either(base.element, value)
            return
        found = derived(value)
        if (
            not base.rows
            and not base.items
            and base.made in ("", "DataFrame", "zeros", "empty", "full", "defaultdict")
        ):
            base.rows = found.rows
            base.element = (
                either(base.element, value) if base.element is not None or base.made else base.element
            )
        inner = (
            target.slice.elts[1]
            if isinstance(target.slice, ast.Tuple) and len(target.slice.elts) == 2
            else None
        )
        key = self.const(inner, scope) if inner is not None else key
        if isinstance(key, list) and key and all(isinstance(one, str) for one in key):
            for one in key:
                self.into_column(base, one, value, target)
        elif isinstance(key, str) or (base.rows and isinstance(target.slice, ast.JoinedStr | ast.Name)):
            self.into_column(base, key if isinstance(key, str) else None, value, target, given)
        else:
            self._mixed_in(base, value)

    def _mixed_in(self, base: Value, value: Value) -> None:
        found = derived(value)
        base.learned |= found.learned
        base.stats |= found.stats
        base.series |= found.series
        base.centred = base.centred or value.centred


def flow_of(facts: Facts) -> Flow:
    """The walk of a script; the same one for every rule that asks."""
    held = facts.kept.get("flow")
    if not isinstance(held, Flow):
        held = facts.kept["flow"] = Flow(facts)
        held.walk()
    return held
