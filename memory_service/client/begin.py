"""Start of a reported run: with a plan, with facts, or for a run that already exists."""

import contextlib
import logging
import os
import sys
import time
import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from memory_service.client.config import Config, load_config
from memory_service.client.delivery.sender import EventSender, utc
from memory_service.client.facts import CUSTOM, body_of, guessed_task, host_facts, script_text
from memory_service.client.gpu_sampler import SAMPLE_EVERY_S, TREE_EVERY_S, GpuSampler
from memory_service.client.run import Run, positive_int, register

ATTACHED_SINCE = 1_577_836_800.0  # 2020-01-01: 53 bits hold its milliseconds times 4096 for two centuries

RANKS_APART_MS = 1_000_000_000
"""Between the numbers of events of two ranks that begin at once: eleven days of one run."""

log = logging.getLogger("memory_service.client")


def watch(
    plan: Any = None,
    *,
    plan_id: str | None = None,
    task: str | None = None,
    gpu: str = "auto",
    model: str | None = None,
    batch_size: int | None = None,
    run_id: str | None = None,
    pid: int | None = None,
    mode: str | None = None,
    server: str | None = None,
    **facts: Any,
) -> Run:
    """Begin to report a run. Use it as a context manager, or call `finish` at the end.

    plan       an answer of /recommend: a mapping, its JSON text or a file. It says what is not given here
    plan_id    the same where the service gave the plan: it fills in what is not said
    task       one of the vocabulary or an alias; guessed from the script's own text if nobody says it
    model      a catalogue, timm or transformers name; `custom/<name>` for a network of one's own, which is
               also what a name becomes that the service does not know
    gpu        "auto" takes the name that the card's driver reports; where there is none the plan's, else
               "cpu". Or a registered device or a GPU model; `custom/<name>` is what an unknown name becomes
    pid        the process to sample, with its children; by default this one
    facts      more fields of POST /runs: image_size, seq_len, n_features, precision, folds, epochs, n_train,
               minutes, competition, optimizer, num_workers, ...
    mode       online | offline | disabled, by default MEMORY_MODE; or train | infer: what the run's steps are
    server     its address, by default MEMORY_SERVER

    With MEMORY_RUN_ID in the environment it reports into that run, which an agent or a program has begun.
    Never raises: what cannot be used is logged, and the run is not reported. Of the processes of one
    distributed training the first reports the run (RANK, LOCAL_RANK); the others, where torchrun started all
    of them on one machine, their own steps, samples and memory as further ranks of it.
    """
    fields = {"plan_id": plan_id, "task": task, "model": model, "batch_size": batch_size, **facts}
    if mode in ("train", "infer"):
        fields["mode"], mode = mode, None
    try:
        config = load_config(mode, server)
        given = os.environ.get("MEMORY_RUN_ID", "").strip()
        shared = shared_run_id(os.environ) if run_id is None else run_id
        if config.mode == "disabled" or (not is_first(os.environ) and shared is None):
            return Run.silent()
        if given and run_id is None and is_first(os.environ):
            return _attach_run(config, given, pid, 0 if _ranks(os.environ) else None, batch_size)
        if not is_first(os.environ) and shared is not None:
            return _attach_run(config, shared, pid, int(os.environ["RANK"]), batch_size)
        # A plan's batch is a promise: what the loader gives is counted, unless the script says its own.
        explicit_batch = positive_int(body_of(fields).get("batch_size"))
        return _start_run(config, body_of(fields, plan), explicit_batch, gpu, shared, pid)
    except Exception as error:  # noqa: BLE001 - never the training's problem
        log.warning("memory-service: this run is not reported: %r", error)
        return Run.silent()


def attach(run_id: str, *, pid: int | None = None, mode: str | None = None, server: str | None = None) -> Run:
    """Report more of a run that was begun elsewhere, which also ends it. Never raises, as `watch`."""
    try:
        config = load_config(mode, server)
        return Run.silent() if config.mode == "disabled" else _attach_run(config, run_id, pid)
    except Exception as error:  # noqa: BLE001 - never the training's problem
        log.warning("memory-service: run %s is not reported: %r", run_id, error)
        return Run.silent()


