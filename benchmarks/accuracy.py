"""Errors of predictions on public tables by mode and card, naive baselines beside them.

    python -m benchmarks.accuracy FILE... [--observe FILE2] [--profiles FILE] [--write PAGE.md]

Predicts as `memory-service evaluate FILE` does, over the database that the settings name. Baselines are
fitted in their own favour on the very rows they are scored on.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.memory import GIB, allocated_bytes
from memory_service.domain.learning.measured_rows import MeasuredRow
from memory_service.domain.learning.scoring import NAIVE_FIXED_GIB, NAIVE_SLOPE
from memory_service.services.operations.database import open_database
from memory_service.services.prediction.evaluate import (
    Evaluated,
    RowCase,
    evaluate_rows,
    learn_from_rows,
    measured_figures,
    measured_trees,
    open_profile_store,
    read_rows,
)
from memory_service.settings import load_settings

SECTION = re.compile(r"<!-- (\w+) -->\n(?:(?!<!-- \w).)*?<!-- /\1 -->", re.DOTALL)

T = TypeVar("T")
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

FEWEST_ROWS = 3


@dataclass(frozen=True, slots=True)
class Errors:
    """Absolute relative errors of one method over n rows; `covered` is the share inside low..high, where
    there is one."""

    method: str
    n: int
    median: float
    p90: float
    bias: float
    covered: float | None = None


@dataclass(frozen=True, slots=True)
class FitErrors:
    """How the largest batch was hit on a ladder: shares of exact, too large (would not run) and too small."""

    method: str
    n: int
    exact: float
    too_large: float
    too_small: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Rows by what became of them, and the errors of each (mode, card) group, ours first."""

    rows: int
    predicted: int
    refused: tuple[tuple[str, str], ...]
    throughput: tuple[tuple[str, tuple[Errors, ...]], ...]
    fit: tuple[tuple[str, tuple[FitErrors, ...]], ...]
    peak: tuple[tuple[str, tuple[Errors, ...]], ...]
    jobs: tuple[tuple[str, tuple[Errors, ...]], ...] = ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument(
        "--observe", type=Path, action="append", default=[], help="learn from these rows first"
    )
    parser.add_argument("--profiles", type=Path, action="append", default=[], help="further profiles to use")
    parser.add_argument("--write", type=Path, help="also write the report to this file")
    given = parser.parse_args()
    settings = load_settings()
    database = open_database(settings.database_url, settings.embedding_model)
    store, gpus = open_profile_store(database, given.profiles)
    observed = 0
    if given.observe:
        gpus, observed = learn_from_rows([r for file in given.observe for r in read_rows(file)], store, gpus)
    named = [(f.name, summarise(list(evaluate_rows(read_rows(f), store, gpus)))) for f in given.files]
    report = markdown(named, observed)
    print(report)
    if given.write is not None:
        before = given.write.read_text(encoding="utf-8") if given.write.exists() else ""
        given.write.write_text(with_sections(report, before), encoding="utf-8")


def summarise(results: Sequence[Evaluated]) -> Summary:
    """Errors of all rows that measured something; rows marked "do not score" are left out."""
    scored = [r for r in results if r.predicted and r.row and "do not score" not in r.row.notes.lower()]
    scored = [r for r in scored if r.raw.get("score") != "0"]
    usable = [r for r in scored if _row(r).job is None]
    return Summary(
        rows=len(results),
        predicted=sum(bool(r.predicted) for r in results),
        refused=tuple(
            (str(r.raw.get("model") or r.raw.get("library")), r.why_not) for r in results if r.why_not
        ),
        throughput=_grouped([r for r in usable if _row(r).samples_per_s], _throughput),
        fit=_grouped([r for r in usable if _row(r).ladder and _row(r).largest], _fit),
        peak=_grouped([r for r in usable if _row(r).peak_gib and _tells_peak(r)], _peak),
        jobs=_jobs(scored) + _trees(results),
    )


