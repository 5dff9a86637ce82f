"""Segmentation networks: U-Net, FPN, DeepLabV3+ over a timm encoder, plain U-Nets.

Encoders come from timm through segmentation_models_pytorch; losses are cross entropy + soft Dice for masks
and mean absolute error for images, on every pixel.
"""

import itertools
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from memory_service.domain.cost.families import family_of
from memory_service.domain.planning.model_catalogue import check_side
from memory_service.errors import FieldError, InvalidInput, unknown_name
from memory_service.measure.nets.blocks import UNet
from memory_service.measure.traceable_model import BuiltModel, Loss, classification_loss, image_model, on_meta
from memory_service.measure.vision import size_arguments, timm_name

_DECODERS = "Unet UnetPlusPlus FPN DeepLabV3Plus MAnet Linknet PSPNet UPerNet Segformer"
DECODERS = {name.lower(): name for name in _DECODERS.split()}
"""Name before the slash -> class of segmentation_models_pytorch."""

DEFAULT_SIZE = 512


def build_segmentation(
    name: str, input_size: int | None, n_outputs: int | None, regression: bool = False
) -> BuiltModel:
    """`unet/efficientnet_b3`, `fpn/resnet50`, ... at a size that they take (InvalidInput otherwise)."""
    import segmentation_models_pytorch as smp

    head, _, encoder = name.partition("/")
    if head not in DECODERS:
        raise unknown_name("model", name, [f"{decoder}/resnet50" for decoder in DECODERS])
    current = timm_name(encoder)
    if current is None:
        usual = ("resnet34", "resnet50", "efficientnet_b3")
        raise unknown_name("model", name, [f"{head}/{option}" for option in usual])
    size = input_size or DEFAULT_SIZE
    check_side("smp", name, {}, size)
    outputs = n_outputs or 1
    settings = {"encoder_weights": None, "in_channels": 3, "classes": outputs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            decoder = getattr(smp, DECODERS[head])
            sized = size_arguments(current, size)
            module = on_meta(partial(decoder, encoder_name=f"tu-{current}", **settings, **sized))
        except (AttributeError, KeyError, TypeError, ValueError, AssertionError) as error:
            wrong = FieldError("model", "the encoder gives no feature pyramid", name)
            raise InvalidInput(f"{encoder} cannot be the encoder of a {head}: {error}", [wrong]) from error
    loss: Loss = pixel_regression_loss if regression else mask_loss
    return image_model(name, "smp", family_of(current), module, size, DEFAULT_SIZE, outputs, loss=loss)


def build_plain_unet(
    name: str, config: Mapping[str, Any], input_size: int | None, n_outputs: int | None
) -> BuiltModel:
    """A U-Net trained from nothing: config {"widths": [64, 128, ...], "norm": "batch", "in_chans": 3}."""
    widths = tuple(config.get("widths", (64, 128, 256, 512, 1024)))
    size = input_size or int(config.get("default_input_size", DEFAULT_SIZE))
    check_side("torch", name, {**config, "widths": widths}, size)
    outputs = n_outputs or int(config.get("n_outputs", 1))
    channels = int(config.get("in_chans", 3))
    deep = bool(config.get("deep_supervision", False))
    module = on_meta(lambda: plain_unet(channels, outputs, widths, str(config.get("norm", "batch")), deep))
    loss: Loss = pixel_regression_loss if config.get("regression") else mask_loss
    return image_model(
        name, "torch", "unet", module, size, DEFAULT_SIZE, outputs, channels=channels, loss=loss
    )


def plain_unet(
    in_chans: int, outputs: int, widths: tuple[int, ...], norm: str, deep_supervision: bool
) -> nn.Module:
    """Two 3x3 convolutions per level, max pooling down, transposed convolution up (Ronneberger et al., 2015).

    norm "instance" with leaky ReLU and a logit map at every decoder level is nnU-Net's 2-D network.
    (batch, channels, side, side) -> logits of that side; deeply supervised: a list, finest first.
    """
    levels = itertools.pairwise((in_chans, *widths))
    down = [_double(before, width, norm) for before, width in levels]
    up = list(itertools.pairwise(reversed(widths)))
    heads = reversed(widths[:-1]) if deep_supervision else widths[:1]
    return UNet(
        [down[0], *(nn.Sequential(nn.MaxPool2d(2), block) for block in down[1:])],
        [nn.ConvTranspose2d(before, width, 2, stride=2) for before, width in up],
        [_double(2 * width, width, norm) for _, width in up],
        [nn.Conv2d(width, outputs, 1) for width in heads],
        deep=deep_supervision,
    )


def _double(channels: int, width: int, norm: str) -> nn.Sequential:
    def normalise() -> nn.Module:
        return nn.InstanceNorm2d(width, affine=True) if norm == "instance" else nn.BatchNorm2d(width)

    def activate() -> nn.Module:
        return nn.LeakyReLU(0.01, inplace=True) if norm == "instance" else nn.ReLU(inplace=True)

    layers = [nn.Conv2d(channels, width, 3, padding=1), normalise(), activate()]
    return nn.Sequential(*layers, nn.Conv2d(width, width, 3, padding=1), normalise(), activate())


def mask_loss(outputs: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    """Cross entropy + soft Dice per pixel; one output channel means a binary mask."""
    levels = outputs if isinstance(outputs, list | tuple) else [outputs]
    total = torch.zeros((), device=levels[0].device)
    for depth, logits in enumerate(levels):
        if logits.shape[1] == 1:
            target = torch.zeros_like(logits)
            entropy = functional.binary_cross_entropy_with_logits(logits, target)
            probability = logits.sigmoid()
        else:
            entropy = classification_loss(logits, inputs)
            probability = logits.softmax(dim=1)
            target = torch.zeros_like(probability)
        overlap = (probability * target).sum(dim=(2, 3))
        dice = 1 - (2 * overlap + 1) / (probability.sum(dim=(2, 3)) + target.sum(dim=(2, 3)) + 1)
        total = total + 0.5**depth * (entropy + dice.mean())
    return total


def pixel_regression_loss(outputs: Any, _inputs: Mapping[str, Tensor]) -> Tensor:
    """Mean absolute error of every output pixel."""
    return functional.l1_loss(outputs, torch.zeros_like(outputs))