def is_first(environment: Mapping[str, str]) -> bool:
    """Whether this process reports: the only one, or rank 0 (torchrun, accelerate, Lightning)."""
    rank = environment.get("RANK") or environment.get("LOCAL_RANK") or "0"
    return not rank.isdigit() or int(rank) == 0


_begun = 0


def _ranks(environment: Mapping[str, str]) -> bool:
    """Whether torchrun (or accelerate) started several processes, all on this machine."""
    world = environment.get("WORLD_SIZE", "1")
    local = environment.get("LOCAL_WORLD_SIZE", "")
    return "TORCHELASTIC_RUN_ID" in environment and world == local and world != "1"


def shared_run_id(environment: Mapping[str, str]) -> str | None:
    """The id that each rank gives the n-th run of its script, by what torchrun told it and by whose child it
    is; None where there are no ranks."""
    global _begun
    if not _ranks(environment):
        return None
    _begun += 1
    names = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT")
    told = [environment.get(name, "") for name in names]
    with contextlib.suppress(Exception):
        import psutil

        told.append(str(psutil.Process(os.getppid()).create_time()))
    return str(uuid.uuid5(uuid.NAMESPACE_OID, ":".join([*told, str(os.getppid()), str(_begun)])))


def _start_run(
    config: Config,
    body: dict[str, Any],
    batch_size: int | None,
    gpu: str,
    run_id: str | None,
    pid: int | None,
) -> Run:
    key = str(uuid.UUID(run_id)) if run_id else str(uuid.uuid4())
    gpu_sampler = GpuSampler(pid, tree_every_seconds=TREE_EVERY_S if pid is None else SAMPLE_EVERY_S)
    gpu_name = gpu_sampler.wait_for_name()
    started = time.time()
    usual = {"model": CUSTOM, "task": guessed_task(script_text(sys.argv)), "gpu": gpu_name or "cpu"}
    if gpu != "auto" or gpu_name:
        body["gpu"] = gpu_name if gpu == "auto" else gpu
    if "plan_id" not in body:  # else the service may know the plan: it says what it lacks
        body = {**usual, **body}
    host = host_facts() | {"gpu_seen": gpu_name is not None}
    if gpu_name:
        host |= {"gpu_name": gpu_name, "gpu_memory_gib": gpu_sampler.total_gib}
    body = {**body, "started_at": body.get("started_at") or utc(started), "host": body.get("host") or host}
    joins = run_id is None and "plan_id" in body
    if joins:  # an agent may have begun the run of this plan, and told events of it
        body["join"] = True
    sender = EventSender(config, key, body, _seq_behind_others() if joins else 0, usual)
    run = Run(config, sender, batch_size, gpu_sampler, started)
    run.rank = 0 if _ranks(os.environ) else None
    gpu_sampler.report = partial(run.record, "gpu")
    if gpu_sampler.total_gib:
        run.record("note", {"total_gib": gpu_sampler.total_gib, "gpu_name": gpu_sampler.name})
    register(run)
    return run


def _seq_behind_others(rank: int | None = None) -> int:
    """The first seq of events of a run that others tell of, too: theirs count up from 0, or from an earlier
    moment."""
    return (int((time.time() - ATTACHED_SINCE) * 1000.0) + (rank or 0) * RANKS_APART_MS) * 4096


def _attach_run(
    config: Config, run_id: str, pid: int | None, rank: int | None = None, batch_size: int | None = None
) -> Run:
    key = str(uuid.UUID(run_id))
    first_seq = _seq_behind_others(rank)
    gpu_sampler = GpuSampler(pid, tree_every_seconds=SAMPLE_EVERY_S)
    run = Run(config, EventSender(config, key, None, first_seq), batch_size, gpu_sampler, time.time())
    run.is_attached, run.rank = True, rank
    gpu_sampler.report = partial(run.record, "gpu")
    register(run)
    return run
