"""Text of generated scripts: parts joined, imports gathered, and of shared modules what is used."""

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

__all__ = ["beside", "joined", "literal", "plain", "standalone"]

_LINE = 110
_PACKAGE = "memory_service.train"  # its modules are joined, or lie beside
_SLEEPING = (
    'import os\n\nos.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")'
    "  # waiting threads sleep: on a busy box they hinder others"
)
_OPENMP = {"torch", "lightgbm", "xgboost"}  # libraries that read it as they are loaded
_Import = ast.Import | ast.ImportFrom
_SHARED = "# From here on: what all scripts share. The budget, folds, resuming, reports and the submission."


def joined(head: str, parts: Iterable[str], modules: Mapping[str, str]) -> str:
    """One file of these parts that imports what it uses of `modules` (name -> text), which lie beside it."""
    imports, body = _gathered(parts)
    tree = ast.parse(body)
    used, own = _names_used(tree), _defined(tree)
    openmp = any(_loads_openmp(text) for text in modules.values())
    beside = [
        _from_line(name, sorted(found))
        for name, text in sorted(modules.items())
        if (found := (set().union(*(one.defined for one in _statements(text)[1])) & used) - own)
    ]
    lines = [*_import_lines(imports, used, openmp), *([""] if beside else []), *beside]
    return _laid_out(head, lines, body)


def beside(module: str) -> str:
    """The text of a module that lies in a folder with the others."""
    return module.replace(f"from {_PACKAGE}.", "from ")


def standalone(head: str, parts: Iterable[str], modules: Iterable[str], ending: str) -> str:
    """One file that needs no other: the parts, what they use of the modules, and `ending`."""
    imports, body = _gathered(parts)
    more, last = _gathered([ending])
    tree = ast.parse(f"{body}\n{last}")
    shared, used, theirs = _used_of(modules, _names_used(tree), _defined(tree))
    body = "\n\n\n".join([body, _SHARED, shared, last])
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)
    openmp = _loads_openmp(body)
    lines = _import_lines([future, *imports, *more, *theirs], used | {"annotations"}, openmp)
    return _laid_out(head, lines, body)


def _loads_openmp(text: str) -> bool:
    """Whether it imports one of these libraries, in a function or as it is loaded."""
    return re.search(rf"^ *(?:import|from) (?:{'|'.join(sorted(_OPENMP))})\b", text, re.MULTILINE) is not None


def _laid_out(head: str, imports: Iterable[str], body: str) -> str:
    text = re.sub(r"(?<!\n)\n+(?=def |class |@|if __name__)", "\n\n\n", body.strip("\n") + "\n")
    text = re.sub(r"(?m)^(@.*)\n+(?=def |class )", r"\1\n", text)
    return head.strip("\n") + "\n\n" + "\n".join(imports) + "\n\n" + text


def _gathered(parts: Iterable[str]) -> tuple[list[_Import], str]:
    """(imports of the parts, the parts without them)."""
    imports: list[_Import] = []
    bodies: list[str] = []
    for part in parts:
        lines, tree = part.splitlines(), ast.parse(part)
        for node in reversed(tree.body):
            if isinstance(node, _Import):
                imports.append(node)
                del lines[node.lineno - 1 : node.end_lineno]
        bodies.append("\n".join(lines).strip("\n"))
    return imports, "\n\n\n".join(bodies)


def _used_of(modules: Iterable[str], wanted: set[str], own: set[str]) -> tuple[str, set[str], list[_Import]]:
    """(the statements that define what is wanted, and what those use, and so on; all these names; all imports
    of the modules).

    own     names that are defined already
    """
    read = [_statements(text) for text in modules]
    statements = [statement for _, found in read for statement in found]
    kept: set[int] = set()
    while more := {n for n, one in enumerate(statements) if n not in kept and one.is_wanted(wanted - own)}:
        kept |= more
        for n in more:
            wanted = wanted | statements[n].used
    text = "\n".join(one.text for n, one in enumerate(statements) if n in kept).strip("\n")
    text = re.sub(r"(?m)^([ ]+\S.*\n)\n?(?=[A-Z_]+\b)", r"\1\n\n", text)  # what stood between is not used
    return text, wanted, [node for imports, _ in read for node in imports]


