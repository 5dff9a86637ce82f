"""Settings of the client: server, key, spool folder, limits, and the time it may delay an ending process."""

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

log = logging.getLogger("memory_service.client")

MODES = ("online", "offline", "disabled")
DEFAULT_SERVER = "http://127.0.0.1:8000"
MIB = 2**20

CLIENT_SETTINGS = {
    "MEMORY_MODE": (
        "online",
        "`online` sends during the run; `offline` only spools it, for `sync`; `disabled` does nothing.",
    ),
    "MEMORY_SERVER": (DEFAULT_SERVER, "The service that runs report to and commands ask; empty: none."),
    "MEMORY_API_KEY": ("", "Key of scope `tell` for the service; commands with `--server` use it too."),
    "MEMORY_RUN_ID": (
        "",
        "A run that was begun elsewhere: a script reports into it and begins none of its own.",
    ),
    "MEMORY_ORDERED_AT": (
        "",
        "When this box was ordered, in seconds since 1970: time limits learn its start-up from it.",
    ),
    "MEMORY_FLUSH_SECONDS": (
        "5",
        "Longest wait at the end of a script for its last events to be sent; the rest stays in the spool.",
    ),
    "MEMORY_SPOOL_MIB": ("64", "Largest spool of a run; above it the oldest raw samples are dropped."),
}
"""Variable -> (default, what it does): read by the client alone, in the process that trains."""

SPOOLS_MIB = 1024
"""Most that all runs' spools together should take: a run that starts later gets what is left of it."""

LEAST_SPOOL_MIB = 1


@dataclass(frozen=True, slots=True)
class Config:
    """spool: the folder; spool_bytes: of one run; key: sent to the server, and nowhere else."""

    mode: str = "online"
    server: str = DEFAULT_SERVER
    spool: Path = Path()
    flush_seconds: float = 5.0
    spool_bytes: int = 64 * MIB
    key: str | None = field(default=None, repr=False)


def load_config(mode: str | None = None, server: str | None = None) -> Config:
    """From the environment; a wrong value is logged and the default taken."""
    env = os.environ
    chosen = (mode or env.get("MEMORY_MODE") or "online").strip().lower()
    if chosen not in MODES:
        log.warning("MEMORY_MODE %r is none of %s: taken as online", chosen, ", ".join(MODES))
        chosen = "online"
    given = env.get("MEMORY_SERVER", DEFAULT_SERVER) if server is None else server
    address = given.strip().rstrip("/")
    parts = urlsplit(address)
    if not address:
        chosen = "disabled" if chosen == "online" else chosen
    elif parts.scheme not in ("http", "https") or not parts.netloc:
        log.warning("MEMORY_SERVER %r is no http address: the run is only kept on disk", address)
        chosen = "offline" if chosen == "online" else chosen
    folder = spool_folder(env)
    most = min(_number(env, "MEMORY_SPOOL_MIB", 64.0), SPOOLS_MIB) * MIB
    remaining = max(SPOOLS_MIB * MIB - _spooled_bytes(folder), LEAST_SPOOL_MIB * MIB)
    return Config(
        mode=chosen,
        server=address,
        spool=folder,
        flush_seconds=_number(env, "MEMORY_FLUSH_SECONDS", 5.0),
        spool_bytes=int(min(most, remaining)),
        key=api_key(env),
    )


def api_key(env: Mapping[str, str]) -> str | None:
    """MEMORY_API_KEY; None, and a warning without it, for what no header can carry."""
    key = env.get("MEMORY_API_KEY", "").strip()
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        log.warning("MEMORY_API_KEY holds characters that no key has: nothing is shown to the service")
        return None
    return key or None


def spool_folder(env: Mapping[str, str]) -> Path:
    """`spool` in MEMORY_HOME, by default in the user's data folder of the platform."""
    home = env.get("MEMORY_HOME")
    if home:
        return Path(home).expanduser() / "spool"
    if sys.platform == "darwin":
        base = Path("~/Library/Application Support").expanduser()
    else:
        base = Path(env.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    return base / "memory-service" / "spool"


def _spooled_bytes(folder: Path) -> int:
    try:
        return sum(path.stat().st_size for path in folder.glob("*.jsonl"))
    except OSError:
        return 0


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    raw = env.get(name)
    try:
        value = float(raw) if raw else default
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1e6:
        log.warning("%s %r is no positive number: taken as %g", name, raw, default)
        return default
    return value
