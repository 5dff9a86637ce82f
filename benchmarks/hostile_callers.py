"""How long does one caller wait while another sends the worst that its key allows?

python -m benchmarks.hostile_callers [seconds [attack ...]]   a table of docs/methods/performance.md, by a
server of its own that wants keys; of all attacks, or of those named. The hostile caller has one key and sends
four requests at once, without a limit of its rate; the other caller has another key. Beside `BESIDE_ASKERS`
the last column is empty.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import count
from typing import Any

import httpx2
import numpy as np

from benchmarks.servers import serving
from memory_service.domain.calibration.probes import PRECISIONS, probes

CALLERS = 4
KEYS = {"owner": "admin", "hostile": "read,tell,edit", "other": "read,tell"}
ASKED = "/recommend?task=image&size=medium&gpu=a100"
ASKERS = 8
RUN = {"task": "image", "gpu": "a100", "model": "resnet50", "batch_size": 32, "epochs": 3, "folds": 1,
       "n_train": 5_000, "minutes": 30}  # fmt: skip
PACKED = (
    base64.urlsafe_b64encode(zlib.compress(b"the picture shows a dog. " * 160_000, 9)).rstrip(b"=").decode()
)
LONG_WORDS = (
    "Predict the breed of dogs from photos. The sequence is <" + "a" * 3_000 + "> of each.",
    "twenty-" * 8_000,
    "two " * 20_000,
    "2x t4 a100 " * 8_000,
)
RARE_NETWORKS = (
    "regnetx_002", "regnety_004", "mobilenetv3_small_050", "ghostnet_100", "dla34", "lcnet_050",
    "hardcorenas_a", "spnasnet_100", "tinynet_e", "mnasnet_small", "selecsls42b", "repvgg_a0",
)  # fmt: skip
SILENT = {
    "nobody: withheld bodies": (
        b"POST /browse/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx"
    ),
    "nobody: unread answers": b"GET /static/vendor/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n",
}
"""What is said on each of hundreds of sockets without a key; then nothing, and nothing is read."""
FRESH = "nobody: beside eight askers"
CALIBRATIONS, RANKED, OFFERED = "tell: calibrations", "read: many rows to rank", "read: many offers"
BESIDE_ASKERS = FRESH, CALIBRATIONS, RANKED, OFFERED
"""Beside whom eight others ask what nobody asked before."""
WIDE = ('a=f"' + "{a}" * 1_000 + '"\n') * 20 + "x = [1, 2, 3]\n" * 4_000


def attacks(ask: httpx2.Client, run_ids: Sequence[str]) -> dict[str, list[Callable[[], Any]]]:
    """Attack -> requests that cost the most, by turns. The first word is the scope that they need."""
    run_id = run_ids[0]
    unknown = {f"_etainsr{n}": n for n in range(190)}
    many = {f"_etainsr{n}": n for n in range(60_000)}
    questions = [{"model": "resnet50", "gpu": "a100", "batch_size": n + 1} for n in range(5_000)]
    log = b"Epoch 1/3 loss=0.5\n" * 200_000
    events = [{"seq": n, "kind": "epoch", "at": "2026-01-01T00:00:00Z", "w": n} for n in range(5_000)]
    seqs = count(0, 2_500)
    python = {"Content-Type": "text/x-python"}
    big = {
        "model_type": "bert",
        "figures": {"num_hidden_layers": 128, "hidden_size": 64, "num_attention_heads": 2},
    }

    def half_repeated(run_id: str) -> None:
        first = next(seqs)
        ask.post(
            f"/runs/{run_id}/events", json={"events": [{**e, "seq": first + n} for n, e in enumerate(events)]}
        )

    def ended_run() -> None:
        run = ask.post("/runs", json=RUN).json()["run_id"]
        ask.post(f"/runs/{run}/events", json={"events": events[:50]})
        ask.post(f"/runs/{run}/finish", json={"status": "completed", "submission": True})

    def packed_page() -> None:
        ask.get(f"/?packed={PACKED}")

    def read_text(text: str) -> None:
        ask.post("/similar", json={"text": text})
        ask.post("/recommend", json={"description": text, "gpu": "a100"})

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

    def corrected_strategy() -> Any:
        ask.patch("/strategies/R14-reserve", json={"statement": f"Keep a reserve ({secrets.token_hex(4)})."})

    def traced() -> Any:
        sizes = [{"image_size": 224 + 32 * secrets.randbelow(6)} for _ in RARE_NETWORKS]
        rare = [
            {"model": name, "gpu": "a100", **size} for name, size in zip(RARE_NETWORKS, sizes, strict=True)
        ]
        ask.post("/predict", json=rare + questions[:1_200])

    def added_solution() -> Any:
        row = {"competition": "aptos2019-blindness-detection", "basis": "read", "techniques": ["mixup"]}
        ask.post("/solutions", json={**row, "rank": 1_000 + secrets.randbelow(90_000)})

    def added_competition() -> Any:
        said = "Segment cells in 512x512 images, five classes, dice. " * 120
        ask.post(
            "/competitions", json={"slug": f"z{secrets.token_hex(6)}", "title": "Cells", "description": said}
        )

    def undone() -> Any:
        corrected_strategy()
        for entry in ask.get("/strategies/R14-reserve/history?limit=1").json()["items"]:
            ask.post("/strategies/R14-reserve/undo", json={"entry": entry["id"]})

    losses = b'{"events":[{"seq":1,"kind":"epoch","at":"2026-01-01T00:00:00Z","train_loss":NaN}],"x":['
    nan = losses + b",".join([b"1e3"] * 390_000) + b',"' + b"a" * 2_000_000 + b'"]}'
    json_body = {"Content-Type": "application/json"}

    return {
        "nobody": [],
        FRESH: [],
        "read: traces in long bodies": [traced],
        "tell: long bodies of NaN": [
            lambda: ask.post(f"/runs/{run_id}/events", content=nan, headers=json_body)
        ],
        "edit: solutions added": [added_solution],
        "edit: competitions added": [added_competition],
        "edit: changes and undos": [undone],
        "read": [
            lambda: ask.post("/review", content=WIDE, headers=python),
            lambda: ask.post("/predict", json=questions),
            lambda: ask.post("/recommend", json=many),
            lambda: ask.post("/recommend", json=unknown),
            new_question,
        ],
        "read: packed pages": [packed_page],
        "read: long words": [partial(read_text, text) for text in LONG_WORDS],
        "tell": [
            lambda: ask.post(f"/runs/{run_id}/log", content=log),
            lambda: ask.post(f"/runs/{run_id}/events", json={"events": events}),
        ],
        "tell: logs": [lambda: ask.post(f"/runs/{run_id}/log", content=log)],
        "tell: half repeated": [partial(half_repeated, each) for each in run_ids],
        "tell: ended runs": [ended_run],
        CALIBRATIONS: [partial(post_calibration, ask)],
        RANKED: [partial(rank_many, ask)],
        OFFERED: [partial(choose_of_many, ask)],
        "edit": [new_model, corrected_model, lambda: ask.post("/competitions", json=many)],
        "edit: strategies": [corrected_strategy],
        "edit: models": [corrected_model],
        **{name: [] for name in SILENT},
    }


def rank_many(ask: httpx2.Client) -> None:
    """As many rows as are taken, all of them different."""
    ask.post("/rank", json={"rows": [
        {"dataset": f"d{n % 9}", "task": "image-classification", "model": "resnet50", "n_train": 1_000 + n,
         "epochs": 1 + secrets.randbelow(90)} for n in range(10_000)
    ]}).raise_for_status()  # fmt: skip


def choose_of_many(ask: httpx2.Client) -> None:
    """Offers that nobody asked of before."""
    cards = "a100", "t4", "l4", "h100", "a10g", "v100", "rtx3090", "l40s"
    offers = [
        {
            "name": f"o{n}",
            "gpu": cards[n % 8],
            "cpu_count": 1 + secrets.randbelow(64),
            "price_per_hour": 1 + n,
        }
        for n in range(32)
    ]
    n_train = 10_000 + secrets.randbelow(10**6)
    ask.post("/choose", json={"task": "image", "n_train": n_train, "offers": offers}).raise_for_status()


def post_calibration(ask: httpx2.Client) -> None:
    """Bandwidths and products of an A100 that differ each time, of one of a few devices."""
    device = f"box{secrets.randbelow(60)}"
    rates = {"bandwidth.": ("GB/s", 1_200.0), "matmul.fp32": ("TFLOP/s", 12.0)}
    sections = {}
    for probe in probes("cuda", PRECISIONS["cuda"], cores=16):
        for start, (unit, most) in rates.items():
            if probe.name.startswith(start) and probe.unit == unit:
                value = most * (0.9 + secrets.randbelow(1_000) / 10_000)
                sections[probe.name] = {"value": value, "unit": unit, "p20": value, "p80": value, "n": 9}
    name = "NVIDIA A100-SXM4-40GB"
    fingerprint = {"kind": "cuda", "name": name, "uuid": f"GPU-of-{device}", "memory_gib": 39.4}
    body = {"id": secrets.token_hex(16), "device": device, "fingerprint": fingerprint, "status": "done",
            "budget_seconds": 60.0, "sections": sections, "missing": {}, "seconds": 40.0,
            "started_at": "2026-01-31T12:00:00+00:00"}  # fmt: skip
    ask.post("/calibrations", json=body).raise_for_status()


@contextmanager
def silent_sockets(port: int, said: bytes, most: int = 805) -> Iterator[None]:
    """Sockets of somebody without a key, renewed as they are closed."""
    stop, held = threading.Event(), list[socket.socket]()

    def hold() -> None:
        while not stop.is_set():
            for old in held[: max(0, len(held) - most)]:
                old.close()
                held.remove(old)
            with suppress(OSError):
                made = socket.create_connection(("127.0.0.1", port), timeout=5)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                held.append(made)
                made.sendall(said)
            stop.wait(0.0 if len(held) < most else 0.02)

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    try:
        yield
    finally:
        stop.set()
        holder.join(30)
        for each in held:
            each.close()


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    with tempfile.TemporaryDirectory() as home:
        environment = {
            **os.environ,
            "MEMORY_HOME": home,
            "MEMORY_LOG_LEVEL": "ERROR",
            "MEMORY_REQUIRE_KEYS": "true",
            "MEMORY_RATE_LIMIT": "0",
        }
        memory_service = [sys.executable, "-m", "memory_service"]
        subprocess.run([*memory_service, "db", "upgrade"], env=environment, check=True, capture_output=True)
        keys = {name: new_key(name, scope, environment) for name, scope in KEYS.items()}
        with serving(environment, pin=False) as (port, *_):
            base = f"http://127.0.0.1:{port}"
            other = {"Authorization": f"Bearer {keys['other']}"}
            hostile = {"Authorization": f"Bearer {keys['hostile']}"}
            httpx2.get(f"{base}{ASKED}", timeout=150, headers=other)
            fresh = [
                {"Authorization": f"Bearer {new_key(f'asker {n}', 'read', environment)}"}
                for n in range(ASKERS)
            ]
            print("p50 / p99 / longest", end="\n\n")
            print("| the hostile caller | `/healthz` | `/recommend`, asked before | `POST events` |")
            print("|---|---|---|---|")
            answered = Counter[int]()
            hooks = {"response": [lambda answer: answered.update([answer.status_code])]}
            with httpx2.Client(base_url=base, timeout=150, headers=hostile, event_hooks=hooks) as ask:
                run_ids = [ask.post("/runs", json=RUN).json()["run_id"] for _ in range(CALLERS)]
                every = attacks(ask, run_ids)
                for name in sys.argv[2:] or every:
                    with silent_sockets(port, SILENT[name]) if name in SILENT else nullcontext():
                        asking = partial(waited_fresh, base, fresh, seconds)
                        usual = partial(waited_for, base, other, seconds)
                        watch = asking if name in BESIDE_ASKERS else usual
                        waits = [*measured(watch, every[name])]
                    print(f"| {name} | {' | '.join(waits)} |", flush=True)
                    print("  the hostile caller was answered", dict(answered), file=sys.stderr)
                    answered.clear()


def new_key(name: str, scope: str, environment: Mapping[str, str]) -> str:
    """A key of the server's database."""
    command = [sys.executable, "-m", "memory_service", "keys", "create", name, "--scope", scope, "--json"]
    made = subprocess.run(command, env=environment, check=True, capture_output=True)
    return str(json.loads(made.stdout)["key"])


