"""Asks a server for a plan: settings by name, text to paste or in a notebook, a script.

plan = ask(task="image", size="medium", gpu="a100")
plan.batch_size, plan["expected"]["total_minutes"]["high"], plan.markdown
plan.script("train.py")
"""

import contextlib
import json
from html import escape
from pathlib import Path
from typing import Any

from memory_service.client.config import load_config
from memory_service.client.delivery.http import READ_S, Reply, Wire
from memory_service.client.gpu_sampler import driver_gpu_name


class Plan(dict[str, Any]):
    """An answer of /recommend; its members are attributes too."""

    def __init__(self, answer: Any, fields: dict[str, Any], server: str | None) -> None:
        super().__init__(answer)
        self._fields, self._server = fields, server

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"the plan has no {name!r}")
        return self[name]

    @property
    def markdown(self) -> str:
        """The plan as text for an agent, at most 700 tokens."""
        from memory_service.domain.planning.explanation.plan_text import plan_markdown

        return plan_markdown(self)

    def script(self, path: str | Path) -> Path:
        """Write the plan's training script to a file; the server is asked again for it."""
        text = _sent(self._fields, self._server, READ_S, "text/x-python").text
        Path(path).write_text(text, encoding="utf-8")
        return Path(path)

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        return f'<pre style="white-space: pre-wrap">{escape(self.markdown)}</pre>'


def ask(*, server: str | None = None, seconds: float = READ_S, **fields: Any) -> Plan:
    """One plan by the fields of /recommend: task, size, gpu, minutes, description, competition, mode ...

    gpu      "auto": the name that the card's driver reports; "cpu" where there is none
    server   its address, by default MEMORY_SERVER
    Raises errors.Refused for what the server refuses, errors.Unavailable where it gives no answer.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    if given.get("gpu") == "auto":
        given["gpu"] = driver_gpu_name() or "cpu"
    return Plan(_sent(given, server, seconds).body, given, server)


def _sent(fields: Any, server: str | None, seconds: float, accept: str = "application/json") -> Reply:
    from memory_service.errors import Refused, Unavailable, no_server

    config = load_config(server=server)
    with contextlib.closing(Wire(config.server, config.key)) as wire:
        reply = wire.post("/recommend", json.dumps(fields).encode(), seconds, accept)
    if 400 <= reply.status < 500 and reply.body:
        raise Refused(reply.body, reply.status)
    if not reply.reached:
        raise no_server(config.server, reply.why)
    if reply.outcome != "done":
        raise Unavailable(f"{config.server} gives no plan: {reply.why}")
    return reply
