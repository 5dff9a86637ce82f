"""Building blocks of the small networks: a pre-norm transformer encoder, perceptrons per point."""

import itertools

from torch import Tensor, nn
from torch.nn import functional


def encoder(width: int, blocks: int, heads: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(*(_Block(width, heads, hidden) for _ in range(blocks)))


def pointwise(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Conv1d(before, after, 1), nn.BatchNorm1d(after), nn.ReLU()]
    return nn.Sequential(*layers)


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
