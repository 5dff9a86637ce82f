"""Networks of timm that look at images whole, and images as they take them."""

from __future__ import annotations

import random

import numpy as np
import timm
import torch
from timm.data import create_transform, resolve_data_config
from torch import nn

from memory_service.train.budget import plan
from memory_service.train.media_files import flips, random_part, read_image, take_pictures
from memory_service.train.reading import Data
from memory_service.train.torch_loop import Samples, device, memory_format, timm_network


def build_model(checkpoint: dict, pretrained: bool) -> nn.Module:
    outputs = len(checkpoint["outputs"])
    model = timm_network(plan.MODEL, pretrained, num_classes=plan.DIMENSIONS or outputs)
    if plan.embedder:
        model = plan.embedder(model, outputs)
    return model.to(device, memory_format=memory_format())


def make_dataset(part: str, data: Data, rows, checkpoint: dict) -> Images:
    """Of the rows; part is train, valid or test."""
    kind = plan.image_samples or Images
    if part == "test":
        return kind(data.test_inputs, rows, partial=True)
    return kind(data.inputs, rows, train=part == "train", flip=flips(data.outputs))


class Images(Samples):
    def __init__(self, paths: list, rows, train=False, partial=False, flip=0.0) -> None:
        super().__init__(paths, rows)
        config = resolve_data_config({}, pretrained_cfg=timm.get_pretrained_cfg(plan.MODEL).to_dict())
        self.shape = plan.IMAGE_SHAPE or (plan.IMAGE_SIZE, plan.IMAGE_SIZE)
        height, width = self.shape
        ratio = (0.75 * width / height, width / height / 0.75)
        self.transform = create_transform(
            (3, height, width), is_training=train, ratio=ratio, mean=config["mean"], std=config["std"],
            interpolation=config["interpolation"], crop_pct=plan.CENTER, crop_mode="squash", scale=plan.CROP,
            color_jitter=plan.COLOR_JITTER, hflip=flip, re_prob=plan.ERASING if train else 0.0,
        )  # fmt: skip
        self.train, self.partial, self.flip, self.levels = train, partial, flip, plan.BAND_LEVELS

    def sample(self, row: int) -> torch.Tensor:
        height, width = self.shape
        image = plan.read_image(self.paths[row], self.partial, round(1.25 * max(self.shape)))
        if self.levels is not None:
            part = random_part(*plan.CROP) if self.train else np.array([0.0, 0.0, 1.0, 1.0])
            pixels = image.resize((width, height), tuple(part * (image.size * 2)))
            mean, deviation = self.levels
            seen = torch.from_numpy((pixels / 255 - mean) / deviation).permute(2, 0, 1)
            return seen.flip(2) if self.train and random.random() < self.flip else seen
        if self.train:  # squashed before it is cropped, as test images are
            image = image.resize((round(1.25 * width), round(1.25 * height)))
        return self.transform(image)

    def unreadable(self) -> torch.Tensor:
        return torch.zeros(plan.channels, *self.shape)


plan.build_model, plan.make_dataset, plan.read_image = build_model, make_dataset, read_image
plan.learn_pictures = take_pictures
