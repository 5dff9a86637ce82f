"""Profile of a model at a size nobody traced, between two profiled sizes or beyond them, and in fp32.

Activations of a network grow with its positions: pixels, voxels, tokens or columns; those of attention that
is computed in full with their square, too; some not at all. A size left out (seeds/profiles.jsonl.gz) between
two others is met within 0.5 % by nine in ten networks of pictures and 0.2 % of texts, beyond them within 0.3
and 1 %. A larger input never needs less memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from memory_service.domain.cost.profile import OP_CLASSES, PeakPoint, Profile, Work, is_of_cubes

Point = tuple[float, float]
Law = Callable[[float, float], float]

ROOFLINE_KEYS = 4
"""Leading columns of a roofline row that name it; the rest are amounts."""

_PHASES = ("forward", "backward", "forward")
"""Of a row's first column; inference computes as the forward pass does."""

_AMOUNTS = attrgetter(*(f.name for f in fields(Work)))


def interpolate_profile(lower: Profile, upper: Profile, input_size: int) -> Profile:
    """The profile at `input_size` from two profiles of one model (they may be the same one).

    Below them: the smaller one, by the positions. Else each amount by the law through both (`_law`); of one
    alone by the positions, operations of attention by their square. ValueError where the two are not of the
    same model, precision and options.
    """
    if lower.input_size > upper.input_size:
        lower, upper = upper, lower
    for name in ("model", "precision", "input_kind", "checkpointing", "fused_attention"):
        if getattr(lower, name) != getattr(upper, name):
            raise ValueError(f"profiles differ in {name}: {getattr(lower, name)!r}, {getattr(upper, name)!r}")
    for exact in (lower, upper):
        if exact.input_size == input_size:
            return exact
    if input_size < lower.input_size or lower.input_size == upper.input_size:
        nearest = lower if input_size < lower.input_size else upper
        return _grown(nearest, input_size, lower, upper, lambda _less, _more: None)
    law = _law(*(_positions(lower, size) for size in (lower.input_size, upper.input_size, input_size)))
    if input_size < upper.input_size:
        return _mixed(lower, upper, law, input_size)
    grown = _grown(upper, input_size, lower, upper, lambda less, more: max(1.0, law(less, more) / more))
    added = max(0, round(law(lower.params, upper.params)) - upper.params)  # of positions, of columns
    return replace(grown, params=upper.params + added, peak=_points_times(grown.peak, 1.0, 8.0 * added))


def _law(low: float, high: float, at: float) -> Law:
    """What an amount that is `less` at `low` positions and `more` at `high` is at `at` of them: b n + c n^2
    where it grows faster than they do, else a + b n."""

    def law(less: float, more: float) -> float:
        if more * low > less * high:
            return at * (less / low + (more / high - less / low) / (high - low) * (at - low))
        return less + (more - less) * (at - low) / (high - low)

    return law


def extrapolated_from(profile: Profile) -> int | None:
    """The largest size that was traced, where the profile is of a larger one."""
    largest = int(max(profile.extra.get("interpolated_from", (profile.input_size,))))
    return largest if profile.input_size > largest else None


def growth_beyond(profile: Profile) -> float:
    """Its positions against those of the largest size traced; 1 within the sizes."""
    largest = extrapolated_from(profile)
    return _positions(profile, profile.input_size) / _positions(profile, largest) if largest else 1.0


def grown_as(profile: Profile, near: Profile, at: Profile, input_size: int) -> Profile:
    """The profile at `input_size`, grown as the same network in another precision did from `near`, of the
    profile's own size, to `at`, class by class. Of 31 networks traced in fp32 at 1.3 to 4 times the size
    all but DeBERTa and LeViT (10 and 27 % above) have these bytes and operations within 2 %."""
    grown = _grown(profile, input_size, near, at, lambda less, more: more / less)
    sizes = at.extra.get("interpolated_from", (input_size, input_size))
    return replace(grown, extra={**grown.extra, "interpolated_from": list(sizes)})


