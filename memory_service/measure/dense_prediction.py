"""Segmentation networks: U-Net, FPN, DeepLabV3+ over a timm encoder, plain U-Nets.

Encoders come from timm through segmentation_models_pytorch; losses are cross entropy + soft Dice for masks
and mean absolute error for images, on every pixel.

Object detectors: torchvision's backbone, pyramid and heads with a dense loss.

Target assignment, sampling and non-maximum suppression read values, so they are not in the graph: their
memory is small beside the features; their time, some milliseconds an image on the host, is left out.
Two-stage models take `PROPOSALS` boxes an image through RoIAlign at the finest pyramid level.
"""

import itertools
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import timm
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


DETECTORS = ("retinanet", "fcos", "fasterrcnn", "maskrcnn", "ssd")
PROPOSALS = 512
POSITIVES = 128
DETECTOR_SIZE = 800
COCO_CLASSES = 91

_TORCHVISION_BACKBONES = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext101_32x8d")


def build_detector(name: str, input_size: int | None, n_outputs: int | None) -> BuiltModel:
    """`retinanet/resnet50`, `fasterrcnn/efficientnet_b3`, `maskrcnn/resnet101`, `fcos/...`, `ssd/resnet50`.

    ResNets as torchvision and detectron2 train them: batch norm, stem and first stage frozen; other encoders
    train whole. input_size is the side of a square image (800 x 1333 images: about 1 033).
    """
    head, _, encoder = name.partition("/")
    backbones = _TORCHVISION_BACKBONES if head != "ssd" else ("resnet50",)
    current = timm_name(encoder)
    if head not in DETECTORS or current is None or (head == "ssd" and current != "resnet50"):
        raise unknown_name("model", name, [f"{d}/{k}" for d in DETECTORS for k in backbones])
    default = 300 if head == "ssd" else DETECTOR_SIZE
    size = input_size or default
    classes = n_outputs or (81 if head == "ssd" else COCO_CLASSES)
    module = on_meta(
        lambda: _SsdR50(classes) if head == "ssd" else _pyramid_detector(head, current, classes, size)
    )
    family, loss = family_of(current), dense_detection_loss
    return image_model(name, "torchvision", family, module, size, default, classes, loss=loss)


