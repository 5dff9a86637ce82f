"""The Jinja2 environment of the pages: everything escaped, nothing undefined."""

import contextlib
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request

from memory_service import __version__
from memory_service.domain.common import units
from memory_service.domain.common.api_keys import SCOPES, allows
from memory_service.domain.common.tables import shipped_table
from memory_service.domain.learning.scoring import error_words
from memory_service.services.pages.grid import value_at
from memory_service.services.pages.knowledge import linked
from memory_service.web import text
from memory_service.web.assets import asset

TEMPLATES = Path(str(files("memory_service.web") / "templates"))


_RULE = re.compile(r"\b([RS][0-9]{2})\b")

_NUMBERS = itertools.count(1)


class _Environment(Environment):
    """As Jinja looks up `row.name`, but without trying the dict's own attributes first where there is none of
    that name: half the time of a table."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if type(obj) is not dict or attribute in _OF_DICT:
            return super().getattr(obj, attribute)
        try:
            return obj[attribute]
        except KeyError:
            return self.undefined(obj=obj, name=attribute)


_OF_DICT = frozenset(dir(dict))


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The Jinja environment of all pages, made once."""
    jinja = _Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_printable,
    )
    jinja.policies["json.dumps_function"] = _as_json
    jinja.globals.update(
        asset=asset,
        **shipped_table("memory_service.web", "words.toml"),
        version=__version__,
        reader=ANYBODY,
        notice="",
        input_unit=text.input_unit,
        fresh=lambda: f"n{next(_NUMBERS):x}",
    )
    jinja.tests["begins"] = lambda path, of: of == path or of.startswith(path + "/")
    jinja.filters.update(
        ago=text.ago, amount=text.amount, at=value_at, clock=units.clock, cut=text.cut,
        href=_href, interval=partial(units.interval, mark=","), lasting=units.lasting,
        minutes=units.minutes, moment=text.moment, ruled=_ruled,
        error_words=error_words, sourced=_sourced, sparks=text.sparks, title_of=text.title_of, unit=text.unit,
    )  # fmt: skip
    return jinja


def rendered(template: str, **view: Any) -> str:
    return environment().get_template(template).render(**view)


def _printable(value: Any) -> Any:
    """Text between `{{` and `}}` without control characters."""
    return text.plain(value) if type(value) is str and not isinstance(value, Markup) else value


def _as_json(value: Any, **_: Any) -> str:
    """JSON for a script: NaN and infinity become null, texts are as on the page."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    with contextlib.suppress(orjson.JSONEncodeError):  # half of a pair
        found = orjson.dumps(value, option=options).decode()
        if not _UNREADABLE.search(found):
            return found
    return orjson.dumps(_readable(value), option=options).decode()


_UNREADABLE = re.compile("\\\\[bfru]|[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What may be a control character, of JSON."""


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return text.plain(value)
    if isinstance(value, Mapping):
        return {name: _readable(item) for name, item in value.items()}
    return [_readable(item) for item in value] if isinstance(value, list | tuple) else value


def _ruled(sentence: str) -> Markup:
    """A sentence in which each rule (R02, S06) links to its strategy rows."""
    return Markup("").join(
        Markup('<a href="/browse/strategies?rule={0}">{0}</a>').format(part) if n % 2 else text.plain(part)
        for n, part in enumerate(_RULE.split(sentence))
    )


def _sourced(source: str, claim: str = "") -> Markup:
    """The source of a row; what it names links to where it can be opened."""
    link = Markup('<a href="{1}" rel="noopener noreferrer">{0}</a>')
    parts = linked(source, claim)
    return Markup("").join(link.format(part, at) if at else text.plain(part) for part, at in parts)


def _href(path: str, *parts: Any) -> str:
    """A URL of this server: `{}` takes the next part, quoted."""
    for part in parts:
        path = path.replace("{}", quote(str(part), safe="/@+:"), 1)
    return path


@dataclass(frozen=True, slots=True)
class Reader:
    """name: of the key that signed in, None without one; csrf: the token of each form."""

    name: str | None
    scopes: frozenset[str]
    csrf: str | None

    def may(self, scope: str) -> bool:
        return allows(self.scopes, (scope,))


ANYBODY = Reader(None, frozenset(SCOPES), None)


def reader_of(request: Request) -> Reader:
    """As `api.security.auth_middleware` found out; without scopes where it refused before."""
    state = request.scope.get("state", {})
    if "scopes" not in state:
        return Reader(None, frozenset(), None)
    return Reader(state["key_name"], state["scopes"], state["csrf"])