JOB_FIGURES = {
    "peak_gib": "peak memory of a card",
    "samples_per_s": "samples a second",
    "tokens_per_s": "tokens a second",
    "seconds_per_step": "seconds a step",
    "speedup": "speed of several cards over that of one",
}


def _jobs(results: Sequence[Evaluated]) -> tuple[tuple[str, tuple[Errors, ...]], ...]:
    """Errors of training jobs by figure, and in it by method and whether there are several cards."""
    out = []
    for name, title in JOB_FIGURES.items():
        groups: dict[str, list[tuple[float, Estimate]]] = {}
        for result in results:
            job, measured = _row(result).job, measured_figures(_row(result)).get(name)
            predicted = result.predicted.get(name)
            if job is not None and not job.out_of_memory and measured and predicted is not None:
                own = f"{job.tuning.method}, {'one card' if job.n_gpus == 1 else 'several cards'}"
                for group in ("all", own):
                    groups.setdefault(group, []).append((float(measured), predicted))
        if paired := _paired(groups):
            out.append((title, paired))
    return tuple(out)


def _trees(results: Sequence[Evaluated]) -> tuple[tuple[str, tuple[Errors, ...]], ...]:
    """Errors of seconds a boosted tree, by library and kind of device."""
    groups: dict[str, list[tuple[float, Estimate]]] = {}
    for result in results:
        if result.row is None and result.predicted and result.raw.get("score") != "0":
            measured = measured_trees(result.raw).get("seconds_per_tree")
            where = "processor" if str(result.raw.get("device")).startswith("cpu") else "card"
            if measured:
                groups.setdefault(f"{result.raw.get('library')}, {where}", []).append(
                    (measured, result.predicted["seconds_per_tree"])
                )
    paired = _paired(groups)
    return (("seconds a tree", paired),) if paired else ()


def _paired(groups: Mapping[str, Sequence[tuple[float, Estimate]]]) -> tuple[Errors, ...]:
    """Errors of (measured, predicted) by group, of the groups that are large enough."""
    out = []
    for group, pairs in sorted(groups.items()):
        if len(pairs) >= FEWEST_ROWS:
            measured = np.array([pair[0] for pair in pairs])
            parts = ([getattr(p, part) for _, p in pairs] for part in ("low", "value", "high"))
            low, value, high = map(np.array, parts)
            out.append(_errors(group, value, measured, (low <= measured) & (measured <= high)))
    return tuple(out)


def _row(result: Evaluated) -> MeasuredRow:
    if result.row is None:
        raise ValueError("a row with a prediction has been parsed")
    return result.row


def _case(result: Evaluated) -> RowCase:
    if result.case is None:
        raise ValueError("a row with a prediction has a case")
    return result.case


def _work(case: RowCase) -> tuple[float, float]:
    """GFLOP and GiB of activations of a sample, for the naive baselines of speed."""
    infers, profile = case.row.mode == "infer", case.profile
    phases = (profile.forward,) if infers else (profile.forward, profile.backward)
    points = profile.inference_peak if infers else profile.peak
    flops = sum(work.flops_per_sample for phase in phases for work in phase.values())
    return flops / 1e9, max((p.per_sample_bytes for p in points), default=0.0) / GIB


def _traced_gib(result: Evaluated) -> float:
    return allocated_bytes(_case(result).profile, result.batch, "none") / GIB


def _tells_peak(result: Evaluated) -> bool:
    """A batch tuned until the card was full says how large the card is, not what the step needs."""
    return "fill" not in _row(result).notes and _row(result).batch is not None


def _grouped(
    rows: Sequence[Evaluated], judge: Callable[[Sequence[Evaluated]], tuple[T, ...]]
) -> tuple[tuple[str, tuple[T, ...]], ...]:
    groups: dict[str, list[Evaluated]] = {}
    for result in rows:
        groups.setdefault(f"{_row(result).mode}, {_row(result).gpu}", []).append(result)
    large = {name: members for name, members in groups.items() if len(members) >= FEWEST_ROWS}
    return tuple((name, judge(members)) for name, members in sorted(large.items(), key=lambda g: -len(g[1])))


