"""Objects of classes in the file: their class, their fields, and where a value is written down."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cached_property

from memory_service.review.constants.lookup import ValueLookup
from memory_service.review.source.script import last_name, words

DEEPEST_OBJECT = 8
"""Names, attributes and calls followed to the class of an object."""

MOST_OBJECTS = 8
_MAKERS = words("structured cli parse from_args load merge instantiate")


class Objects:
    """The objects of one script: dataclasses, classes of settings, named tuples."""

    def __init__(
        self,
        values: ValueLookup,
        attributes: dict[tuple[str, str], list[ast.AST | None]],
        arguments: dict[str, list[ast.AST]],
    ) -> None:
        self._values = values
        self._script = values.script
        self._attributes = attributes
        self._arguments = arguments

    def origin(self, node: ast.AST, deep: int = 0) -> ast.AST:
        """Where the value of an expression is written down: what to edit for another one."""
        found: list[ast.AST | None] = []
        if deep > DEEPEST_OBJECT:
            return node
        if isinstance(node, ast.Name):
            bound = self._values.binding(node.id, node)
            found = list(bound[1]) if bound is not None else []
            if (
                bound is not None
                and not found
                and isinstance(bound[0], ast.FunctionDef | ast.AsyncFunctionDef)
            ):
                found = self._values.handed(bound[0], node.id)
        elif isinstance(node, ast.Attribute):
            found = [*self._values.sources(node)]
            if not found and self._values.reads_arguments(node.value):
                found = [*self._arguments.get(node.attr, [])]
        elif isinstance(node, ast.Subscript) and (key := self._values.text(node.slice)) is not None:
            found = [self._values.held(node.value).known.get(key)]
        elif isinstance(node, ast.Call) and last_name(node.func) in ("field", "Field", "Option", "int"):
            found = [self._values.argument(node, "default", 0)]
        if len(found) != 1 or found[0] is None or not hasattr(found[0], "lineno"):
            return node
        return self.origin(found[0], deep + 1)

    def instances(self, node: ast.AST, deep: int = 0) -> list[tuple[str, ast.Call | None]]:
        """Classes of this file whose object an expression is, with the calls that make it."""
        if deep > DEEPEST_OBJECT:
            return []
        script = self._script
        if isinstance(node, ast.Name):
            return self._named(node, deep)
        if isinstance(node, ast.Attribute):
            return self._first_of(self._values.sources(node, deep + 1), deep)
        if not isinstance(node, ast.Call):
            return []
        name = last_name(node.func)
        if name in script.classes:
            return [(name, node)]
        if name in ("field", "Field"):
            factory = self._values.argument(node, "default_factory") or self._values.argument(node, "default")
            factory = factory.body if isinstance(factory, ast.Lambda) else factory
            return self.instances(factory, deep + 1) if factory is not None else []
        if name == "replace" and node.args:
            return self.instances(node.args[0], deep + 1)
        if name in script.functions and isinstance(node.func, ast.Name):
            function = script.functions[name][0]
            given = [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value is not None]
            return self._first_of(given, deep)
        if name in _MAKERS:
            given = [*node.args, *(k.value for k in node.keywords)]
            return self._first_of([g for g in given if last_name(g) in script.classes], deep)
        return []

    def _named(self, node: ast.Name, deep: int) -> list[tuple[str, ast.Call | None]]:
        if node.id in self._script.classes:
            return [(node.id, None)]
        bound = self._values.binding(node.id, node)
        if bound is None:
            return []
        scope, sources = bound
        given = [s for s in sources if s is not None and s is not node]
        if sources and not given:
            return self._unpacked(node)
        if not sources and isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [g for g in self._values.handed(scope, node.id) if g is not None]
            annotated = self._values.annotation(node)
            if not given and annotated in self._script.classes:
                return [(annotated, None)]
        return self._first_of(given, deep)

    def _unpacked(self, node: ast.Name) -> list[tuple[str, ast.Call | None]]:
        """`a, b = HfArgumentParser((A, B)).parse_args_into_dataclasses()` gives an A and a B."""
        for call in self._script.called("parse_args_into_dataclasses", "parse_dict", "parse_json_file"):
            statement = self._script.statement(call)
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            made = call.func.value if isinstance(call.func, ast.Attribute) else None
            made = next((n for n in self._made_of(made) if isinstance(n, ast.Call)), None)
            given = made.args[0] if isinstance(made, ast.Call) and made.args else None
            if not isinstance(target, ast.Tuple) or not isinstance(given, ast.Tuple | ast.List):
                continue
            for item, kind in zip(target.elts, given.elts, strict=False):
                if last_name(item) == node.id and last_name(kind) in self._script.classes:
                    return [(last_name(kind), None)]
        return []

    def _made_of(self, node: ast.AST | None) -> list[ast.AST]:
        return self._values.assigned(node.id, node) if isinstance(node, ast.Name) else [node] if node else []

    def _first_of(self, nodes: Sequence[ast.AST], deep: int) -> list[tuple[str, ast.Call | None]]:
        return [made for node in nodes[:MOST_OBJECTS] for made in self.instances(node, deep + 1)][
            :MOST_OBJECTS
        ]

    def fields(self, name: str, call: ast.Call | None) -> dict[str, ast.AST]:
        """The fields of an object of a class of this file: as it was made, else as the class says."""
        out: dict[str, ast.AST] = {}
        for held, sources in self._fields_of.get(name, {}).items():
            if len(sources) == 1 and sources[0] is not None:
                out[held] = sources[0]
        owner = self._script.classes.get(name)
        if call is None or owner is None:
            return out
        own = any(isinstance(n, ast.FunctionDef) and n.name == "__init__" for n in owner.body)
        if own:
            return out
        said = [last_name(n.target) for n in owner.body if isinstance(n, ast.AnnAssign)]
        if not any(isinstance(a, ast.Starred) for a in call.args):
            out |= dict(zip(said, call.args, strict=False))
        for keyword in call.keywords:
            out |= {keyword.arg: keyword.value} if keyword.arg else self._values.held(keyword.value).known
        return out

    @cached_property
    def _fields_of(self) -> dict[str, dict[str, list[ast.AST | None]]]:
        """Class or variable -> its attributes with what they are set to."""
        out: dict[str, dict[str, list[ast.AST | None]]] = {}
        for (holder, name), nodes in self._attributes.items():
            out.setdefault(holder, {})[name] = nodes
        return out
