"""YOLO of the package ultralytics (AGPL-3.0): its networks and their losses."""

import os

import torch
from torch import nn
from torchvision.ops import batched_nms, box_convert

from memory_service.train.box_loop import load_fitting, take_bands
from memory_service.train.budget import plan
from memory_service.train.problem import from_folder
from memory_service.train.torch_loop import autocast, device, memory_format, pretrained_or_exit

RELEASE = "https://github.com/ultralytics/assets/releases/download/v8.3.0"


def build_model(checkpoint: dict, pretrained: bool) -> nn.Module:
    os.environ.update(YOLO_OFFLINE="true", YOLO_VERBOSE="false")  # it looks up no host and reports nothing
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel

    model = DetectionModel(f"{plan.MODEL}.yaml", nc=len(checkpoint["outputs"]), verbose=False)
    model.args = get_cfg()  # how its losses are weighed
    if pretrained:
        with pretrained_or_exit(pretrained):
            load_weights(model)
    take_bands(model)
    return model.to(device, memory_format=memory_format())


def load_weights(model: nn.Module) -> None:
    """Those learned on COCO, less what depends on the classes. The file is a pickle of the network's code,
    which `weights_only=True` refuses, and no digest of it is published: the publisher's package reads it."""
    from ultralytics import YOLO

    if file := from_folder(plan.MODEL):
        path = file["file"]
    else:
        path = os.path.join(torch.hub.get_dir(), "checkpoints", f"{plan.MODEL}.pt")
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            torch.hub.download_url_to_file(f"{RELEASE}/{plan.MODEL}.pt", path)
    load_fitting(model, YOLO(path).model.float().state_dict())


def loss_of(model: nn.Module, images: torch.Tensor, boxes: list[torch.Tensor]) -> torch.Tensor:
    """The package's own: of boxes, of classes and of the spread of each side."""
    all_boxes, counts = torch.cat(boxes), torch.tensor([len(each) for each in boxes], device=images.device)
    centers = box_convert(all_boxes[:, 1:] / plan.IMAGE_SIZE, "xyxy", "cxcywh")
    image = torch.arange(len(boxes), device=images.device).repeat_interleave(counts)
    losses, _ = model({"img": images, "batch_idx": image, "cls": all_boxes[:, :1], "bboxes": centers})
    return losses.sum() / len(images)


def boxes_in(model: nn.Module, images: torch.Tensor) -> list[torch.Tensor]:
    """Of each image (boxes, 6), on the processor: score, class and corners at IMAGE_SIZE, the best first."""
    with autocast():
        outputs = model(images)[0].float()  # (images, 4 + classes, places)
    found = []
    for centers, chances in zip(outputs[:, :4].mT, outputs[:, 4:].mT, strict=True):
        places, kinds = (chances > plan.MIN_SCORE).nonzero(as_tuple=True)
        scores, boxes = chances[places, kinds], box_convert(centers, "cxcywh", "xyxy")[places]
        most = scores.argsort(descending=True)[:3000]
        best = most[batched_nms(boxes[most], scores[most], kinds[most], plan.NMS_IOU)]
        found.append(torch.column_stack([scores[best], kinds[best], boxes[best]]).cpu())
    return found


plan.build_model, plan.loss_of, plan.boxes_in = build_model, loss_of, boxes_in
