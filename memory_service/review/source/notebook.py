"""Jupyter notebooks as one script, cell by cell as Jupyter runs them, and where each line stands."""

from __future__ import annotations

import json
import re
import textwrap
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from memory_service.domain.logs.parser import read_log
from memory_service.review.source.parsing import Unreadable, is_notebook, tree_of, without_magics

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

    def shown(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """A finding with its cell, its lines and those in its message counted within cells."""

        def named(match: re.Match[str]) -> str:
            other, line = self.place(int(match[1]))
            return f"line {line} of cell {other}"

        (cell, line), (last_cell, last) = self.place(found["line"]), self.place(found["end_line"])
        end = last if last_cell == cell else line
        message = re.sub(r"\bline (\d{1,7})\b(?! of )", named, found["message"])
        return {**found, "cell": cell, "line": line, "end_line": end, "message": message}


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
    about = document.get("metadata")
    stated = [about.get(name) for name in ("language_info", "kernelspec")] if isinstance(about, dict) else []
    language, kernel = (one if isinstance(one, dict) else {} for one in (*stated, None, None)[:2])
    name = str(language.get("name") or kernel.get("language") or "python").lower()
    if not name.startswith(("python", "ipython")) or kernel.get("name") == "ir":
        return Notebook("", Cells((0,), (1,)), (), name[:40])
    old = str(language.get("version", ""))[:1] == "2" or kernel.get("name") == "python2"
    return _joined(list(_code_cells(document)), old=old)


def without_outputs(raw: bytes) -> bytes:
    """A notebook without what its cells gave out; any other file as it is."""
    try:
        text = raw.decode("utf-8-sig")
        document = _document(text) if is_notebook(text) else None
    except (UnicodeDecodeError, Unreadable):
        return raw
    if document is None:
        return raw
    for cell in _cells(document):
        cell.update({"outputs": [], "attachments": {}})
    return json.dumps(document).encode()


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
    try:
        document = _document(text) if is_notebook(text) else None
    except Unreadable:
        return ""
    given = [cell.get("outputs") for cell in _cells(document or {})]
    parts = []
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


def _code_cells(document: Mapping[str, Any]) -> Iterator[tuple[int, str, bool]]:
    """(number, code, whether the cell ran)."""
    for number, cell in enumerate(_cells(document), 1):
        given = cell.get("source", cell.get("input", ""))
        parts = given if isinstance(given, list) else [given]
        code = "".join(part for part in parts if isinstance(part, str)).replace("\r\n", "\n").rstrip()
        if cell.get("cell_type") == "code" and code:
            yield number, code, bool(cell.get("execution_count") or cell.get("prompt_number"))


def _joined(cells: list[tuple[int, str, bool]], *, old: bool) -> Notebook:
    """old: of Python 2, where what cannot be read may be right."""
    lines: list[str] = []
    starts: list[int] = []
    broken: list[Unreadable] = []
    certain = not old and not any(ran for _, _, ran in cells)
    for number, code, _ in cells:
        lines.append(f"# In[{number}]")
        starts.append(len(lines))
        try:
            lines += _python(code).split("\n")
        except Unreadable as why:
            broken.append(replace(why, line=len(lines) + why.line, fix=_FIX, certain=certain))
            lines += [""] * (code.count("\n") + 1)
    numbers = tuple(number for number, _, _ in cells)
    return Notebook("\n".join(lines), Cells(tuple(starts) or (0,), numbers or (1,)), tuple(broken))


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
