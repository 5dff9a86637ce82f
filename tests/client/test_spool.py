"""Does the spool keep what matters: across a kill, over its bound, on a disk that takes nothing?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_service.client.delivery import spool as spools
from memory_service.client.delivery.spool import InUseError, Spool

HEADER = {"run": {"task": "image"}, "run_id": "a", "server": "http://x"}


def event(seq: int, kind: str = "epoch", **more: Any) -> dict[str, Any]:
    return {"seq": seq, "kind": kind, "at": "2026-01-01T00:00:00Z", **more}


def seqs(spool: Spool) -> list[int]:
    """Everything unsent, as a sender would fetch it; all of it is acknowledged."""
    found = []
    while (part := spool.unsent(7, 100_000)) is not None:
        found += [json.loads(line)["seq"] for line in part.events]
        assert part.last_seq == found[-1]
        spool.acknowledge(part)
    return found


def test_events_come_out_once_in_their_order_whatever_the_parts(tmp_path: Path):
    spool = Spool.create(tmp_path, "a", HEADER, 1 << 20)
    spool.append(event(n) for n in range(10))
    assert seqs(spool) == list(range(10))
    assert seqs(spool) == []
    spool.append(event(n) for n in range(10, 30))
    assert seqs(spool) == list(range(10, 30))
    assert spool.acked == spool.last_seq


def test_what_was_acknowledged_is_not_sent_after_a_crash_and_the_rest_is(tmp_path: Path):
    spool = Spool.create(tmp_path, "a", HEADER, 1 << 20)
    spool.append(event(n) for n in range(10))
    part = spool.unsent(4, 100_000)
    assert part is not None
    spool.acknowledge(part)
    spool.close()
    found = Spool.open(tmp_path / "a.jsonl")
    assert found.header == HEADER
    assert found.finish is None
    assert seqs(found) == [4, 5, 6, 7, 8, 9]


def test_a_line_that_was_cut_off_is_passed_over_and_harms_no_other(tmp_path: Path):
    spool = Spool.create(tmp_path, "a", HEADER, 1 << 20)
    spool.append(event(n) for n in range(3))
    spool.close()
    path = tmp_path / "a.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    found = Spool.open(path)
    found.append([event(7)], finish={"status": "crashed"})
    assert seqs(found) == [0, 1, 7]
    found.close()
    assert Spool.open(path).finish == {"status": "crashed"}


def test_over_its_bound_raw_samples_go_first_and_the_oldest_of_them(tmp_path: Path):
    spool = Spool.create(tmp_path, "a", HEADER, 40_000)
    for n in range(1000):
        kind = "epoch" if n % 10 == 0 else ("gpu", "batch")[n % 2]
        spool.append([event(n, kind, used_gib=1.0)])
    assert (tmp_path / "a.jsonl").stat().st_size <= 41_000
    left = seqs(spool)
    assert {n for n in range(1000) if n % 10 == 0} <= set(left), "no summary went"
    raw = [n for n in left if n % 10]
    assert raw == [n for n in range(raw[0], 1000) if n % 10], "the oldest went"
    assert spool.dropped == 1000 - len(left)


def test_even_summaries_keep_to_the_bound_once_no_samples_are_left(tmp_path: Path):
    spool = Spool.create(tmp_path, "a", HEADER, 20_000)
    for n in range(2000):
        spool.append([event(n, ("note", "epoch")[n % 2])])
    assert (tmp_path / "a.jsonl").stat().st_size <= 21_000
    left = seqs(spool)
    assert left[-1] == 1999
    assert all(n % 2 for n in left[: len(left) // 3]), "notes went before epochs"


def test_acknowledged_lines_are_cleared_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spools, "COMPACT_BYTES", 10_000)
    spool = Spool.create(tmp_path, "a", HEADER, 1 << 20)
    for start in range(0, 5000, 100):
        spool.append(event(n) for n in range(start, start + 100))
        assert len(seqs(spool)) == 100
    assert (tmp_path / "a.jsonl").stat().st_size < 30_000
    spool.append([event(5000)])
    spool.close()
    assert seqs(Spool.open(tmp_path / "a.jsonl")) == [5000]


def test_a_spool_in_use_is_left_alone_until_its_process_ends(tmp_path: Path):
    script = (
        "import sys, time; from memory_service.client.delivery.spool import Spool; from pathlib import Path;"
        f"s = Spool.create(Path({str(tmp_path)!r}), 'b', {HEADER!r}, 1000);"
        "s.append([{'seq': 0, 'kind': 'note'}]); print('kept', flush=True); time.sleep(100)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "kept\n"
        with pytest.raises(InUseError):
            Spool.open(tmp_path / "b.jsonl")
        process.kill()
    assert seqs(Spool.open(tmp_path / "b.jsonl")) == [0]


def test_a_folder_that_cannot_be_written_leaves_it_in_memory(tmp_path: Path):
    (tmp_path / "file").write_text("no folder")
    spool = Spool.create(tmp_path / "file", "a", HEADER, 1 << 20)
    assert spool.trouble
    assert spool.path is None
    spool.append(event(n) for n in range(50))
    assert seqs(spool) == list(range(50))


FULL = """
import json, resource, sys
from pathlib import Path
from memory_service.client.delivery.spool import Spool
spool = Spool.create(Path(sys.argv[1]), "a", {"run": {}, "run_id": "a"}, 1 << 20)
resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))  # the disk takes 5 kB a file
for n in range(200):
    spool.append([{"seq": n, "kind": "epoch", "text": "x" * 50}])
assert spool.trouble, "it was not full"
found = []
while (part := spool.unsent(50, 10_000)) is not None:
    found += [json.loads(line)["seq"] for line in part.events]
    spool.acknowledge(part)
assert found == list(range(200)), found
"""


def test_a_disk_that_is_full_loses_nothing_while_the_process_lives(tmp_path: Path):
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kept = Spool.open(tmp_path / "a.jsonl")
    assert seqs(kept) == list(range(kept.last_seq + 1)), "what the disk took is whole"
