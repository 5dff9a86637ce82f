"""Does every import of the package have a declared requirement, of the installation that runs it?

    python -m checks.imports         (`make check`)

Four installations: light (no extra), `[planner]`, `[server]` and `[train]`. What an installation imports as
soon as one of its modules is loaded must be required by it; what a function imports when it is called, by
some extra, or be in `OPTIONAL`. Requirements of requirements do not count: they may go without notice.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["LIGHT", "OPTIONAL", "Import", "faults", "imports_of", "main", "requirements"]

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "memory_service"

LIGHT = (
    "memory_service.cli",
    "memory_service.client",
    "memory_service.review",
    "memory_service.services.review.review",
    "memory_service.services.planning.plan_script",
    "memory_service.services.planning.script_choice",
)
"""What commands load where only the light package is installed, with all that these load."""

SERVER = ("memory_service.measure",)
"""What traces and calibrates."""

TRAIN = ("memory_service.train",)
"""What training scripts import. All other modules are a planner's."""

OPTIONAL = {
    "bitsandbytes", "chronos", "cv2", "holidays", "huggingface_hub", "keras", "lightning", "peft",
    "pytorch_lightning", "segmentation_models_pytorch", "soundfile", "tabicl", "tabpfn", "tifffile",
    "timesfm", "timm", "torch", "torchvision", "toto2", "transformers", "ultralytics", "xgboost",
}  # fmt: skip
"""What the script has already where `ASKED_BY` is loaded at all, or does without."""

ASKED_BY = ("memory_service.client", "memory_service.integrations", *TRAIN)

Sources = Mapping[str, str]
"""Name of a module -> its text."""


@dataclass(frozen=True, slots=True)
class Import:
    """A module that another one names; late: when a function is called."""

    module: str
    late: bool


def sources(root: Path = ROOT) -> dict[str, str]:
    """The modules of the package."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        found[name] = path.read_text(encoding="utf-8")
    return found


def imports_of(text: str) -> Iterator[Import]:
    """Every import of a module but those for type checkers; `import_module("name")` counts."""

    def walk(node: ast.AST, late: bool) -> Iterator[Import]:
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                for statement in node.orelse:
                    yield from walk(statement, late)
                return
            case ast.Import():
                yield from (Import(alias.name, late) for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield Import(module, late)
                yield from (Import(f"{module}.{alias.name}", late) for alias in node.names)
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield Import(module, late)
        within = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, within)

    return walk(ast.parse(text), False)


def requirements(project: Mapping[str, object], extra: str = "") -> set[str]:
    """Names of the distributions that pyproject.toml requires itself, of an extra and of those it names."""
    extras: Mapping[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    wanted: list[str] = [*project["dependencies"], *extras.get(extra, ())]  # type: ignore[misc]
    names = set()
    for need in map(Requirement, wanted):
        if canonicalize_name(need.name) == project["name"]:
            for named in need.extras:
                names |= requirements(project, named)
        else:
            names.add(str(canonicalize_name(need.name)))
    return names


def faults(modules: Sources, project: Mapping[str, object], owners: Mapping[str, list[str]]) -> list[str]:
    """A sentence for each import that its installation need not have.

    project   the table of pyproject.toml
    owners    name of an import -> the distributions that have it
    """
    light, planner, server, train = (
        requirements(project, extra) for extra in ("", "planner", "server", "train")
    )
    extras: Mapping[str, object] = project["optional-dependencies"]  # type: ignore[assignment]
    declared = set().union(*(requirements(project, name) for name in extras if name not in ("test", "dev")))
    found = {name: list(imports_of(text)) for name, text in modules.items()}
    in_light = _closure(found, [name for name in found if _within(name, LIGHT)])
    in_planner = _closure(found, [name for name in found if not _within(name, (*SERVER, *TRAIN))])
    out = []
    for name, imports in found.items():
        kind, has = ("[server]", server)
        if name in in_light:
            kind, has = ("the light installation", light)
        elif name in in_planner:
            kind, has = ("[planner]", planner)
        elif _within(name, TRAIN):
            kind, has = ("[train]", train)
        for each in imports:
            top = each.module.partition(".")[0]
            if top in sys.stdlib_module_names or top == PACKAGE:
                continue
            if top in OPTIONAL and _within(name, ASKED_BY):
                continue
            own = {str(canonicalize_name(one)) for one in owners.get(top, [top])}
            if not own & (declared if each.late else has):
                where = "any extra" if each.late else kind
                out.append(f"{name} imports {top}, which pyproject.toml does not require for {where}")
    return sorted(set(out))


def _within(name: str, roots: Iterable[str]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def _closure(found: Mapping[str, list[Import]], starts: Iterable[str]) -> set[str]:
    """These modules and all that loading them loads, packages above them too."""
    reached: set[str] = set()
    pending = list(starts)
    while pending:
        name = pending.pop()
        if name not in reached and name in found:
            reached.add(name)
            pending.append(name.rpartition(".")[0])
            pending += [each.module for each in found[name] if not each.late]
    return reached


def main() -> None:
    """Print what is not declared; exit 1 for anything."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wrong = faults(sources(), project, packages_distributions())
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
