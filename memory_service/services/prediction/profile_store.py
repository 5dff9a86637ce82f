"""Profiles as they were stored; what is missing is traced once and stored.

A store reads the database (or files), traces what nobody traced yet, and hands the new ones to `keep` in
batches, so that an interrupted evaluation loses little.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from memory_service.domain.cost.profile import Profile
from memory_service.domain.planning.model_catalogue import CatalogueModel, resolve_model
from memory_service.errors import InvalidInput, MemoryServiceError
from memory_service.services.knowledge.profiling import profile_model

BATCH_TO_KEEP = 25


@dataclass(frozen=True, slots=True)
class ProfileKey:
    """What distinguishes two profiles. `input_size` None means the model's own default."""

    model: str
    input_size: int | None
    precision: Literal["fp32", "amp"]
    fused_attention: bool = True
    checkpointing: bool = False


class ProfileStore:
    """Profiles by key; misses are traced. Not for several threads.

    models    the catalogue: names resolve through it first, and it holds the figures of transformers
    known     profiles at hand
    keep      called with new profiles, at most 25 at a time, and once more by `close`
    """

    def __init__(
        self,
        models: Mapping[str, CatalogueModel],
        known: Iterable[Profile] = (),
        keep: Callable[[Sequence[Profile]], None] | None = None,
    ) -> None:
        self._models = models
        self._keep = keep
        self._fresh: list[Profile] = []
        self._refused: dict[ProfileKey, MemoryServiceError] = {}
        self._profiles: dict[ProfileKey, Profile] = {}
        self.traced = 0
        for profile in known:
            self._add(profile)

    def get(self, key: ProfileKey) -> Profile:
        """The profile of a key, traced if need be; InvalidInput when nobody can build or trace it."""
        key = self._resolved(key)
        found = self._profiles.get(key)
        if found is not None:
            return found
        if key in self._refused:
            raise self._refused[key]
        try:
            profile = self._trace(key)
        except MemoryServiceError as error:
            self._refused[key] = error
            raise
        self._add(profile)
        self._profiles[key] = profile
        self._fresh.append(profile)
        self.traced += 1
        if len(self._fresh) >= BATCH_TO_KEEP:
            self.close()
        return profile

    def listed(self, name: str) -> CatalogueModel | None:
        """The catalogue row that a name means; None where it means none."""
        try:
            return resolve_model(name.partition("(")[0].strip(), self._models)
        except InvalidInput:
            return None

    def close(self) -> None:
        """Keep what is not kept yet."""
        if self._keep is not None and self._fresh:
            self._keep(tuple(self._fresh))
        self._fresh = []

    def _add(self, profile: Profile) -> None:
        key = ProfileKey(*(getattr(profile, each.name) for each in fields(ProfileKey)))
        self._profiles.setdefault(key, profile)

    def _resolved(self, key: ProfileKey) -> ProfileKey:
        """The key with the catalogue's name where the catalogue builds the same network, and a stated
        size."""
        name, size = key.model.strip(), key.input_size
        row = self._row(name)
        if row is not None:
            name, size = row.name, size or row.default_input_size
        elif size is None:
            size = _default_size(name)
        return replace(key, model=name, input_size=size)

    def _row(self, name: str) -> CatalogueModel | None:
        """The catalogue row that `name` exactly means; an untagged timm name is its own architecture."""
        if name in self._models:
            return self._models[name]
        from memory_service.measure.vision import is_timm_name

        if is_timm_name(name):
            return None
        try:
            row = resolve_model(name, self._models)
        except InvalidInput:
            return None
        return row if row.can_be_profiled else None

    def _trace(self, key: ProfileKey) -> Profile:
        row = self._models.get(key.model)
        options: dict[str, Any] = (
            {"library": row.library, "config": row.config, "family": row.family} if row is not None else {}
        )
        options |= asdict(key)
        return profile_model(options.pop("model"), **options)


def _default_size(name: str) -> int | None:
    """The pixels a side a timm model was trained with; None leaves it to the builder."""
    from memory_service.measure.vision import default_image_size, timm_name

    current = timm_name(name)
    return default_image_size(current) if current else None
