"""Networks for tables: (batch, columns) in, logits (batch, outputs) out."""

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional

from memory_service.measure.nets.blocks import encoder


def mlp(features: int, outputs: int, width: int = 512, blocks: int = 3) -> nn.Sequential:
    """Linear, batch norm, ReLU, dropout, `blocks` times (Gorishniy et al., 2021)."""
    layers: list[nn.Module] = []
    for index in range(blocks):
        layers += [nn.Linear(width if index else features, width), nn.BatchNorm1d(width)]
        layers += [nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


class TabularResNet(nn.Module):
    """Residual blocks: batch norm, linear up, ReLU, dropout, linear down (Gorishniy et al., 2021)."""

    def __init__(self, features: int, outputs: int, width: int = 256, blocks: int = 4) -> None:
        super().__init__()
        hidden = 2 * width
        self.first = nn.Linear(features, width)

        def block() -> nn.Sequential:
            up, down = nn.Linear(width, hidden), nn.Linear(hidden, width)
            return nn.Sequential(nn.BatchNorm1d(width), up, nn.ReLU(), nn.Dropout(0.1), down)

        self.blocks = nn.ModuleList(block() for _ in range(blocks))
        self.last = nn.Sequential(nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)


class FtTransformer(nn.Module):
    """One token per column and a class token through a small transformer (Gorishniy et al., 2021)."""

    def __init__(
        self, features: int, outputs: int, width: int = 192, blocks: int = 3, heads: int = 8
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features, width))
        self.bias = nn.Parameter(torch.zeros(features, width))
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.body = encoder(width, blocks, heads, round(width * 4 / 3))
        self.last = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.unsqueeze(-1) * self.weight + self.bias
        tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), tokens], dim=1)
        return self.last(self.body(tokens)[:, 0])


class TabM(nn.Module):
    """32 networks that share their matrices and differ by rank-one scalings (Gorishniy et al., 2024).

    Returns (batch, outputs, members): each member is trained on its own loss, and their mean predicts.
    """

    def __init__(self, features: int, outputs: int, width: int = 512, blocks: int = 3) -> None:
        super().__init__()
        members = 32
        sizes = [features] + [width] * blocks
        self.shared = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in itertools.pairwise(sizes))
        self.scale_in = nn.ParameterList(torch.ones(members, a) for a in sizes[:-1])
        self.scale_out = nn.ParameterList(torch.ones(members, b) for b in sizes[1:])
        self.bias = nn.ParameterList(torch.zeros(members, b) for b in sizes[1:])
        self.head = nn.Parameter(torch.zeros(members, width, outputs))

    def forward(self, x: Tensor) -> Tensor:
        members = self.head.shape[0]
        x = x.unsqueeze(1).expand(-1, members, -1)
        layers = zip(self.shared, self.scale_in, self.scale_out, self.bias, strict=True)
        for shared, before, after, bias in layers:
            x = functional.dropout(functional.relu(shared(x * before) * after + bias), 0.1, self.training)
        return torch.bmm(x.transpose(0, 1), self.head).permute(1, 2, 0)


class RealMlp(nn.Module):
    """16 periodic embeddings of a column, then a 3 x 256 network with SELU (Holzmueller et al., 2024)."""

    def __init__(self, features: int, outputs: int, width: int = 256, blocks: int = 3) -> None:
        super().__init__()
        self.frequency = nn.Parameter(torch.zeros(features, 16))
        self.phase = nn.Parameter(torch.zeros(features, 16))
        self.embed = nn.Parameter(torch.zeros(features, 16, 4))
        layers: list[nn.Module] = []
        for index in range(blocks):
            layers += [nn.Linear(width if index else features * 5, width), nn.SELU(), nn.Dropout(0.15)]
        self.body = nn.Sequential(*layers, nn.Linear(width, outputs))

    def forward(self, x: Tensor) -> Tensor:
        waves = torch.cos(x.unsqueeze(-1) * self.frequency + self.phase)
        embedded = torch.einsum("bfk,fkd->bfd", waves, self.embed)
        return self.body(torch.cat([x, embedded.flatten(1)], dim=1))


class TabNet(nn.Module):
    """Decision steps that each choose columns by a mask and share half of their layers (Arik & Pfister,
    2021); the mask's sparsemax counts as a softmax."""

    def __init__(self, features: int, outputs: int, width: int = 64, blocks: int = 5) -> None:
        super().__init__()
        self.entry = nn.BatchNorm1d(features)
        self.shared = nn.ModuleList((nn.Linear(features, 4 * width), nn.Linear(2 * width, 4 * width)))
        self.own = nn.ModuleList(nn.Linear(2 * width, 4 * width) for _ in range(2 * blocks))
        self.norms = nn.ModuleList(nn.BatchNorm1d(4 * width) for _ in range(4 * blocks))
        self.masks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, features), nn.BatchNorm1d(features)) for _ in range(blocks)
        )
        self.last = nn.Linear(width, outputs)
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        x = self.entry(x)
        attended, left = x.new_zeros(x.shape[0], self.width), torch.ones_like(x)
        decided = torch.zeros_like(attended)
        for block, mask in enumerate(self.masks):
            chosen = functional.softmax(mask(attended) * left, dim=1)
            left = left * (1.3 - chosen)
            y = functional.glu(self.norms[4 * block](self.shared[0](x * chosen)))
            for index, layer in enumerate((self.shared[1], *self.own[2 * block : 2 * block + 2]), 1):
                y = (y + functional.glu(self.norms[4 * block + index](layer(y)))) * 0.7071
            decided, attended = decided + functional.relu(y[:, : self.width]), y[:, self.width :]
        return self.last(decided)
