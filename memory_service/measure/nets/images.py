"""The network of a plain script for small images: (batch, 3, side, side) to (batch, outputs)."""

from __future__ import annotations

import itertools

from torch import Tensor, nn


class SmallCnn(nn.Module):
    """3 x 3 convolution, batch norm, ReLU, 2 x 2 maximum, per width; then the mean and a linear layer.

    Four halvings: sides of 16 pixels and more.
    """

    def __init__(self, channels: int, outputs: int, widths: tuple[int, ...] = (32, 64, 128, 256)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise((channels, *widths)):
            layers += [
                nn.Conv2d(before, after, 3, padding=1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(2),
            ]
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(widths[-1], outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))
