"""`memory-service calibrate`: benchmark a device of this machine; store the result here or on a server."""

from __future__ import annotations

import contextlib
import datetime as dt
import json as jsons
import signal
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from memory_service.cli.common.databases import DatabaseUrl, caller, open_at_head
from memory_service.cli.common.output import JSON_OPTION, emit, stderr, table
from memory_service.errors import NotInstalled, wrong_value
from memory_service.resources import NEEDS_TORCH, has_torch

if TYPE_CHECKING:
    from memory_service.domain.calibration.calibration import Fingerprint
    from memory_service.services.devices.local_calibration import Report, Stop

_DELIVER_WITHIN_SECONDS = 60.0
_STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")

OnReport = Callable[["Report"], None]


def calibrate(
    device: Annotated[
        str | None, typer.Option(help="cpu, mps or cuda:N; the first card, else the processor.")
    ] = None,
    budget_seconds: Annotated[
        float, typer.Option(min=1.0, max=3600.0, help="Time it may take; 20 is quick.")
    ] = 60.0,
    name: Annotated[str | None, typer.Option(help="What the device is called; `--gpu` takes it.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Also while others use the device.")] = False,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="Send the result there instead of keeping it here.")
    ] = None,
    sweep: Annotated[
        Path | None,
        typer.Option(
            help="Time these models instead, a line each (`resnet50 batch_size=64`), as one of any number of "
            "workers with the same list."
        ),
    ] = None,
    lease_seconds: Annotated[
        float, typer.Option(min=1.0, max=3600.0, help="After so long a silence another worker takes a model.")
    ] = 120.0,
    database: DatabaseUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Measure a device of this host and keep what was measured, also when it is stopped early."""
    from memory_service.services.devices.registration import look_at

    if not has_torch():
        raise NotInstalled(f"Calibrating {NEEDS_TORCH}")
    if server is not None and database is not None:
        raise typer.BadParameter("give either --server or --database", param_hint="--server")
    word, fingerprint = look_at(device)
    stderr.print(
        f"{word}: {fingerprint.name}, {fingerprint.memory_gib:.1f} GiB", highlight=False, markup=False
    )
    if sweep is not None:
        swept = _sweep(sweep, server, database, name, fingerprint, budget_seconds, lease_seconds)
        rows = [tuple(one.values()) for one in swept["cells"]]
        emit(swept, json, lambda _: table("Models", ("model", "run", "outcome", "why"), rows))
        if swept["failed"]:
            raise typer.Exit(1)
        return
    with _stoppable() as stop, _progress_bar() as on_report:
        if server is not None:
            result = _for_server(server, name, word, fingerprint, budget_seconds, force, stop, on_report)
        else:
            result = _for_database(database, name, word, fingerprint, budget_seconds, force, stop, on_report)
    emit(result, json, _render)
    if result["status"] != "done":
        raise typer.Exit(1)


def _sweep(
    file: Path, server: str | None, database: str | None, name: str | None, fingerprint: Fingerprint,
    seconds: float, lease_seconds: float,
) -> dict[str, Any]:  # fmt: skip
    """What became of each model of the list, by this worker or another."""
    from memory_service.cli.common.databases import local_door, remote_door
    from memory_service.cli.common.remote import checked_url
    from memory_service.client.fields import cleaned
    from memory_service.client.gpu_sampler import GpuSampler
    from memory_service.client.sweep import Sweep, cells_in
    from memory_service.services.devices.devices import host_name
    from memory_service.services.knowledge.model_times import completed, measure_with

    try:
        lines = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise wrong_value("sweep", f"cannot be read: {error}", str(file)) from error
    cells = [completed(cell, fingerprint) for cell in cells_in(lines)]
    card = fingerprint.kind == "cuda"
    about = {
        "gpu": name or (fingerprint.name if card else fingerprint.kind), "task": "image-classification",
        "host": {"hostname": host_name(), "cpu_count": fingerprint.cores},
    }  # fmt: skip
    kin = f"{file.name} on {fingerprint.name if card else fingerprint.uuid}"
    latest: dict[str, Any] = {}
    sampler = GpuSampler(every_seconds=2.0, tree_every_seconds=10.0)
    sampler.report = latest.update

    def readings() -> dict[str, Any]:
        """A processor's memory is that of all models of this process: it is not told."""
        told = latest if card else {n: v for n, v in latest.items() if not n.endswith("_gib")}
        return cleaned("gpu", told)[0]

    measure, found = measure_with(fingerprint, seconds), []
    with contextlib.ExitStack() as stack:
        door = remote_door(checked_url(server)) if server else stack.enter_context(local_door(database))
        for one in Sweep(kin, cells, door, about, lease_seconds).work(measure, readings):
            stderr.print(f"{one.cell}: {one.outcome} {one.why or ''}", highlight=False, markup=False)
            found.append(asdict(one))
    counts = Counter(one["outcome"] for one in found)
    return {"cells": found, "failed": counts["failed"] + counts["given_up"], **counts}


