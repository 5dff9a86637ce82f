"""`memory-service mcp`: the service as tools of an agent on this machine, over its standard input and
output."""

import sys

from memory_service.cli.common.databases import DatabaseUrl
from memory_service.cli.common.mcp_relay import Relay
from memory_service.cli.common.remote import ServerUrl, server_asked
from memory_service.errors import InvalidInput


def mcp(database: DatabaseUrl = None, server: ServerUrl = None) -> None:
    """Speak MCP over stdio, for an agent that starts this command itself.

    With --server, or MEMORY_SERVER and no --database, it passes everything on to that server, and needs the
    light package alone.

    The embedded database is made, upgraded and seeded, as `serve` does it; stdout carries the protocol and
    nothing else, logs go to stderr. A running server offers the same over HTTP at /mcp.
    """
    from memory_service.cli.common.output import log_to_stderr, stderr

    if sys.stdin is None or sys.stdout is None:
        raise InvalidInput("MCP is spoken over standard input and output, and one of them is closed")
    if (asked := server_asked(server, database)) is not None:
        stderr.print(f"MCP of {asked}, passed on", highlight=False, markup=False)
        Relay(asked, sys.stdin.buffer, sys.stdout.buffer).run()
        return
    from memory_service.settings import load_settings

    settings = load_settings(database_url=database)
    log_to_stderr(settings.log_level)
    from memory_service.mcp.server import serve_stdio

    serve_stdio(settings)
