"""The HTTP description as a page, drawn without internet."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from memory_service.api.service import service_of
from memory_service.web.assets import compressed
from memory_service.web.environment import rendered

router = APIRouter(include_in_schema=False)

# Swagger UI sets styles from its script and draws its icons as data: images; nothing comes from another host.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/docs")
def docs(request: Request) -> Response:
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
    return compressed(
        request,
        Response(
            rendered("docs.html", notice=service_of(request).settings.notice),
            headers=headers,
            media_type="text/html",
        ),
    )
