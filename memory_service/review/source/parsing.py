"""Safe parsing: bytes become text, size and nesting are measured, notebook magics are skipped.

The parser recurses over what is nested, so a scan by tokens, linear in the length, looks first. Nothing here
runs a line of the script.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass

from memory_service.errors import FieldError, TooLarge

LONGEST_BYTES = 1_048_576

MOST_TOKENS = 80_000
"""A training script has a few thousand. One of more is not followed: a second would not do."""

MOST_EXPRESSIONS = 1_000
"""In one f-string: Python's parser before 3.12 takes time by their square, and holds the lock meanwhile."""

MOST_NESTED = 90
"""Brackets within brackets; the parser's own limit is 200."""

MOST_CHAINED = 400
"""Operators, dots and calls behind one another between two commas, over all open brackets: each is a level
of the tree. `a + b + ...` of a hundred terms is still written by people."""

MOST_ELIF = 400

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_CODECS = re.compile(
    r"(ascii|us-ascii|utf-?8(-sig)?|latin-?1|iso-?8859-?\d{1,2}|cp\d{3,4}|windows-?\d{3,4}|koi8-[rut]|gbk|"
    r"gb2312|gb18030|big5|shift-jis|sjis|euc-jp|euc-kr|mac-(roman|cyrillic|latin2|greek))"
)
_TOKEN = re.compile(
    r"""
    (?P<comment>\#[^\n]*)
  | (?P<string>[rRbBuUfFtT]{0,3}(?:
                \"\"\"(?:[^\\"]|\\.|"(?!""))*+(?:\"\"\")?
               |'''(?:[^\\']|\\.|'(?!''))*+(?:''')?
               |"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?))
  | (?P<word>[^\W\d]\w*)
  | (?P<number>\d[\w.]*)
  | (?P<joined>(?:\\\n)+)
  | (?P<newline>\n(?:[ \t\f]*+\n)*+)
  | (?P<open>[(\[{])
  | (?P<close>[)\]}])
  | (?P<comma>[,;])
  | (?P<space>[ \t\f]+)
  | (?P<colon>:)
  | (?P<operator>[^\w\s])
  | (?P<other>[\s\S])
    """,
    re.VERBOSE | re.DOTALL,
)
_FORMATTED = re.compile(r"[rR]?[fFtT][rR]?['\"]")
_ELIF = ("elif",)
_CHAINING = frozenset(("not", "lambda", "if", "await", "or", "and", "in", "is"))
_SHELL = re.compile(r"[\w., ]+=\s*[!%]\s*\w")
_FOREIGN_CELL = re.compile(
    r"%%(?:bash|sh|script|html|javascript|js|latex|markdown|writefile|perl|ruby|sql)\b"
)
_CELL = re.compile(r"#\s*(?:%%|In\[|\+)")


@dataclass(frozen=True, slots=True)
class Unreadable(Exception):
    """Why the text is not Python that can be read, at which line."""

    line: int
    column: int
    why: str
    fix: str


class TooLong(Exception):
    """It has more tokens, or more expressions in one f-string, than are followed."""


def text_of(script: bytes | str) -> str:
    """The script as text by its byte order mark or PEP 263. TooLarge over 1 MiB; Unreadable when it is
    none."""
    size = len(script) if isinstance(script, bytes) or len(script) > LONGEST_BYTES else _utf8_size(script)
    if size > LONGEST_BYTES:
        message = f"a script of at most {LONGEST_BYTES} bytes is reviewed"
        raise TooLarge(message.capitalize(), [FieldError("script", message, size)])
    text = _decoded(script) if isinstance(script, bytes) else script
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    nul = text.find("\x00")
    if nul >= 0:
        line, why = text.count("\n", 0, nul) + 1, "It holds null bytes: a binary file, or UTF-16."
        raise Unreadable(line, 1, why, "Save it as UTF-8.")
    return text


def parsed(text: str) -> ast.Module:
    """The tree; magics of notebooks are `pass` in it, on the same lines.

    Unreadable for what is not Python and for what is nested too deep; TooLong.
    """
    plain = _scanned(text)
    try:
        _silence_warnings()
        return ast.parse(plain, filename=_NAME)
    except SyntaxError as error:
        raise _unreadable(error, plain) from None
    except (RecursionError, MemoryError):
        raise Unreadable(1, 1, "It is nested too deep to be read.", "Split the longest expression.") from None
    except ValueError as error:  # half a surrogate pair, a number of over 4300 digits
        raise Unreadable(1, 1, f"It cannot be read: {str(error)[:200]}.", "Save it as UTF-8.") from None


_NAME = "reviewed-script"


