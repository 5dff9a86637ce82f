"""What all pages share: routes, forms, parameters, and answers as HTML or JSON."""

import logging
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

import anyio.to_thread
from fastapi import APIRouter, Depends, Request
from python_multipart import FormParser
from python_multipart.multipart import Field, File, parse_options_header
from starlette.responses import RedirectResponse, Response

from memory_service.api.answers import file_of, json_answer
from memory_service.api.request_body import LOOP_BYTES, long_body, parse_query_string, raw_body
from memory_service.api.security.auth_middleware import form_is_signed
from memory_service.api.service import database_of, server_of, service_of
from memory_service.child_processes import Workers
from memory_service.client.config import DEFAULT_SERVER
from memory_service.errors import InvalidInput, wrong_value
from memory_service.schemas.fields import MOST_CHARACTERS
from memory_service.services.database.transactions import Database
from memory_service.services.editorial.import_file import text_of
from memory_service.services.knowledge.asker import ASKER
from memory_service.services.operations.export import stream_rows
from memory_service.services.pages.grid import PRESENTED
from memory_service.services.tables.file_formats import FORMATS, MEDIA_TYPES, TableExport, in_format
from memory_service.services.tables.spreadsheet import as_csv
from memory_service.web.assets import compressed
from memory_service.web.environment import reader_of, rendered

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store", "Referrer-Policy": "same-origin"}
KEPT = {"Cache-Control": "private, no-cache"}
"""Of a page that answers a form: Back shows it again, where `no-store` would show an error."""

MOST_PLAIN = 2_000
"""Characters of a description that stand in an address as they are."""

_SHEETS = Workers("a spreadsheet", processes=2, waiting=2, seconds=20.0, mib=1_024, caller=ASKER.get)
_PACKED = "packed"
_PAGING = ("cursor", "limit", "total", "still", "by", "group", *PRESENTED)
_MOST_PARTS = 200
_OF_A_PART = {"MAX_HEADER_COUNT": 4, "MAX_HEADER_SIZE": 512}  # its parser takes the square of a line
_ONCE = ("cursor", "edit", "saved", "counted")
_MOST_OF_MEDIA = 200  # characters of a form's Content-Type; browsers send some 70
_SEVERAL = (b"columns", b"slug", b"solution")
"""Fields that an address may give several times: one, with commas."""

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Here:
    """The page's path and query. Links keep what they do not change."""

    path: str
    query: Mapping[str, str]

    def link(self, **changes: Any) -> str:
        """This page with other query fields; None removes one. Paging starts anew."""
        query = {n: v for n, v in self.query.items() if n not in _ONCE and not n.startswith("to.")}
        query |= {name: str(value) for name, value in changes.items()}
        gone = {name for name, value in changes.items() if value is None}
        return url_of(self.path, {name: value for name, value in query.items() if name not in gone})

    def at(self, path: str, **more: str) -> str:
        """Another path with the same query, and more."""
        return url_of(path, {**self.query, **more})

    def file(self, form: str) -> str:
        """All the rows as `csv`, `xlsx`, `jsonl` or `parquet`; `json`: the page as it is."""
        dropped = () if form == "json" else _PAGING
        stem = "/index" if self.path == "/" else self.path
        query = {n: v for n, v in self.query.items() if n not in dropped and not n.startswith("to.")}
        return url_of(f"{stem}.{form}", query)


