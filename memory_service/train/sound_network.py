"""Networks of timm that look at the spectrograms of sounds, and sounds as they take them."""

import random
from typing import Any

import numpy as np
import torch
from torch import nn

from memory_service.train.budget import plan
from memory_service.train.media_files import read_sound
from memory_service.train.reading import Data
from memory_service.train.torch_loop import Samples, device, memory_format, timm_network

SAMPLE_RATE, MEL_BANDS, WINDOW = 32_000, 128, 1024
HOP = SAMPLE_RATE // 100  # SEQ_LEN counts frames of 10 ms


def mel_filters() -> torch.Tensor:
    """(MEL_BANDS, frequencies): triangles that are evenly spread in mel, 20 Hz to half the sample rate."""
    low, high = 2595 * np.log10(1 + np.array([20, SAMPLE_RATE / 2]) / 700)
    corners = 700 * (10 ** (np.linspace(low, high, MEL_BANDS + 2) / 2595) - 1)
    frequencies = np.linspace(0, SAMPLE_RATE / 2, WINDOW // 2 + 1)
    rising = (frequencies - corners[:-2, None]) / np.diff(corners)[:-1, None]
    falling = (corners[2:, None] - frequencies) / np.diff(corners)[1:, None]
    return torch.tensor(np.minimum(rising, falling).clip(min=0), dtype=torch.float32)


def hidden(mels: torch.Tensor, axis: int) -> torch.Tensor:
    """Spectrograms (batch, bands, frames) with HIDDEN_BANDS stripes across this axis at their mean, 0: each
    at a random place, up to an eighth wide (SpecAugment, Park et al. 2019)."""
    length = mels.shape[axis]
    shape = (len(mels), plan.HIDDEN_BANDS, 1)
    wide = torch.rand(shape, device=mels.device) * length / 8
    start = torch.rand(shape, device=mels.device) * (length - wide)
    places = torch.arange(length, device=mels.device)
    seen = ~((places >= start) & (places < start + wide)).any(dim=1)
    return mels * seen.unsqueeze(3 - axis)


class SpectrogramModel(nn.Module):
    """Waves (batch, samples) to log-mel spectrograms of SEQ_LEN frames, through an image network."""

    filters: torch.Tensor
    window: torch.Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("filters", mel_filters(), persistent=False)
        self.register_buffer("window", torch.hann_window(WINDOW), persistent=False)

    def forward(self, waves: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, enabled=False):  # powers overflow in half precision
            bins = torch.stft(waves, WINDOW, HOP, window=self.window, return_complex=True)
            mels = (self.filters @ bins.abs().square()[..., : plan.SEQ_LEN]).clamp(min=1e-8).log()
            mels = (mels - mels.mean((1, 2), keepdim=True)) / (mels.std((1, 2), keepdim=True) + 1e-4)
        if self.training and plan.HIDDEN_BANDS:
            mels = hidden(hidden(mels, 1), 2)
        return self.network(mels[:, None].to(memory_format=memory_format()))


def build_model(checkpoint: dict, pretrained: bool) -> nn.Module:
    outputs = len(checkpoint["outputs"])
    network = timm_network(plan.MODEL.removeprefix("spec/"), pretrained, num_classes=outputs, in_chans=1)
    model: Any = SpectrogramModel(network)
    return model.to(device, memory_format=memory_format())


class Sounds(Samples):
    """Of SEQ_LEN frames each, of the rows; part is train, valid or test."""

    def __init__(self, part: str, data: Data, rows, checkpoint: dict) -> None:
        super().__init__(data.test_inputs if part == "test" else data.inputs, rows)
        self.train, self.length = part == "train", HOP * plan.SEQ_LEN

    def sample(self, row: int) -> torch.Tensor:
        place = random.random() if self.train else 0.5
        sound = plan.read_sound(self.paths[row], self.length / SAMPLE_RATE, place, SAMPLE_RATE)[: self.length]
        if len(sound) == 0 or not np.isfinite(sound).all():
            raise ValueError("there are no samples, or some that are no numbers")
        return torch.from_numpy(np.resize(sound, self.length))  # it repeats

    def unreadable(self) -> torch.Tensor:
        return torch.zeros(self.length)


make_dataset = Sounds
plan.build_model, plan.make_dataset, plan.read_sound = build_model, make_dataset, read_sound
