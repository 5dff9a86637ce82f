"""Static files, compressed once and served under a name that contains their hash."""

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

router = APIRouter(include_in_schema=False)

STATIC = Path(str(files("memory_service.web") / "static"))

_FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file, its gzip, media type and content digest."""

    body: bytes
    packed: bytes
    media_type: str
    digest: str


def asset(name: str) -> str:
    """The URL of a file below `static/`; KeyError for an unknown one."""
    return f"/static/{name}?v={_read(name).digest}"


def accepts_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


def compressed(request: Request, response: Response) -> Response:
    """The response in gzip where the browser reads it and it is worth it."""
    response.headers["Vary"] = "Accept-Encoding"
    if accepts_gzip(request) and len(response.body) > 1_000:
        response.body = gzip.compress(bytes(response.body), 5, mtime=0)
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Content-Length"] = str(len(response.body))
    return response


@router.get("/static/{name:path}")
def static(request: Request, name: str) -> Response:
    """304 when the browser has the file."""
    if name not in _names():
        raise HTTPException(404)
    file = _read(name)
    current = request.query_params.get("v") == file.digest
    kept = _FOR_EVER if current else "no-cache"
    headers = {"Cache-Control": kept, "ETag": f'"{file.digest}"', "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    if not accepts_gzip(request):
        return Response(file.body, headers=headers, media_type=file.media_type)
    return Response(file.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=file.media_type)


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(p.relative_to(STATIC).as_posix() for p in STATIC.rglob("*") if p.is_file())


@lru_cache(maxsize=256)
def _read(name: str) -> Asset:
    if name not in _names():
        raise KeyError(name)
    body = (STATIC / name).read_bytes()
    media_type = mimetypes.guess_type(name)[0] or "text/plain"
    return Asset(body, gzip.compress(body, 9, mtime=0), media_type, hashlib.sha256(body).hexdigest()[:16])
