"""Safe parsing: bytes become text, size and nesting are measured, magics are skipped. Nothing is run."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from itertools import islice

from memory_service.errors import FieldError, TooLarge

LONGEST_BYTES = 1_048_576
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
    _silence_warnings()
    try:
        return ast.parse(text, filename=_NAME)
    except SyntaxError as error:
        raise _unreadable(error) from None
    except (RecursionError, MemoryError):
        raise _too_deep(1) from None
    except ValueError as error:  # half a surrogate pair, a number of over 4300 digits
        raise Unreadable(1, 1, f"It cannot be read: {str(error)[:200]}.", "Save it as UTF-8.") from None


_NAME = "reviewed-script"


def _silence_warnings() -> None:
    """Doubtful escapes of a script are not warnings of this program. A filter of that name, once."""
    first = warnings.filters[0] if warnings.filters else None
    if first is None or first[0] != "ignore" or getattr(first[3], "pattern", "") != _NAME:
        warnings.filterwarnings("ignore", module=_NAME)


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
        fix = "Save it as UTF-8, or name the encoding: # -*- coding: latin-1 -*-"
        raise Unreadable(line, 1, why, fix) from None


def _unreadable(error: SyntaxError) -> Unreadable:
    line, column, why = max(1, error.lineno or 1), max(1, error.offset or 1), error.msg or "invalid syntax"
    if why.startswith("too many"):
        return _too_deep(line)
    fix = "Make the file run through `python -m py_compile` first; no other rule was checked."
    return Unreadable(line, column, f"Not Python: {why[:200]}.", fix)
