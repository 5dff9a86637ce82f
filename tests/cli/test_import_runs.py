"""`memory-service import wandb|mlflow|trackio`: past runs become runs that teach, on both databases.

The files are built by hand in the layout that wandb 0.31.0, mlflow 3.17.2 and trackio 0.43.0 wrote when they
were run for this: the tests need none of the three.
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import struct
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from memory_service.cli.common.remote import get
from memory_service.cli.import_file import register
from memory_service.client.past_runs import READERS, PastRun, Unread
from memory_service.client.past_runs.reported import reported
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.runs.runs import run_page
from tests.api.conftest import serve
from tests.api.described.test_openapi import listen
from tests.conftest import Servers

app = typer.Typer()
register(app)
app.command("other")(lambda: None)

BEGAN = 1_790_000_000
SECONDS = 40.0
SETTINGS: dict[str, Any] = {
    "model": "resnet18", "batch_size": 64, "epochs": 4, "lr": 0.001, "img_size": 224, "task": "image",
    "n_train": 6400, "my_flag": 3, "optimizer": {"name": "adamw"},
}  # fmt: skip


def rows(count: int = 4) -> list[tuple[float, dict[str, Any]]]:
    """Moment and figures of each epoch; the first takes longer."""
    return [
        (BEGAN + 30 + SECONDS * (n + 1),
         {"epoch": n, "train/loss": 1 / (n + 1), "val/loss": 0.9 / (n + 1), "val/acc": 0.5 + n / 10})
        for n in range(count)
    ]  # fmt: skip


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def part(field: int, body: bytes | str) -> bytes:
    raw = body.encode() if isinstance(body, str) else body
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def moment(at: float) -> bytes:
    return number(1, int(at)) + number(2, int(at % 1 * 1e9))


def items(field: int, values: Mapping[str, Any], key: int = 1) -> bytes:
    return b"".join(part(field, part(key, n) + part(16, json.dumps(v))) for n, v in values.items())


def wandb_file(folder: Path, records: list[bytes]) -> Path:
    """Records in blocks of 32 KiB, one that does not fit in parts."""
    raw = b":W&B\xe1\xbe\x00"
    for record in records:
        begun, rest = False, record
        while True:
            room = 32_768 - len(raw) % 32_768 - 7
            if room < 0:
                raw += b"\0" * (room + 7)
                continue
            some, rest = rest[:room], rest[room:]
            kind = (3 if begun else 2) if rest else (4 if begun else 1)
            raw += struct.pack("<IHB", 0, len(some), kind) + some
            begun = True
            if not rest:
                break
    file = folder / "offline-run-20260921_123320-abcd1234" / "run-abcd1234.wandb"
    file.parent.mkdir(parents=True)
    file.write_bytes(raw)
    return file


def wandb_records(exit_code: int = 0, lines: str = "", *, memory: bool = True) -> list[bytes]:
    config = items(1, SETTINGS)
    run = part(1, "abcd1234") + part(3, "bats") + part(4, config) + part(8, "swift-owl-1")
    records = [part(17, run + part(13, "box-7") + part(17, moment(BEGAN)))]
    records.append(part(26, part(12, "box-7") + number(17, 16) + part(18, "Tesla T4") + number(19, 1)))
    for n in range(8 if memory else 0):
        gib = 3.25 if n == 5 else 3.0
        found = {"gpu.0.memoryAllocatedBytes": gib * 2**30, "gpu.0.gpu": 93.0, "network.sent": 7}
        records.append(part(7, part(2, moment(BEGAN + 15 * n)) + items(3, found)))
    for step, (at, row) in enumerate(rows()):
        told = items(1, {**row, "_timestamp": at, "_step": step}, key=2)
        records.append(part(2, told + part(2, number(1, step))))
    records.append(part(13, part(3, "x" * 50_000 + "\n")))
    records.append(part(13, part(3, lines)))
    return [*records, part(18, number(1, exit_code) + number(2, 210))]


def mlflow_folder(folder: Path, status: int = 3) -> Path:
    run = folder / "mlruns" / "474262762395631629" / "e243f254bd0d4db189bc56a39572c9bb"
    for name, value in {n: v for n, v in SETTINGS.items() if n != "optimizer"}.items():
        text(run / "params" / name, str(value))
    text(run / "tags" / "gpu", "Tesla T4")
    text(run / "tags" / "mlflow.user", "root")
    for at, row in rows():
        for name, value in row.items():
            if name != "epoch":
                text(run / "metrics" / name, f"{int(at * 1000)} {value} {row['epoch']}\n", "a")
    began, ended = BEGAN * 1000, int((rows()[-1][0] + 5) * 1000)
    text(run.parent / "meta.yaml", "experiment_id: '474262762395631629'\nname: exp\n")
    text(
        run / "meta.yaml",
        f"end_time: {ended}\nlifecycle_stage: active\nrun_id: {run.name}\nrun_name: one\n"
        f"start_time: {began}\nstatus: {status}\ntags: []\n",
    )
    return folder / "mlruns"


def text(file: Path, content: str, mode: str = "w") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open(mode, encoding="utf-8") as stream:
        stream.write(content)


def mlflow_database(folder: Path) -> Path:
    file, key = folder / "mlflow.db", "cb74de9d7eb644c7b52386cb01fbb290"
    with closing(sqlite3.connect(file)) as made:
        made.executescript(
            "CREATE TABLE runs (run_uuid, name, status, start_time, end_time, lifecycle_stage);"
            "CREATE TABLE params (key, value, run_uuid); CREATE TABLE tags (key, value, run_uuid);"
            "CREATE TABLE metrics (key, value, timestamp, run_uuid, step, is_nan);"
        )
        end = int((rows()[-1][0] + 5) * 1000)
        made.execute("INSERT INTO runs VALUES (?,'one','FINISHED',?,?,'active')", (key, BEGAN * 1000, end))
        made.execute("INSERT INTO runs VALUES ('b','two','RUNNING',?,NULL,'active')", (BEGAN * 1000,))
        made.executemany(
            "INSERT INTO params VALUES (?,?,?)",
            [(n, str(v), key) for n, v in SETTINGS.items() if n != "optimizer"],
        )
        made.execute("INSERT INTO tags VALUES ('gpu','Tesla T4',?)", (key,))
        for at, row in rows():
            made.executemany(
                "INSERT INTO metrics VALUES (?,?,?,?,?,0)",
                [(n, v, int(at * 1000), key, row["epoch"]) for n, v in row.items() if n != "epoch"],
            )
        made.commit()
    return file


def trackio_folder(folder: Path, count: int = 4) -> Path:
    place = folder / "trackio"
    place.mkdir()
    with closing(sqlite3.connect(place / "bats.db")) as made:
        made.executescript(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_id, timestamp, run_name, step, metrics);"
            "CREATE TABLE configs (id INTEGER PRIMARY KEY, run_id, run_name, config, created_at);"
            "CREATE TABLE system_metrics (id INTEGER PRIMARY KEY, run_id, timestamp, run_name, metrics);"
        )
        config = {**SETTINGS, "_Username": None, "_Created": "2026-09-21T14:13:20+00:00"}
        made.execute(
            "INSERT INTO configs VALUES (1,'dcfe','one',?,'2026-09-21T14:13:21+00:00')",
            (json.dumps(config).encode(),),
        )
        columns = "run_id, timestamp, run_name, step, metrics"
        for n, (at, row) in enumerate(rows(count)):
            told = (dt.datetime.fromtimestamp(at, dt.UTC).isoformat(), n, json.dumps(row).encode())
            made.execute(f"INSERT INTO metrics ({columns}) VALUES ('dcfe',?,'one',?,?)", told)
        made.commit()
    return place


def imported(database: Database | str, tracker: str, path: Path, *more: str) -> tuple[Result, Any]:
    door = ["--server", database] if isinstance(database, str) else [
        "--database", database.engine.url.render_as_string(hide_password=False)
    ]  # fmt: skip
    done = CliRunner().invoke(app, ["import", tracker, str(path), "--json", *door, *more])
    return done, json.loads(done.stdout) if done.stdout else None


def epochs_of(page: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("epoch", "seconds", "valid_loss", "metric", "samples")
    return [tuple(one.get(name) for name in names) for one in page["outcome"]["epochs"]]


EPOCHS = [(n, None if n == 0 else SECONDS, 0.9 / (n + 1), 0.5 + n / 10, 6400) for n in range(4)]


@pytest.mark.parametrize("tracker", ["wandb", "mlflow", "mlflow database", "trackio"])
def test_a_past_run_becomes_a_run_that_teaches_once(
    seeded_database: Database, tmp_path: Path, tracker: str
) -> None:
    path = {
        "wandb": lambda: wandb_file(tmp_path, wandb_records()).parent.parent,
        "mlflow": lambda: mlflow_folder(tmp_path),
        "mlflow database": lambda: mlflow_database(tmp_path),
        "trackio": lambda: trackio_folder(tmp_path),
    }[tracker]()
    name = tracker.split(maxsplit=1)[0]
    done, answer = imported(seeded_database, name, path, "--gpu", "t4")
    open_run = int(tracker == "mlflow database")  # one of it still runs
    assert (answer["taken"], answer["refused"]) == (1, open_run), done.output
    assert done.exit_code == open_run
    (run,) = [one for one in answer["runs"] if one["outcome"] == "taken"]
    assert answer["unknown"]["setting my_flag"] == 1
    page = run_page(seeded_database, run["run_id"])
    assert (page["status"], page["gpu"], page["model"]) == ("completed", "t4", "resnet18.a1_in1k")
    assert (page["batch_size"], page["epochs"], page["n_train"]) == (64, 4, 6400)
    assert epochs_of(page) == [pytest.approx(one) for one in EPOCHS]
    assert page["best_metric"] == pytest.approx(0.8)
    assert f"Imported from {name}" in page["notes"][0]
    assert page["reasons"][0]["code"] == "imported"
    assert page["started_at"].startswith("2026-09-21T14:13:20")
    step = [one["step_seconds"] for one in page["observations"] if one["part"] == "step"]
    assert step == [pytest.approx(SECONDS / 100, rel=0.01)]
    known = len(knowledge_of(seeded_database).observations)
    assert known >= 1

    _, again = imported(seeded_database, name, path, "--gpu", "t4")
    assert (again["taken"], again["there"]) == (0, 1)
    assert len(knowledge_of(seeded_database).observations) == known
    assert run_page(seeded_database, run["run_id"])["outcome"] == page["outcome"]


def test_memory_of_the_only_card_and_where_it_ran_out(seeded_sqlite: Database, tmp_path: Path) -> None:
    wandb_file(tmp_path, wandb_records(1, "CUDA out of memory. Tried to allocate 2.00 GiB\n"))
    _, answer = imported(seeded_sqlite, "wandb", tmp_path)
    page = run_page(seeded_sqlite, answer["runs"][0]["run_id"])
    assert (page["status"], page["peak_gib"]) == ("out_of_memory", pytest.approx(3.25))
    assert page["given"]["host"]["cpu_count"] == 16
    assert answer["unknown"]["reading network.sent"] == 1


def test_what_broke_off_or_is_damaged_is_said_and_what_was_read_stays(
    seeded_sqlite: Database, tmp_path: Path
) -> None:
    records = wandb_records()[:-1]
    records[0] = records[0].replace(b"abcd1234", b"abcd9999")
    file = wandb_file(tmp_path, records)
    file.write_bytes(file.read_bytes()[:-20_000])
    text(tmp_path / "other" / "run-x.wandb", "not of W&B")
    done, answer = imported(seeded_sqlite, "wandb", tmp_path)
    assert done.exit_code == 1
    told = {one["outcome"]: one for one in answer["runs"]}
    assert "no file of W&B" in told["refused"]["why"]
    assert "cut off" in " ".join(told["taken"]["notes"])
    assert "does not say how it ended: taken as completed" in " ".join(told["taken"]["notes"])


def test_what_nobody_says_is_asked_for_and_never_guessed(seeded_sqlite: Database, tmp_path: Path) -> None:
    place = trackio_folder(tmp_path)
    done, answer = imported(seeded_sqlite, "trackio", place)
    assert done.exit_code == 1
    assert answer["runs"][0]["why"].endswith("give --gpu")
    with closing(sqlite3.connect(place / "bats.db")) as made:
        config = {**SETTINGS, "model": "our-net", "train_batch_size": 32, "fp16": True, "max_len": -3}
        made.execute("UPDATE configs SET config = ?", (json.dumps(config),))
        made.commit()
    _, answer = imported(seeded_sqlite, "trackio", place, "--gpu", "t4")
    (run,) = answer["runs"]
    page = run_page(seeded_sqlite, run["run_id"])
    assert (page["model"], page["batch_size"], page["precision"]) == ("custom/our-net", None, "fp16")
    notes = " ".join(run["notes"])
    assert "batch_size is not taken, as settings contradict each other" in notes
    assert "model 'our-net' is not taken" in notes
    assert answer["unknown"]["setting max_len=-3"] == 1


def test_steps_between_epochs_say_how_many_samples_an_epoch_has(
    seeded_sqlite: Database, tmp_path: Path
) -> None:
    """As Hugging Face's Trainer logs to W&B: epochs in parts, updates counted."""
    config = {"_name_or_path": "bert-base-uncased", "per_device_train_batch_size": 16, "max_seq_length": 128,
              "gradient_accumulation_steps": 2, "num_train_epochs": 3.0, "bf16": True,
              "eval.batch_size": 99}  # fmt: skip
    run = part(1, "hf000001") + part(3, "p") + part(4, items(1, config)) + part(17, moment(BEGAN))
    records = [part(17, run)]
    for n in range(1, 7):
        row = {"train/epoch": n / 2, "train/global_step": 50 * n, "train/loss": 1 / n,
               "_timestamp": BEGAN + 60 * n, "_step": n}  # fmt: skip
        row |= {"eval/loss": 0.5, "eval/f1": 0.1 * n} if n % 2 == 0 else {}
        records.append(part(2, items(1, row, key=2)))
    wandb_file(tmp_path, [*records, part(18, number(1, 0))])
    _, answer = imported(seeded_sqlite, "wandb", tmp_path, "--task", "text", "--gpu", "a100")
    page = run_page(seeded_sqlite, answer["runs"][0]["run_id"])
    assert (page["batch_size"], page["precision"], page["epochs"]) == (16, "bf16", 3)
    told = [(n, at, loss, metric, size) for n, at, loss, metric, size in epochs_of(page)]
    assert told[1] == pytest.approx((1, 120.0, 0.5, 0.4, 3200))
    assert [one[0] for one in told] == [0, 1, 2]


