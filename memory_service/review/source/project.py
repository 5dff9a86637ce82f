"""A script with what it imports from its folder as one tree, and with settings of YAML and JSON files."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path, PurePath, PurePosixPath
from typing import Any
from zipfile import ZipFile

from memory_service.errors import TooLarge
from memory_service.review.source.notebook import Cells, notebook_of, without_outputs
from memory_service.review.source.parsing import LONGEST_NOTEBOOK, TooLong, Unreadable, parsed, text_of
from memory_service.review.source.script import last_name, texts_in

MOST_MODULES = 40  # of one script; a project of people has a dozen
LONGEST_LINES = 20_000  # of all modules together
LONGEST_SETTINGS = 2**20
MOST_FILES = 400
MOST_ENTRIES = 20
_PASSED_OVER = re.compile(
    r"^(\.|__pycache__|node_modules|venv|env|site-packages|build|dist|wandb|runs|outputs?$)"
)
_SETTINGS = (".yaml", ".yml", ".json")
_LOADERS = frozenset(("load", "safe_load", "full_load", "loads", "unsafe_load"))
_LOADERS_OF = frozenset(("yaml", "json", "OmegaConf", "omegaconf"))


@dataclass(frozen=True, slots=True)
class Places:
    """modules: (line before its first, file, cells) of each part; the script's own file is ""."""

    modules: tuple[tuple[int, str, Cells | None], ...]

    def of(self, line: int) -> tuple[int, str, Cells | None]:
        return self.modules[max(0, bisect_right([start for start, *_ in self.modules], line - 1) - 1)]

    def shown(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """A finding where its reader finds it: in which file, in which cell, at which line of it."""
        start, file, cells = self.of(found["line"])

        def named(match: re.Match[str]) -> str:
            begin, name, _ = self.of(int(match[1]))
            return f"line {int(match[1]) - begin}" + (f" of {name or 'the script'}" if name != file else "")

        message = re.sub(r"\bline (\d{1,7})\b", named, found["message"])
        lines = {name: found[name] - start for name in ("line", "end_line")}
        out = {**found, **lines, "message": message} | ({"file": file} if file else {})
        return cells.shown(out) if cells is not None else out


@dataclass
class Source:
    """What a review reads; broken: cells of the script that were left out."""

    tree: ast.Module
    text: str
    places: Places
    broken: tuple[Unreadable, ...] = ()


def source_of(script: bytes | str, files: Mapping[str, str], name: str = "") -> Source:
    """The script as a tree, with files of its folder by path. Unreadable, TooLong, TooLarge as of `_read`."""
    own = _read(script)
    if not files:
        return own
    known = {_plain(path): text for path, text in files.items()}
    name = _plain(name)
    modules = list(_needed(own.tree, name, known, {name}))
    body: list[ast.stmt] = []
    texts: list[str] = []
    places: list[tuple[int, str, Cells | None]] = []
    lines = 0
    for path, one in [*modules, (name, own)]:
        if one is not own and lines + one.text.count("\n") > LONGEST_LINES:
            continue
        with suppress(RecursionError):
            _resolve(one.tree, path, known, runs=one is own)
        ast.increment_lineno(one.tree, lines)
        places.append((lines, path if one is not own else "", one.places.modules[0][2]))
        body += one.tree.body
        texts.append(one.text)
        lines += one.text.count("\n") + 1
    broken = tuple(replace(why, line=why.line + places[-1][0]) for why in own.broken)
    return Source(ast.Module(body, []), "\n".join(texts), Places(tuple(places)), broken)


def _plain(path: str) -> str:
    return path.replace("\\", "/").removeprefix("./")


def _read(script: bytes | str) -> Source:
    text = text_of(script)
    notebook = notebook_of(text)
    if notebook is None:
        return Source(parsed(text), text, Places(((0, "", None),)))
    if notebook.other:
        raise TooLong(f"the notebook is of {notebook.other}")
    code = text_of(notebook.text)
    return Source(parsed(code), code, Places(((0, "", notebook.cells),)), notebook.broken)


def imported_by(tree: ast.AST, name: str, files: Mapping[str, str]) -> Iterator[tuple[ast.stmt, str, str]]:
    """(import, path in the folder, name in it or "") of what a file imports from its own folder."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if path := _path_of(alias.name, 0, name, files):
                    yield node, path, ""
        elif isinstance(node, ast.ImportFrom):
            whole = _path_of(node.module or "", node.level, name, files)
            for alias in node.names:
                dotted = f"{node.module}.{alias.name}" if node.module else alias.name
                if path := _path_of(dotted, node.level, name, files):
                    yield node, path, ""
                elif whole:
                    yield node, whole, alias.name


def _path_of(dotted: str, level: int, name: str, files: Mapping[str, str]) -> str:
    """The file of a module: beside the file that imports it, from the folder's root, or below `src`."""
    inside = dotted.replace(".", "/")
    home = PurePosixPath(name).parent
    for _ in range(max(0, level - 1)):
        home = home.parent
    bases = [home] if level else [home, PurePosixPath("."), PurePosixPath("src")]
    for base in bases if inside else ():
        for end in (".py", "/__init__.py"):
            path = str(base / f"{inside}{end}")
            if path in files and path != name:
                return path
    return ""


def _needed(
    tree: ast.Module, name: str, files: Mapping[str, str], seen: set[str]
) -> Iterator[tuple[str, Source]]:
    """Modules that a file needs, each once, those that it needs first."""
    for _, path, _ in list(imported_by(tree, name, files)):
        if path in seen or len(seen) > MOST_MODULES:
            continue
        seen.add(path)
        try:
            one = _read(files[path])
        except (Unreadable, TooLong):
            continue
        yield from _needed(one.tree, path, files, seen)
        yield path, one


def _resolve(tree: ast.Module, name: str, files: Mapping[str, str], *, runs: bool) -> None:
    """Imports from the folder become plain names, loaders of settings what they load; `__main__` parts go."""
    own = {id(node): [""] for node, _, _ in imported_by(tree, name, files)}
    for node, _, inside in list(imported_by(tree, name, files)):
        own[id(node)].append(inside)
    _Resolver(own, {path: text for path, text in files.items() if path.endswith(_SETTINGS)}, tree).visit(tree)
    if not runs:
        tree.body = [s for s in tree.body if not (isinstance(s, ast.If) and "__main__" in texts_in(s.test))]


class _Resolver(ast.NodeTransformer):
    def __init__(self, own: Mapping[int, list[str]], settings: Mapping[str, str], tree: ast.AST) -> None:
        self.own, self.settings = own, settings
        opened = (item for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items)
        self.opened = {last_name(i.optional_vars): i.context_expr for i in opened if i.optional_vars}
        flags = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and last_name(n.func) == "add_argument")
        self.modules: set[str] = set()
        self.renamed: dict[str, str] = {}
        self.defaults = [k.value for call in flags for k in call.keywords if k.arg == "default"]

    def visit_Import(self, node: ast.Import) -> ast.stmt:
        return self._plain(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        return self._plain(node)

    def _plain(self, node: ast.Import | ast.ImportFrom) -> ast.stmt:
        if id(node) not in self.own:
            return node
        for alias in node.names:
            if self._is_module(node, alias.name):
                self.modules.add(alias.asname or alias.name)
            elif alias.asname:
                self.renamed[alias.asname] = alias.name
        return ast.copy_location(ast.Pass(), node)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.renamed.get(node.id, node.id)
        return node

    def _is_module(self, node: ast.Import | ast.ImportFrom, name: str) -> bool:
        return isinstance(node, ast.Import) or name not in self.own[id(node)]

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`config.BATCH` of a module of the folder is its `BATCH`."""
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in self.modules:
            return ast.copy_location(ast.Name(node.attr, node.ctx), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        base = node.func.value if isinstance(node.func, ast.Attribute) else None
        loads = base is not None and last_name(node.func) in _LOADERS and last_name(base) in _LOADERS_OF
        if loads and node.args:
            text = self._text(node.args[0])
            if text:
                node.func = ast.copy_location(ast.Name("safe_load", ast.Load()), node.func)
                node.args, node.keywords = [ast.copy_location(ast.Constant(text), node)], []
        return node

    def _text(self, given: ast.expr) -> str:
        """The settings that an expression reads: by a file's name in it, or the one default of a flag."""
        stated = self.opened.get(last_name(given), given) if isinstance(given, ast.Name) else given
        named = texts_in(stated) or [t for d in self.defaults for t in texts_in(d)]
        found = [self._file(one) for one in named if one.endswith(_SETTINGS)]
        return found[0] if len(found) == 1 else ""

    def _file(self, path: str) -> str:
        path = path.replace("\\", "/").removeprefix("./")
        same = [p for p in self.settings if p == path] or [
            p
            for p in self.settings
            if p.endswith(f"/{path}") or PurePosixPath(p).name == PurePosixPath(path).name
        ]
        return self.settings[same[0]] if len(same) == 1 else ""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """`@hydra.main(config_path="conf", config_name="base")`: its parameter is what the file holds."""
        self.generic_visit(node)
        for call in node.decorator_list:
            if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "hydra.main" and node.args.args):
                continue
            given = {k.arg: k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}
            file = f"{str(given.get('config_name', '')).removesuffix('.yaml')}.yaml"
            text = self._file(str(PurePosixPath(str(given.get("config_path") or ".")) / file).lstrip("./"))
            if text:
                made = ast.parse(f"{node.args.args[0].arg} = safe_load({self._composed(text)!r})").body[0]
                for inner in ast.walk(made):
                    ast.copy_location(inner, node.body[0])
                node.body.insert(0, made)
        return node

    def _composed(self, text: str) -> str:
        """Settings with those of groups that `defaults` names: `- model: resnet`."""
        for group, choice in re.findall(r"^ *- +(\w{1,60}): *([\w.-]{1,60})", text, re.MULTILINE):
            more = self._file(f"{group}/{choice.removesuffix('.yaml')}.yaml")
            indented = "\n".join(f"  {line}" for line in more.splitlines())
            text += f"\n{group}:\n{indented}\n" if more else ""
        return re.sub(r"^defaults:[^\n]*$", "", text, flags=re.MULTILINE)


