"""What do many agents do at once? One process of clients that ask, tell and browse, and write down what they
were told.

    python -m benchmarks.client_life PORT SECONDS SEED OUTPUT Client|MixedClient < keys, one a line

Started by `benchmarks.many_clients` and `benchmarks.soak`. Each client has a key and a connection of its own
and rests between two requests, PAUSE_SECONDS on average. It speaks HTTP with its own few lines: a library's
client takes ten times the processor, of the cores that the server is measured on. OUTPUT gets {"asked":
[[kind, milliseconds, result]], "told": {run: events}, "seconds": processor time of this process}.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson

from benchmarks.events import BEGIN, events

__all__ = ["PAUSE_SECONDS", "Client", "MixedClient", "live"]

PAUSE_SECONDS = 1.5
"""200 clients then ask up to 133 times a second; with 2 s, 100 were out of reach of any server."""
PATIENCE_SECONDS = 60.0
ASKS, TELLS = 0.4, 0.4
"""Shares of the time; the rest browses."""

TASKS = (
    "image-classification",
    "image-segmentation",
    "text-classification",
    "tabular-classification",
    "audio",
)
GPUS = ("t4", "a10", "l4", "a100", "a100-80gb", "h100", "rtx3090", "v100")
MODELS = ("resnet50", "tf_efficientnet_b4", "convnext_tiny", "vit_base_patch16_224", "bert-base-uncased")
TEXTS = (
    "Photos of plants with one of twelve diseases each; the score is the mean of the classes' F1.",
    "Predict the price of a house from eighty columns of numbers and words, scored by RMSE of the logarithm.",
    "Find nuclei in microscope images of tissue: a mask for every cell, scored by intersection over union.",
    "Is this comment toxic? Half a million short texts with six labels, scored by the area under the curve.",
    "Which bird sings in five seconds of a recording made in a forest? Macro-averaged ROC.",
)
PLACES = (
    "/", "/browse/competitions", "/browse/competitions?q=plants", "/browse/runs", "/browse/strategies",
    "/browse/runs?sort=-started_at", "/browse/sizing?gpu=a100,t4", "/browse/devices", "/browse/models",
    "/browse/accuracy", "/browse/conflicts", "/competitions?limit=50", "/runs?limit=50&sort=-started_at",
    "/models?limit=100", "/gpus?limit=100", "/strategies?format=csv", "/sizing?format=jsonl",
    "/models?format=csv", "/conflicts", "/accuracy", "/patterns?limit=50",
)  # fmt: skip
EXPORTS = ("/runs?format=csv", "/models?format=jsonl", "/competitions?format=csv", "/gpus?format=csv")


class Client:
    """One agent."""

    def __init__(self, port: int, key: str, seed: int, until: float) -> None:
        self.dice = random.Random(seed)
        self.until = until
        self.asked: list[tuple[str, float, str]] = []
        self.told: dict[str, int] = {}
        """Run -> events that were acknowledged; seqs count from 0."""
        self.port = port
        self.head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nAccept-Encoding: gzip\r\n"
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def live(self) -> None:
        """Until the time is over; a run that was begun is ended."""
        await asyncio.sleep(self.dice.random() * PAUSE_SECONDS)
        while time.monotonic() < self.until:
            await self.do()
        if self.streams is not None:
            self.streams[1].close()

    async def do(self) -> None:
        """One task."""
        what = self.dice.random()
        await (self.ask() if what < ASKS else self.tell() if what < ASKS + TELLS / 6 else self.browse())

    async def ask(self) -> None:
        """One question, seldom the same twice."""
        pick = self.dice.choice
        which = self.dice.random()
        if which < 0.5:
            fields = {"task": pick(TASKS), "gpu": pick(GPUS), "n_train": self.dice.randrange(500, 300_000)}
            await self._send(
                "recommend", "GET", "/recommend", {**fields, "minutes": self.dice.randrange(10, 90)}
            )
        elif which < 0.75:
            text = f"{pick(TEXTS)} {self.dice.randrange(1_000, 90_000)} samples."
            await self._send("similar", "POST", "/similar", body={"text": text})
        else:
            fields = {"model": pick(MODELS), "gpu": pick(GPUS), "batch_size": self.dice.randrange(1, 512)}
            await self._send("predict", "GET", "/predict", {**fields, "precision": "bf16"})

    async def tell(self) -> None:
        """A whole run: begin, events, verdict, end."""
        run_id = str(uuid.UUID(int=self.dice.getrandbits(128), version=4))
        begun = await self._send("begin", "POST", "/runs", body={"run_id": run_id, **BEGIN})
        if begun is None:
            return
        seq = 0
        for _ in range(self.dice.randrange(2, 9)):
            size = self.dice.choice((1, 5, 20, 100))
            said = [{"seq": seq + n, **event} for n, event in enumerate(events(size))]
            taken = await self._send("events", "POST", f"/runs/{run_id}/events", body={"events": said})
            if taken is None:
                break
            assert taken["accepted"] == size, taken
            seq += size
            self.told[run_id] = seq
        await self._send("verdict", "GET", f"/runs/{run_id}/verdict")
        end = {"status": "completed", "best_metric": round(self.dice.random(), 4)}
        await self._send("finish", "POST", f"/runs/{run_id}/finish", body=end)

    async def browse(self) -> None:
        """A page, a list or a file."""
        await self._send("browse", "GET", self.dice.choice(PLACES))

    async def _send(
        self, kind: str, method: str, path: str, query: dict[str, Any] | None = None, body: Any = None
    ) -> Any:
        """The answer's JSON (or True), None where it is none that was hoped for."""
        began, answer = time.perf_counter(), None
        path += f"?{urlencode(query)}" if query else ""
        try:
            status, json, content = await asyncio.wait_for(
                self._exchange(method, path, body), PATIENCE_SECONDS
            )
            result = str(status)
            if status < 300:
                answer = orjson.loads(content) if json else True
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            result, self.streams = type(error).__name__, None
        self.asked.append((kind, (time.perf_counter() - began) * 1000, result))
        await asyncio.sleep(self.dice.random() * 2 * PAUSE_SECONDS)
        return answer

    async def _exchange(self, method: str, path: str, body: Any) -> tuple[int, bool, bytes]:
        """(status, whether it is plain JSON, body) over the kept connection."""
        if self.streams is None or self.streams[0].at_eof():
            self.streams = await asyncio.open_connection("127.0.0.1", self.port, limit=2**20)
        reader, writer = self.streams
        sent = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        form = "text/plain" if isinstance(body, bytes) else "application/json"
        more = f"Accept: application/json\r\nContent-Type: {form}\r\nContent-Length: {len(sent)}\r\n"
        writer.write(f"{method} {path} HTTP/1.1\r\n{self.head}{more if sent else ''}\r\n".encode() + sent)
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        content = b""
        if "content-length" in headers:
            content = await reader.readexactly(int(headers["content-length"]))
        else:
            while length := int(await reader.readline(), 16):
                content += (await reader.readexactly(length + 2))[:-2]
            await reader.readline()
        if headers.get("connection") == "close":
            self.streams = None
        json = headers.get("content-type") == "application/json" and "content-encoding" not in headers
        return int(status.split()[1]), json, content


