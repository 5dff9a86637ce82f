"""What torch's caching allocator reserves of a traced step: blocks are cut from segments, joined when freed.

The rules are those of c10/cuda/CUDACachingAllocator.cpp: multiples of 512 bytes, best fit, small blocks from
segments of 2 MiB, those under 10 MiB from 20 MiB, larger ones from their own; what is left over is kept.
Simulated for batch 1: 1.06 to 1.12 times what is live for convolutions, up to 1.45 for maps of attention of
a GB each. With the context of a process that gives what six runs of YOLO report within 10 %
(ultralytics/ultralytics issue 17488: YOLOv5, YOLO11 at 2736 and 4104 pixels).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from memory_service.measure.live_memory import ALIGNMENT, Ledger

MIB = 2**20
COPYING = frozenset({"aten::_softmax", "aten::_softmax_backward_data"})
"""Kernels of CUDA that copy an input, or the gradient, that is not contiguous: that of `v @ attention.T`."""

USUAL = 1.1
"""reserved / live that the constants of `domain.cost.memory` stand for."""


@dataclass(eq=False)
class Block:
    size: int
    small: bool
    before: Block | None = None
    after: Block | None = None
    free: bool = False


class CachingAllocator:
    """Bytes that are live, were live at most, and are reserved."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.live = self.peak = self.reserved = 0

    def take(self, size: int) -> Block:
        size = -(-size // ALIGNMENT) * ALIGNMENT
        small = size <= MIB
        fitting = (b for b in self.blocks if b.free and b.small is small and b.size >= size)
        block = min(fitting, key=lambda b: b.size, default=None)
        if block is None:
            own = -(-size // (2 * MIB)) * 2 * MIB
            block = Block(2 * MIB if small else 20 * MIB if size < 10 * MIB else own, small)
            self.blocks.append(block)
            self.reserved += block.size
        block.free, left = False, block.size - size
        if left >= (ALIGNMENT if small else MIB + 1):
            rest = Block(left, small, block, block.after, free=True)
            if block.after is not None:
                block.after.before = rest
            block.after, block.size = rest, size
            self.blocks.append(rest)
        self.live += block.size
        self.peak = max(self.peak, self.live)
        return block

    def give(self, block: Block) -> None:
        self.live -= block.size
        block.free = True
        if block.before is not None and block.before.free:
            block = self._joined(block.before, block)
        if block.after is not None and block.after.free:
            self._joined(block, block.after)

    def _joined(self, first: Block, second: Block) -> Block:
        first.size, first.after = first.size + second.size, second.after
        if second.after is not None:
            second.after.before = first
        self.blocks.remove(second)
        return first


@contextmanager
def simulated() -> Iterator[CachingAllocator]:
    """The allocator of every step that is traced inside, for one sample."""
    allocator, held = CachingAllocator(), dict[tuple[int, int], Block]()
    allocate, free, dispatch = Ledger._allocate, Ledger._free, Ledger.__torch_dispatch__

    def dispatched(
        ledger: Ledger, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func._schema.name in COPYING and not args[0].is_contiguous():
            whole = {"memory_format": torch.contiguous_format}
            args = (dispatch(ledger, torch.ops.aten.clone.default, (), args[:1], whole), *args[1:])
        return dispatch(ledger, func, types, args, kwargs)

    def taken(ledger: Ledger, tensor: Any) -> None:
        key, known = tensor.untyped_storage()._cdata, len(ledger._live)
        allocate(ledger, tensor)
        if len(ledger._live) != known and (size := sum(ledger._live[key][1:])):
            held[id(ledger), key] = allocator.take(size)

    def given(ledger: Ledger, key: int, reference: object = None) -> None:
        free(ledger, key, reference)
        if (block := held.pop((id(ledger), key), None)) is not None:
            allocator.give(block)

    patched: dict[str, Any] = {"_allocate": taken, "_free": given, "__torch_dispatch__": dispatched}
    with mock.patch.multiple(Ledger, **patched):
        yield allocator


def holes(allocator: CachingAllocator) -> int:
    """Bytes reserved and not live at the peak, beyond the usual; less than a twentieth is nothing."""
    unused = allocator.reserved - round(USUAL * allocator.peak)
    return unused if unused > allocator.peak // 20 else 0
