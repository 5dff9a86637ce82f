"""Counts live bytes and work over one step on tensors without storage.

Every storage whose size is a multiple of the (large, prime) batch belongs to the samples; all else is fixed.
"""

import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from memory_service.domain.cost.profile import Work
from memory_service.measure.operator_work import cost_of, moves_nothing
from memory_service.measure.roofline import RooflineTally

ALIGNMENT = 512
"""CUDA's caching allocator hands out multiples of 512 bytes."""


class Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Live bytes over time as (fixed, per sample), and work per operation class of each phase."""

    def __init__(self, batch: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.batch = batch
        self.phase = "forward"
        self.roofline = RooflineTally(batch)
        self.moments: list[tuple[int, int, int]] = []
        self.convs: dict[str, float] = {}
        """Class of convolution -> most bytes per sample of one call, read and written."""
        self.largest_per_sample = 0
        self._live: dict[int, tuple[weakref.ref[Any], int, int]] = {}
        self._gradients: dict[int, int] = {}
        self._fixed = self._per_sample = self._gradient = 0
        self._work: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0] * 5))

    def hold(self, tensors: Iterator[Tensor]) -> None:
        """Count tensors that exist before the step: parameters, buffers, inputs."""
        for tensor in tensors:
            self._allocate(tensor)
        self._mark()

    def mark_gradient(self, gradient: Tensor) -> None:
        """This storage is a parameter's gradient."""
        key = gradient.untyped_storage()._cdata
        entry = self._live.get(key)
        if entry is not None and key not in self._gradients:
            self._gradients[key] = entry[1]
            self._gradient += entry[1]

    def works(self, phase: str) -> dict[str, Work]:
        """Work per operation class of "forward" or "backward"."""
        return {
            name: Work(flops, moved, flops_fixed, moved_fixed, int(kernels))
            for name, (flops, moved, flops_fixed, moved_fixed, kernels) in sorted(self._work[phase].items())
        }

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        results = list(_tensors(out))
        before = len(self._live)
        for tensor in results:
            self._allocate(tensor)
        if len(self._live) != before:
            self._mark()
        if not moves_nothing(func):
            self._account(func, args, kwargs, out, results)
        return out

    def _allocate(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._live:
            return
        size = storage.nbytes()
        fixed, per_sample = self._split(size)
        fixed = -(-fixed // ALIGNMENT) * ALIGNMENT
        self._live[key] = (weakref.ref(storage, partial(self._free, key)), fixed, per_sample)
        self._fixed += fixed
        self._per_sample += per_sample
        self.largest_per_sample = max(self.largest_per_sample, per_sample)

    def _free(self, key: int, _: object = None) -> None:
        _, fixed, per_sample = self._live.pop(key)
        self._fixed -= fixed
        self._per_sample -= per_sample
        self._gradient -= self._gradients.pop(key, 0)

    def _mark(self) -> None:
        self.moments.append((self._fixed, self._per_sample, self._gradient))

    def _split(self, amount: int) -> tuple[int, int]:
        """(fixed, per sample): a multiple of the prime batch can only come from the batch."""
        return (0, amount // self.batch) if amount % self.batch == 0 else (amount, 0)

    def _account(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any, results: list[Tensor]
    ) -> None:
        inputs = [*_tensors(args), *_tensors(tuple(kwargs.values()))]
        self.roofline.account(self.phase, func, args, inputs, results)
        name, flops, kernels = cost_of(func, args, out)
        work = self._work[self.phase][name]
        fixed, per_sample = self._split(flops)
        work[0] += per_sample
        work[2] += fixed
        work[4] += kernels
        for tensor in (*inputs, *results):
            storage_bytes = tensor.untyped_storage().nbytes()
            fixed, per_sample = self._split(min(tensor.numel() * tensor.element_size(), storage_bytes))
            work[1] += per_sample
            work[3] += fixed
        if name.endswith("_conv") and self.phase == "forward":
            both = (inputs[0].nbytes + results[0].nbytes) / self.batch
            self.convs[name] = max(both, self.convs.get(name, 0.0))


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
