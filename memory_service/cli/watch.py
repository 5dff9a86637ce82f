"""`memory-service watch LOGFILE [-- COMMAND]`: report a training that must not be changed, by its log."""

import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from memory_service.cli.common.output import JSON_OPTION, emit, fail, stderr
from memory_service.errors import MemoryServiceError, NotFound, Refused, Unavailable, wrong_value

_FACTS = (
    "task", "model", "batch_size", "image_size", "seq_len", "n_features", "n_classes", "n_train", "folds",
    "epochs", "minutes", "precision", "competition", "plan_id", "num_workers", "optimizer",
)  # fmt: skip


def watch(
    logfile: Annotated[Path, typer.Argument(help="Log to follow; a command's output is added to it.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND ...]", help="Launch this and follow it.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="UUID", help="Id of the run; alone: add to a run begun elsewhere.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Task or alias; else guessed from the script.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Catalogue or timm name, or custom/NAME; without it no predictions.")
    ] = None,
    gpu: Annotated[str, typer.Option(help="Device or GPU model; auto asks the driver.")] = "auto",
    batch_size: Annotated[int | None, typer.Option(min=1)] = None,
    image_size: Annotated[int | None, typer.Option(min=1)] = None,
    seq_len: Annotated[int | None, typer.Option(min=1)] = None,
    n_features: Annotated[int | None, typer.Option(min=1)] = None,
    n_classes: Annotated[int | None, typer.Option(min=1)] = None,
    n_train: Annotated[int | None, typer.Option(min=1)] = None,
    folds: Annotated[int | None, typer.Option(min=1)] = None,
    epochs: Annotated[int | None, typer.Option(min=1)] = None,
    minutes: Annotated[float | None, typer.Option(help="Wall-clock budget.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, tf32, fp16 or bf16.")] = None,
    competition: Annotated[str | None, typer.Option(help="Slug of a known competition.")] = None,
    num_workers: Annotated[int | None, typer.Option(min=0)] = None,
    optimizer: Annotated[str | None, typer.Option()] = None,
    plan: Annotated[
        Path | None, typer.Option(help="File with an answer of `recommend --json`; given facts go first.")
    ] = None,
    plan_id: Annotated[str | None, typer.Option()] = None,
    server: Annotated[str | None, typer.Option(metavar="URL", help="Default: MEMORY_SERVER.")] = None,
    pid: Annotated[
        int | None, typer.Option(help="Without a command: the process that trains; ends with it.")
    ] = None,
    idle_seconds: Annotated[
        float, typer.Option(help="Without a command: ends when the log has not grown for so long.")
    ] = 600.0,
    json: bool = JSON_OPTION,
) -> None:
    """Follow a training log, or launch a training and follow it: epochs, losses, times and memory in its
    output, and the use of GPU and CPU by its processes. Ends with the exit code of the command. The
    training is never delayed: it writes the log itself and goes on if this process is killed."""
    import psutil

    from memory_service.client.begin import attach
    from memory_service.client.begin import watch as begin
    from memory_service.client.facts import guessed_task, script_text
    from memory_service.client.log_follower import follow, launch
    from memory_service.client.run import Run

    options = locals()
    facts: dict[str, Any] = {name: options[name] for name in _FACTS if options[name] is not None}
    attached = run is not None and not facts and plan is None and not command
    if run is not None:
        try:
            run = _run_id(run, server, known=attached)
        except MemoryServiceError as error:
            fail(error, json)

    def start(process: int | None) -> Run:
        if attached:
            return attach(str(run), pid=process, server=server)
        if task is None and plan is None and plan_id is None:
            facts["task"] = guessed_task(script_text(command or []))
        return begin(plan, gpu=gpu, run_id=run, pid=process, server=server, **facts)

    code = 0
    if command:
        try:
            code, reader, watched = launch(command, logfile, start, show=not json)
        except OSError as error:
            stderr.print(f"cannot run {command[0]}: {error}", markup=False, highlight=False)
            raise typer.Exit(127 if isinstance(error, FileNotFoundError) else 126) from None
    else:
        watched = start(pid or 0)
        try:
            reader = follow(
                logfile,
                watched,
                idle_seconds=idle_seconds,
                stop=lambda: bool(pid) and not psutil.pid_exists(pid),
            )
        except KeyboardInterrupt:
            watched.finish("stopped")
            raise typer.Exit(130) from None
        watched.finish(reader.ended_as)
    log = {"lines": reader.lines, "understood": reader.understood}
    answer = {"run_id": watched.run_id, "status": watched.status, "exit_code": code, "log": log}
    answer |= {"verdict": dict(watched.verdict.raw) or None, "problems": watched.problems}
    line = f"memory-service: run {watched.run_id} {watched.status}; "
    line += f"{reader.understood} of {reader.lines} lines understood"
    emit(answer, json, lambda _: stderr.print(line, markup=False, highlight=False, soft_wrap=True))
    if code:
        raise typer.Exit(code)


def _run_id(given: str, server: str | None, *, known: bool) -> str:
    """The run's whole id; known: of one that the server knows, also by a unique beginning. Where no
    server answers a whole id stands: what is reported waits in the spool. NotFound with the latest runs."""
    from memory_service.cli.common.remote import get
    from memory_service.client.config import load_config

    try:
        whole = str(uuid.UUID(given))
    except ValueError:
        whole = ""
    config = load_config(None, server)
    if whole and (not known or config.mode != "online"):
        return whole
    if not known:
        raise wrong_value("run", "must be a UUID where a run begins", given)
    try:
        latest = [
            row["id"] for row in get(config.server, "/runs", {"limit": "500", "sort": "-started_at"})["items"]
        ]
        found = [whole] if whole else [key for key in latest if key.startswith(given.lower())]
        if len(found) == 1 and (found[0] in latest or get(config.server, f"/runs/{whole}", {})):
            return found[0]
    except Unavailable:
        if whole:
            return whole
        raise
    except Refused as refusal:
        if refusal.status != NotFound.status:
            raise
        found = []
    what = f"Several runs begin with {given!r}" if found else f"There is no run {given!r}"
    raise NotFound(f"{what}; the latest: {', '.join((found or latest)[:5]) or 'none'}")
