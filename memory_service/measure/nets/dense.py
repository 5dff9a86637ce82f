"""Networks of pictures and volumes: detectors of the YOLO kind, with the sizes of the originals, U-Nets of
volumes, and the network of a plain script for small images.

Million parameters and GFLOPs at 640 pixels as published: YOLOX-s 8.97 and 26.7, -l 54.2 and 155.3, YOLOv8m
25.9 and 78.9, -x 68.2 and 257.8.
"""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from memory_service.measure.nets.blocks import UNet


def _conv(before: int, after: int, kernel: int = 1, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(after), nn.SiLU(inplace=True))


class _C3(nn.Module):
    """Cross-stage partial block of YOLOv5 and YOLOX: bottlenecks on half of the channels."""

    def __init__(self, before: int, after: int, depth: int, *, shortcut: bool) -> None:
        super().__init__()
        half = after // 2
        self.one, self.two, self.out = _conv(before, half), _conv(before, half), _conv(2 * half, after)
        self.body = nn.ModuleList(
            nn.Sequential(_conv(half, half), _conv(half, half, 3)) for _ in range(depth)
        )
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x)
        for block in self.body:
            y = y + block(y) if self.shortcut else block(y)
        return self.out(torch.cat([y, self.two(x)], dim=1))


class _C2f(nn.Module):
    """The same of YOLOv8: every bottleneck's output goes on to the end."""

    def __init__(self, before: int, after: int, depth: int, *, shortcut: bool) -> None:
        super().__init__()
        half = after // 2
        self.one, self.out = _conv(before, 2 * half), _conv((2 + depth) * half, after)
        self.body = nn.ModuleList(
            nn.Sequential(_conv(half, half, 3), _conv(half, half, 3)) for _ in range(depth)
        )
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.one(x).chunk(2, dim=1))
        for block in self.body:
            y = block(parts[-1])
            parts.append(parts[-1] + y if self.shortcut else y)
        return self.out(torch.cat(parts, dim=1))


class CspDetector(nn.Module):
    """Backbone at strides 2 to 32, path aggregation over the last three, a decoupled head on each.

    widths: channels at the five strides; depth: blocks of the shallowest stage; two and three times as many
    in the middle. anchor-free: logits of `outputs` classes and box figures a cell.
    """

    def __init__(self, channels: int, outputs: int, widths: tuple[int, ...], depth: int, *, v8: bool) -> None:
        super().__init__()
        block: Callable[..., nn.Module] = _C2f if v8 else _C3
        depths = (depth, (2 if v8 else 3) * depth, (2 if v8 else 3) * depth, depth)
        self.stem = _conv(channels, widths[0], 3, 2) if v8 else _conv(4 * channels, widths[0], 3)
        self.focus = not v8
        stages = zip(itertools.pairwise(widths), depths, strict=True)
        self.stages = nn.ModuleList(
            nn.Sequential(_conv(a, b, 3, 2), block(b, b, n, shortcut=True)) for (a, b), n in stages
        )
        c3, c4, c5 = widths[2:]
        self.pool = nn.ModuleList((_conv(c5, c5 // 2), _conv(2 * c5, c5)))
        self.narrow = nn.ModuleList(() if v8 else (_conv(c5, c4), _conv(c4, c3)))
        n4, n5 = (c5, c4) if v8 else (c4, c3)
        self.up = nn.ModuleList(
            (block(n4 + c4, c4, depth, shortcut=False), block(n5 + c3, c3, depth, shortcut=False))
        )
        self.down = nn.ModuleList((_conv(c3, c3, 3, 2), _conv(c4, c4, 3, 2)))
        m3, m4 = (c3 + c4, c4 + c5) if v8 else (2 * c3, 2 * c4)
        self.merge = nn.ModuleList(
            (block(m3, c4, depth, shortcut=False), block(m4, c5, depth, shortcut=False))
        )
        boxes, wide = (64, (max(64, c3 // 4), max(c3, min(outputs, 100)))) if v8 else (5, (c3, c3))
        self.entry = nn.ModuleList(nn.Identity() if v8 else _conv(c, c3) for c in (c3, c4, c5))

        def head(width: int, out: int) -> nn.ModuleList:
            starts = (c3, c4, c5) if v8 else (c3, c3, c3)
            return nn.ModuleList(
                nn.Sequential(_conv(c, width, 3), _conv(width, width, 3), nn.Conv2d(width, out, 1))
                for c in starts
            )

        self.boxes, self.logits = head(wide[0], boxes), head(wide[1], outputs)

    def forward(self, x: Tensor) -> dict[str, list[Tensor]]:
        x = self.stem(functional.pixel_unshuffle(x, 2) if self.focus else x)
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        y = self.pool[0](x)
        pooled = [y]
        for _ in range(3):
            pooled.append(functional.max_pool2d(pooled[-1], 5, 1, 2))
        p5 = self.pool[1](torch.cat(pooled, dim=1))
        n5 = self.narrow[0](p5) if self.narrow else p5
        p4 = self.up[0](torch.cat([functional.interpolate(n5, scale_factor=2.0), features[-2]], dim=1))
        n4 = self.narrow[1](p4) if self.narrow else p4
        p3 = self.up[1](torch.cat([functional.interpolate(n4, scale_factor=2.0), features[-3]], dim=1))
        p4 = self.merge[0](torch.cat([self.down[0](p3), n4], dim=1))
        p5 = self.merge[1](torch.cat([self.down[1](p4), n5], dim=1))
        levels = [entry(p) for entry, p in zip(self.entry, (p3, p4, p5), strict=True)]
        heads = {"boxes": self.boxes, "logits": self.logits}
        return {name: [head(p) for head, p in zip(of, levels, strict=True)] for name, of in heads.items()}


def unet_3d(channels: int, outputs: int, widths: tuple[int, ...] = (32, 64, 128, 256, 320, 320)) -> nn.Module:
    """nnU-Net's network of volumes: two 3 x 3 x 3 convolutions a level, instance norm, strided down, logits
    at every level but the deepest; (batch, channels, side, side, side) in, a list of logits out."""
    levels = itertools.pairwise((channels, *widths))
    up = list(itertools.pairwise(reversed(widths)))
    return UNet(
        [_volume(a, b, 2 if i else 1) for i, (a, b) in enumerate(levels)],
        [nn.ConvTranspose3d(a, b, 2, 2) for a, b in up],
        [_volume(2 * b, b, 1) for _, b in up],
        [nn.Conv3d(b, outputs, 1) for _, b in up],
        deep=True,
    )


def _volume(before: int, after: int, stride: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels, step in ((before, stride), (after, 1)):
        layers += [nn.Conv3d(channels, after, 3, step, 1), nn.InstanceNorm3d(after, affine=True)]
        layers.append(nn.LeakyReLU(0.01, inplace=True))
    return nn.Sequential(*layers)


def small_cnn(channels: int, outputs: int, widths: tuple[int, ...] = (32, 64, 128, 256)) -> nn.Sequential:
    """3 x 3 convolution, batch norm, ReLU, 2 x 2 maximum, per width; then the mean and a linear layer.

    Four halvings: sides of 16 pixels and more.
    """
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise((channels, *widths)):
        layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after)]
        layers += [nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], outputs))
