"""Detectors of torchvision: over its own ResNets, of which it has weights, or over an encoder of timm."""

from typing import Any

import torch
from torch import nn
from torchvision.models import get_model_weights
from torchvision.models.detection import FCOS, FasterRCNN, RetinaNet
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.ops import FeaturePyramidNetwork, FrozenBatchNorm2d
from torchvision.ops.feature_pyramid_network import LastLevelMaxPool, LastLevelP6P7

from memory_service.train.box_loop import load_fitting, take_bands
from memory_service.train.budget import plan
from memory_service.train.media_files import USUAL_LEVELS
from memory_service.train.problem import from_folder
from memory_service.train.torch_loop import autocast, device, memory_format, pretrained_or_exit, timm_network

DETECTORS = {"fcos": FCOS, "retinanet": RetinaNet, "fasterrcnn": FasterRCNN}
# Encoders of torchvision, and those of whose detectors it has weights
COCO_RESNETS = ("resnet50",)
RESNETS = (*COCO_RESNETS, "resnet18", "resnet34", "resnet101", "resnet152", "resnext101_32x8d")
CHANNELS = 256  # of the feature pyramid and the heads over an encoder of timm


def has_two_stages() -> bool:
    return plan.MODEL.startswith("fasterrcnn/")


def resnet_pyramid(encoder: str, pretrained: bool) -> nn.Module:
    """The encoder and its feature pyramid. Batch norms, stem and first stage of a pretrained one stay as they
    are, but a first convolution of other bands learns; random ones learn."""
    norm, trained = (FrozenBatchNorm2d, 3) if pretrained else (nn.BatchNorm2d, 5)
    coarse = LastLevelMaxPool() if has_two_stages() else LastLevelP6P7(256, 256)
    levels = [1, 2, 3, 4] if has_two_stages() else [2, 3, 4]
    how = {"norm_layer": norm, "trainable_layers": trained, "returned_layers": levels, "extra_blocks": coarse}
    return resnet_fpn_backbone(backbone_name=encoder, weights=None, **how)


class Pyramid(nn.Module):
    """A timm encoder's maps of stride 8 (of two stages: 4) to 32, and a pyramid of CHANNELS over them."""

    def __init__(self, encoder: str, pretrained: bool) -> None:
        super().__init__()
        self.body = timm_network(encoder, pretrained, features_only=True)
        self.out_channels, strides = CHANNELS, self.body.feature_info.reduction()
        least = 4 if has_two_stages() else 8
        self.levels = [level for level, stride in enumerate(strides) if least <= stride <= 32]
        channels = [self.body.feature_info.channels()[level] for level in self.levels]
        coarse = LastLevelMaxPool() if has_two_stages() else LastLevelP6P7(CHANNELS, CHANNELS)
        self.fpn = FeaturePyramidNetwork(channels, CHANNELS, extra_blocks=coarse)

    def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        maps = self.body(images)
        if getattr(self.body, "output_fmt", "NCHW") == "NHWC":
            maps = [each.permute(0, 3, 1, 2) for each in maps]
        return self.fpn({str(level): maps[level] for level in self.levels})


def build_model(checkpoint: dict, pretrained: bool) -> nn.Module:
    detector, encoder = plan.MODEL.split("/")
    rule = {"score_thresh": plan.MIN_SCORE, "nms_thresh": plan.NMS_IOU, "detections_per_img": plan.MAX_BOXES}
    if has_two_stages():
        rule = {f"box_{name}": value for name, value in rule.items()}
    own = encoder in RESNETS
    backbone = resnet_pyramid(encoder, pretrained) if own else Pyramid(encoder, pretrained)
    side, classes = plan.IMAGE_SIZE, len(checkpoint["outputs"]) + 1  # the first one is none of them
    if plan.BANDS:
        usual = zip(("image_mean", "image_std"), USUAL_LEVELS, strict=True)
        rule |= {name: [level / 255] * plan.BANDS for name, level in usual}
    model = DETECTORS[detector](backbone, classes, min_size=side, max_size=side, **rule)
    if own and pretrained:
        with pretrained_or_exit(pretrained):
            load_weights(model)
    if own:
        take_bands(model)
    return model.to(device, memory_format=memory_format())


def load_weights(model: Any) -> None:
    """The detector's of COCO, less what depends on the classes; where there are none, the encoder's of
    ImageNet."""
    detector, encoder = plan.MODEL.split("/")
    whole = encoder in COCO_RESNETS
    name, part = (f"{detector}_{encoder}_fpn", model) if whole else (encoder, model.backbone.body)
    if file := from_folder(name):
        weights = torch.load(file["file"], map_location="cpu", weights_only=True)
    else:
        weights = get_model_weights(name).DEFAULT.get_state_dict(progress=False)
    load_fitting(part, weights)


def loss_of(model: nn.Module, images: torch.Tensor, boxes: list[torch.Tensor]) -> torch.Tensor:
    """The sum of the detector's own losses: of classes, boxes, and what tells objects from background."""
    targets = [{"boxes": each[:, 1:], "labels": each[:, 0].long() + 1} for each in boxes]
    return sum(model(list(images), targets).values())


def boxes_in(model: nn.Module, images: torch.Tensor) -> list[torch.Tensor]:
    """Of each image (boxes, 6), on the processor: score, class and corners at IMAGE_SIZE, the best first."""
    with autocast():
        answers = model(list(images))
    found = [torch.column_stack([each["scores"], each["labels"] - 1, each["boxes"]]) for each in answers]
    return [each[each[:, 1] >= 0].float().cpu() for each in found]


plan.build_model, plan.loss_of, plan.boxes_in = build_model, loss_of, boxes_in