def _silence_warnings() -> None:
    """Doubtful escapes of a script are not warnings of this program. A filter of that name, once."""
    first = warnings.filters[0] if warnings.filters else None
    if first is None or first[0] != "ignore" or getattr(first[3], "pattern", "") != _NAME:
        warnings.filterwarnings("ignore", module=_NAME)


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _decoded(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unreadable(1, 1, "It is UTF-16, which Python does not read.", "Save it as UTF-8.")
    codec = "utf-8"
    if not raw.startswith(b"\xef\xbb\xbf"):
        for head in raw[:2000].splitlines()[:2]:
            stated = _COOKIE.match(head)
            if stated:
                codec = stated[1].decode("ascii", "replace").lower().replace("_", "-")
                break
            if head.strip() and not head.lstrip().startswith(b"#"):
                break
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
        raise Unreadable(
            line, 1, why, "Save it as UTF-8, or name the encoding: # -*- coding: latin-1 -*-"
        ) from None


class _Nesting:
    """How deep the tree of the text would be, token by token."""

    def __init__(self) -> None:
        self._levels = [0]
        self._chained = self._elifs = 0

    @property
    def too_deep(self) -> bool:
        return len(self._levels) > MOST_NESTED or self._chained > MOST_CHAINED or self._elifs > MOST_ELIF

    def newline(self) -> bool:
        """Whether a logical line ends here."""
        if len(self._levels) == 1:
            self._chained, self._levels[0] = 0, 0
        return len(self._levels) == 1

    def starts(self, token: str, *, indented: bool) -> None:
        """The first token of a logical line."""
        self._elifs = self._elifs + 1 if token in _ELIF else self._elifs if indented else 0

    def takes(self, kind: str | None, token: str) -> None:
        if kind == "comma":
            self._chained -= self._levels[-1]
            self._levels[-1] = 0
        elif kind == "open":
            self._levels.append(1)
            self._chained += 1
        elif kind == "close":
            if len(self._levels) > 1:
                self._chained -= self._levels.pop()
            self._levels[-1] += 1
            self._chained += 1
        elif kind == "operator" or (kind == "word" and token in _CHAINING):
            self._levels[-1] += 1
            self._chained += 1


def _scanned(text: str) -> str:
    """The text without magics. Unreadable where it is nested too deep; TooLong."""
    nesting = _Nesting()
    tokens, line, fresh = 0, 1, True
    pieces: list[str] = []
    copied = at = 0
    while at < len(text):
        tokens += 1
        if tokens > MOST_TOKENS:
            raise TooLong
        if fresh and (magic := _magic_at(text, at)) is not None:
            end, saved = magic
            pieces += [text[copied:at], saved]
            line += text.count("\n", at, end)
            copied = at = end
            fresh = False
            continue
        found = _TOKEN.match(text, at)
        if found is None:  # never: the last alternative takes any character
            break
        kind, token, at = found.lastgroup, found[0], found.end()
        line += token.count("\n")
        if kind == "space":
            tokens -= 1
        elif kind == "string" and _FORMATTED.match(token):
            expressions = token.count("{")
            tokens += 3 * expressions  # an opening brace, at least a name, a closing brace
            if expressions > MOST_EXPRESSIONS:
                raise TooLong
        elif kind == "newline":
            fresh = nesting.newline() or fresh
        elif kind not in ("comment", "joined"):
            if fresh:
                nesting.starts(token, indented=text[max(0, found.start() - 1)] in " \t")
            fresh = False
            nesting.takes(kind, token)
            if nesting.too_deep:
                why = "It is nested too deep to be read."
                raise Unreadable(line, 1, why, "Split this expression.")
    pieces.append(text[copied:])
    return "".join(pieces)


def _magic_at(text: str, at: int) -> tuple[int, str] | None:
    """Where a notebook's magic that starts at this logical line ends, and what stands for it; else None."""
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    line = text[at : min(end, at + 1000)]
    first = line.strip()
    if not (
        (first[:1] in ("%", "!", "?") and not first.startswith("!="))
        or (first.endswith("?") and not set("#'\"=") & set(first))
        or ((("!" in first) or ("%" in first)) and _SHELL.match(first))
    ):
        return None
    if _FOREIGN_CELL.match(first):
        return _cell(text, at, end)
    while end < len(text) and text[end - 1] == "\\":
        following = text.find("\n", end + 1)
        end = len(text) if following < 0 else following
    indent = line[: len(line) - len(line.lstrip())]
    return end, f"{indent}pass" + "\n" * text.count("\n", at, end)


def _cell(text: str, at: int, end: int) -> tuple[int, str]:
    """A cell in another language lasts to the next marker of a cell, or to the end."""
    while end < len(text):
        following = text.find("\n", end + 1)
        following = len(text) if following < 0 else following
        if _CELL.match(text, end + 1):
            break
        end = following
    return end, "pass" + "\n" * text.count("\n", at, end)


def _unreadable(error: SyntaxError, text: str) -> Unreadable:
    if text.lstrip()[:1] == "{" and '"cells"' in text[:2000]:
        return Unreadable(
            1, 1, "It is a notebook, not a script.", "jupyter nbconvert --to script notebook.ipynb"
        )
    why = (error.msg or "invalid syntax")[:200]
    return Unreadable(
        max(1, error.lineno or 1),
        max(1, error.offset or 1),
        f"Not Python: {why}.",
        "Make the file run through `python -m py_compile` first; no other rule was checked.",
    )