@pytest.fixture
def server(servers: Servers) -> Iterator[str]:
    for client in serve(servers, "sqlite"):
        yield from listen(client)


def test_past_runs_go_to_a_server_too(server: str, tmp_path: Path) -> None:
    place = mlflow_folder(tmp_path, status=4)
    done, answer = imported(server, "mlflow", place)
    _, again = imported(server, "mlflow", place)
    assert (done.exit_code, answer["taken"], again["there"]) == (0, 1, 1)
    page = get(server, f"/runs/{answer['runs'][0]['run_id']}", {})
    assert (page["status"], page["gpu"], len(page["outcome"]["epochs"])) == ("crashed", "t4", 4)


def test_an_unknown_tracker_is_refused_with_the_known_ones(seeded_sqlite: Database, tmp_path: Path) -> None:
    done, _ = imported(seeded_sqlite, "wandbb", tmp_path)
    assert "wandb" in str(done.exception)


def past_run(**told: Any) -> PastRun:
    began, config = told.pop("began", BEGAN), SETTINGS | told
    return PastRun("wandb", "p/a", "one", config, (), began, began, "completed")


@pytest.mark.parametrize("said", [float("inf"), float("nan"), "1e400", 10**400, [[224], [224]], "{[1]: 2}"])
def test_a_setting_that_no_run_can_have_says_nothing(said: Any) -> None:
    run = reported(past_run(batch_size=said, lr=said, img_size=said), {}, BEGAN)
    assert not isinstance(run, Unread)
    assert not run.begin.keys() & {"learning_rate", "image_size", "batch_size"}
    assert run.begin["epochs"] == 4