class Pages(APIRouter):
    """Routes of pages: each also answers as JSON, tables as files."""

    def __init__(self) -> None:
        super().__init__(include_in_schema=False)

    def page(self, path: str) -> Callable[[Endpoint], Endpoint]:
        """GET `path` as HTML and `path.json` as its data: the endpoint returns `answer(...)`."""

        def register(endpoint: Endpoint) -> Endpoint:
            stem = "/index" if path == "/" else path
            self.add_api_route(f"{stem}.json", endpoint, methods=["GET"], response_class=Response)
            self.add_api_route(path, endpoint, methods=["GET"], response_class=Response)
            return endpoint

        return register

    def form(self, path: str, read: Any = None) -> Callable[[Endpoint], Endpoint]:
        """POST `path`, with the session's token; answer with `see(...)` or a page with the error. `read`: of
        a form with a file (`READ_FILE`)."""

        def register(endpoint: Endpoint) -> Endpoint:
            checked = [read or READ_FORM]
            self.add_api_route(
                path, endpoint, methods=["POST"], response_class=Response, dependencies=checked
            )
            return endpoint

        return register

    def files(self, path: str, table: str) -> None:
        """GET `path.csv`, `.jsonl`, `.parquet`: all rows that match the query and what the path names.
        Register before `{name:path}` pages."""

        def pieces(database: Database, filters: dict[str, str], form: str) -> Iterable[bytes]:
            return stream_rows(database, table, filters, filters.pop("sort", None), form)

        self._in_every_form(path, pieces)

    def computed_files(
        self, path: str, rows_of: Callable[[Database, Mapping[str, str]], TableExport]
    ) -> None:
        """The same of computed rows."""

        self._in_every_form(path, lambda database, filters, form: in_format(rows_of(database, filters), form))

    def _in_every_form(
        self, path: str, pieces: Callable[[Database, dict[str, str], str], Iterable[bytes]]
    ) -> None:
        def rows(request: Request) -> Response:
            filters = {name: value for name, value in query_of(request).items() if name not in _PAGING}
            form = request.url.path.rpartition(".")[2]
            made = pieces(database_of(request), filters | request.path_params, form)
            return file_of(request, made, MEDIA_TYPES[form])

        for form in FORMATS:
            self.add_api_route(f"{path}.{form}", rows, methods=["GET"], response_class=Response)


def answer(
    request: Request,
    template: str,
    data: Mapping[str, Any],
    *,
    title: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **view: Any,
) -> Response:
    """The page, or its `data` where the URL ends in `.json`; `view`: more for the template (`here`:
    instead of the request's own)."""
    if wants_json(request):
        return compressed(request, json_answer(data, status))
    server = server_of(request)
    at_server = "" if server == DEFAULT_SERVER else f" --server {server}"
    shown = {"here": here_of(request), "reader": reader_of(request), "at_server": at_server, **view}
    shown["notice"] = service_of(request).settings.notice
    html = rendered(template, data=data, title=title, **shown)
    response = Response(html, status, {**HEADERS, **(headers or {})}, media_type="text/html")
    return compressed(request, response)


def see(path: str) -> Response:
    """Redirect after a form (303), so that reloading sends nothing again."""
    return RedirectResponse(path, 303)


def wants_json(request: Request) -> bool:
    return str(getattr(request.scope.get("route"), "path", "")).endswith(".json")


def here_of(request: Request) -> Here:
    """An unreadable query counts as none."""
    try:
        query = query_of(request)
    except InvalidInput:
        query = {}
    path: str = request.scope["path"]
    if wants_json(request):
        path = path.removesuffix(".json")
    return Here(quote(path, safe="/@+:~,"), query)


def query_of(request: Request) -> dict[str, str]:
    """Field -> text without empty fields, but with emptied cells (`to.field`). InvalidInput for a repeated
    field and what is not UTF-8."""
    raw: bytes = request.scope["query_string"]
    parts = [part.partition(b"=") for part in raw.split(b"&")]
    several = {name: [text for other, _, text in parts if other == name and text] for name in _SEVERAL}
    filled = [b"=".join((name, text)) for name, _, text in parts if text and name not in _SEVERAL]
    filled += [b"=".join((name, b",".join(texts))) for name, texts in several.items() if texts]
    query = parse_query_string(b"&".join(filled))
    emptied = [name for name, _, text in parts if not text and name.startswith(b"to.")]
    query = dict(parse_qsl(b"&".join(emptied).decode("ascii", "replace"), keep_blank_values=True)) | query
    if _PACKED in query:
        query["description"] = unpacked(query.pop(_PACKED), _PACKED)
    return query


async def form_of(request: Request) -> AsyncIterator[dict[str, str]]:
    """Field -> text of a form, empty fields included (a dependency of form routes), read in a thread. A long
    one is answered as other long bodies are.

    TooLarge; InvalidInput for what is not UTF-8 or repeated; CsrfMissing.
    """
    raw = await raw_body(request)
    async with long_body(request) if len(raw) > LOOP_BYTES else nullcontext():
        yield await anyio.to_thread.run_sync(_fields, request, raw)


