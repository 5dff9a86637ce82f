"""Many profiles as arrays: their peaks and their groups of kernels, one profile after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.cost.memory import optimizer_bytes, step_bytes, training_points, workspace_bytes
from memory_service.domain.cost.profile import PeakPoint, Profile
from memory_service.domain.cost.roofline import Floats, Roofline, roofline_of
from memory_service.domain.cost.step_config import (
    StepMode,
    is_convolutional,
    is_over_volumes,
    tensor_core_layout,
)

Integers = NDArray[np.intp]
Kind = TypeVar("Kind", bound=np.generic)

LAYOUTS = ("nhwc", "nchw")


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Consecutive stretches of one long array, one for each of n owners; none is empty.

    starts, lengths   shape (n,)
    """

    starts: Integers
    lengths: Integers

    @classmethod
    def of(cls, lengths: Sequence[int]) -> Runs:
        return cls(np.array([0, *accumulate(lengths)][:-1], dtype=np.intp), np.array(lengths, dtype=np.intp))

    def repeated(self, values: NDArray[Kind]) -> NDArray[Kind]:
        """The value of each owner at each of its entries."""
        return np.repeat(values, self.lengths)

    def places(self, owners: Integers) -> Integers:
        """Entries of these owners, in their order."""
        lengths = self.lengths[owners]
        ends = np.cumsum(lengths)
        return np.asarray(
            np.repeat(self.starts[owners] - (ends - lengths), lengths) + np.arange(lengths.sum())
        )


@dataclass(frozen=True, slots=True, eq=False)
class ProfileStack:
    """Profiles, each trained with its optimizer, as arrays over profiles (n), peaks and groups of kernels.

    profiles          as given; optimizers: their names
    convolutional     of each profile: whether the layout means anything to it
    tensor_core_layout   place in LAYOUTS of each profile's layout on tensor cores, shape (n,)
    points            peaks of each profile: live bytes = point_fixed + batch x point_slope
    volumes           whether each profile's convolutions are over volumes or clips, shape (n,)
    params, parameter_tensors, step_bytes, optimizer_bytes, workspace_bytes   shape (n,); the last per sample,
                      by class of precision; "holes": see `Profile.holes_bytes`
    groups, of_group  by mode of the step: groups of kernels, and which are each profile's
    keys              names of its predictions (`learning.baseline_prediction.prediction_keys`)
    """

    profiles: tuple[Profile, ...]
    optimizers: tuple[str, ...]
    convolutional: tuple[bool, ...]
    tensor_core_layout: Integers
    volumes: NDArray[np.bool_]
    points: Runs
    point_fixed: Floats
    point_slope: Floats
    params: Floats
    parameter_tensors: Floats
    step_bytes: Floats
    optimizer_bytes: Floats
    workspace_bytes: Mapping[str, Floats]
    groups: Mapping[StepMode, Roofline]
    of_group: Mapping[StepMode, Runs]
    keys: dict[Any, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.profiles)

    @property
    def nbytes(self) -> int:
        return sum(getattr(g, f.name).nbytes for g in self.groups.values() for f in fields(Roofline))

    def taken(self, rows: Integers) -> ProfileStack:
        """These profiles alone."""
        points = self.points.places(rows)
        groups: dict[StepMode, Roofline] = {}
        of_group: dict[StepMode, Runs] = {}
        for mode, runs in self.of_group.items():
            places = runs.places(rows)
            groups[mode] = Roofline(*(getattr(self.groups[mode], f.name)[places] for f in fields(Roofline)))
            of_group[mode] = Runs.of(runs.lengths[rows].tolist())
        return ProfileStack(
            tuple(self.profiles[row] for row in rows),
            tuple(self.optimizers[row] for row in rows),
            tuple(self.convolutional[row] for row in rows),
            self.tensor_core_layout[rows],
            self.volumes[rows],
            Runs.of(self.points.lengths[rows].tolist()),
            self.point_fixed[points],
            self.point_slope[points],
            self.params[rows],
            self.parameter_tensors[rows],
            self.step_bytes[rows],
            self.optimizer_bytes[rows],
            {kind: values[rows] for kind, values in self.workspace_bytes.items()},
            groups,
            of_group,
        )


def stack_of(
    profiles: Sequence[Profile], optimizers: Sequence[str], modes: Sequence[StepMode] = ("train", "infer")
) -> ProfileStack:
    """The stack of at least one profile. optimizers: of each profile; modes: of the steps asked about."""
    points = [training_points(profile, False) or (PeakPoint(0.0, 0.0),) for profile in profiles]
    each = [point for some in points for point in some]
    groups: dict[StepMode, Roofline] = {}
    of_group: dict[StepMode, Runs] = {}
    for mode in modes:
        rooflines = [roofline_of(profile, mode) for profile in profiles]
        groups[mode] = Roofline(
            *(np.concatenate([getattr(r, f.name) for r in rooflines]) for f in fields(Roofline))
        )
        of_group[mode] = Runs.of([len(r.kind) for r in rooflines])

    def numbers(values: Sequence[float]) -> Floats:
        return np.array(values, dtype=np.float64)

    trained = list(zip(profiles, optimizers, strict=True))
    return ProfileStack(
        tuple(profiles),
        tuple(optimizers),
        tuple(is_convolutional(profile) for profile in profiles),
        np.array([LAYOUTS.index(tensor_core_layout(profile)) for profile in profiles], dtype=np.intp),
        np.array([is_over_volumes(profile) for profile in profiles]),
        Runs.of([len(some) for some in points]),
        numbers([point.fixed_bytes for point in each]),
        numbers([point.per_sample_bytes for point in each]),
        numbers([profile.params for profile in profiles]),
        numbers([float(profile.extra.get("parameter_tensors", 0)) for profile in profiles]),
        numbers([step_bytes(profile, optimizer) for profile, optimizer in trained]),
        numbers([optimizer_bytes(profile.params, optimizer) for profile, optimizer in trained]),
        {kind: numbers([workspace_bytes(p, 1, kind) for p in profiles]) for kind in ("fp32", "amp")}
        | {"holes": numbers([profile.holes_bytes for profile in profiles])},
        groups,
        of_group,
    )
