"""Does an installation do what its extra promises, from an empty environment on?

    python -m checks.installed dist/*.whl dist/*.tar.gz        (`make release`)
        --python python3.13             another Python than this one
        --extra light --extra server    these only, of wheels and of source distributions
        --before OLD.whl                of the last release: its database is upgraded, too

Each file is installed by pip, light and as `[planner]` and `[server]` (of a source distribution only where it
is asked for), into environments that hold nothing else, and used as somebody would: plans, reviews, MCP,
doctor, old databases, demo, and with `[server]` the commands of the pages. Light asks a server of this
environment.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

__all__ = [
    "EXTRAS", "OLD", "ask_server", "empty_environment", "fill", "main", "old_database", "serving", "upgraded",
    "use_alone",
]  # fmt: skip

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("", "planner", "server")
OLD = tuple(sorted((ROOT / "tests" / "store" / "before").glob("*.json")))
"""What programs of earlier revisions kept, by the revision of their tables."""

SCRIPT = """\
import timm, torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
sizes = transforms.Compose([transforms.Resize((224, 224)), transforms.ToTensor()])
ds = datasets.ImageFolder("train", sizes)
model = timm.create_model("resnet50", pretrained=True)
loader = DataLoader(ds, batch_size=2048)
for epoch in range(3):
    for x, y in loader:
        model(x).sum().backward()
"""
CASE = ("--task", "image", "--size", "medium", "--gpu", "a100")
_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "check", "version": "1"},
}
_READY_SECONDS = 400.0


def empty_environment(
    folder: Path, requirement: str, python: str = sys.executable, options: Sequence[str] = ()
) -> Path:
    """The Python of a new environment with this requirement installed by pip, and nothing besides."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    new = folder / "bin" / "python"
    pip = [
        str(new),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--no-compile",
        *options,
    ]
    subprocess.run([*pip, requirement], check=True, cwd=folder)
    return new