def _grown(
    profile: Profile,
    input_size: int,
    small: Profile,
    large: Profile,
    grew: Callable[[float, float], float | None],
) -> Profile:
    """The profile with its amounts per sample times what `grew` makes of theirs in two others. Where it says
    None, or one of them has none, they grow with the positions, operations of attention with their square."""
    positions = _positions(profile, input_size) / _positions(profile, profile.input_size)

    def factor(less: float, more: float, power: float = 1.0) -> float:
        return (grew(less, more) if less and more else None) or positions**power

    def memory(peak: str) -> float:
        less, more = (getattr(traced, peak)[-1:] for traced in (small, large))
        return factor(less[0].per_sample_bytes, more[0].per_sample_bytes) if less and more else positions

    def factors(phase: str, name: str) -> tuple[float, float]:
        less, more = (getattr(traced, phase).get(name, Work()) for traced in (small, large))
        return (
            factor(less.flops_per_sample, more.flops_per_sample, 2.0 if name == "attention" else 1.0),
            factor(less.bytes_per_sample, more.bytes_per_sample),
        )

    def works(phase: str) -> dict[str, Work]:
        known: Mapping[str, Work] = getattr(profile, phase)
        return {name: _work_times(work, *factors(phase, name)) for name, work in known.items()}

    live, inference = memory("peak"), memory("inference_peak")
    extra = {**profile.extra, "interpolated_from": [small.input_size, large.input_size]}
    if "peak_gradients_kept" in extra:
        extra["peak_gradients_kept"] = [[p.fixed_bytes, p.per_sample_bytes * live] for p in _kept(profile)]
    extra["largest_conv_bytes"] = {name: value * positions for name, value in _convs(profile).items()}
    if "roofline" in extra:
        extra["roofline"] = [
            _row_times(row, *factors(_PHASES[row[0]], OP_CLASSES[row[1]]), 1.0, 1.0, 1.0)
            for row in profile.extra["roofline"]
        ]
    return replace(
        profile,
        input_size=input_size,
        peak=_points_times(profile.peak, live),
        inference_peak=_points_times(profile.inference_peak, inference),
        forward=works("forward"),
        backward=works("backward"),
        largest_activation_bytes_per_sample=profile.largest_activation_bytes_per_sample * live,
        extra=extra,
    )


def envelope(points: Sequence[Point]) -> tuple[PeakPoint, ...]:
    """The lines (fixed, per sample) that are highest for some batch of at least one."""
    hull: list[Point] = []
    for fixed, slope in sorted(set(points), key=lambda point: (point[1], point[0])):
        while hull and fixed + slope >= hull[-1][0] + hull[-1][1]:
            hull.pop()
        while len(hull) > 1 and _crossing(hull[-2], (fixed, slope)) <= _crossing(hull[-2], hull[-1]):
            hull.pop()
        hull.append((fixed, slope))
    return tuple(PeakPoint(float(fixed), float(slope)) for fixed, slope in hull)


def _crossing(flat: Point, steep: Point) -> float:
    """The batch from which `steep` is above `flat`."""
    return (flat[0] - steep[0]) / (steep[1] - flat[1])


def _positions(profile: Profile, size: int) -> float:
    sides = 3 if is_of_cubes(profile) else 2
    return float(size**sides if profile.input_kind == "image_size" else size)


