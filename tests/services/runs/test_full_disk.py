"""Is a full disk told of, and does service go on when there is room? On a small file system of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from memory_service.errors import OutOfSpace
from memory_service.services.database.transactions import Database
from memory_service.services.runs.runs import begin_run, finish_run, run_page
from tests.conftest import Servers
from tests.telling import at, case, take_events

DISK_MIB = 48
MIB = 2**20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder that is a file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file system may be mounted here, so no disk is full: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def url(servers: Servers, kind: str, small_disk: Path) -> Iterator[str]:
    """A seeded database whose events, at least, are on that disk."""
    url = servers.new(kind, "seeded")
    if kind == "sqlite":
        moved = small_disk / "memory.sqlite3"
        shutil.copyfile(str(make_url(url).database), moved)
        yield f"sqlite:///{moved}"
    else:
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
            (data,) = connection.execute("SHOW data_directory").fetchone() or ("",)
            facts = Path(data).stat()
            for folder in small_disk.parents:
                if folder == Path(tempfile.gettempdir()):
                    break
                folder.chmod(0o755)
            os.chown(small_disk, facts.st_uid, facts.st_gid)
            small_disk.chmod(0o700)
            name = f"full{uuid.uuid4().hex[:8]}"
            connection.execute(f"CREATE TABLESPACE {name} LOCATION '{small_disk}'")
            connection.execute(f"ALTER TABLE run_events SET TABLESPACE {name}")
            yield url
            connection.execute("ALTER TABLE run_events SET TABLESPACE pg_default")
            connection.execute(f"DROP TABLESPACE {name}")
    servers.drop(url)


def fill(disk: Path) -> Path:
    """A file that takes all the room there is."""
    path = disk / "filler"
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * MIB)
        except OSError:
            return path


@pytest.mark.slow
def test_a_full_disk_is_507_and_nothing_is_lost_when_there_is_room_again(
    url: str, small_disk: Path, opened: Callable[[str], Database]
):
    database = opened(url)
    events = [{"seq": n, "kind": "note", "at": at(n), "text": "x" * 10_000} for n in range(200)]
    run_id = begin_run(database, case())[0]["run_id"]
    assert take_events(database, run_id, {"events": events[:10]})["accepted"] == 10
    filler = fill(small_disk)
    for _ in range(3):
        with pytest.raises(OutOfSpace) as refused:
            take_events(database, run_id, {"events": events[10:]})
        assert refused.value.status == 507
    assert run_page(database, run_id)["outcome"]["events"] == {"note": 10}
    filler.unlink()
    answer = take_events(database, run_id, {"events": events})
    assert (answer["accepted"], answer["duplicates"]) == (190, 10)
    assert finish_run(database, run_id, {"status": "completed"})["outcome"]["events"] == {"note": 200}