def _for_database(
    url: str | None, name: str | None, word: str, fingerprint: Fingerprint, budget: float, force: bool,
    stop: Stop, on_report: OnReport,
) -> dict[str, Any]:  # fmt: skip
    from memory_service.services.devices.calibrations import get_calibration
    from memory_service.services.devices.local_calibration import Wanted, begin, carry_out
    from memory_service.services.devices.registration import usual_name
    from memory_service.services.editorial import seeding

    with open_at_head(url) as opened:
        if not seeding.is_seeded(opened):
            seeding.seed(opened)
        name = name or usual_name(opened, fingerprint, word)
        calibration = begin(opened, Wanted(name, fingerprint, word, budget, force), caller())
        carry_out(opened, calibration, stop=stop, on_report=on_report)
        return get_calibration(opened, calibration.id)


def _for_server(
    server: str, name: str | None, word: str, fingerprint: Fingerprint, budget: float, force: bool,
    stop: Stop, on_report: OnReport,
) -> dict[str, Any]:  # fmt: skip
    from memory_service import __version__
    from memory_service.cli.common.remote import Reporter, checked_url, post
    from memory_service.errors import MemoryServiceError
    from memory_service.services.devices.devices import host_name
    from memory_service.services.devices.local_calibration import benchmark

    url = f"{checked_url(server)}/calibrations"
    about: dict[str, Any] = {
        "id": uuid.uuid4().hex, "device": name, "fingerprint": fingerprint.as_dict(), "word": word,
        "host": host_name(), "budget_seconds": budget, "version": __version__,
        "started_at": dt.datetime.now(dt.UTC).isoformat(),
    }  # fmt: skip
    about["device"] = post(url, about | {"status": "running"})["device"]
    reporter, last = Reporter(url), about
    for report in benchmark(word, fingerprint.kind, budget, force=force, stop=stop):
        last = about | _sent(report)
        if report.status == "running":
            reporter.report(last)
        if reporter.refused is not None:
            stop.now(f"the server refused it: {reporter.refused.detail}")
        on_report(report)
    try:
        return reporter.finish(last, _DELIVER_WITHIN_SECONDS)
    except MemoryServiceError:
        saved = Path(f"calibration-{about['id']}.json").resolve()
        saved.write_text(jsons.dumps(last), encoding="utf-8")
        stderr.print(
            f"What was measured is in {saved}: POST it to {url} as application/json.", highlight=False
        )
        raise


def _sent(report: Report) -> dict[str, Any]:
    names = ("status", "missing", "contended", "why", "progress", "doing")
    return {name: getattr(report, name) for name in names} | {
        "sections": {name: found.as_dict() for name, found in report.sections.items()},
        "seconds": report.seconds or None,
    }


@contextmanager
def _stoppable() -> Iterator[Stop]:
    """Ctrl-C and SIGTERM end the calibration in order; the second one ends the program."""
    from memory_service.services.devices.local_calibration import Stop

    stop = Stop()
    before: dict[int, Any] = {}

    def interrupt(number: int, _frame: object) -> None:
        stop.now(f"stopped by {signal.Signals(number).name}")
        signal.signal(number, before[number])

    for number in (getattr(signal, name) for name in _STOPPING if hasattr(signal, name)):
        before[number] = signal.getsignal(number)
        signal.signal(number, interrupt)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress_bar() -> Iterator[OnReport]:
    """A bar on a terminal, else a line for every figure; both on stderr."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(), console=stderr, transient=True,
    )  # fmt: skip
    with bar:
        task = bar.add_task("beginning", total=1.0)

        def on_report(report: Report) -> None:
            bar.update(task, completed=report.progress, description=(report.doing or report.status)[:40])

        yield on_report


def _lines() -> OnReport:
    printed: set[str] = set()

    def on_report(report: Report) -> None:
        for name in (*report.sections, *report.missing):
            if name not in printed:
                printed.add(name)
                text = f"not measured, {report.missing.get(name)}"
                if (m := report.sections.get(name)) is not None:
                    text = f"{m.value:.4g} {m.unit} ({m.p20:.4g}–{m.p80:.4g}, n {m.n})"
                line = f"{report.seconds:6.1f} s  {name}: {text}"
                stderr.print(line, highlight=False, markup=False, soft_wrap=True)

    return on_report


def _render(result: Mapping[str, Any]) -> RenderableType:
    found = [(name, m, f"{m['p20']:.4g}–{m['p80']:.4g}") for name, m in result["sections"].items()]
    rows = [
        (name, f"{m['value']:.4g}", m["unit"], spread, m["n"], "spread" * m["flagged"])
        for name, m, spread in found
    ]
    checked = (result["self_check"] or {}).get("median_error_percent")
    check = "" if checked is None else f"; reference networks predicted within {checked:.0f} % (median)"
    why = f": {result['why']}" if result["why"] else ""
    head = f"{result['device']} ({result['gpu']}): {result['status']} after {result['seconds']:.1f} s"
    parts: list[RenderableType] = [Text(head + why + check, style="bold")]
    if rows:
        parts.append(table(None, ("section", ">median", "unit", ">p20–p80", ">n", ""), rows))
    if result["missing"]:
        parts.append(table("Not measured", (">sections", "why", "which"), _by_reason(result["missing"])))
    if not result["usable"]:
        parts.append(
            Text("Predictions do not use it" + (": it was disturbed" if result["contended"] else ""))
        )
    return Group(*parts)


def _by_reason(missing: Mapping[str, str]) -> list[tuple[int, str, str]]:
    reasons: dict[str, list[str]] = {}
    for name, why in missing.items():
        reasons.setdefault(why, []).append(name)
    return [(len(n), why, ", ".join(n[:3]) + " …" * (len(n) > 3)) for why, n in reasons.items()]
