"""A script, notebook or project as one tree: decoded, measured, with modules and settings of its folder."""

from __future__ import annotations

import ast
import json
import re
import textwrap
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path, PurePath, PurePosixPath
from statistics import median
from typing import Any
from zipfile import ZipFile

from memory_service.domain.logs.parser import read_log
from memory_service.errors import FieldError, TooLarge
from memory_service.review.source.script import last_name, texts_in

LONGEST_BYTES = 1_048_576
Files = Mapping[str, str]  # path in a folder -> text
LONGEST_NOTEBOOK = 2**25  # bytes with its outputs

MOST_TOKENS = 80_000  # words and signs. A training script has a few thousand; of more a second would not do.
MOST_EXPRESSIONS = 1_000  # of f-strings of 1 MiB; Python's parser before 3.12 is slow there

DEEPEST = 450  # levels of the tree; people write a hundred

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_CODECS = re.compile(
    r"(ascii|us-ascii|utf-?8(-sig)?|latin-?1|iso-?8859-?\d{1,2}|cp\d{3,4}|windows-?\d{3,4}|koi8-[rut]|gbk|"
    r"gb2312|gb18030|big5|shift-jis|sjis|euc-jp|euc-kr|mac-(roman|cyrillic|latin2|greek))"
)
_TOKEN = re.compile(r"\w+|[^\w\s]+")
_MAGIC = re.compile(
    r"""
    ^%%(?:bash|sh|script|html|javascript|js|latex|markdown|writefile|perl|ruby|sql)\b
        [\s\S]*?(?=^\#\s*(?:%%|In\[|\+)|\Z)             # a cell in another language, to the next or the end
  | ^(?P<indent>[ \t]*+)(?:
        %[%\w] | !(?!=) | \?                            # %matplotlib, !pip, ?name
      | [\w., ]++=[ \t]*+[!%][ \t]*\w                     # files = !ls
      | [^\#'"=\n]*\?[ \t]*$                           # name?
    )(?:[^\n\\]|\\[\s\S])*
    """,
    re.VERBOSE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Unreadable(Exception):
    """Why the text is not Python that can be read, at which line. certain: whether it fails in a run."""

    line: int
    column: int
    why: str
    fix: str
    certain: bool = True


class TooLong(Exception):
    """It has more tokens, or more f-strings for its length, than are followed."""


def text_of(script: bytes | str) -> str:
    """The script by its byte order mark or PEP 263. TooLarge over the limits; Unreadable for no text."""
    plain = isinstance(script, bytes) or len(script) > LONGEST_NOTEBOOK or script.isascii()
    size = len(script) if plain else len(script.encode("utf-8", "surrogatepass"))  # type: ignore[union-attr]
    if size > LONGEST_BYTES and (size > LONGEST_NOTEBOOK or not is_notebook(script)):
        raise too_large(size)
    text = _decoded(script) if isinstance(script, bytes) else script
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    nul = text.find("\x00")
    if nul >= 0:
        line, why = text.count("\n", 0, nul) + 1, "It holds null bytes: a binary file, or UTF-16."
        raise Unreadable(line, 1, why, "Save it as UTF-8.")
    return text


def too_large(size: int) -> TooLarge:
    message = f"a script of at most {LONGEST_BYTES} bytes is reviewed"
    return TooLarge(message.capitalize(), [FieldError("script", message, size)])


def is_notebook(script: bytes | str) -> bool:
    """Whether it is the JSON of a Jupyter notebook."""
    if isinstance(script, bytes):
        return script.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{" and b'"cell_type"' in script
    return script.removeprefix("\ufeff").lstrip()[:1] == "{" and '"cell_type"' in script


def parsed(text: str) -> ast.Module:
    """The tree, with `pass` for magics of notebooks. Unreadable (also where nested too deep); TooLong."""
    tokens = sum(1 for _ in islice(_TOKEN.finditer(text), MOST_TOKENS + 1))
    if tokens > MOST_TOKENS or text.count("{") * len(text) > MOST_EXPRESSIONS * LONGEST_BYTES:
        raise TooLong(f"over {MOST_TOKENS} tokens, or {MOST_EXPRESSIONS} expressions in one f-string")
    try:
        tree = tree_of(text)
    except Unreadable:
        tree = tree_of(without_magics(text))
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise _too_deep(getattr(level[0], "lineno", 1))
    return tree


def _too_deep(line: int) -> Unreadable:
    return Unreadable(line, 1, "It is nested too deep to be read.", "Split this expression.")


def without_magics(text: str) -> str:
    """Magics and shell lines as `pass`, on the same lines."""
    return _MAGIC.sub(lambda m: (m["indent"] or "") + "pass" + "\n" * m[0].count("\n"), text)


def tree_of(text: str) -> ast.Module:
    """The tree of plain Python. Unreadable for anything else."""
    first = warnings.filters[0] if warnings.filters else None
    if first is None or first[0] != "ignore" or getattr(first[3], "pattern", "") != _NAME:
        warnings.filterwarnings("ignore", module=_NAME)  # of doubtful escapes: not of this program; once
    try:
        return ast.parse(text, filename=_NAME)
    except SyntaxError as error:
        raise _unreadable(error) from None
    except (RecursionError, MemoryError):
        raise _too_deep(1) from None
    except ValueError as error:  # half a surrogate pair, a number of over 4300 digits
        raise Unreadable(1, 1, f"It cannot be read: {str(error)[:200]}.", "Save it as UTF-8.") from None


_NAME = "reviewed-script"


def _decoded(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unreadable(1, 1, "It is UTF-16, which Python does not read.", "Save it as UTF-8.")
    codec, heads = "utf-8", raw[:2000].splitlines()[:2]
    heads = heads[: 1 if heads and heads[0].strip() and not heads[0].lstrip().startswith(b"#") else 2]
    stated = next(filter(None, map(_COOKIE.match, heads)), None)
    if stated and not raw.startswith(b"\xef\xbb\xbf"):
        codec = stated[1].decode("ascii", "replace").lower().replace("_", "-")
    unknown = Unreadable(1, 1, f"Its encoding {codec[:40]!r} is not known here.", "Save it as UTF-8.")
    if not _CODECS.fullmatch(codec):
        raise unknown
    try:
        return raw.decode(codec)
    except LookupError:
        raise unknown from None
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        why = f"Byte {error.start} is not {codec}: a binary file, or another encoding."
        fix = "Save it as UTF-8, or name the encoding: # -*- coding: latin-1 -*-"
        raise Unreadable(line, 1, why, fix) from None


def _unreadable(error: SyntaxError) -> Unreadable:
    line, column, why = max(1, error.lineno or 1), max(1, error.offset or 1), error.msg or "invalid syntax"
    if why.startswith("too many"):
        return _too_deep(line)
    fix = "Make the file run through `python -m py_compile` first; no other rule was checked."
    return Unreadable(line, column, f"Not Python: {why[:200]}.", fix)


_OF_PYTHON = re.compile(
    r"%%(?:time|timeit|capture|prun|memit|mprun|snakeviz|debug|wandb|skip|cache|python3?|"
    r"(?:write)?file[ \t][^\n]*\.py[ \t]*$)(?![\w-])",
    re.MULTILINE,
)

_STATEMENT = re.compile(r"^([ \t]*+)%(?:time|timeit|prun|memit)[ \t]++(?!-)", re.MULTILINE)
_FIX = "Correct the cell or take it out; the others were read without it."


@dataclass(frozen=True, slots=True)
class Cells:
    """starts: lines of the script before each cell's first; numbers: those cells among all, from one."""

    starts: tuple[int, ...]
    numbers: tuple[int, ...]

    def place(self, line: int) -> tuple[int, int]:
        """(cell, line in it) of a line of the script."""
        at = max(0, bisect_right(self.starts, line - 1) - 1)
        return self.numbers[at], max(1, line - self.starts[at])


@dataclass(frozen=True, slots=True)
class Notebook:
    """text: the script; broken: why cells were left out; other: the language, "" for Python."""

    text: str
    cells: Cells
    broken: tuple[Unreadable, ...]
    other: str = ""


def notebook_of(text: str) -> Notebook | None:
    """The notebook that a text is, None for any other text. Unreadable where its JSON is broken."""
    document = _document(text) if is_notebook(text) else None
    if document is None:
        return None
    about: Any = document.get("metadata")
    stated = (about.get(one) if isinstance(about, dict) else None for one in ("language_info", "kernelspec"))
    language, kernel = (one if isinstance(one, dict) else {} for one in stated)
    name = str(language.get("name") or kernel.get("language") or "python").lower()
    if not name.startswith(("python", "ipython")) or kernel.get("name") == "ir":
        return Notebook("", Cells((0,), (1,)), (), name[:40])
    old = str(language.get("version", ""))[:1] == "2" or kernel.get("name") == "python2"
    return _joined(document, old=old)


def without_outputs(raw: bytes) -> bytes:
    """A notebook without what its cells gave out; any other file as it is."""
    document = None
    with suppress(UnicodeDecodeError, Unreadable):
        text = raw.decode("utf-8-sig")
        document = _document(text) if is_notebook(text) else None
    for cell in _cells(document or {}):
        cell.update({"outputs": [], "attachments": {}})
    return raw if document is None else json.dumps(document).encode()


def run_of(script: bytes | str) -> dict[str, Any]:
    """What the outputs of a notebook say of its run: epochs, seconds of one, most memory, the last score."""
    text = script.decode("utf-8", "replace") if isinstance(script, bytes) else script
    events = read_log(_outputs_of(text), final=True).events
    epochs = [event.fields for event in events if event.kind == "epoch"]
    seconds = [one["seconds"] for one in epochs if "seconds" in one]
    memory = [event.fields[name] for event in events for name in _MEMORY if name in event.fields]
    scored: Mapping[str, Any] = next((one for one in reversed(epochs) if "metric" in one), {})
    known = {
        "epochs": len({(one.get("fold"), one.get("epoch")) for one in epochs}),
        "epoch_seconds": median(seconds) if seconds else None,
        "peak_memory_gib": max(memory, default=None),
        "metric": scored.get("metric"),
        "metric_name": scored.get("metric_name"),
    }
    return {name: value for name, value in known.items() if value}


_MEMORY = ("peak_allocated_gib", "memory_gib", "used_gib")


def _outputs_of(text: str) -> str:
    """What the cells of a notebook printed and showed; "" for any other text."""
    document, parts = None, []
    with suppress(Unreadable):
        document = _document(text) if is_notebook(text) else None
    given = [cell.get("outputs") for cell in _cells(document or {})]
    for one in (each for outputs in given if isinstance(outputs, list) for each in outputs):
        shown = one if isinstance(one, dict) else {}
        data = shown["data"] if isinstance(shown.get("data"), dict) else {}
        parts.append(shown.get("text") or data.get("text/html") or data.get("text/plain") or "")
    lines = (part if isinstance(part, list) else [part] for part in parts)
    return "\n".join("".join(one for one in each if isinstance(one, str)) for each in lines)


def _document(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable(1, 1, "It is a notebook whose JSON is broken.", "Save the notebook again.") from None
    return found if isinstance(found, dict) else None


def _cells(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All cells; nbformat 3 holds them in sheets."""
    sheets = [document, *(document.get("worksheets") or ())]
    lists = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    return [cell for one in lists if isinstance(one, list) for cell in one if isinstance(cell, dict)]


def _joined(document: Mapping[str, Any], *, old: bool) -> Notebook:
    """old: of Python 2, where what cannot be read may be right."""
    lines: list[str] = []
    starts: list[int] = []
    numbers: list[int] = []
    broken: list[Unreadable] = []
    cells = [(at, cell) for at, cell in enumerate(_cells(document), 1) if cell.get("cell_type") == "code"]
    certain = not old and not any(
        cell.get("execution_count") or cell.get("prompt_number") for _, cell in cells
    )
    for number, cell in cells:
        given = cell.get("source", cell.get("input", ""))
        parts = given if isinstance(given, list) else [given]
        code = "".join(part for part in parts if isinstance(part, str)).replace("\r\n", "\n").rstrip()
        if not code:
            continue
        numbers.append(number)
        lines.append(f"# In[{number}]")
        starts.append(len(lines))
        try:
            lines += _python(code).split("\n")
        except Unreadable as why:
            broken.append(replace(why, line=len(lines) + why.line, fix=_FIX, certain=certain))
            lines += [""] * (code.count("\n") + 1)
    return Notebook("\n".join(lines), Cells(tuple(starts) or (0,), tuple(numbers) or (1,)), tuple(broken))


def _python(code: str) -> str:
    """A cell as Python, on the same lines."""
    head = code.lstrip()
    if head.startswith("%%"):
        blank, (_, _, inside) = "\n" * (code.count("\n") - head.count("\n") + 1), head.partition("\n")
        code = blank + (inside if _OF_PYTHON.match(head) else "\n" * inside.count("\n"))
    first = next((line for line in code.split("\n") if line.strip() and line.lstrip()[0] != "#"), "")
    indent = first[: len(first) - len(first.lstrip())]
    if indent:
        code = re.sub(f"^{re.escape(indent)}", "", code, flags=re.MULTILINE)
    magic = without_magics(_STATEMENT.sub(r"\1", code))
    for text in (code, magic, textwrap.dedent(magic)):
        try:
            tree_of(text)
        except Unreadable as why:
            error = why
        else:
            return text
    raise error


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

        def placed(line: int) -> tuple[int, int]:
            return cells.place(line - start) if cells is not None else (0, line - start)

        def named(match: re.Match[str]) -> str:
            begin, name, _ = self.of(int(match[1]))
            if name != file:
                return f"line {int(match[1]) - begin} of {name or 'the script'}"
            cell, line = placed(int(match[1]))
            return f"line {line} of cell {cell}" if cell else f"line {line}"

        message = re.sub(r"\bline (\d{1,7})\b", named, found["message"])
        (cell, line), (last_cell, last) = placed(found["line"]), placed(found["end_line"])
        out = {**found, "line": line, "end_line": last if last_cell == cell else line, "message": message}
        return out | ({"file": file} if file else {}) | ({"cell": cell} if cell else {})


@dataclass
class Source:
    """What a review reads; broken: cells of the script that were left out."""

    tree: ast.Module
    text: str
    places: Places
    broken: tuple[Unreadable, ...] = ()


def source_of(script: bytes | str, files: Files, name: str = "") -> Source:
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


def imported_by(tree: ast.AST, name: str, files: Files) -> Iterator[tuple[ast.stmt, str, str]]:
    """(import, path in the folder, name in it or "") of what a file imports from its own folder."""
    stated = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    for node, alias in ((one, alias) for one in stated for alias in one.names):
        module, level = (node.module, node.level) if isinstance(node, ast.ImportFrom) else (None, 0)
        if path := _path_of(f"{module}.{alias.name}" if module else alias.name, level, name, files):
            yield node, path, ""
        elif whole := _path_of(module or "", level, name, files):
            yield node, whole, alias.name


def _path_of(dotted: str, level: int, name: str, files: Files) -> str:
    """The file of a module: beside the file that imports it, from the folder's root, or below `src`."""
    inside, home = dotted.replace(".", "/"), PurePosixPath(name).parent
    for _ in range(max(0, level - 1)):
        home = home.parent
    bases = [home] if level else [home, PurePosixPath("."), PurePosixPath("src")]
    paths = (str(base / f"{inside}{end}") for base in bases for end in (".py", "/__init__.py"))
    return next((path for path in paths if inside and path in files and path != name), "")


def _needed(tree: ast.Module, name: str, files: Files, seen: set[str]) -> Iterator[tuple[str, Source]]:
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


def _resolve(tree: ast.Module, name: str, files: Files, *, runs: bool) -> None:
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

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> ast.stmt:
        if id(node) not in self.own:
            return node
        for alias in node.names:
            if isinstance(node, ast.Import) or alias.name not in self.own[id(node)]:
                self.modules.add(alias.asname or alias.name)
            elif alias.asname:
                self.renamed[alias.asname] = alias.name
        return ast.copy_location(ast.Pass(), node)

    visit_ImportFrom = visit_Import  # noqa: N815

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.renamed.get(node.id, node.id)
        return node

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
        path = _plain(path)
        alike = [p for p in self.settings if PurePosixPath(p).name == PurePosixPath(path).name]
        same = [path] if path in self.settings else alike
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


def entries_of(files: Files) -> list[str]:
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
