"""Does the house keep its shape where import-linter cannot look?"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import memory_service

PACKAGE = Path(memory_service.__file__).parent
DATABASES = {"dialects.py", "sqlite.py", "postgresql.py", "backend.py", "dump.py"}
DRIVERS = re.compile(r"^(sqlite3|psycopg|pgvector|sqlalchemy\.dialects)\b")
MOST_ROUTE_LINES = 15


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(folder: str = "") -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        yield path, parsed(path)


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_only_the_dialects_know_a_database_driver():
    wrong = [
        f"{path.name}: {name}"
        for path, tree in modules()
        for name in imported(tree)
        if DRIVERS.match(name)
        and not (path.parent.name == "store" and path.name in DATABASES)
        and path.parts[-2:] not in (("past_runs", "past_run.py"), ("train", "table_files.py"))  # users' files
    ]
    assert not wrong


def test_a_command_loads_no_database_and_no_torch_before_it_runs():
    """`watch` stands beside a training, and `--help` is asked for often."""
    heavy = {"sqlalchemy", "fastapi", "numpy", "torch"}
    look = f"import sys, memory_service.cli; sys.exit(', '.join({heavy} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_domain_reads_no_clock_and_draws_no_numbers():
    wrong = [
        f"{path.name}:{node.lineno} {ast.unparse(node)}"
        for path, tree in modules("domain")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) in {"np.random", "numpy.random", "datetime.now", "dt.datetime.now", "time.time"}
    ]
    seeded = [path.name for path, _ in modules("domain") if "np.random.default_rng(0)" in path.read_text()]
    assert [line.partition(":")[0] for line in wrong] == seeded, "only draws that are always the same"


def test_routes_are_thin():
    wrong = []
    for path, tree in modules("api"):
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            calls = [d.func for d in node.decorator_list if isinstance(d, ast.Call)]
            routed = any(
                isinstance(call, ast.Attribute) and ast.unparse(call).startswith("router.") for call in calls
            )
            lines = (node.end_lineno or 0) - node.lineno + 1
            if routed and lines > MOST_ROUTE_LINES:
                wrong.append(f"{path.name}: {node.name} has {lines} lines")
    assert not wrong


def imported_files() -> dict[str, set[str]]:
    """Module -> modules of the package that its file imports, in functions and under TYPE_CHECKING too."""
    trees = {}
    for path, tree in modules():
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        trees[name] = tree
    graph: dict[str, set[str]] = {}
    for name, tree in trees.items():
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found |= {
                    whole if (whole := f"{node.module}.{alias.name}") in trees else node.module
                    for alias in node.names
                }
        graph[name] = found & trees.keys()
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """One circle of every knot of modules that reach each other, as a way back to its first module."""

    def way(start: str) -> list[str]:
        ways, queue = {start: [start]}, [start]
        for at in queue:
            for to in sorted(graph[at]):
                if to == start:
                    return [*ways[at], start]
                if to not in ways:
                    ways[to] = [*ways[at], to]
                    queue.append(to)
        return []

    found: list[list[str]] = []
    for name in sorted(graph):
        if not any(name in circle for circle in found) and (circle := way(name)):
            found.append(circle)
    return found


def test_no_circles():
    wrong = [" > ".join(circle) for circle in circles(imported_files())]
    assert not wrong


def test_a_circle_is_found_and_named():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c", "b"]]


def test_every_module_begins_with_what_it_answers():
    wrong = [str(path.relative_to(PACKAGE)) for path, tree in modules() if not ast.get_docstring(tree)]
    assert not wrong