class MixedClient(Client):
    """A client that also edits, exports, sends a log and calls a tool of MCP, and names pages one by one."""

    log_run, log_bytes = "", 0

    async def do(self) -> None:
        """A task of `Client`, or another, half and half."""
        plain = super().do
        more = (self.edit, self.export, self.log, self.tool)
        await (plain() if self.dice.random() < 0.5 else self.dice.choice(more)())

    async def browse(self) -> None:
        place = self.dice.choice(PLACES)
        await self._send(place.partition("?")[0], "GET", place)

    async def edit(self) -> None:
        change = {"good_for": f"soak {self.dice.randrange(10**6)}"}
        await self._send("edit", "PATCH", "/models/resnet50.a1_in1k", body=change)

    async def export(self) -> None:
        await self._send("export", "GET", self.dice.choice(EXPORTS))

    async def log(self) -> None:
        """The next piece of the log of a run, which is never ended."""
        if not self.log_run:
            run_id = str(uuid.UUID(int=self.dice.getrandbits(128), version=4))
            if await self._send("begin", "POST", "/runs", body={"run_id": run_id, **BEGIN}) is None:
                return
            self.log_run = run_id
        lines = [
            f"Epoch {n + 1}/40 loss={self.dice.random():.4f}\n" for n in range(self.dice.randrange(1, 40))
        ]
        path = f"/runs/{self.log_run}/log"
        taken = await self._send(
            "log", "POST", path, {"offset": self.log_bytes}, body="".join(lines).encode()
        )
        if taken is not None:
            self.log_bytes = taken["offset"]
            self.told[self.log_run] = self.told.get(self.log_run, 0) + taken["accepted"]

    async def tool(self) -> None:
        given = {"text": f"{self.dice.choice(TEXTS)} {self.dice.randrange(1_000, 90_000)} samples."}
        call = {"name": "find_similar_competitions", "arguments": given}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        await self._send("MCP tool", "POST", "/mcp", body=body)


async def live(
    port: int, seconds: float, seed: int, keys: list[str], kind: type[Client] = Client
) -> list[Client]:
    """A client of each key, all at once."""
    until = time.monotonic() + seconds
    clients = [kind(port, key, seed * 100_000 + n, until) for n, key in enumerate(keys)]
    await asyncio.gather(*(client.live() for client in clients))
    return clients


def main() -> None:
    """As `many_clients` starts it."""
    port, seconds, seed, output, name = sys.argv[1:]
    kind = {each.__name__: each for each in (Client, MixedClient)}[name]
    clients = asyncio.run(live(int(port), float(seconds), int(seed), sys.stdin.read().split(), kind))
    asked = [each for client in clients for each in client.asked]
    told = {run: count for client in clients for run, count in client.told.items()}
    Path(output).write_bytes(orjson.dumps({"asked": asked, "told": told, "seconds": time.process_time()}))


if __name__ == "__main__":
    main()