def project_files(project: Path) -> dict[str, str]:
    """Path -> text of the files of a folder or zip. BadZipFile, or RuntimeError, for a broken one."""
    out: dict[str, str] = {}
    for inside, size, read in _members(project):
        wanted = inside.suffix in (".py", ".ipynb", *_SETTINGS)
        if not wanted or any(map(_PASSED_OVER.match, inside.parts)) or len(out) >= MOST_FILES:
            continue
        if size <= (LONGEST_NOTEBOOK if inside.suffix == ".ipynb" else LONGEST_SETTINGS):
            out[inside.as_posix()] = without_outputs(read()).decode("utf-8", "replace")
    return out


def _members(project: Path) -> Iterator[tuple[PurePath, int, Callable[[], bytes]]]:
    """(path below the one folder that holds all, bytes, what reads them) of each file."""
    if project.is_dir():
        files = (path for path in sorted(project.rglob("*")) if path.is_file())
        yield from ((path.relative_to(project), path.stat().st_size, path.read_bytes) for path in files)
        return
    with ZipFile(project) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        paths = [PurePosixPath(info.filename) for info in infos]
        within = int(len({path.parts[:1] for path in paths}) == 1 and all(len(p.parts) > 1 for p in paths))
        for info, path in zip(infos, paths, strict=True):
            yield PurePosixPath(*path.parts[within:]), info.file_size, partial(archive.read, info)


def entries_of(files: Mapping[str, str]) -> list[str]:
    """Scripts and notebooks that no other file of the folder imports."""
    trees: dict[str, ast.AST] = {}
    for path, text in files.items():
        if not path.endswith(_SETTINGS):
            with suppress(Unreadable, TooLong, TooLarge):
                trees[path] = _read(text).tree
    imported = {used for path, tree in trees.items() for _, used, _ in imported_by(tree, path, files)}
    scripts = [path for path in files if not path.endswith(_SETTINGS)]
    first = (path for path in scripts if path not in imported and not path.endswith("__init__.py"))
    return [*islice(first, MOST_ENTRIES)]