def _errors(method: str, predicted: Floats, measured: Floats, covered: Flags | None = None) -> Errors:
    ratio = predicted / measured
    off = np.abs(ratio - 1.0)
    inside = None if covered is None else float(np.mean(covered))
    median, worst, bias = np.median(off), np.quantile(off, 0.9), np.median(ratio) - 1.0
    return Errors(method, len(off), float(median), float(worst), float(bias), inside)


def _ours(rows: Sequence[Evaluated], name: str, measured: Floats) -> Errors:
    """The errors of this service's own predictions of the figure."""
    estimates = [r.predicted[name] for r in rows]
    value, low, high = (np.array([getattr(e, part) for e in estimates]) for part in ("value", "low", "high"))
    return _errors("this service", value, measured, (low <= measured) & (measured <= high))


def _throughput(rows: Sequence[Evaluated]) -> tuple[Errors, ...]:
    measured = np.array([_row(r).samples_per_s for r in rows], dtype=float)
    seconds = 1.0 / measured
    flops, moved = (np.array(each) for each in zip(*(_work(_case(r)) for r in rows), strict=True))
    one = float(np.median(seconds / np.maximum(flops, 1e-9)))
    two = _relative_fit(np.stack([flops, moved], 1), seconds)
    return (
        _ours(rows, "samples_per_s", measured),
        _errors("FLOPs only, fitted on these rows", 1.0 / np.maximum(one * flops, 1e-12), measured),
        _errors("a x FLOPs + b x activations, fitted on these rows", 1.0 / np.maximum(two, 1e-12), measured),
    )


def _relative_fit(columns: Floats, target: Floats) -> Floats:
    """Least absolute relative error, non-negative in effect for positive columns, by reweighting."""
    scaled = columns / target[:, None]
    weights = np.ones(len(target))
    solution = np.zeros(columns.shape[1])
    for _ in range(50):
        root = np.sqrt(weights)
        solution = np.asarray(np.linalg.lstsq(scaled * root[:, None], root, rcond=None)[0], dtype=np.float64)
        weights = 1.0 / np.maximum(np.abs(scaled @ solution - 1.0), 1e-3)
    return np.asarray(columns @ np.maximum(solution, 0.0))


def _fit(rows: Sequence[Evaluated]) -> tuple[FitErrors, ...]:
    return (
        _hits("this service", [int(r.predicted["max_batch_size"].value) for r in rows], rows),
        _hits("1976 MiB + 1.108 x traced <= memory", [_naive_batch(r) for r in rows], rows),
    )


def _hits(method: str, batches: Sequence[int], rows: Sequence[Evaluated]) -> FitErrors:
    measured = np.array([_row(r).largest for r in rows])
    got = np.array(batches)
    shares = (float(np.mean(each)) for each in (got == measured, got > measured, got < measured))
    return FitErrors(method, len(rows), *shares)


def _naive_batch(result: Evaluated) -> int:
    row = _row(result)
    memory = row.vram_gib or 0.0
    per_sample = _case(result).profile.peak[-1].per_sample_bytes / GIB
    fixed = _traced_gib(result) - result.batch * per_sample
    room = (memory - NAIVE_FIXED_GIB) / NAIVE_SLOPE - fixed
    most = floor(max(room, 0.0) / per_sample)
    return max((b for b in row.ladder or () if b <= most), default=0)


def _peak(rows: Sequence[Evaluated]) -> tuple[Errors, ...]:
    measured = np.array([_row(r).peak_gib for r in rows], dtype=float)
    fake = np.array([_row(r).fake_tensor_gib or _traced_gib(r) for r in rows])
    return (
        _ours(rows, "peak_gib", measured),
        _errors("1976 MiB + 1.108 x fake tensor", NAIVE_FIXED_GIB + NAIVE_SLOPE * fake, measured),
    )


