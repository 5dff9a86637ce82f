"""What do functions, methods and classes of the file give where they are called?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memory_service.review.flow_expressions import FlowExpressions
from memory_service.review.flow_rows import MOST_STEPS
from memory_service.review.flow_values import Scope, Value, derived, either
from memory_service.review.script import Function, last_name

__all__ = ["FlowFunctions"]

_FEATURES = frozenset(("X", "x", "features", "feats", "inputs", "data", "table", "df"))
_ANSWERS = frozenset(("y", "Y", "target", "targets", "labels", "label", "answer"))

MOST_CALLED = 8
"""Functions entered within one another."""

MOST_TIMES = 12
"""A function is entered that often; a run of the script may do it a thousand times."""


class FlowFunctions(FlowExpressions):
    """Functions entered with what they are given."""

    def own(self, base: Value, name: str) -> bool:
        return name in base.attrs or (
            base.kind is not None
            and (
                self.method_of(base.kind, name) is not None
                or self.class_attribute(base.kind, name) is not None
            )
        )

    def entered(self, callee: Value, args: list[Value], named: dict[str, Value]) -> Value:
        """What a function of the file gives for these."""
        if callee.function is None:
            return derived(*args, *named.values())
        if isinstance(callee.function, ast.Lambda):
            inner = Scope(self._bound(callee.function.args, args, named, None, callee.scope), callee.scope)
            return self.value(callee.function.body, inner)
        return self.enter(callee.function, args, named, callee.owner, callee.scope or self.module)

    def enter(
        self,
        function: Function,
        args: list[Value],
        named: dict[str, Value],
        owner: Value | None,
        scope: Scope,
    ) -> Value:
        again = function in self.active or self.times[function] >= MOST_TIMES
        if again or len(self.active) > MOST_CALLED or self.steps > MOST_STEPS:
            self.times[function] += 1
            return derived(*args, *named.values(), owner)
        self.times[function] += 1
        free = self.times[function] == 1 and not args and not named
        static = any(last_name(d) == "staticmethod" for d in function.decorator_list)
        given = owner if not static else None
        names = self._bound(function.args, args, named, given, scope, fresh=function if free else None)
        inner = Scope(names, scope)
        self.active.append(function)
        self.returned.append([])
        self.yielded.append([])
        loops, self.loops = self.loops, []
        self.body(function.body, inner)
        self.loops = loops
        returned, yielded = self.returned.pop(), self.yielded.pop()
        self.active.pop()
        if yielded:
            out = yielded[0]
            for other in yielded[1:]:
                out = either(out, other)
            return Value(element=out)
        result: Value | None = None
        for value in returned:
            result = either(result, value) if result is not None else value
        return result if result is not None else Value(const=None)

    def _bound(
        self,
        parameters: ast.arguments,
        args: list[Value],
        named: dict[str, Value],
        owner: Value | None,
        scope: Scope | None,
        fresh: ast.AST | None = None,
    ) -> dict[str, Value]:
        """Parameters with what is given for them; with `fresh` those left out are rows of their own."""
        out: dict[str, Value] = {}
        positional = [*parameters.posonlyargs, *parameters.args]
        given: list[Value] = [owner, *args] if owner is not None else args
        behind = len(positional) - len(parameters.defaults)
        at_home = scope or self.module
        for at, parameter in enumerate(positional):
            if at < len(given):
                out[parameter.arg] = given[at]
            elif parameter.arg in named:
                out[parameter.arg] = named[parameter.arg]
            elif at >= behind:
                out[parameter.arg] = self.value(parameters.defaults[at - behind], at_home)
            else:
                out[parameter.arg] = self.fresh(parameter, parameter.arg) if fresh is not None else Value()
        for parameter, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
            held = named.get(parameter.arg)
            out[parameter.arg] = held if held is not None else self.value(default, at_home)
        features = next((out[p.arg] for p in positional if p.arg in _FEATURES), None)
        answer = next((out[p.arg] for p in positional if p.arg in _ANSWERS), None)
        if features is not None and answer is not None and answer.reads:
            self.feed(parameters, features, answer, final=False)
        if parameters.vararg is not None:
            out[parameters.vararg.arg] = Value(items=list(given[len(positional) :]))
        if parameters.kwarg is not None:
            out[parameters.kwarg.arg] = Value(keys={k: v for k, v in named.items() if k not in out})
        return out

    def instance(
        self, held: Value, args: list[Value], named: dict[str, Value], node: ast.Call | None
    ) -> Value:
        """An object of a class of the file, its `__init__` run, and what indexing it gives."""
        owner = held.kind
        if owner is None:
            return Value()
        made = Value(made=owner.name, kind=owner, scope=held.scope, call=node)
        method = self.method_of(owner, "__init__")
        if method is not None:
            self.enter(method, args, named, made, held.scope or self.module)
        else:
            fields = [
                s.target.id
                for s in owner.body
                if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
            ]
            made.attrs |= dict(zip(fields, args, strict=False)) | named
        for hook in ("__post_init__", "__getitem__"):
            method = self.method_of(owner, hook)
            if method is not None:
                given = self.enter(method, [Value()], {}, made, held.scope or self.module)
                if hook == "__getitem__":
                    made.element = given
                    made.series |= {method} if _cuts_windows(method) else frozenset()
        bases = {last_name(b) for b in owner.bases}
        if not bases & {"Dataset", "Module", "Sequence"}:
            self.made.append(made)
        return made

    def methods_of(self, owner: ast.ClassDef | None) -> Iterator[Function]:
        for statement in owner.body if owner is not None else ():
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                yield statement

    def method_of(self, owner: ast.ClassDef, name: str, deep: int = 0) -> Function | None:
        for method in self.methods_of(owner):
            if method.name == name:
                return method
        for base in owner.bases if deep < 4 else ():
            above = self.script.classes.get(last_name(base))
            found = (
                self.method_of(above, name, deep + 1) if above is not None and above is not owner else None
            )
            if found is not None:
                return found
        return None

    def class_attribute(self, owner: ast.ClassDef, name: str, deep: int = 0) -> Value | None:
        held = self.module.find(owner.name)
        if held is not None and name in held.attrs:
            return held.attrs[name]
        for base in owner.bases if deep < 4 else ():
            above = self.script.classes.get(last_name(base))
            if above is not None and above is not owner:
                found = self.class_attribute(above, name, deep + 1)
                if found is not None:
                    return found
        return None


def _cuts_windows(method: Function) -> bool:
    """`return self.v[i : i + self.n]`: neighbours share rows."""
    position = {p.arg for p in method.args.args[1:2]}
    for cut in ast.walk(method):
        if isinstance(cut, ast.Slice) and cut.lower is not None and cut.upper is not None:
            ends = [
                {n.id for n in ast.walk(end) if isinstance(n, ast.Name)} for end in (cut.lower, cut.upper)
            ]
            strides = any(isinstance(n, ast.Mult) for end in (cut.lower, cut.upper) for n in ast.walk(end))
            if all(names & position for names in ends) and not strides:
                return True
    return False
