"""Networks for series (batch, channels, steps), and for lists of numbers (batch, length): items, words."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from memory_service.measure.nets.blocks import encoder


class ResNet1d(nn.Module):
    """Three residual blocks of kernels 7, 5, 3 (Wang et al., 2017, with the first made odd)."""

    def __init__(self, channels: int, outputs: int, widths: tuple[int, ...] = (64, 128, 128)) -> None:
        super().__init__()
        self.blocks = nn.ModuleList()
        self.shortcuts = nn.ModuleList()
        before = channels
        for width in widths:
            layers: list[nn.Module] = []
            for index, kernel in enumerate((7, 5, 3)):
                conv = nn.Conv1d(width if index else before, width, kernel, padding="same")
                layers += [conv, nn.BatchNorm1d(width), *([nn.ReLU()] if index < 2 else [])]
            self.blocks.append(nn.Sequential(*layers))
            self.shortcuts.append(nn.Sequential(nn.Conv1d(before, width, 1), nn.BatchNorm1d(width)))
            before = width
        self.last = nn.Linear(before, outputs)

    def forward(self, x: Tensor) -> Tensor:
        for block, shortcut in zip(self.blocks, self.shortcuts, strict=True):
            x = functional.relu(block(x) + shortcut(x))
        return self.last(x.mean(dim=2))


class InceptionTime(nn.Module):
    """Six inception modules with a residual every third (Ismail Fawaz et al., 2020)."""

    def __init__(self, channels: int, outputs: int, filters: int = 32, depth: int = 6) -> None:
        super().__init__()
        wide = 4 * filters
        self.stages = nn.ModuleList(_Inception(wide if i else channels, filters) for i in range(depth))
        self.shortcuts = nn.ModuleList(
            nn.Sequential(nn.Conv1d(wide if i else channels, wide, 1, bias=False), nn.BatchNorm1d(wide))
            for i in range(depth // 3)
        )
        self.last = nn.Linear(wide, outputs)

    def forward(self, x: Tensor) -> Tensor:
        entry = x
        for index, module in enumerate(self.stages):
            x = module(x)
            if index % 3 == 2:
                x = functional.relu(x + self.shortcuts[index // 3](entry))
                entry = x
        return self.last(x.mean(dim=2))


class _Inception(nn.Module):
    """A bottleneck into kernels 39, 19, 9 (40, 20, 10 made odd) beside a pooled branch."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.narrow = nn.Conv1d(channels, filters, 1, bias=False)
        self.kernels = nn.ModuleList(
            nn.Conv1d(filters, filters, kernel, padding="same", bias=False) for kernel in (39, 19, 9)
        )
        self.pooled = nn.Conv1d(channels, filters, 1, bias=False)
        self.norm = nn.BatchNorm1d(4 * filters)

    def forward(self, x: Tensor) -> Tensor:
        thin = self.narrow(x)
        pooled = self.pooled(functional.max_pool1d(x, 3, stride=1, padding=1))
        return functional.relu(self.norm(torch.cat([*(conv(thin) for conv in self.kernels), pooled], dim=1)))


class FusedRecurrence(nn.Module):
    """cuDNN's fused recurrence: the same products and saved gates, all steps at once.

    Traced step by step it would be thousands of small kernels that a GPU never launches. This has a
    recurrent layer's arithmetic and memory, not its function nor its waiting for each step.
    gates: 3 for GRU, 4 for LSTM. (batch, steps, features) -> (batch, steps, width * directions).
    """

    def __init__(self, features: int, width: int, gates: int, directions: int) -> None:
        super().__init__()
        self.width = width
        self.entry = nn.ModuleList(nn.Linear(features, gates * width) for _ in range(directions))
        self.state = nn.ModuleList(nn.Linear(width, gates * width) for _ in range(directions))

    def forward(self, x: Tensor) -> Tensor:
        directions = []
        for entry, state in zip(self.entry, self.state, strict=True):
            gates = entry(x)
            hidden = torch.tanh(gates[..., : self.width])
            opened = torch.sigmoid((gates + state(hidden))[..., self.width :])
            directions.append(opened[..., : self.width] * hidden)
        return torch.cat(directions, dim=2)


class Recurrent(nn.Module):
    """Two bidirectional layers of GRU (3 gates) or LSTM (4 gates), last state to a linear head."""

    def __init__(self, channels: int, outputs: int, gates: int, width: int = 128) -> None:
        super().__init__()
        inputs = channels, 2 * width
        self.layers = nn.ModuleList(FusedRecurrence(features, width, gates, 2) for features in inputs)
        self.last = nn.Linear(2 * width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.last(x[:, -1])


class SeriesTransformer(nn.Module):
    """Patches of steps as tokens of a transformer, mean pooled (PatchTST class: patch 16, stride 8)."""

    def __init__(
        self,
        channels: int,
        outputs: int,
        width: int = 128,
        blocks: int = 3,
        heads: int = 8,
        patch: int = 16,
        channel_independent: bool = False,
    ) -> None:
        super().__init__()
        self.independent = channel_independent
        read = 1 if channel_independent else channels
        self.patches = nn.Conv1d(read, width, patch, 8, padding=patch // 2)
        self.body = encoder(width, blocks, heads, 2 * width)
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, outputs))

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, steps = x.shape
        if self.independent:
            x = x.reshape(batch * channels, 1, steps)
        pooled = self.body(self.patches(x).transpose(1, 2)).mean(dim=1)
        if self.independent:
            pooled = pooled.reshape(batch, channels, -1).mean(dim=1)
        return self.last(pooled)


class WaveNet(nn.Module):
    """Gated dilated convolutions in stacks of `depth`, their outputs summed (van den Oord et al., 2016)."""

    def __init__(
        self, channels: int, outputs: int, filters: int = 64, depth: int = 8, blocks: int = 2
    ) -> None:
        super().__init__()
        self.entry = nn.Conv1d(channels, filters, 1)
        dilations = [2**level for _ in range(blocks) for level in range(depth)]
        self.gated = nn.ModuleList(
            nn.Conv1d(filters, 2 * filters, 3, padding="same", dilation=dilation) for dilation in dilations
        )
        self.mixed = nn.ModuleList(nn.Conv1d(filters, filters, 1) for _ in dilations)
        self.last = nn.Linear(filters, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.entry(x)
        total = torch.zeros_like(x)
        for gated, mixed in zip(self.gated, self.mixed, strict=True):
            filtered, gate = gated(x).chunk(2, dim=1)
            y = mixed(torch.tanh(filtered) * torch.sigmoid(gate))
            x, total = x + y, total + y
        return self.last(functional.relu(total).mean(dim=2))


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
        self, _history: int, _outputs: int, items: int = 100_000, width: int = 64, sampled: int = 1_000
    ) -> None:
        super().__init__()
        self.items = nn.Embedding(items, width)
        self.recurrent = FusedRecurrence(width, 128, 3, 1)
        self.dense = nn.Linear(128, width)
        self.candidates = nn.Embedding(sampled, width)

    def forward(self, x: Tensor) -> Tensor:
        states = self.dense(self.recurrent(self.items(x)))
        return (states @ self.candidates.weight.transpose(0, 1)).transpose(1, 2)
