"""The profiles of models' architectures: as stored, between two sizes and beyond them, and in fp32 at least a
bound."""

from __future__ import annotations

import threading
from bisect import bisect
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from cachetools import LRUCache

from memory_service.domain.cost.interpolation import fp32_bound, grown_as, interpolate_profile
from memory_service.domain.cost.profile import Profile
from memory_service.domain.planning.model_catalogue import CatalogueModel, architecture_of

ProfileKey = tuple[str, int, str]

MOST_INTERPOLATED = 2_048

APART = 0.8
"""A size at most so large beside the largest one tells how a network grows beyond it: 380 px beside 384 are
less apart than what strides round away."""

_KINDS: tuple[Literal["amp", "fp32"], ...] = ("amp", "fp32")


class ProfileLibrary:
    """Profiles by architecture, input size and class of precision (safe to share between threads).

    profiles        (architecture, input size, "amp" | "fp32") -> profile without checkpointing; weights of
                    one architecture cost the same, so they share it
    checkpointed    the same with gradient checkpointing, where it was traced
    sizes           architecture -> the input sizes that were profiled, ascending
    traces          as traced for runs, (…, with checkpointing): looked up exactly, where nothing above is
                    known; no option and no other size is priced by them
    """

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self.profiles: dict[ProfileKey, Profile] = {}
        self.checkpointed: dict[ProfileKey, Profile] = {}
        self.sizes: dict[str, list[int]] = {}
        self.traces: dict[tuple[str, int, str, bool], Profile] = {}
        for profile in profiles:
            self.add(profile)
        self._stored = frozenset((*self.profiles, *self.checkpointed))
        self._lock = threading.Lock()
        self._interpolated: LRUCache[tuple[int, ...], tuple[tuple[Profile, ...], Profile]] = LRUCache(
            MOST_INTERPOLATED
        )
        self._bounds: dict[tuple[str, int], tuple[Profile, Profile]] = {}

    def without_traces(self, architectures: Container[str]) -> ProfileLibrary:
        """The same but for what was added since of these architectures."""
        new = ProfileLibrary(())
        new._stored, new._bounds = self._stored, self._bounds
        new._lock, new._interpolated, new.traces = self._lock, self._interpolated, self.traces
        for old, now in ((self.profiles, new.profiles), (self.checkpointed, new.checkpointed)):
            now.update((k, v) for k, v in old.items() if k in self._stored or k[0] not in architectures)
        kept = {name for name, *_ in (*new.profiles, *new.checkpointed)}
        new.sizes = {name: list(sizes) for name, sizes in self.sizes.items() if name in kept}
        return new

    def add(self, profile: Profile) -> None:
        stored = self.checkpointed if profile.checkpointing else self.profiles
        key = (architecture_of(profile.model, profile.library), profile.input_size, profile.precision)
        if key not in stored or (profile.channels_last and profile.fused_attention):
            stored[key] = replace(profile, model=key[0])
        sizes = self.sizes.setdefault(key[0], [])
        if not profile.checkpointing and profile.input_size not in sizes:
            sizes.append(profile.input_size)
            sizes.sort()

    def add_trace(self, profile: Profile) -> None:
        name = architecture_of(profile.model, profile.library)
        key = (name, profile.input_size, profile.precision, profile.checkpointing)
        self.traces[key] = replace(profile, model=name)

    def sizes_of(self, model: CatalogueModel) -> Sequence[int]:
        """The input sizes that were profiled for the model's architecture, ascending; empty for none."""
        return self.sizes.get(model.architecture, ())

    def between(self, name: str, size: int, kind: str, *, checkpointing: bool = False) -> Profile | None:
        """The profile of an architecture: known, or between two known sizes, or traced for a run; None where
        there is none of these."""
        stored = self.checkpointed if checkpointing else self.profiles
        exact = stored.get((name, size, kind))
        if exact is not None:
            return exact
        sizes = [s for s in self.sizes.get(name, ()) if (name, s, kind) in stored]
        lower, upper = [s for s in sizes if s < size], [s for s in sizes if s > size]
        if not lower or not upper:
            return self.traces.get((name, size, kind, checkpointing))
        return interpolate_profile(stored[name, max(lower), kind], stored[name, min(upper), kind], size)

    def plain(self, model: CatalogueModel, size: int, kind: str) -> Profile | None:
        """Of a model that was profiled, without checkpointing: known, between or beyond its sizes; in fp32 at
        least a bound."""
        found = self._found(self.profiles, model, size, kind)
        if found is None and kind == "fp32":
            amp = self._found(self.profiles, model, size, "amp")
            return self._bound(amp) if amp is not None else None
        return found

    def of_option(self, model: CatalogueModel, size: int) -> tuple[dict[str, Profile], dict[str, Profile]]:
        """Class of precision -> the model's profile: without checkpointing, and with it."""
        plain = {kind: self.plain(model, size, kind) for kind in _KINDS}
        saving = {kind: self._found(self.checkpointed, model, size, kind) for kind in _KINDS}
        return {k: p for k, p in plain.items() if p}, {k: p for k, p in saving.items() if p}

    def _bound(self, amp: Profile) -> Profile:
        """The fp32 bound of a profile, one object for all weights of an architecture."""
        key = (amp.model, amp.input_size)
        if key not in self._bounds or self._bounds[key][0] is not amp:
            self._bounds[key] = (amp, fp32_bound(amp))
        return self._bounds[key][1]

    def _found(
        self, stored: Mapping[ProfileKey, Profile], model: CatalogueModel, size: int, kind: str
    ) -> Profile | None:
        name = model.architecture
        exact = stored.get((name, size, kind))
        if exact is not None:
            return exact
        sizes = [s for s in self.sizes.get(name, ()) if (name, s, kind) in stored]
        if not sizes:
            return None
        at = bisect(sizes, size)
        below = sizes[:at] if at < len(sizes) else [s for s in sizes if s <= APART * sizes[-1]]
        upper = stored[name, sizes[min(at, len(sizes) - 1)], kind]
        lower = stored[name, below[-1], kind] if below else upper
        if kind == "fp32" and not sizes[0] < size < sizes[-1]:  # amp is known at more sizes
            nearest = upper if size > sizes[-1] else lower
            near = stored.get((name, nearest.input_size, "amp"))
            at_size = self._found(stored, model, size, "amp")
            if near is not None and at_size is not None:
                return self._made((nearest, near, at_size), size, grown_as)
        return self._made((lower, upper), size, interpolate_profile)

    def _made(self, known: tuple[Profile, ...], size: int, make: Callable[..., Profile]) -> Profile:
        """What `make` makes of the known profiles for a size: one object for as long as they are the same."""
        ends = (*map(id, known), size)
        with self._lock:
            kept = self._interpolated.get(ends)
        if kept is None or any(old is not now for old, now in zip(kept[0], known, strict=True)):
            kept = (known, make(*known, size))
            with self._lock:
                self._interpolated[ends] = kept
        return kept[1]
