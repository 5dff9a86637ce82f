"""Sentences of an answer: reasons and warnings as data, worded in one file (`sentences.toml`).

sentence("minutes-assumed", minutes=30.0)   "30 min assumed: give minutes."
"""

from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any, Literal, Self

from memory_service.domain.common.quoted_text import one_line
from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.units import figures, minutes, percent, plural

Severity = Literal["note", "warning"]

_WORDS = shipped_table(__package__, "sentences.toml")
"""Code -> {text: a template of `str.format`, severity: of a warning; `why` or another value: {its word: the
template of what that says}}."""


class _Formatter(Formatter):
    """`str.format`, `{value:~}` for three figures, `{share:%}` for a percentage, `{end:min}` for minutes,
    `{n:g#epoch}`: a count."""

    def format_field(self, value: Any, format_spec: str) -> str:
        spec, _, noun = format_spec.partition("#")
        known = _SPECS.get(spec)
        shown = format(value, spec) if known is None else known(value)
        return plural(shown, noun) if noun else shown


_SPECS: Mapping[str, Callable[[float], str]] = {"~": figures, "%": percent, "min": minutes}
_FORMATTER = _Formatter()


class Sentence(str):
    """A sentence that knows its code, the values in it, and, as a warning, how much it matters: `warning`
    where the plan may be wrong by it, `note` where something was assumed or left out. It is one line,
    whatever its values hold; what a caller said is quoted by who makes it (`quoted_text`)."""

    code: str
    values: Mapping[str, Any]
    severity: Severity

    def __new__(cls, code: str, values: Mapping[str, Any]) -> Self:
        words = _WORDS[code]
        values = {n: v if type(v) is not str or v.isprintable() else one_line(v) for n, v in values.items()}
        shown = {
            name: _FORMATTER.vformat(choices[values[name]], (), values)
            for name, choices in words.items()
            if isinstance(choices, dict) and values[name] in choices
        }
        made = super().__new__(cls, _FORMATTER.vformat(words["text"], (), {**values, **shown}))
        made.code, made.values, made.severity = code, values, words.get("severity", "note")
        return made

    def as_dict(self) -> dict[str, Any]:
        """`{"code", "text", "severity", "values"}`."""
        values = {n: _plain(v) for n, v in self.values.items()}
        return {"code": self.code, "text": str(self), "severity": self.severity, "values": values}


def _plain(value: Any) -> Any:
    """A figure short, a sentence within a sentence as its text."""
    if isinstance(value, float):
        return round(value, 4)
    return str(value) if isinstance(value, str) else value


def sentence(code: str, **values: Any) -> Sentence:
    """The sentence of a code. KeyError for a code or a value that its template lacks."""
    return Sentence(code, values)
