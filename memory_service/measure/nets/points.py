"""Networks for points and for molecules: (batch, channels, points | atoms) in, logits (batch, outputs) out.

Bonds of molecules are a fixed ring, since the cost follows their number alone: each atom has one to the next
and one back, as in a molecule of two directed bonds an atom.
"""

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional

from memory_service.measure.nets.blocks import encoder, pointwise


def _head(inputs: int, outputs: int, dropout: float | None = None) -> nn.Sequential:
    """Linear layers of 512 and 256 with batch norm, and the last one."""
    return nn.Sequential(
        nn.Linear(inputs, 512), nn.BatchNorm1d(512), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else []),
        nn.Linear(512, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, outputs),
    )  # fmt: skip


class PointNet(nn.Module):
    """Shared perceptrons 64-64-64-128-1024 with two alignment nets, maximum over points (Qi et al., 2017)."""

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__()
        self.align_input, self.align_feature = _Alignment(channels), _Alignment(64)
        self.early, self.late = pointwise(channels, 64, 64), pointwise(64, 64, 128, 1024)
        self.last = _head(1024, outputs, dropout=0.3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.early(self.align_input(x))
        return self.last(self.late(self.align_feature(x)).amax(dim=2))


class _Alignment(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.shared = pointwise(channels, 64, 128, 1024)
        self.matrix = _head(1024, channels * channels)
        self.channels = channels

    def forward(self, x: Tensor) -> Tensor:
        matrix = self.matrix(self.shared(x).amax(dim=2)).reshape(-1, self.channels, self.channels)
        return torch.bmm(matrix, x)


class Dgcnn(nn.Module):
    """Edge convolutions over the 20 nearest neighbours in feature space (Wang et al., 2019)."""

    def __init__(self, channels: int, outputs: int, neighbours: int = 20) -> None:
        super().__init__()
        self.neighbours = neighbours
        sizes = (channels, 64, 64, 128, 256)
        self.edges = nn.ModuleList(
            nn.Sequential(nn.Conv2d(2 * a, b, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2))
            for a, b in itertools.pairwise(sizes)
        )
        self.merge = pointwise(sum(sizes[1:]), 1024)
        self.last = _head(2048, outputs, dropout=0.5)

    def forward(self, x: Tensor) -> Tensor:
        levels = []
        for edge in self.edges:
            x = edge(self._pairs(x)).amax(dim=3)
            levels.append(x)
        merged = self.merge(torch.cat(levels, dim=1))
        return self.last(torch.cat([merged.amax(dim=2), merged.mean(dim=2)], dim=1))

    def _pairs(self, x: Tensor) -> Tensor:
        """(batch, channels, points) -> (batch, 2 channels, points, neighbours)."""
        batch, channels, points = x.shape
        square = (x * x).sum(dim=1)
        distance = square.unsqueeze(2) + square.unsqueeze(1) - 2 * torch.bmm(x.transpose(1, 2), x)
        index = distance.topk(self.neighbours, dim=2, largest=False).indices.reshape(batch, 1, -1)
        near = x.gather(2, index.expand(-1, channels, -1)).reshape(batch, channels, points, self.neighbours)
        centre = x.unsqueeze(3).expand(-1, -1, -1, self.neighbours)
        return torch.cat([near - centre, centre], dim=1)


class PointTransformer(nn.Module):
    """Groups of 32 points as tokens of a transformer (Point-MAE's encoder, Pang et al., 2022)."""

    def __init__(
        self, channels: int, outputs: int, width: int = 384, blocks: int = 12, group: int = 32
    ) -> None:
        super().__init__()
        self.group = group
        self.first, self.second = pointwise(channels, 128, 256), pointwise(512, 512, width)
        self.body = encoder(width, blocks, 6, 4 * width)
        narrow = nn.Linear(width, 256)
        self.last = nn.Sequential(nn.LayerNorm(width), narrow, nn.ReLU(), nn.Linear(256, outputs))

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, points = x.shape
        groups = points // self.group
        x = x.reshape(batch, channels, groups, self.group).transpose(1, 2)
        x = self.first(x.reshape(batch * groups, channels, self.group))
        x = self.second(torch.cat([x, x.amax(dim=2, keepdim=True).expand_as(x)], dim=1)).amax(dim=2)
        return self.last(self.body(x.reshape(batch, groups, -1)).mean(dim=1))


class GraphSage(nn.Module):
    """Means of `neighbours` nodes beside each node's own features, `blocks` times (Hamilton et al., 2017).

    (batch, channels, nodes) in, logits of each graph out. Neighbours are gathered by a fixed ring: the cost
    of a graph of that degree.
    """

    def __init__(
        self, channels: int, outputs: int, width: int = 128, blocks: int = 4, neighbours: int = 8
    ) -> None:
        super().__init__()
        widths = [channels, *[width] * blocks]
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.near = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(blocks))
        self.last = nn.Linear(width, outputs)
        self.neighbours = neighbours

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(1, 2)
        nodes = torch.arange(x.shape[1], device=x.device)
        ring = (nodes[:, None] + torch.arange(1, self.neighbours + 1, device=x.device)) % x.shape[1]
        for own, near, norm in zip(self.own, self.near, self.norms, strict=True):
            x = functional.relu(norm(own(x) + near(x[:, ring].mean(dim=2))))
        return self.last(x.mean(dim=1))


BOND_FEATURES = 14
"""Of chemprop: type, conjugation, ring, stereo."""

KERNELS = 128
"""Gaussians that a distance of two atoms becomes in Uni-Mol."""


class Chemprop(nn.Module):
    """Messages along directed bonds, `blocks` times, then atoms are summed (D-MPNN, Yang et al., 2019)."""

    def __init__(self, channels: int, outputs: int, width: int = 300, blocks: int = 3) -> None:
        super().__init__()
        self.first = nn.Linear(channels + BOND_FEATURES, width, bias=False)
        self.step = nn.Linear(width, width, bias=False)
        self.atoms = nn.Linear(channels + width, width)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs))
        self.steps = blocks

    def forward(self, x: Tensor) -> Tensor:
        atoms = x.transpose(1, 2)
        ahead, back = atoms.roll(-1, dims=1), atoms.roll(1, dims=1)
        bonds = torch.stack([ahead, back], dim=2)
        bonds = torch.cat([bonds, bonds.new_zeros((*bonds.shape[:3], BOND_FEATURES))], dim=3)
        start = self.first(bonds)
        message = functional.relu(start)
        for _ in range(self.steps - 1):
            incoming = message.sum(dim=2, keepdim=True) - message.flip(2)
            message = functional.relu(start + self.step(incoming))
        states = functional.relu(self.atoms(torch.cat([atoms, message.sum(dim=2)], dim=2)))
        return self.head(states.sum(dim=1))