async def form_with_file(request: Request) -> AsyncIterator[dict[str, str]]:
    """The same of a form whose field `file` is one: its text (`services.editorial.import_file.text_of`), read
    after the token is checked, and as long bodies are, however short."""
    raw = await raw_body(request)
    async with long_body(request):
        yield await anyio.to_thread.run_sync(_fields, request, raw, "file")


def _fields(request: Request, raw: bytes, file: str | None = None) -> dict[str, str]:
    """`file`: the one field that may be a file."""
    try:
        media = request.headers.get("content-type", "")
        pairs: Iterable[tuple[str, str | bytes]]
        if media.lower().startswith("multipart/form-data"):
            pairs = _parts_of(media, raw)
        else:
            pairs = parse_qsl(
                raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=1_000
            )
    except ValueError:
        raise InvalidInput("The form cannot be read: it must be UTF-8, URL-encoded or in parts") from None
    out: dict[str, str] = {}
    held = b""
    for name, value in pairs:
        if name in out:
            raise wrong_value(name[:80], "is given twice")
        if isinstance(value, bytes) and name != file:
            raise wrong_value(name[:80], "is a file, and none is read here")
        held = value if isinstance(value, bytes) else held
        out[name] = value.replace("\r\n", "\n") if isinstance(value, str) else ""
    form_is_signed(request, out.pop("csrf", ""))
    if held and file is not None:
        out[file] = text_of(held, partial(_SHEETS.run, as_csv)).replace("\r\n", "\n")
    return out


def _parts_of(media: str, raw: bytes) -> list[tuple[str, str | bytes]]:
    """Fields of a form in parts; of a file its bytes. ValueError for what is none, too many or too long."""
    pairs: list[tuple[str, str | bytes]] = []
    ended: list[bool] = []

    def take(part: Field | File) -> None:
        if isinstance(part, File):
            part.file_object.seek(0)
        held = part.file_object.read() if isinstance(part, File) else (part.value or b"").decode()
        pairs.append(((part.field_name or b"").decode(), held))
        if len(pairs) > _MOST_PARTS:
            raise ValueError("has too many parts")

    if len(media) > _MOST_OF_MEDIA:
        raise ValueError("says too much of itself")
    mark = parse_options_header(media)[1].get(b"boundary")
    limits = {"MAX_MEMORY_FILE_SIZE": inf, **_OF_A_PART}
    form = FormParser(
        "multipart/form-data", take, take, lambda: ended.append(True), boundary=mark, config=limits
    )
    form.write(raw)
    if not ended:
        raise ValueError("does not end")
    return pairs


logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # each wrong form would be a line


READ_FORM = Depends(form_of, scope="function")
"""Its turn ends before the answer is sent: who reads slowly holds none."""

Form = Annotated[dict[str, str], READ_FORM]

READ_FILE = Depends(form_with_file, scope="function")
FormWithFile = Annotated[dict[str, str], READ_FILE]


def url_of(path: str, query: Mapping[str, str]) -> str:
    """An address; a long description in it is packed, as `query_of` reads it."""
    if len(query.get("description", "")) > MOST_PLAIN:
        query = {
            _PACKED if name == "description" else name: packed(text) if name == "description" else text
            for name, text in query.items()
        }
    return f"{path}?{urlencode(query, safe='/,:@')}" if query else path


def packed(text: str) -> str:
    """Text for an address, deflated: of a long one in English under half."""
    return urlsafe_b64encode(zlib.compress(text.encode(), 9)).rstrip(b"=").decode()


def unpacked(text: str, field: str) -> str:
    """What was `packed`, no more than a description may have; InvalidInput."""
    inflating, read, most = zlib.decompressobj(), b"", MOST_CHARACTERS
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        read = inflating.decompress(raw, 4 * most + 1)
        decoded = read.decode() if len(read) <= 4 * most else ""
    except (ValueError, zlib.error):
        decoded = ""
    if len(read) > 4 * most or len(decoded) > most:
        raise wrong_value("description", f"holds more than {most} characters")
    if not decoded or not inflating.eof:
        raise wrong_value(field, "cannot be read: a part of the address is missing", text[:80])
    return decoded
