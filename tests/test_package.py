"""Does the wheel carry what it needs, and does it serve from another folder without leaving the machine?"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from memory_service import resources
from memory_service.web.assets import STATIC
from memory_service.web.environment import TEMPLATES
from tests.conftest import free_port

ROOT = Path(__file__).resolve().parent.parent

# An audit hook cannot be taken off again: any connection or name outside loopback ends the process with a
# trace.
GUARD = """\
import sys
def guard(event, arguments):
    if event == "socket.connect":
        address = arguments[1]
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise RuntimeError(f"a request left the machine: {address}")
    elif event == "socket.getaddrinfo":
        if arguments[0] not in (None, "", "127.0.0.1", "::1", "localhost", b"127.0.0.1", b"localhost"):
            raise RuntimeError(f"a name was looked up: {arguments[0]}")
sys.addaudithook(guard)
"""

# Of what this environment has, a light installation imports these distributions alone.
LIGHT = """\
import importlib.metadata, re, sys
wanted, asked = set(), {requirements!r}
while asked:
    name = re.sub("[-_.]+", "-", re.match("[A-Za-z0-9._-]+", asked.pop())[0]).lower()
    if name not in wanted:
        wanted.add(name)
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:  # of another platform
            continue
        asked |= {{each for each in needs if "extra" not in each}}
owners = importlib.metadata.packages_distributions()
class Light:
    def find_spec(self, name, path=None, target=None):
        of = {{re.sub("[-_.]+", "-", each).lower() for each in owners.get(name.split(".")[0], ())}}
        if of and not of & wanted and "memory-service" not in of:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Light())
"""

WALK = (
    "/recommend?task=image&size=medium&gpu=a100",
    "/recommend?task=text&size=small&gpu=t4&minutes=20",
    "/recommend?description=predict+house+prices+from+a+table&size=small&gpu=cpu",
    "/similar?text=photos+of+dogs",
    "/predict?model=resnet50&gpu=a100",
    "/competitions?limit=2",
    "/patterns?limit=2",
    "/models?limit=2",
    "/gpus?format=csv",
    "/sizing?limit=2",
    "/strategies?limit=2",
    "/claims?limit=2",
    "/conflicts",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/static/vendor/swagger-ui-bundle.js",
    "/",
    "/browse/models?family=vit",
    "/browse/models/resnet50.a1_in1k.json",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_carries_migrations_seeds_pages_and_types(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    shipped = "memory_service/_shipped"
    for folder in ("seeds", "migrations"):
        for path in resources.path(folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"{shipped}/{path.relative_to(ROOT)}" in names
    assert "memory_service/py.typed" in names
    for path in (*STATIC.rglob("*"), *TEMPLATES.rglob("*"), *(ROOT / "memory_service").rglob("*.toml")):
        assert path.is_dir() or str(path.relative_to(ROOT)) in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]


@pytest.mark.slow
def test_the_wheel_serves_from_another_folder_and_no_request_leaves_the_machine(wheel: Path, tmp_path: Path):
    python = installed(wheel, tmp_path / "environment")
    home = tmp_path / "elsewhere"
    home.mkdir()
    with serving(python, home) as port:
        for path in WALK:
            status, body = get(port, path)
            assert status == 200, (path, body[:300])
        asked = ("recommend", "--task", "image", "--size", "medium", "--gpu", "a100", "--form", "json")
        light = installed(wheel, tmp_path / "light", light=True)
        here = command(light, *asked, "--server", f"http://127.0.0.1:{port}")
        assert json.loads(here.stdout)["plan_id"] == json.loads(get(port, WALK[0])[1])["plan_id"]
        plan = json.loads(get(port, WALK[0])[1])
        assert plan["feasible"] is True
        found = json.loads(get(port, "/similar?text=photos+of+dogs,+120+breeds")[1])
        assert found["degraded"] is False
        assert found["items"][0]["signals"]["embedding"] is not None
        assert found["items"][0]["slug"] == "dog-breed-identification"
        new = {"slug": "mine", "title": "Mine", "description": "Tell 12 kinds of apples apart in photos."}
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            connection.request("POST", "/competitions", json.dumps(new), {"Content-Type": "application/json"})
            assert connection.getresponse().status == 201
    assert list((home / "data").glob("memory.sqlite3")), "the database lies in MEMORY_HOME"


def test_a_light_installation_reviews_watches_and_syncs_without_the_server(wheel: Path, tmp_path: Path):
    """`pip install memory-service`, without `[server]`."""
    python = installed(wheel, tmp_path / "light", light=True)
    script = tmp_path / "train.py"
    script.write_text("for epoch in range(3):\n    loss.backward()\n", encoding="utf-8")
    assert json.loads(command(python, "review", str(script), "--json", code=1).stdout)["findings"]
    log = str(tmp_path / "log")
    watching = (
        "watch",
        log,
        "--task",
        "image",
        "--gpu",
        "t4",
        "--json",
        "--",
        sys.executable,
        "-c",
        "print(1)",
    )
    watched = command(python, *watching, MEMORY_MODE="offline", MEMORY_HOME=str(tmp_path))
    assert json.loads(watched.stdout)["status"] == "completed"
    away = {"MEMORY_HOME": str(tmp_path), "MEMORY_SERVER": f"http://127.0.0.1:{free_port()}"}
    assert (
        json.loads(command(python, "sync", "--json", code=1, **away).stdout)["spools"][0]["outcome"] == "away"
    )
    assert "memory-service[server]" in command(python, "db", "upgrade", code=1).stderr


def command(
    python: Path, *arguments: str, code: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """`memory-service` with these arguments, of an environment."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("MEMORY_", "PYTHONPATH"))} | environment
    done = subprocess.run(
        [str(python), "-m", "memory_service", *arguments], env=own, capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def installed(wheel: Path, folder: Path, *, light: bool = False) -> Path:
    """A new environment with the wheel alone; what it depends on is borrowed from this one, without
    network. light: only what the wheel wants without an extra."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    (site / "guard.py").write_text(GUARD, encoding="utf-8")
    (site / "guard.pth").write_text("import guard\n", encoding="utf-8")
    if light:
        with zipfile.ZipFile(wheel) as archive:
            metadata = next(name for name in archive.namelist() if name.endswith("/METADATA"))
            lines = archive.read(metadata).decode().splitlines()
        wanted = {line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist")}
        own = {each for each in wanted if "extra ==" not in each}
        (site / "light.py").write_text(LIGHT.format(requirements=own), encoding="utf-8")
        (site / "light.pth").write_text("import light\n", encoding="utf-8")
    return python


@contextmanager
def serving(python: Path, home: Path) -> Iterator[int]:
    port = free_port()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MEMORY_", "PYTHONPATH"))}
    environment["MEMORY_HOME"] = str(home / "data")
    log = home / "log"
    with log.open("wb") as out:
        command = [str(python), "-m", "memory_service", "serve", "--port", str(port)]
        server = subprocess.Popen(command, cwd=home, env=environment, stdout=out, stderr=out)
    try:
        until = time.monotonic() + 400
        while time.monotonic() < until:
            assert server.poll() is None, log.read_text()
            try:
                if get(port, "/readyz")[0] == 200:
                    break
            except OSError:
                pass
            time.sleep(0.2)
        else:
            raise AssertionError(f"never ready: {log.read_text()}")
        yield port
    finally:
        server.terminate()
        code = server.wait(60)
        told = log.read_text()
    assert code in (0, -signal.SIGTERM), told  # uvicorn ends in order, then as the signal asked
    assert "Traceback" not in told


def get(port: int, path: str) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
