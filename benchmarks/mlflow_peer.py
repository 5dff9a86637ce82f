"""How many metrics a second does MLflow's tracking server take in? The peer of `benchmarks.events`.

    python -m benchmarks.mlflow_peer

Its released server as it comes (`mlflow server`, one worker, SQLite), its REST call `runs/log-batch`, as many
clients on as many kept connections as ours get, pinned alike. It is installed into an environment of its own
under the cache folder on first use, or found where BENCH_MLFLOW names its command; never beside our packages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from benchmarks.servers import Connection, free_port, per_second, pin_client, pinned, started

__all__ = ["Peer", "peer_per_second", "serving_peer"]


INSTALL_SECONDS, START_SECONDS = 900, 180
KEYS = ("train_loss", "valid_loss", "metric", "lr", "gpu", "memory", "power", "seconds")
QUIET = {
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
}
"""Its job queues are processes of their own that would take turns with it on its core."""


@dataclass(frozen=True)
class Peer:
    """A running server, or why there is none."""

    version: str = ""
    port: int = 0
    why_not: str = ""


def command() -> tuple[str, str]:
    """(path of `mlflow`, ""), installed if need be; ("", why not) where that cannot be."""
    given = os.environ.get("BENCH_MLFLOW")
    if given:
        return (given, "") if Path(given).exists() else ("", f"BENCH_MLFLOW={given} is not there")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "memory_service" / "mlflow"
    found = home / "bin" / "mlflow"
    done = home / ".installed"
    if done.exists():
        return str(found), ""
    try:
        for step in (
            [sys.executable, "-m", "venv", "--clear", str(home)],
            [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "mlflow"],
        ):
            subprocess.run(step, check=True, timeout=INSTALL_SECONDS, capture_output=True, text=True)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        return "", f"MLflow could not be installed: {said[-1][:200] if said else error}"
    done.touch()
    return str(found), ""


@contextmanager
def serving_peer(folder: Path) -> Iterator[Peer]:
    """MLflow's server on the servers' core over an empty SQLite file, for the time of the block."""
    mlflow, why_not = command()
    if not mlflow:
        yield Peer(why_not=why_not)
        return
    environment = os.environ | QUIET | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    told = subprocess.run([mlflow, "--version"], env=environment, check=True, capture_output=True, text=True)
    port = free_port()
    run = [
        mlflow, "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
        "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
        "--artifacts-destination", f"{folder}/artifacts",
        "--uvicorn-opts", "--log-level warning --no-access-log",
    ]  # fmt: skip
    with started(pinned(run), port, environment, "/health", START_SECONDS, folder / "mlflow.log"):
        yield Peer(told.stdout.split()[-1], port)


def peer_per_second(port: int, values: Sequence[int], clients: int, seconds: float) -> float:
    """Events acknowledged a second over `clients` connections with a run each. values: of each event of a
    request, told as so many metrics."""

    def begin(connection: Connection) -> Callable[[], int]:
        path, step = "/api/2.0/mlflow/runs", count()
        _, answer = connection.taken("POST", f"{path}/create", {"experiment_id": "0"})
        run_id = json.loads(answer)["run"]["info"]["run_id"]

        def log() -> int:
            metrics = [_metric(next(step)) for _ in range(sum(values))]
            connection.taken("POST", f"{path}/log-batch", {"run_id": run_id, "metrics": metrics})
            return len(values)

        return log

    return per_second(port, clients, seconds, begin)


def _metric(n: int) -> dict[str, object]:
    """The n-th value of a run that tells eight values a step."""
    return {"key": KEYS[n % 8], "value": 0.4312, "timestamp": 1_767_225_600_000 + n, "step": n // 8}


def main() -> None:
    """MLflow alone, for a look at it."""
    pin_client()
    with tempfile.TemporaryDirectory() as folder, serving_peer(Path(folder)) as peer:
        if peer.why_not:
            print(peer.why_not)
            return
        for size in (1, 100):
            found = peer_per_second(peer.port, [1] * size, 8, 3.0)
            print(f"MLflow {peer.version}, {size} a request: {found:.0f} metrics/s")


if __name__ == "__main__":
    main()
