"""Building blocks of the small networks: a pre-norm transformer encoder, perceptrons per point, a U-Net."""

import itertools
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional


def encoder(width: int, blocks: int, heads: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(*(_Block(width, heads, hidden) for _ in range(blocks)))


def pointwise(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Conv1d(before, after, 1), nn.BatchNorm1d(after), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Blocks down, each seen again on the way up; logits of the last level, or `deep`: a list of every level
    but the deepest, finest first.

    merge: what reads an upsampled level beside its skip connection; heads: one, or of `deep` one a level
    """

    def __init__(
        self, down: Iterable[nn.Module], up: Iterable[nn.Module], merge: Iterable[nn.Module],
        heads: Iterable[nn.Module], *, deep: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.down, self.up, self.merge, self.heads = map(nn.ModuleList, (down, up, merge, heads))
        self.deep = deep

    def forward(self, x: Tensor) -> Tensor | list[Tensor]:
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
        logits: list[Tensor] = []
        for index, (up, merge) in enumerate(zip(self.up, self.merge, strict=True)):
            x = merge(torch.cat([up(x), skips[-2 - index]], dim=1))
            if self.deep:
                logits.append(self.heads[index](x))
        return logits[::-1] if self.deep else self.heads[0](x)


class _Block(nn.Module):
    """Pre-norm attention and feed-forward, with the fused attention of torch >= 2."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        wide, narrow = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.feed = nn.Sequential(wide, nn.GELU(), nn.Dropout(0.1), narrow)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        shape = (batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = self.qkv(self.norm1(x)).reshape(shape).permute(2, 0, 3, 1, 4).unbind(0)
        attended = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.feed(self.norm2(x))
