"""The cost of a model per sample, traced on demand or for the whole catalogue.

profile_model("efficientnet_b4", input_size=380, precision="amp")          one Profile, about a second
profile_catalogue(rows, path, on_progress)                                 fills seeds/profiles.jsonl.gz
"""

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

from memory_service.child_processes import TooCostly, Workers
from memory_service.domain.cost.profile import Profile
from memory_service.domain.planning.model_catalogue import CatalogueModel, resolve_model
from memory_service.errors import InvalidInput, MemoryServiceError, wrong_value
from memory_service.resources import NEEDS_TORCH, has_torch
from memory_service.services.knowledge.asker import ASKER

Made = TypeVar("Made")
TraceClass = Literal["fp32", "amp"]
ProfileKey = tuple[str, int, str, bool, bool, bool]


def _asker() -> str:
    return ASKER.get() or ""


TRACING = Workers("tracing a model", processes=2, waiting=4, seconds=90.0, mib=6_144, caller=_asker)
"""The slowest of timm's take 12 s of a core to themselves, and the libraries as long to be imported. A caller
has one trace at a time, and so have all without a key: the second process begins when somebody else asks."""

SOURCE = "traced on the meta device by measure/trace.py"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One profile to be made: a catalogue row and its figures at one input size and precision class."""

    model: str
    input_size: int
    precision: TraceClass
    library: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    n_outputs: int | None = None
    family: str = ""


@dataclass(frozen=True, slots=True)
class CatalogueReport:
    """What a run over the catalogue did; `failed` maps "model @ size" to the reason it was passed over."""

    made: int
    kept: int
    failed: Mapping[str, str]


def profile_model(
    name: str,
    *,
    input_size: int | None = None,
    precision: TraceClass = "amp",
    checkpointing: bool = False,
    fused_attention: bool = True,
    channels_last: bool = True,
    library: str | None = None,
    config: Mapping[str, Any] | None = None,
    n_outputs: int | None = None,
    family: str = "",
) -> Profile:
    """One traced profile under the name asked for.

    Raises InvalidInput for an unknown model, an impossible size, or a trace that fails, with the cause.
    """
    from memory_service.measure.build_model import build_model
    from memory_service.measure.trace import trace_profile

    try:
        built = build_model(
            name, input_size=input_size, n_outputs=n_outputs, library=library, config=config, family=family
        )
        profile = trace_profile(
            built,
            precision=precision,
            fused_attention=fused_attention,
            checkpointing=checkpointing,
            channels_last=channels_last,
        )
    except MemoryServiceError:
        raise
    except Exception as error:  # a model's own code may fail in any way
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        detail = f"{name!r} at input size {input_size or 'default'} cannot be traced: {reason}"
        raise wrong_value("model", "cannot be traced", name, detail=detail) from error
    return Profile.from_dict({**profile.as_dict(), "model": name})


def profile_in_child_process(name: str, **options: Any) -> Profile:
    """The same in a child process: for whoever asks a server. InvalidInput too where it takes too long."""
    return _in_child_process(name, profile_model, name, **options)


def require_tracing(name: str, unknown: InvalidInput | None = None) -> None:
    """InvalidInput where this installation traces nothing, with what was refused before."""
    if not has_torch():
        before = unknown.detail if unknown else f"{name!r} has no shipped profile of this size and kind"
        nearest = unknown.errors[0].nearest if unknown and unknown.errors else ()
        detail = f"{before}; tracing another one {NEEDS_TORCH}"
        raise wrong_value(
            "model", f"cannot be traced here: it {NEEDS_TORCH}", name, detail=detail, nearest=nearest
        )


def may_be_built(name: str) -> bool:
    """Whether timm, torchvision or `measure.vision` have the name, or had it once: to import them in a child
    process and ask takes many seconds."""
    return name.strip().lower().rpartition("/")[2].replace("-", "_").partition(".")[0] in _registered_names()


@cache
def _registered_names() -> frozenset[str]:
    """Read from the sources, in 0.15 s of a core."""
    specs = (find_spec(package) for package in ("timm", "torchvision", "memory_service"))
    roots = [Path(spec.origin).parent for spec in specs if spec and spec.origin]
    sources = (path for root in roots for each in _SOURCES for path in root.glob(each))
    found = (_REGISTERED.findall(path.read_text(encoding="utf-8")) for path in sources)
    return frozenset((one or other).replace("-", "_") for pairs in found for one, other in pairs)


_SOURCES = ("models/**/*.py", "measure/vision.py")
_REGISTERED = re.compile(
    r"^@register_model.*\n(?:@.*\n)*def (\w+)|^    [\"']([\w-]+)[\"']: [\"'(]", re.MULTILINE
)


def unlisted_row_in_child_process(name: str, models: Mapping[str, CatalogueModel]) -> CatalogueModel:
    """`measure.build_model.unlisted_row` in a child process."""
    return _in_child_process(name, _unlisted_row, name, dict(models))


def _unlisted_row(name: str, models: Mapping[str, CatalogueModel]) -> CatalogueModel:
    from memory_service.measure.build_model import unlisted_row

    return unlisted_row(name, models)


def _in_child_process(name: str, function: Callable[..., Made], *args: Any, **options: Any) -> Made:
    require_tracing(name)
    try:
        return TRACING.run(function, *args, **options)
    except TooCostly as error:
        message = f"{error}: `memory-service profile` traces it without limits"
        detail = f"{name!r} cannot be traced here: {message}"
        raise wrong_value("model", message, name, detail=detail) from None


def wanted_profiles(models: Iterable[CatalogueModel]) -> list[Wanted]:
    """What the catalogue needs, most wanted first: autocast at default sizes, at other usual ones, then fp32.

    fp32 (for the CPU and cards without tensor cores) is traced at the smallest and the default size, of texts
    at longer ones, too; sizes between are interpolated, larger ones grow as autocast's. Decoders with methods
    are priced by formula; networks that other packages build are traced by `benchmarks.packaged_profiles`.
    """
    rows = [m for m in models if m.can_be_profiled and not m.config.keys() & {"methods", "traced_with"}]
    default = [(model, model.default_input_size) for model in rows]
    other = [(m, size) for m in rows for size in sorted({*m.input_sizes} - {m.default_input_size})]
    smallest = [(m, min(m.input_sizes)) for m in rows if min(m.input_sizes) < m.default_input_size]
    longer = [(m, n) for m, n in other if m.library == "transformers" and n > m.default_input_size]
    plan: list[tuple[CatalogueModel, int, TraceClass]] = []
    plan += [(model, size, "amp") for model, size in (*default, *other)]
    plan += [(model, size, "fp32") for model, size in (*default, *smallest, *longer)]
    return [Wanted(m.name, size, kind, m.library, m.config, family=m.family) for m, size, kind in plan]


def profile_catalogue(
    wanted: Iterable[Wanted], path: Path, on_progress: Callable[[Wanted, str | None], None] | None = None
) -> CatalogueReport:
    """Make what `path` lacks; a model that fails is reported and passed over. Called again, it resumes.

    While it runs, finished profiles wait beside `path` in a `.part` file; at the end both become one sorted
    file. on_progress(job, None | reason) is called after each.
    """
    part = path.with_name(path.name + ".part")
    have = {_key(raw): raw for source in (path, part) if source.exists() for raw in _read_raw(source)}
    report = on_progress or (lambda _job, _why: None)
    made = stored = 0
    failed: dict[str, str] = {}
    with part.open("a", encoding="utf-8") as out:
        for job in wanted:
            if (job.model, job.input_size, job.precision, True, False, True) in have:
                stored += 1
                report(job, None)
                continue
            try:
                profile = profile_model(
                    job.model, input_size=job.input_size, precision=job.precision, library=job.library,
                    config=job.config, n_outputs=job.n_outputs, family=job.family,
                )  # fmt: skip
            except MemoryServiceError as error:
                failed[f"{job.model} @ {job.input_size}"] = error.detail
                report(job, error.detail)
                continue
            raw = {**profile.as_dict(), "source": SOURCE, "grade": "estimated"}
            have[_key(raw)] = raw
            out.write(json.dumps(raw, separators=(",", ":")) + "\n")
            out.flush()
            made += 1
            report(job, None)
    write_profiles(have.values(), path)
    part.unlink()
    return CatalogueReport(made, stored, failed)


def read_profiles(path: Path) -> Iterator[Profile]:
    """The profiles of a `.jsonl` or `.jsonl.gz` file, in its order."""
    for raw in _read_raw(path):
        yield Profile.from_dict({k: v for k, v in raw.items() if k not in ("source", "grade")})


def write_profiles(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write raw profile rows sorted by key, the same bytes for the same rows, replacing `path` at once."""
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as raw_file, gzip.GzipFile("", "wb", 9, raw_file, mtime=0) as packed:
        for row in sorted(rows, key=_key):
            packed.write((json.dumps(_short(row), separators=(",", ":")) + "\n").encode())
    beside.replace(path)


def _read_raw(path: Path) -> Iterator[dict[str, Any]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):  # an interrupted run may leave half a line
                yield json.loads(line)


def _key(raw: Mapping[str, Any]) -> ProfileKey:
    return (
        raw["model"],
        int(raw["input_size"]),
        raw["precision"],
        bool(raw.get("fused_attention", True)),
        bool(raw.get("checkpointing", False)),
        bool(raw.get("channels_last", True)),
    )


def _short(value: Any) -> Any:
    """Whole numbers without their `.0`: a third of the file."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_short(item) for item in value]
    return value


def catalogue_models(seeds_dir: Path) -> list[CatalogueModel]:
    """The rows of `models.jsonl` in a seeds folder."""
    with (seeds_dir / "models.jsonl").open(encoding="utf-8") as lines:
        return [CatalogueModel.from_dict(json.loads(line)) for line in lines if line.strip()]


def catalogue_row(name: str, seeds_dir: Path) -> CatalogueModel | None:
    """The catalogue row a name means, or None where only the model's library may know it."""
    try:
        return resolve_model(name, {row.name: row for row in catalogue_models(seeds_dir)})
    except InvalidInput:
        return None
