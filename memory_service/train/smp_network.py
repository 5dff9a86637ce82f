"""Networks of segmentation_models_pytorch over encoders of timm."""

from typing import Any

import segmentation_models_pytorch as smp
import timm
from torch import nn

from memory_service.train.budget import plan
from memory_service.train.media_files import take_pictures
from memory_service.train.problem import from_folder
from memory_service.train.torch_loop import device, memory_format, pretrained_or_exit


def mean_and_std() -> Any:
    """Of the colours that the encoder was trained with, or of the bands of training pictures."""
    config = timm.models.get_pretrained_cfg(plan.MODEL.partition("/")[2])
    return plan.BAND_LEVELS or (config.mean, config.std)


def build_model(checkpoint: dict, pretrained: bool) -> nn.Module:
    decoder, encoder = plan.MODEL.split("/")
    fixed = timm.models.get_pretrained_cfg(encoder).fixed_input_size
    sizes = {"in_channels": plan.channels, **({"img_size": plan.IMAGE_SIZE} if fixed else {})}
    with pretrained_or_exit(pretrained):
        if overlay := from_folder(encoder):
            sizes |= {"pretrained_cfg_overlay": overlay}
        model = smp.create_model(
            decoder, f"tu-{encoder}", pretrained or None, classes=len(checkpoint["outputs"]), **sizes
        )
    if plan.GRADIENT_CHECKPOINTING:
        model.encoder.model.set_grad_checkpointing()
    return model.to(device, memory_format=memory_format())


plan.build_model, plan.mean_and_std, plan.learn_pictures = build_model, mean_and_std, take_pictures
