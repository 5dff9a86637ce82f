"""`memory-service profile MODEL` and `--catalogue`: trace what a model costs per sample, without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory_service.cli.common.output import JSON_OPTION, emit, spinner, stderr, stdout, table

if TYPE_CHECKING:
    from memory_service.domain.cost.profile import Profile

MIB = 2.0**20


def profile(
    model: Annotated[str | None, typer.Argument(help="A catalogue or timm name.", show_default=False)] = None,
    image_size: Annotated[int | None, typer.Option(min=1, help="Pixels a side.", show_default=False)] = None,
    seq_len: Annotated[
        int | None, typer.Option(min=1, help="Tokens, steps or columns.", show_default=False)
    ] = None,
    precision: Annotated[str, typer.Option(help="fp32, tf32, fp16 or bf16.")] = "fp16",
    checkpointing: Annotated[bool, typer.Option(help="Recompute blocks in the backward pass.")] = False,
    fused_attention: Annotated[bool, typer.Option(help="Attention as one kernel (torch >= 2).")] = True,
    n_outputs: Annotated[int | None, typer.Option(min=1, help="Classes.", show_default=False)] = None,
    catalogue: Annotated[bool, typer.Option("--catalogue", help="Profile every catalogue model.")] = False,
    seeds: Annotated[
        Path | None, typer.Option(help="Folder with models.jsonl, to fill.", show_default=False)
    ] = None,
    json: bool = JSON_OPTION,
) -> None:
    """Trace a training step on tensors without storage: bytes and work per sample."""
    if catalogue == (model is not None):
        raise typer.BadParameter("give either a MODEL or --catalogue", param_hint="MODEL")
    if catalogue or model is None:
        _catalogue(seeds, json)
        return
    from memory_service.domain.common.vocabulary import parse_precision
    from memory_service.services.knowledge.profiling import catalogue_row, profile_model

    kind = parse_precision(precision)
    row = catalogue_row(model, _seeds(seeds))
    traced = profile_model(
        row.name if row else model,
        input_size=image_size or seq_len or (row.default_input_size if row else None),
        precision="fp32" if kind in ("fp32", "tf32") else "amp",
        checkpointing=checkpointing,
        fused_attention=fused_attention,
        n_outputs=n_outputs,
        library=row.library if row else None,
        config=row.config if row else None,
        family=row.family if row else "",
    )
    emit(traced.as_dict(), json, lambda _: _drawn(traced))


def _catalogue(seeds: Path | None, json: bool) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from memory_service.services.knowledge.profiling import (
        catalogue_models,
        profile_catalogue,
        wanted_profiles,
    )

    spinner.stop()
    folder = _seeds(seeds)
    jobs = wanted_profiles(catalogue_models(folder))
    columns = (
        TextColumn("{task.description:<44.44}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=stderr) as bar:
        task = bar.add_task("profiles", total=len(jobs))

        def advance(job: Any, why: str | None) -> None:
            bar.update(task, advance=1, description=f"{job.model} @ {job.input_size} {job.precision}")
            if why:
                bar.console.print(f"passed over {job.model} @ {job.input_size}: {why}", markup=False)

        report = profile_catalogue(jobs, folder / "profiles.jsonl.gz", advance)
    failed = [(name, why) for name, why in sorted(report.failed.items())]
    said = f"{report.made} profiles made, {report.kept} kept, {len(failed)} models passed over"
    emit({"made": report.made, "kept": report.kept, "failed": dict(failed)}, json, lambda _: said)


def _seeds(folder: Path | None) -> Path:
    from memory_service.resources import path

    return folder or path("seeds")


def _drawn(traced: Profile) -> None:
    worst = traced.peak[-1]
    stdout.print(
        f"[bold]{traced.model}[/] at {traced.input_size}, {traced.precision}: "
        f"{traced.params / 1e6:.2f} M parameters, {worst.per_sample_bytes / MIB:.2f} MiB per sample "
        f"+ {worst.fixed_bytes / MIB:.0f} MiB (without optimizer state)"
    )
    rows = [
        (phase, name, f"{w.flops_per_sample / 1e9:.3f}", f"{w.bytes_per_sample / MIB:.2f}", w.kernels)
        for phase, works in (("forward", traced.forward), ("backward", traced.backward))
        for name, w in works.items()
    ]
    stdout.print(table(None, ("phase", "class", ">GFLOP/sample", ">MiB moved/sample", ">kernels"), rows))
