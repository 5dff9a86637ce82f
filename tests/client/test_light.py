"""Is the client light: no torch, no database, no web framework, nothing of the service?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HEAVY = {
    "torch",
    "sqlalchemy",
    "fastapi",
    "pydantic",
    "numpy",
    "transformers",
    "lightning",
    "starlette",
    "typer",
}

LOOK = """
import json, sys
from memory_service.client import watch
with watch(task="image", model="resnet18", mode="offline") as run:
    for batch in run.loader(range(3)):
        pass
    run.epoch(0, train_loss=1.0)
import memory_service.client.delivery.sender, memory_service.client.boosting
import memory_service.client.log_follower
print(json.dumps(sorted(sys.modules)))
"""


def test_a_script_that_watches_loads_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    assert not HEAVY & {name.partition(".")[0] for name in loaded}
    own = {name for name in loaded if name.startswith("memory_service.")}
    rooms = {f"memory_service.domain{room}" for room in ("", ".common", ".logs", ".monitoring")}
    pure = (
        "memory_service.domain.logs.", "memory_service.domain.monitoring.event",
        "memory_service.domain.common.tables",
    )  # fmt: skip
    assert not [name for name in own - rooms if not name.startswith(("memory_service.client", *pure))]


def test_a_disabled_client_keeps_nothing_and_starts_nothing(tmp_path: Path):
    script = """
import threading
from memory_service.client import watch
with watch(task="image", model="resnet18") as run:
    for batch in run.loader(range(3)):
        run.batch()
    assert run.epoch(0, train_loss=1.0).action == "continue"
    assert threading.active_count() == 1
"""
    environment = {**os.environ, "MEMORY_MODE": "disabled", "MEMORY_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)
    assert list(tmp_path.iterdir()) == []