@dataclass(frozen=True)
class _Statement:
    """One of a module's top level, with the blank lines before it and the names that it defines and uses."""

    text: str
    defined: set[str]
    used: set[str]

    def is_wanted(self, names: set[str]) -> bool:
        """One that names nothing, such as a registration, always is."""
        return not self.defined or not self.defined.isdisjoint(names)


@lru_cache(maxsize=64)  # the modules are the same for all plans; to read them is most of a script's time
def _statements(module: str) -> tuple[list[_Import], list[_Statement]]:
    """(its imports, its other statements but the docstring)."""
    imports: list[_Import] = []
    statements: list[_Statement] = []
    lines, last = module.splitlines(), 0
    for node in ast.parse(module).body:
        start = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        if isinstance(node, _Import):
            imports.append(node)
        elif not isinstance(node, ast.Expr):
            blank = lines[last : start - 1].count("") if statements else 2
            text = "\n".join([*[""] * min(blank, 2), *lines[start - 1 : node.end_lineno]])
            statements.append(_Statement(text, _defined(ast.Module([node], [])), _names_used(node)))
        last = node.end_lineno or last
    return imports, statements


def _defined(tree: ast.Module) -> set[str]:
    """Names that a module gives itself at its top level, less those that it imports."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.Try):
            names = (each for each in ast.walk(node) if isinstance(each, ast.Name))
            found |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
        elif isinstance(node, ast.If):  # names for types alone
            imported = (each for each in ast.walk(node) if isinstance(each, ast.ImportFrom))
            found |= {alias.name for each in imported for alias in each.names}
    return found


def _names_used(tree: ast.AST) -> set[str]:
    """Names that are read, as such or as an attribute of `plan`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "plan":
            names.add(node.attr)
    return names


def _import_lines(imports: list[_Import], used: set[str], openmp: bool = False) -> Iterator[str]:
    """Sorted as isort does: `__future__`, the standard library, the rest, with blank lines between.

    openmp   whether a function will import one of `_OPENMP`
    """
    plain: set[str] = set()
    names: dict[str, set[str]] = {}
    for node in imports:
        for alias in node.names:
            if (alias.asname or alias.name.partition(".")[0]) not in used:
                continue
            reported = alias.name + (f" as {alias.asname}" if alias.asname else "")
            if isinstance(node, ast.Import):
                plain.add(reported)
            else:
                names.setdefault(str(node.module), set()).add(reported)
    lines = [f"import {name}" for name in plain]
    others = {module: found for module, found in names.items() if not module.startswith(_PACKAGE)}
    lines += [_from_line(module, sorted(found)) for module, found in others.items()]
    openmp |= any(line.split()[1].partition(".")[0] in _OPENMP for line in lines)
    blocks = []
    for block in (0, 1, 2):
        wanted = [line for line in lines if _block(line) == block and not (openmp and line == "import os")]
        wanted.sort(key=lambda line: (line.startswith("from"), line.split()[1]))
        blocks.append("\n".join(wanted))
    blocks.insert(1, _SLEEPING if openmp else "")
    yield from "\n\n".join(filter(None, blocks)).split("\n")


def _block(line: str) -> int:
    root = line.split()[1].partition(".")[0]
    return 0 if root == "__future__" else 1 if root in sys.stdlib_module_names else 2


def _from_line(module: str, names: list[str]) -> str:
    """As ruff writes it: in one line, or a name a line."""
    order = sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name))
    line = f"from {module} import {', '.join(order)}"
    return line if len(line) <= _LINE else f"from {module} import (\n    " + ",\n    ".join(order) + ",\n)"


def plain(text: Any) -> str:
    """Without what could end a docstring: names of devices are somebody's words."""
    shown = str(text).replace("–", "-").replace("…", "...").replace('"', "'")
    return re.sub(r"[^ -~]|\\", " ", shown)


def literal(value: Any) -> str:
    """A value as Python writes it, a text in double quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