def measured(watch: Callable[[], dict[str, list[float]]], worst: list[Callable[[], Any]]) -> Iterator[str]:
    """p50, p99 and the longest in ms of the questions of other callers, who are a process of their own: the
    hostile threads of this one would make them wait for Python itself."""
    stop = threading.Event()

    def send(number: int) -> None:
        turn = number
        while not stop.is_set():
            worst[turn % len(worst)]()
            turn += 1

    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as process:
        watched = process.submit(watch)
        callers = CALLERS if worst else 0
        senders = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(callers)]
        for sender in senders:
            sender.start()
        try:
            waited = watched.result()
        finally:
            stop.set()
    for sender in senders:
        sender.join(150)
    for found in waited.values():
        yield f"{np.percentile(found, 50):.0f} / {np.percentile(found, 99):.0f} / {max(found):.0f} ms"


def waited_for(base: str, key: Mapping[str, str], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each question, by kind, asked in turns from two seconds after the attack began."""
    time.sleep(2.0)
    waited: dict[str, list[float]] = {"healthz": [], "recommend": [], "events": []}
    with httpx2.Client(base_url=base, timeout=150, headers=key) as other:
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
    return waited


def waited_fresh(base: str, keys: Sequence[Mapping[str, str]], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each question of the askers, none of which was asked before; in `/healthz`'s place how
    long that took beside them."""
    time.sleep(2.0)
    waited: dict[str, list[float]] = {"healthz": [], "recommend": []}
    ends = time.monotonic() + seconds

    def ask(name: str, key: Mapping[str, str]) -> None:
        with httpx2.Client(base_url=base, timeout=150, headers=key) as asker:
            while time.monotonic() < ends:
                n = 10_000 + secrets.randbelow(10**6)
                began = time.perf_counter()
                where = "/healthz" if name == "healthz" else f"{ASKED}&n_train={n}"
                asker.get(where).raise_for_status()
                waited[name].append(1000 * (time.perf_counter() - began))
                time.sleep(0.02 if name == "healthz" else 0.5)

    with ThreadPoolExecutor(ASKERS + 1) as threads:
        asked = [threads.submit(ask, "recommend", key) for key in keys]
        asked.append(threads.submit(ask, "healthz", keys[0]))
    for each in asked:
        each.result()
    return waited


if __name__ == "__main__":
    main()
