"""How is an agent on this machine served? Over its own pipes, by this process, from the settings'
database."""

from __future__ import annotations

import anyio
from mcp.server.stdio import stdio_server

from memory_service.api.service import Service
from memory_service.mcp.server import build_server
from memory_service.settings import Settings

__all__ = ["serve_stdio"]

STOP_WITHIN_SECONDS = 5.0


def serve_stdio(settings: Settings) -> None:
    """Answer until the input ends. The first message is answered at once; the database is upgraded and
    seeded, and the encoder loaded, behind it. While this runs, whatever prints to stdout reaches stderr."""
    anyio.run(_serve, Service(settings))


async def _serve(service: Service) -> None:
    server = build_server(service)
    async with stdio_server() as (reading, writing):
        service.preparation.start()
        try:
            await server.run(reading, writing, server.create_initialization_options())
        finally:
            service.preparation.stop(STOP_WITHIN_SECONDS)
            service.database.close()