class UniMol(nn.Module):
    """A transformer over atoms whose attention of each two is biased by their distance, and whose scores are
    handed from layer to layer (Zhou et al., 2023): they, not the atoms, fill the memory."""

    def __init__(
        self, channels: int, outputs: int, width: int = 512, blocks: int = 15, heads: int = 64
    ) -> None:
        super().__init__()
        self.embed = nn.Linear(channels, width)
        self.pairs = nn.Sequential(nn.Linear(KERNELS, KERNELS), nn.GELU(), nn.Linear(KERNELS, heads))
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(blocks))
        self.head = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs))

    def forward(self, x: Tensor) -> Tensor:
        place = x[:, :3].transpose(1, 2)
        distance = (place.unsqueeze(2) - place.unsqueeze(1)).square().sum(dim=3, keepdim=True)
        scores = self.pairs(torch.exp(-distance.expand(*distance.shape[:3], KERNELS))).permute(0, 3, 1, 2)
        states = self.embed(x.transpose(1, 2))
        for block in self.blocks:
            states, scores = block(states, scores)
        return self.head(states.mean(dim=1))


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.before, self.after = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        batch, atoms, width = x.shape
        shape = (batch, atoms, self.heads, width // self.heads)
        query, key, value = (
            each.reshape(shape).transpose(1, 2) for each in self.mixed(self.before(x)).chunk(3, dim=2)
        )
        scores = query @ key.transpose(2, 3) * shape[3] ** -0.5 + bias
        seen = (functional.softmax(scores, dim=3) @ value).transpose(1, 2).reshape(batch, atoms, width)
        x = x + self.out(seen)
        return x + self.narrow(functional.gelu(self.wide(self.after(x)))), scores
