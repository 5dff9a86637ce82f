"""Networks for lists of numbers (batch, length): items that were clicked, or words of a text."""

import torch
from torch import Tensor, nn

from memory_service.measure.nets.blocks import encoder
from memory_service.measure.nets.series import FusedRecurrence


class TwoTower(nn.Module):
    """User and item networks over embeddings, scored against `sampled` items drawn for the batch."""

    def __init__(
        self,
        _history: int,
        _outputs: int,
        items: int = 100_000,
        users: int = 100_000,
        width: int = 64,
        sampled: int = 1_000,
    ) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(users, width), nn.Embedding(items, width)
        self.user_net = nn.Sequential(nn.Linear(2 * width, 256), nn.ReLU(), nn.Linear(256, width))
        self.item_net = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, width))
        self.sampled = sampled

    def forward(self, x: Tensor) -> Tensor:
        user = self.user_net(torch.cat([self.users(x[:, 0]), self.items(x).mean(dim=1)], dim=1))
        candidates = self.item_net(self.items.weight[: self.sampled])
        return user @ candidates.transpose(0, 1)


class BagOfWords(nn.Module):
    """The mean of vectors of hashed words and pairs of words, then a linear layer (fastText class)."""

    def __init__(self, _length: int, outputs: int, buckets: int = 2**16, width: int = 32) -> None:
        super().__init__()
        self.vectors, self.last = nn.Embedding(buckets, width), nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.vectors(torch.cat([x, x], dim=1)).mean(dim=1))  # words and pairs


class SelfAttentiveHistory(nn.Module):
    """Causal transformer over the clicked items, next item by a softmax over sampled ones (SASRec class)."""

    def __init__(
        self, history: int, _outputs: int, items: int = 100_000, width: int = 64, sampled: int = 1_000
    ) -> None:
        super().__init__()
        self.items = nn.Embedding(items, width)
        self.positions = nn.Parameter(torch.zeros(history, width))
        self.body = encoder(width, 2, 2, 4 * width)
        self.candidates = nn.Embedding(sampled, width)

    def forward(self, x: Tensor) -> Tensor:
        states = self.body(self.items(x) + self.positions)
        return (states @ self.candidates.weight.transpose(0, 1)).transpose(1, 2)


class Gru4Rec(nn.Module):
    """One GRU over the clicked items, next item by a softmax over sampled ones (RecBole's defaults)."""

    def __init__(
        self,
        _history: int,
        _outputs: int,
        items: int = 100_000,
        width: int = 64,
        hidden: int = 128,
        sampled: int = 1_000,
    ) -> None:
        super().__init__()
        self.items = nn.Embedding(items, width)
        self.recurrent = FusedRecurrence(width, hidden, 3, 1)
        self.dense = nn.Linear(hidden, width)
        self.candidates = nn.Embedding(sampled, width)

    def forward(self, x: Tensor) -> Tensor:
        states = self.dense(self.recurrent(self.items(x)))
        return (states @ self.candidates.weight.transpose(0, 1)).transpose(1, 2)