def _mixed(lower: Profile, upper: Profile, law: Law, input_size: int) -> Profile:
    def peaks(low: Sequence[PeakPoint], high: Sequence[PeakPoint]) -> tuple[PeakPoint, ...]:
        pairs = [
            (law(a.fixed_bytes, b.fixed_bytes), law(a.per_sample_bytes, b.per_sample_bytes))
            for a in low
            for b in high
        ]
        own = ((point.fixed_bytes, point.per_sample_bytes) for point in low)
        return envelope([*pairs, *own]) if pairs else ()

    def work(low: Work, high: Work) -> Work:
        flops, moved, flops_fixed, moved_fixed, kernels = map(law, _AMOUNTS(low), _AMOUNTS(high))
        return Work(flops, moved, flops_fixed, moved_fixed, round(kernels))

    def works(low: Mapping[str, Work], high: Mapping[str, Work]) -> dict[str, Work]:
        return {name: work(low.get(name, Work()), high.get(name, Work())) for name in {**low, **high}}

    kept = peaks(_kept(lower), _kept(upper))
    extra = {**upper.extra, "interpolated_from": [lower.input_size, upper.input_size]}
    if kept:
        extra["peak_gradients_kept"] = [[p.fixed_bytes, p.per_sample_bytes] for p in kept]
    extra["largest_conv_bytes"] = {
        name: law(_convs(lower).get(name, 0.0), value) for name, value in _convs(upper).items()
    }
    if "roofline" in lower.extra and "roofline" in upper.extra:
        low, high, at = (_positions(lower, size) for size in (lower.input_size, upper.input_size, input_size))
        weight = (at - low) / (high - low)
        extra["roofline"] = [
            *_rows_times(lower.extra["roofline"], *[1.0 - weight] * 5),
            *_rows_times(upper.extra["roofline"], *[weight] * 5),
        ]
    return replace(
        upper,
        input_size=input_size,
        peak=peaks(lower.peak, upper.peak),
        inference_peak=peaks(lower.inference_peak, upper.inference_peak),
        forward=works(lower.forward, upper.forward),
        backward=works(lower.backward, upper.backward),
        params=round(law(lower.params, upper.params)),
        buffers_bytes=round(law(lower.buffers_bytes, upper.buffers_bytes)),
        largest_activation_bytes_per_sample=law(
            lower.largest_activation_bytes_per_sample, upper.largest_activation_bytes_per_sample
        ),
        extra=extra,
    )


def fp32_bound(amp: Profile) -> Profile:
    """An fp32 profile that needs no less than the real one.

    Mixed precision keeps activations in 2 bytes or 4, fp32 always in 4: at most twice the bytes per sample,
    live and moved. Weights, gradients and their half-precision copies are already in the fixed part.
    `extra["bounded_from"]` says where it comes from.
    """
    extra = {**amp.extra, "bounded_from": "amp"}
    if "roofline" in extra:
        extra["roofline"] = _rows_times(extra["roofline"], 1.0, 2.0, 1.0, 2.0, 1.0)
    forward, backward = (
        {name: _work_times(work, 1.0, 2.0, moved_fixed=2.0) for name, work in phase.items()}
        for phase in (amp.forward, amp.backward)
    )
    return replace(
        amp,
        precision="fp32",
        peak=_points_times(amp.peak, 2.0),
        inference_peak=_points_times(amp.inference_peak, 2.0),
        forward=forward,
        backward=backward,
        largest_activation_bytes_per_sample=2.0 * amp.largest_activation_bytes_per_sample,
        extra=extra,
    )


def _points_times(points: Sequence[PeakPoint], memory: float, fixed: float = 0.0) -> tuple[PeakPoint, ...]:
    return tuple(PeakPoint(p.fixed_bytes + fixed, p.per_sample_bytes * memory) for p in points)


def _work_times(work: Work, flops: float, moved: float, moved_fixed: float = 1.0) -> Work:
    return replace(
        work, flops_per_sample=work.flops_per_sample * flops,
        bytes_per_sample=work.bytes_per_sample * moved, bytes_fixed=work.bytes_fixed * moved_fixed,
    )  # fmt: skip


def _kept(profile: Profile) -> tuple[PeakPoint, ...]:
    return tuple(PeakPoint(fixed, slope) for fixed, slope in profile.extra.get("peak_gradients_kept", ()))


def _convs(profile: Profile) -> Mapping[str, float]:
    found: Mapping[str, float] = profile.extra.get("largest_conv_bytes") or {}
    return found


def _rows_times(rows: Sequence[Sequence[Any]], *factors: float) -> list[list[Any]]:
    return [_row_times(row, *factors) for row in rows]


def _row_times(row: Sequence[Any], *factors: float) -> list[Any]:
    """A roofline row whose amounts (flops and bytes per sample, the fixed ones, kernels) are multiplied."""
    amounts = zip(row[ROOFLINE_KEYS:], factors, strict=True)
    return [*row[:ROOFLINE_KEYS], *(amount * factor for amount, factor in amounts)]
