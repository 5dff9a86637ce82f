"""Networks for molecules: (batch, channels, atoms) in, logits of each molecule out.

Bonds are a fixed ring, since the cost follows their number alone: each atom has one to the next and one back,
as in a molecule of two directed bonds an atom.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

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
