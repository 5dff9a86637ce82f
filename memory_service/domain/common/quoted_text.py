"""Texts that somebody stored, as data in an answer that a program or an agent reads.

Who may write to the memory could else speak to everybody who asks it: a line break begins a line that looks
like the service's own, and so does a heading or a bold name.
"""

import re
import unicodedata

_QUOTED = re.compile(r'"[^"\n]{0,4000}"')
_MARKUP = re.compile(r"(?<!\\)(?:[*<>\[\]#]|__)")


def one_line(text: str) -> str:
    """The text with single spaces for breaks and runs, without control and invisible characters."""
    shown = (sign if unicodedata.category(sign)[0] != "C" else " " for sign in text)
    return " ".join(text.split() if text.isascii() and text.isprintable() else "".join(shown).split())


def scripts_of(name: str) -> set[str]:
    """The scripts of its letters, as in `LATIN`, `CYRILLIC`."""
    return {unicodedata.name(sign, "?").partition(" ")[0] for sign in name if sign.isalpha()}


def is_plain_name(name: str) -> bool:
    """Whether a name is what it looks like: nothing invisible, no other form of a letter, one script."""
    letters = scripts_of(name)
    mixed = "LATIN" in letters and letters & {"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"}
    return name.isprintable() and unicodedata.normalize("NFKC", name) == name and not mixed


def quoted(text: str) -> str:
    """The same between quotation marks, without any inside."""
    return f'"{one_line(text).replace(chr(34), chr(39)).replace("`", chr(39))}"'


def as_markdown(text: str) -> str:
    """A text of the service as Markdown: what stands between quotation marks is no markup."""
    return _QUOTED.sub(lambda said: _MARKUP.sub(_escaped, said[0]), text)


def named(text: str) -> str:
    """A name as it is; quoted where it is more than a word."""
    return text if _WORD.fullmatch(text) else quoted(text)


_WORD = re.compile(r"[\w.:/@+-]+")


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\{sign}" for sign in found[0])