def command(
    python: Path, *arguments: str, code: int | None = 0, own: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`memory-service` of an environment, run from another folder; AssertionError for another exit code
    (None: whatever it is)."""
    done = subprocess.run(
        [str(python), "-m", "memory_service", *arguments],
        env=_environment(own or {}), capture_output=True, text=True, cwd="/", check=False,
    )  # fmt: skip
    assert code in (None, done.returncode), f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done


def use_alone(python: Path, home: Path, *, tells_vectors: bool, traces: bool) -> None:
    """What `[planner]` promises, and `[server]` with traces; AssertionError where it does not hold.

    tells_vectors   whether the weights of the encoder are installed, too
    """
    own = {"MEMORY_HOME": str(home / "alone"), "MEMORY_PORT": str(_free_port())}
    plan = json.loads(command(python, "recommend", *CASE, "--form", "json", own=own).stdout)
    assert plan["feasible"], plan
    script = home / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    words = ("review", str(script), "--gpu", "t4", "--minutes", "30", "--n-train", "50000", "--json")
    rules = {one["rule"] for one in json.loads(command(python, *words, code=1, own=own).stdout)["findings"]}
    assert "batch-does-not-fit" in rules, rules
    found = json.loads(command(python, "similar", "photos of dogs, 120 breeds", "--json", own=own).stdout)
    assert found["degraded"] is not tells_vectors, found["reason"]
    assert found["items"], found
    looked = {one["part"]: one for one in json.loads(command(python, "doctor", "--json", own=own).stdout)}
    assert looked["packages"]["status"] == ("ok" if traces else "note"), looked
    assert "sound" in command(python, "db", "check", "--json", own=own).stdout
    told = command(python, "predict", "resnet50", "--gpu", "t4", "--json", own=own).stdout
    assert json.loads(told)["curve"]
    brief(python, home, own)
    speak_mcp(python, own)
    if traces:
        command(python, "profile", "resnet18", "--image-size", "64", "--json", own=own)
    else:
        for refused in (("calibrate", "--device", "cpu"), ("profile", "resnet18")):
            assert "memory-service[server]" in command(python, *refused, code=1, own=own).stderr


def ask_server(python: Path, home: Path, server: str) -> None:
    """What the light package promises beside a server at this URL; AssertionError where it does not hold."""
    own = {"MEMORY_HOME": str(home / "light"), "MEMORY_SERVER": server}
    there = json.loads(_get(f"{server}/recommend?task=image&size=medium&gpu=a100"))
    plan = json.loads(command(python, "recommend", *CASE, "--form", "json", own=own).stdout)
    assert plan["plan_id"] == there["plan_id"]
    command(python, "recommend", *CASE, "--script", str(home / "scripts"), "--form", "text", own=own)
    compile((home / "scripts" / "train.py").read_text(encoding="utf-8"), "train.py", "exec")
    script = home / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    words = ("review", str(script), "--gpu", "t4", "--minutes", "30", "--n-train", "50000", "--json")
    reviewed = command(python, *words, code=None, own=own).stdout
    while "reading the script took over" in reviewed:  # the child of a server on a busy machine starts slowly
        reviewed = command(python, *words, code=None, own=own).stdout
    assert "batch-does-not-fit" in reviewed, reviewed
    alone = command(python, *words, code=1, own={"MEMORY_HOME": own["MEMORY_HOME"]}).stdout
    assert "loader-workers" in alone
    assert "name a server" in alone
    assert json.loads(command(python, "similar", "photos of dogs", "--json", own=own).stdout)["items"]
    told = command(python, "predict", "resnet50", "--gpu", "t4", "--json", own=own).stdout
    assert json.loads(told)["curve"]
    brief(python, home, own)
    speak_mcp(python, own)
    watch = ("watch", str(home / "log"), "--task", "image", "--gpu", "t4", "--json", "--")
    done = command(python, *watch, sys.executable, "-c", "print(1)", own=own | {"MEMORY_MODE": "offline"})
    assert json.loads(done.stdout)["status"] == "completed"
    assert json.loads(command(python, "sync", "--json", own=own).stdout)["spools"][0]["outcome"] == "sent"
    assert "memory-service[planner]" in command(python, "db", "upgrade", code=1, own=own).stderr


def brief(python: Path, home: Path, own: dict[str, str]) -> None:
    """A description understood and planned for."""
    file = home / "description.md"
    file.write_text("Classify 12,000 photos of leaves into 12 species. Macro F1.", encoding="utf-8")
    words = ("brief", str(file), "--gpu", "t4", "--minutes", "30", "--json")
    assert json.loads(command(python, *words, own=own).stdout)["plan"]["feasible"]


def speak_mcp(python: Path, own: dict[str, str]) -> None:
    """A plan by `memory-service mcp`, as an agent asks for it."""
    call = {"name": "plan", "arguments": {"task": "image", "gpu": "a100"}}
    asked: tuple[tuple[int | None, str, dict[str, Any]], ...]
    asked = ((1, "initialize", _HELLO), (None, "notifications/initialized", {}), (2, "tools/call", call))
    env = _environment(own)
    with subprocess.Popen(
        [str(python), "-m", "memory_service", "mcp"], env=env, text=True, cwd="/",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        for number, method, params in asked:
            head = {"jsonrpc": "2.0"} if number is None else {"jsonrpc": "2.0", "id": number}
            process.stdin.write(json.dumps({**head, "method": method, "params": params}) + "\n")
        process.stdin.flush()
        answers = {}
        while 2 not in answers:
            line = process.stdout.readline()
            assert line, "mcp ended before it answered"
            message = json.loads(line)
            answers[message.get("id")] = message
        process.stdin.close()
        assert process.wait(60) == 0
    assert answers[2]["result"]["structuredContent"]["feasible"], answers[2]


def old_database(python: Path, home: Path, kept: Path) -> None:
    """A database of an earlier revision, with runs and corrections, is upgraded and keeps them."""
    file = home / f"old-{kept.stem}.sqlite3"
    own = ("--database", f"sqlite:///{file}")
    command(python, "db", "upgrade", kept.stem, *own)
    tables: dict[str, list[dict[str, Any]]] = json.loads(kept.read_text(encoding="utf-8"))
    with closing(sqlite3.connect(file)) as connection, connection:
        for table, rows in tables.items():
            for row in rows:
                names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
                connection.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', tuple(row.values()))
    command(python, "db", "upgrade", *own)
    assert json.loads(command(python, "db", "check", "--json", *own).stdout)["sound"]
    runs = json.loads(command(python, "runs", "--json", *own).stdout)["items"]
    assert {run["id"] for run in runs} == {run["id"] for run in tables["runs"]}
    shown = command(python, "export", "competitions", "--format", "jsonl", *own).stdout
    titles = {row["slug"]: row["n_train"] for row in map(json.loads, shown.splitlines())}
    assert all(titles[row["slug"]] == row["n_train"] for row in tables["competitions"])


TAUGHT = "/predict?model=resnet50&gpu=t4&batch_size=64&precision=fp16"
EDITED = "/competitions/dog-breed-identification"
_RUN = {
    "run_id": "5f0c0a52-7c1e-4d09-9a07-3b1f4c2d8e90", "task": "image", "gpu": "t4", "model": "resnet50",
    "batch_size": 64, "precision": "fp16", "folds": 5, "epochs": 4, "n_train": 20_000, "minutes": 60,
    "started_at": "2026-03-01T12:00:00Z",
}  # fmt: skip
_EPOCHS = [
    {"seq": n, "kind": "epoch", "at": f"2026-03-01T12:{2 * n:02d}:00Z", "fold": 0, "epoch": n, "seconds": 90}
    for n in range(4)
]


def fill(url: str) -> dict[str, Any]:
    """What a server is told: a run, which teaches it, and a corrected row; `kept` afterwards."""
    before = json.loads(_get(f"{url}{TAUGHT}"))["step_seconds"]["value"]
    _send("POST", f"{url}/runs", _RUN)
    _send("POST", f"{url}/runs/{_RUN['run_id']}/events", {"events": _EPOCHS})
    end = {"status": "completed", "best_metric": 0.9, "at": "2026-03-01T12:10:00Z"}
    _send("POST", f"{url}/runs/{_RUN['run_id']}/finish", end)
    _send("PATCH", f"{url}{EDITED}", {"n_train": 10_223})
    found = kept(url)
    assert abs(found["step_seconds"] / before - 1) > 0.02, f"the run taught nothing: {found}, {before}"
    return found


def kept(url: str) -> dict[str, Any]:
    """What must be as before after an upgrade."""
    run = json.loads(_get(f"{url}/runs/{_RUN['run_id']}"))
    return {
        "n_train": json.loads(_get(f"{url}{EDITED}"))["n_train"],
        "run": {name: run[name] for name in ("status", "model", "best_metric")} | {
            "epochs": [epoch["seconds"] for epoch in run["outcome"]["epochs"]]
        },
        "step_seconds": json.loads(_get(f"{url}{TAUGHT}"))["step_seconds"]["value"],
    }  # fmt: skip


def upgraded(before: Path, python: Path, folder: Path) -> None:
    """`serve` upgrades the database that the wheel of the last release made, which keeps what it was told."""
    old = empty_environment(folder / "before", str(before.resolve()), str(python), ("--no-deps",))
    _site_packages(old).joinpath("borrowed.pth").write_text(f"{_site_packages(python)}\n", encoding="utf-8")
    first, then = (command(each, "--version").stdout for each in (old, python))
    assert first != then, f"both are {first}"
    home = folder / "upgraded"
    with serving(old, home) as url:
        told = fill(url)
    with serving(python, home) as url:
        found = kept(url)
    seconds = (found.pop("step_seconds"), told.pop("step_seconds"))
    assert found == told
    assert abs(seconds[0] / seconds[1] - 1) < 0.05, f"what the run taught: {seconds}"
    own = {"MEMORY_HOME": str(home / "data")}
    assert json.loads(command(python, "db", "check", "--json", own=own).stdout)["sound"]


def _site_packages(python: Path) -> Path:
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(asked, check=True, capture_output=True, text=True, cwd="/").stdout.strip())


def run_pages(python: Path) -> None:
    """The commands of README and docs, as they stand, by this installation."""
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_commands.py"]
    environment = _environment({"COMMANDS_PYTHON": str(python)})
    subprocess.run([sys.executable, *words], check=True, cwd=ROOT, env=environment)


@contextmanager
def serving(python: Path, home: Path, *words: str) -> Iterator[str]:
    """The URL of `memory-service serve`, or of other words of a server, once it is ready; ended in order."""
    port = _free_port()
    home.mkdir(exist_ok=True)
    log = home / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(python), "-m", "memory_service", *(words or ("serve",)), "--port", str(port)],
            cwd="/", env=_environment({"MEMORY_HOME": str(home / "data")}), stdout=out, stderr=out,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + _READY_SECONDS
        while not _is_ready(url):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < until, f"never ready: {log.read_text(encoding='utf-8')}"
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        code = process.wait(60)
        told = log.read_text(encoding="utf-8")
    assert code in (0, -signal.SIGTERM), told  # in order, then as the signal asked
    assert "Traceback" not in told, told


def look_at_demo(python: Path, home: Path) -> None:
    """The demo shows runs, which appear behind its first page, and leaves the home alone."""
    with serving(python, home, "demo") as url:
        until = time.monotonic() + _READY_SECONDS
        while not json.loads(_get(f"{url}/runs?limit=2"))["items"]:
            assert time.monotonic() < until, "no run appears"
            time.sleep(0.5)
        assert b"<!doctype html" in _get(f"{url}/")
    assert not (home / "data").exists()


def _send(method: str, url: str, body: dict[str, Any]) -> None:
    head = {"Content-Type": "application/json"}
    asked = urllib.request.Request(url, json.dumps(body).encode(), head, method=method)
    with urllib.request.urlopen(asked, timeout=120) as answer:
        answer.read()


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=120) as answer:
        return bytes(answer.read())


def _is_ready(url: str) -> bool:
    try:
        return bool(json.loads(_get(f"{url}/readyz"))["ready"])
    except OSError:
        return False


def _environment(own: dict[str, str]) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("MEMORY_", "PYTHONPATH"))} | own


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def use(
    file: Path,
    extra: str,
    folder: Path,
    server: str | None,
    version: str = sys.executable,
    before: Path | None = None,
) -> None:
    """Install a wheel or sdist with an extra into an empty environment and use it.

    version: the Python to do it with; before: the wheel of the last release
    """
    started = time.monotonic()
    options = ("--constraint", str(ROOT / "constraints.txt"))
    requirement = f"{file.resolve()}[{extra}]" if extra else str(file.resolve())
    python = empty_environment(folder / "environment", requirement, version, options)
    installed = time.monotonic() - started
    if extra:
        use_alone(python, folder, tells_vectors=extra == "server", traces=extra == "server")
        for kept in OLD:
            old_database(python, folder, kept)
        look_at_demo(python, folder)
        if before is not None:
            upgraded(before, python, folder)
        if extra == "server":
            run_pages(python)
    else:
        assert server is not None
        ask_server(python, folder, server)
    seconds = time.monotonic() - started
    of = subprocess.run([str(python), "--version"], check=True, capture_output=True, text=True).stdout.strip()
    told = f"{file.name} {extra or 'light'}, {of}: installed in {installed:.0f} s, good after {seconds:.0f} s"
    print(told, flush=True)


def main(arguments: Sequence[str]) -> None:
    """Print a line for each installation; AssertionError at the first that fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--extra", action="append", choices=["light", *EXTRAS[1:]])
    parser.add_argument("--before", type=Path)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, serving(Path(sys.executable), Path(folder)) as server:
        for file in asked.files:
            usual = EXTRAS if file.suffix == ".whl" else EXTRAS[:2]
            for extra in (
                usual if asked.extra is None else [each.replace("light", "") for each in asked.extra]
            ):
                with tempfile.TemporaryDirectory() as own:
                    use(file, extra, Path(own), server, asked.python, asked.before)


if __name__ == "__main__":
    main(sys.argv[1:])
