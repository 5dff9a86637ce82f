"""How long does one caller wait while another sends the worst that its key allows?

python -m benchmarks.hostile_callers [seconds [scope ...]]   a table of docs/methods/performance.md, by a
server of its own; of all scopes, or of those named
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx2
import numpy as np

CALLERS = 4
ASKED = "/recommend?task=image&size=medium&gpu=a100"
RUN = {"task": "image", "gpu": "a100", "model": "resnet50", "batch_size": 32, "epochs": 3, "folds": 1,
       "n_train": 5_000, "minutes": 30}  # fmt: skip
WIDE = ('a=f"' + "{a}" * 1_000 + '"\n') * 20 + "x = [1, 2, 3]\n" * 4_000


def attacks(ask: httpx2.Client, run_id: str) -> dict[str, list[Callable[[], Any]]]:
    """Scope -> requests that cost the most."""
    unknown = {f"_etainsr{n}": n for n in range(190)}
    many = {f"_etainsr{n}": n for n in range(60_000)}
    questions = [{"model": "resnet50", "gpu": "a100", "batch_size": n + 1} for n in range(5_000)]
    log = b"Epoch 1/3 loss=0.5\n" * 200_000
    events = {
        "events": [{"seq": n, "kind": "epoch", "at": "2026-01-01T00:00:00Z", "w": n} for n in range(5_000)]
    }
    python = {"Content-Type": "text/x-python"}
    big = {
        "model_type": "bert",
        "figures": {"num_hidden_layers": 128, "hidden_size": 64, "num_attention_heads": 2},
    }

    def new_question() -> Any:
        ask.get(f"/recommend?task=image&size=medium&gpu=a100&n_train={10_000 + secrets.randbelow(10**6)}")

    def new_model() -> Any:
        name = f"zz-{secrets.token_hex(4)}"
        row = {"name": name, "library": "transformers", "family": "bert", "tasks": ["text-classification"],
               "params_m": 1.0, "input_kind": "seq_len", "default_input_size": 32, "pretrained": False,
               "quality_score": 1.0, "config": big}  # fmt: skip
        ask.post("/models", json=row)
        ask.get(f"/predict?model={name}&gpu=a100&seq_len=32")
        ask.delete(f"/models/{name}")

    def corrected_model() -> Any:
        ask.patch("/models/resnet50.a1_in1k", json={"good_for": secrets.token_hex(8)})

    return {
        "nobody": [lambda: None],
        "read": [
            lambda: ask.post("/review", content=WIDE, headers=python),
            lambda: ask.post("/predict", json=questions),
            lambda: ask.post("/recommend", json=many),
            lambda: ask.post("/recommend", json=unknown),
            new_question,
        ],
        "tell": [
            lambda: ask.post(f"/runs/{run_id}/log", content=log),
            lambda: ask.post(f"/runs/{run_id}/events", json=events),
        ],
        "edit": [new_model, corrected_model, lambda: ask.post("/competitions", json=many)],
    }


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    with tempfile.TemporaryDirectory() as home, socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
        probe.close()
        environment = {
            **os.environ,
            "MEMORY_HOME": home,
            "MEMORY_PORT": str(port),
            "MEMORY_LOG_LEVEL": "ERROR",
        }
        server = subprocess.Popen([sys.executable, "-m", "memory_service", "serve"], env=environment)
        try:
            base = f"http://127.0.0.1:{port}"
            until_ready(base)
            print("| scope of the hostile caller | `/healthz` | `/recommend`, asked before | `POST events` |")
            print("|---|---|---|---|")
            with httpx2.Client(base_url=base, timeout=150) as ask:
                run_id = ask.post("/runs", json=RUN).json()["run_id"]
                every = attacks(ask, run_id)
                for scope in sys.argv[2:] or every:
                    worst = every[scope]
                    waits = measured(base, worst, seconds)
                    print(f"| {scope} | {' | '.join(waits)} |", flush=True)
        finally:
            server.terminate()
            server.wait()


def measured(base: str, worst: list[Callable[[], Any]], seconds: float) -> Iterator[str]:
    """p50 and p99 in ms of another caller's questions."""
    stop = threading.Event()

    def send(number: int) -> None:
        turn = number
        while not stop.is_set():
            worst[turn % len(worst)]()
            turn += 1
            if len(worst) == 1:
                stop.wait(0.05)

    senders = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(CALLERS)]
    for sender in senders:
        sender.start()
    time.sleep(2.0)
    waited: dict[str, list[float]] = {"healthz": [], "recommend": [], "events": []}
    with httpx2.Client(base_url=base, timeout=150) as other:
        run_id, seq = other.post("/runs", json=RUN).json()["run_id"], 0
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            seq += 1
            event = {"seq": seq, "kind": "gpu", "at": "2026-01-01T00:00:00Z", "utilization_percent": 50.0}
            for name, call in (
                ("healthz", partial(other.get, "/healthz")),
                ("recommend", partial(other.get, ASKED)),
                ("events", partial(other.post, f"/runs/{run_id}/events", json={"events": [event]})),
            ):
                began = time.perf_counter()
                call().raise_for_status()
                waited[name].append(1000 * (time.perf_counter() - began))
            time.sleep(0.02)
    stop.set()
    for sender in senders:
        sender.join(150)
    for found in waited.values():
        yield f"{np.percentile(found, 50):.0f} / {np.percentile(found, 99):.0f} ms"


def until_ready(base: str) -> None:
    while True:
        try:
            if httpx2.get(f"{base}/readyz").status_code == 200:
                httpx2.get(f"{base}{ASKED}", timeout=150)
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.5)


if __name__ == "__main__":
    main()
