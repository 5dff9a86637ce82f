"""A U-Net of its own, from random weights (Ronneberger et al., 2015)."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from memory_service.train.budget import plan
from memory_service.train.media_files import take_pictures
from memory_service.train.torch_loop import device, memory_format


def mean_and_std() -> Any:
    """Of ImageNet's colours, or of the bands of training pictures."""
    return plan.BAND_LEVELS or ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def convolutions(channels: int, width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs in (channels, width):
        layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class Unet(nn.Module):
    """Convolutions and pooling down, transposed convolutions up: WIDTHS are the channels at each level."""

    def __init__(self, kinds: int) -> None:
        super().__init__()
        widths = plan.WIDTHS
        pairs = list(zip((plan.channels, *widths[:-1]), widths, strict=True))
        self.down = nn.ModuleList(convolutions(*pair) for pair in pairs)
        pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(*pair, 2, stride=2) for pair in pairs)
        self.merge = nn.ModuleList(convolutions(2 * width, width) for _, width in pairs)
        self.last = nn.Conv2d(widths[0], kinds, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        inner, skipped = images, []
        for level, block in enumerate(self.down):
            inner = block(functional.max_pool2d(inner, 2) if level else inner)
            skipped.append(inner)
        for up, merge, beside in zip(self.up, self.merge, skipped[-2::-1], strict=True):
            inner = merge(torch.cat([up(inner), beside], dim=1))
        return self.last(inner)


def build_model(checkpoint: dict, pretrained: bool) -> nn.Module:
    """From random weights in any case: there are no others."""
    network: Any = Unet(len(checkpoint["outputs"]))
    return network.to(device, memory_format=memory_format())


plan.build_model, plan.mean_and_std, plan.learn_pictures = build_model, mean_and_std, take_pictures