@pytest.mark.parametrize("began", [1e18, -5.0, float("inf"), float("nan"), None])
def test_a_start_that_no_calendar_has_tells_no_time(began: float | None) -> None:
    run = past_run(began=began)
    assert reported(run, {}, BEGAN) == Unread(run.key, "it tells no time")


def found(tracker: str, path: Path) -> tuple[list[PastRun], list[Unread]]:
    some = list(READERS[tracker](path))
    return [one for one in some if isinstance(one, PastRun)], [one for one in some if isinstance(one, Unread)]


def executed(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as made:
        for statement in statements:
            made.execute(statement)
        made.commit()


def test_figures_of_one_moment_and_settings_that_are_none_are_read(tmp_path: Path) -> None:
    place = trackio_folder(tmp_path)
    same = (
        "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) SELECT run_id, timestamp, run_name"
    )
    executed(
        place / "bats.db",
        f"{same}, step, '{{\"train/loss\": 0.5}}' FROM metrics WHERE step = 1",
        "INSERT INTO configs VALUES (2,'null','two','null','2026-09-21T14:13:21+00:00')",
    )
    (one, two), refused = found("trackio", place)
    assert ([row.step for row in one.rows], two.config, refused) == ([0, 1, 1, 2, 3], {}, [])


def test_a_damaged_run_costs_itself_alone(tmp_path: Path) -> None:
    place = trackio_folder(tmp_path)
    executed(
        place / "bats.db",
        "INSERT INTO configs VALUES (2,'list','two','[1]','2026-09-21T14:13:21+00:00')",
        "INSERT INTO metrics (run_id, timestamp, run_name, metrics) VALUES ('when',7,'three','{}')",
    )
    runs, refused = found("trackio", place)
    assert [one.key for one in runs] == ["bats/dcfe"]
    assert [one.where for one in refused] == ["bats/list", "bats/when"]
    file = mlflow_database(tmp_path)
    executed(
        file,
        "INSERT INTO runs VALUES ('c','three','FINISHED',1,2,'active')",
        "INSERT INTO metrics VALUES ('loss',NULL,1,'c',0,0)",
    )
    runs, refused = found("mlflow", file)
    assert (len(runs), {one.where for one in refused}) == (1, {"b", "c"})
    records = wandb_records()
    wandb_file(tmp_path / "good", records)
    wandb_file(tmp_path / "text", [part(17, number(1, 7)), *records[1:]])
    wandb_file(tmp_path / "moment", [*records, part(7, number(2, 7))])
    runs, refused = found("wandb", tmp_path)
    assert (len(runs), len(refused)) == (1, 2)
    assert all("TypeError" in one.why for one in refused)


def test_an_empty_line_of_figures_is_passed_over(tmp_path: Path) -> None:
    folder = mlflow_folder(tmp_path)
    text(next(folder.rglob("metrics")) / "val" / "loss", "\n  \n", "a")
    runs, refused = found("mlflow", folder)
    assert (len(runs[0].rows), refused) == (4, [])