def with_sections(report: str, before: str) -> str:
    """The report, followed by the sections of the page it replaces that other commands wrote: those between
    `<!-- name -->` and `<!-- /name -->`."""
    stored = [found[0] for found in SECTION.finditer(before)]
    return "\n\n".join([report.rstrip(), *stored]) + "\n"


def markdown(named: Iterable[tuple[str, Summary]], observed: int = 0) -> str:
    """`docs/methods/accuracy.md`: a section per evaluated file. observed: rows learned from first."""
    lines = [
        "# Accuracy",
        "",
        "Written by `python -m benchmarks.accuracy FILE... --write docs/methods/accuracy.md`, not by hand.",
        "No GPU was used: each model was traced on tensors without storage, each card is its data sheet with",
        "fitted",
        "efficiencies. Errors are absolute and relative to the measurement; `inside` is the share of",
        "measurements within low..high (target: 80 %). Fitted baselines are fitted on the rows on which they",
        "are scored, which favours them. Constants and cross-validation by model family:",
        "`python -m benchmarks.fit_memory`.",
        "",
    ]
    if observed:
        lines += [f"{observed} rows of another file were learned from first.", ""]
    for name, summary in named:
        lines += [f"## {name}", "", f"{summary.predicted} of {summary.rows} rows predicted.", ""]
        if summary.fit:
            lines += ["### Largest batch that fits", ""]
            lines += table(("mode, card", "method", "rows", "exact", "too large", "too small"), [
                (group, e.method, str(e.n), _percent(e.exact), _percent(e.too_large), _percent(e.too_small))
                for group, entries in summary.fit for e in entries
            ])  # fmt: skip
        for title, groups in (("Throughput", summary.throughput), ("Peak memory", summary.peak)):
            if groups:
                lines += [f"### {title}", ""]
                lines += table(("mode, card", "method", "rows", "median", "p90", "bias", "inside"), [
                    (group, e.method, str(e.n), _percent(e.median), _percent(e.p90),
                     _percent(e.bias, sign=True), "" if e.covered is None else _percent(e.covered))
                    for group, entries in groups for e in entries
                ])  # fmt: skip
        if summary.jobs:
            lines += ["### Training jobs", ""]
            lines += table(("figure", "group", "rows", "median", "p90", "bias", "inside"), [
                (title, e.method, str(e.n), _percent(e.median), _percent(e.p90), _percent(e.bias, sign=True),
                 _percent(e.covered or 0.0))
                for title, entries in summary.jobs for e in entries
            ])  # fmt: skip
        lines += _refusals(summary)
    return "\n".join(lines).rstrip() + "\n"


MOST_UNKNOWN = 30
"""Names of unknown models that are listed one by one, or shown of more."""


def _refusals(summary: Summary) -> list[str]:
    if not summary.refused:
        return []
    reasons: dict[str, list[str]] = {}
    for model, why in summary.refused:
        reasons.setdefault(why.split(";")[0], []).append(model)
    lines = ["### Rows not predicted", ""]
    nameless = [why for why in reasons if why.startswith("Unknown model ")]
    if len(nameless) > MOST_UNKNOWN:
        rows = sum(len(reasons.pop(why)) for why in nameless)
        shown = ", ".join(sorted(why.removeprefix("Unknown model ") for why in nameless)[:MOST_UNKNOWN])
        lines.append(f"- Unknown models ({rows} rows, {len(nameless)} names): {shown} …")
    return [*lines, *(f"- {why} ({len(models)})" for why, models in sorted(reasons.items())), ""]


def _percent(share: float, *, sign: bool = False) -> str:
    return f"{share * 100:+.1f} %" if sign else f"{share * 100:.1f} %"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


if __name__ == "__main__":
    main()