def dense_detection_loss(outputs: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    """Focal-style binary cross entropy on every logit and L1 on every box or mask, summed."""
    device = next(iter(inputs.values())).device
    total = torch.zeros((), device=device)
    for key, value in outputs.items():
        for tensor in value if isinstance(value, list | tuple) else [value]:
            target = torch.zeros_like(tensor)
            if "logits" in key:
                total = total + functional.binary_cross_entropy_with_logits(tensor, target, reduction="sum")
            else:
                total = total + functional.l1_loss(tensor, target, reduction="sum")
    return total


class _TimmPyramid(nn.Module):
    """timm features at strides 4 to 32 and a feature pyramid of 256 channels over them."""

    def __init__(self, encoder: str, size: int, extra: nn.Module) -> None:
        super().__init__()
        from torchvision.ops import FeaturePyramidNetwork

        self.body: Any = timm.create_model(
            encoder, pretrained=False, features_only=True, **size_arguments(encoder, size)
        )
        info: Any = self.body.feature_info
        levels = [index for index, stride in enumerate(info.reduction()) if 4 <= stride <= 32]
        self.levels = levels
        self.channels_last_features = [getattr(self.body, "output_fmt", "NCHW") == "NHWC"] * len(levels)
        channels = [info.channels()[index] for index in levels]
        self.fpn = FeaturePyramidNetwork(channels, 256, extra_blocks=extra)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        features = self.body(x)
        picked = {}
        for index, last in zip(self.levels, self.channels_last_features, strict=True):
            feature = features[index]
            picked[str(index)] = feature.permute(0, 3, 1, 2) if last else feature
        return self.fpn(picked)


def _backbone(encoder: str, size: int, two_stage: bool) -> nn.Module:
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
    from torchvision.ops import FrozenBatchNorm2d
    from torchvision.ops.feature_pyramid_network import LastLevelMaxPool, LastLevelP6P7

    extra = LastLevelMaxPool() if two_stage else LastLevelP6P7(256, 256)
    if encoder.split(".", maxsplit=1)[0] in _TORCHVISION_BACKBONES:
        backbone: nn.Module = resnet_fpn_backbone(
            backbone_name=encoder.split(".", maxsplit=1)[0], weights=None, norm_layer=FrozenBatchNorm2d,
            trainable_layers=3, returned_layers=[1, 2, 3, 4] if two_stage else [2, 3, 4], extra_blocks=extra,
        )  # fmt: skip
        return backbone
    return _TimmPyramid(encoder, size, extra)


def _pyramid_detector(head: str, encoder: str, classes: int, size: int) -> nn.Module:
    backbone = _backbone(encoder, size, two_stage=head in ("fasterrcnn", "maskrcnn"))
    if head in ("fasterrcnn", "maskrcnn"):
        return _TwoStage(backbone, classes, masks=head == "maskrcnn")
    return _OneStage(backbone, head, classes)


class _OneStage(nn.Module):
    """RetinaNet or FCOS: convolutional heads on every pyramid level."""

    def __init__(self, backbone: nn.Module, head: str, classes: int) -> None:
        super().__init__()
        from torchvision.models.detection.fcos import FCOSHead
        from torchvision.models.detection.retinanet import RetinaNetHead

        self.backbone = backbone
        self.head = RetinaNetHead(256, 9, classes) if head == "retinanet" else FCOSHead(256, 1, classes)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return self.head(list(self.backbone(x).values()))


class _TwoStage(nn.Module):
    """Faster or Mask R-CNN: proposal head on the pyramid, then box (and mask) heads on aligned regions."""

    def __init__(self, backbone: nn.Module, classes: int, *, masks: bool) -> None:
        super().__init__()
        from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
        from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
        from torchvision.models.detection.rpn import RPNHead

        self.backbone = backbone
        self.rpn = RPNHead(256, 3)
        self.box_head = TwoMLPHead(256 * 7 * 7, 1024)
        self.box_predictor = FastRCNNPredictor(1024, classes)
        self.mask_head: nn.Module | None = None
        if masks:
            heads, predictor = MaskRCNNHeads(256, (256,) * 4, 1), MaskRCNNPredictor(256, 256, classes)
            self.mask_head = nn.Sequential(heads, predictor)

    def forward(self, x: Tensor) -> dict[str, Any]:
        features = list(self.backbone(x).values())
        objectness, deltas = self.rpn(features)
        regions = self._regions(features[0], PROPOSALS, 7)
        logits, boxes = self.box_predictor(self.box_head(regions))
        outputs = {"rpn_logits": objectness, "rpn_boxes": deltas, "box_logits": logits, "boxes": boxes}
        if self.mask_head is not None:
            outputs["mask_logits"] = self.mask_head(self._regions(features[0], POSITIVES, 14))
        return outputs

    def _regions(self, feature: Tensor, count: int, side: int) -> Tensor:
        from torchvision.ops import roi_align

        rois = torch.zeros((feature.shape[0] * count, 5), device=feature.device, dtype=feature.dtype)
        return roi_align(feature, rois, output_size=side, spatial_scale=0.25, sampling_ratio=2)


class _SsdR50(nn.Module):
    """SSD300 on ResNet-50 up to its third stage at stride 8, as NVIDIA's training example builds it."""

    BOXES = (4, 6, 6, 6, 4, 4)
    CHANNELS = (1024, 512, 512, 256, 256, 256)
    MIDDLE = (256, 256, 128, 128, 128)

    def __init__(self, classes: int) -> None:
        super().__init__()
        from torchvision.models import resnet50

        body = resnet50(weights=None)
        for layer in (body.layer3[0].conv2, body.layer3[0].downsample[0]):
            layer.stride = (1, 1)
        self.features = nn.Sequential(
            body.conv1, body.bn1, body.relu, body.maxpool, body.layer1, body.layer2, body.layer3
        )
        self.extra = nn.ModuleList()
        pairs = zip(self.CHANNELS[:-1], self.CHANNELS[1:], self.MIDDLE, strict=True)
        for index, (before, after, middle) in enumerate(pairs):
            stride, padding = (2, 1) if index < 3 else (1, 0)
            narrow = nn.Conv2d(before, middle, 1, bias=False), nn.BatchNorm2d(middle)
            wide = nn.Conv2d(middle, after, 3, stride, padding, bias=False), nn.BatchNorm2d(after)
            self.extra.append(nn.Sequential(*narrow, nn.ReLU(inplace=True), *wide, nn.ReLU(inplace=True)))
        sized = list(zip(self.CHANNELS, self.BOXES, strict=True))
        self.boxes = nn.ModuleList(nn.Conv2d(c, 4 * n, 3, padding=1) for c, n in sized)
        self.logits = nn.ModuleList(nn.Conv2d(c, classes * n, 3, padding=1) for c, n in sized)
        self.classes = classes

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        maps = [self.features(x)]
        for block in self.extra:
            maps.append(block(maps[-1]))
        boxes = [head(m).flatten(2) for head, m in zip(self.boxes, maps, strict=True)]
        logits = [head(m).flatten(2) for head, m in zip(self.logits, maps, strict=True)]

        def joined(parts: list[Tensor], width: int) -> Tensor:
            return torch.cat([part.reshape(x.shape[0], width, -1) for part in parts], dim=2)

        return {"logits": joined(logits, self.classes), "boxes": joined(boxes, 4)}
