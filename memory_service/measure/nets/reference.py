"""The three reference networks that every calibration trains for a few steps.

    cnn      residual 3 x 3 convolutions, batch norm, ReLU (ResNet's basic block)
    mobile   inverted residuals with depthwise convolutions, squeeze-excitation, SiLU (EfficientNet)
    vit      patches, pre-norm attention, GELU (ViT, no dropout)
Images (batch, 3, side, side) in, logits (batch, outputs) out. Their sizes by kind of device stand in
`domain.calibration.probes.REFERENCE_NETS`, their profiles in seeds/reference_profiles.jsonl.gz.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from memory_service.domain.calibration.probe_shapes import ReferenceNet
from memory_service.measure.nets.blocks import encoder
from memory_service.measure.traceable_model import BuiltModel, image_model, on_meta

SMALL_IMAGE = 96
"""Below it a stem halves the picture once, by its pooling (cnn), or uses patches of 8 instead of 16 (vit)."""


class _Residual(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            conv = nn.Conv2d(before, after, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def _cnn(width: int, depth: int, side: int, outputs: int) -> nn.Module:
    large = side >= SMALL_IMAGE
    conv = nn.Conv2d(3, width, 7, 2, 3, bias=False) if large else nn.Conv2d(3, width, 3, 1, 1, bias=False)
    pool = nn.MaxPool2d(3, 2, 1) if large else nn.MaxPool2d(2)
    layers: list[nn.Module] = [conv, nn.BatchNorm2d(width), nn.ReLU(), pool]
    before = width
    for stage in range(4):
        after = width * 2**stage
        for index in range(depth):
            layers.append(_Residual(before, after, 2 if stage and not index else 1))
            before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, outputs))


class _Excitation(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale: Tensor = self.up(functional.silu(self.down(x.mean((2, 3), keepdim=True))))
        return x * torch.sigmoid(scale)


class _Inverted(nn.Module):
    def __init__(self, before: int, after: int, kernel: int, stride: int) -> None:
        super().__init__()
        hidden = 4 * before
        self.body = nn.Sequential(
            nn.Conv2d(before, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.SiLU(),
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.SiLU(),
            _Excitation(hidden, max(before // 4, 4)),
            nn.Conv2d(hidden, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.is_residual = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.is_residual else y


def _mobile(width: int, depth: int, side: int, outputs: int) -> nn.Module:
    """Stages of 1, 1.5, 2.5 and 5 times the width; kernels 3, 3, 5, 5."""
    first = 2 if side >= SMALL_IMAGE else 1
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.SiLU()]
    before = width
    for times, kernel, stride in ((1.0, 3, first), (1.5, 3, 2), (2.5, 5, 2), (5.0, 5, 2)):
        after = int(width * times)
        for index in range(depth):
            layers.append(_Inverted(before, after, kernel, 1 if index else stride))
            before = after
    head = 4 * before
    layers += [nn.Conv2d(before, head, 1, bias=False), nn.BatchNorm2d(head), nn.SiLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(head, outputs))


class _Vit(nn.Module):
    def __init__(self, width: int, depth: int, side: int, outputs: int) -> None:
        super().__init__()
        patch = 16 if side >= SMALL_IMAGE else 8
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(torch.zeros((side // patch) ** 2, width))
        self.blocks = encoder(width, depth, max(width // 64, 1), 4 * width)
        for part in self.blocks.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return self.last(self.norm(self.blocks(tokens)).mean(dim=1))


_NETS: dict[str, Callable[[int, int, int, int], nn.Module]] = {"cnn": _cnn, "mobile": _mobile, "vit": _Vit}


def reference_module(net: ReferenceNet) -> nn.Module:
    """The network with freshly drawn weights, on torch's current device."""
    return _NETS[net.name](net.width, net.depth, net.image_size, net.n_outputs)


def build_reference(net: ReferenceNet) -> BuiltModel:
    """The same for the tracer: shapes without storage."""
    module = on_meta(lambda: reference_module(net))
    side = net.image_size
    return image_model(net.model, "torch", f"reference-{net.name}", module, side, side, net.n_outputs)
