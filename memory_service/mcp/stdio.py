"""Serves MCP over stdin and stdout, from the settings' database."""

import os
import sys

import anyio
from mcp.server.stdio import stdio_server

from memory_service.api.service import Service
from memory_service.mcp.server import build_server
from memory_service.settings import Settings

STOP_WITHIN_SECONDS = 2.0
"""Agents kill what does not end soon after its input has."""


def serve_stdio(settings: Settings) -> None:
    """Answer until the input ends; database and encoder get ready meanwhile. Prints go to stderr."""
    service = Service(settings)
    anyio.run(_serve, service)
    if not service.preparation.stop(STOP_WITHIN_SECONDS):
        # It is within torch, or within a transaction that then never was; taking the interpreter down under
        # it would abort the process.
        sys.stderr.flush()
        os._exit(0)
    service.database.close()


async def _serve(service: Service) -> None:
    server = build_server(service)
    async with stdio_server() as (reading, writing):
        service.preparation.start()
        await server.run(reading, writing, server.create_initialization_options())
