"""Sounds without pretrained weights: statistics of MFCC with a kernel, and a small network on log-mels."""

import struct
import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from memory_service.train.kernels import FileMember, kernel_regression, random_trees
from memory_service.train.media_files import soundfile  # type: ignore[attr-defined]
from memory_service.train.networks import Augmentation, fit_network, samples_wanted
from memory_service.train.problem import Problem
from memory_service.train.table_files import SOUND_FILES
from memory_service.train.words import once

MELS, COEFFICIENTS, LONGEST = 40, 20, 10.0
MFCC_FEATURES = 11 * COEFFICIENTS
PITCH_FEATURES = 4
BACKGROUND_FEATURES = 2 * COEFFICIENTS + MELS // 4
SOUND_WIDTHS = (32, 24, 16, 12, 8)
SOUND_AUGMENTATION = Augmentation(shift=0.08, scale=0.0, stretch=0.15, light=0.2, gaps=(0.15, 0.15))


def whole_sound(path: Path | str) -> tuple[int, np.ndarray]:
    """Rate and samples of one channel, float32; ValueError for what cannot be read."""
    from scipy.io import wavfile

    try:
        with warnings.catch_warnings(action="ignore", category=wavfile.WavFileWarning):
            rate, samples = wavfile.read(path)
    except (ValueError, struct.error):  # a file that ends in its header
        if soundfile is None:
            raise
        try:
            samples, rate = soundfile.read(path)
        except soundfile.LibsndfileError as error:
            raise ValueError(str(error)) from error
    wave = np.asarray(samples, np.float32) - (128 if samples.dtype == np.uint8 else 0)
    wave = wave if wave.ndim == 1 else wave.mean(1)
    if rate < 1000 or len(wave) < rate // 100:
        raise ValueError(f"{len(wave)} samples at {rate} Hz")
    return int(rate), np.nan_to_num(wave - wave.mean())


def heard(rate: int, wave: np.ndarray) -> np.ndarray:
    """The part of a sound from the first to the last 10 ms that come within 40 dB of the loudest."""
    step = rate // 100
    power = (wave[: len(wave) // step * step].reshape(-1, step) ** 2).mean(1)
    loud = np.flatnonzero(power > 1e-4 * power.max())
    return wave[max(0, loud[0] - 2) * step : (loud[-1] + 3) * step] if len(loud) else wave


def log_mels(rate: int, wave: np.ndarray, hop: float, top: float) -> np.ndarray:
    """Logarithms of 40 mel bands from 50 Hz to `top` Hz, (bands, frames of `hop` seconds)."""
    window = int(rate * max(0.025, 2 * hop))
    size = 2 ** int(np.ceil(np.log2(max(window, 256))))
    starts = (np.arange(max(1, round(len(wave) / rate / hop))) * hop * rate).astype(int)
    padded = np.pad(wave, (window // 2, window))
    pieces = padded[starts[:, None] + np.arange(window)] * np.hanning(window).astype(np.float32)
    power = np.abs(np.fft.rfft(pieces, size)) ** 2
    low, high = 2595 * np.log10(1 + np.array([50.0, top]) / 700)
    mel = np.linspace(low, high, MELS + 2)
    edges = (700 * (10 ** (mel / 2595) - 1) * size / rate)[:, None]
    place = np.arange(size // 2 + 1)[None]
    rise = (place - edges[:-2]) / np.maximum(edges[1:-1] - edges[:-2], 1)
    fall = (edges[2:] - place) / np.maximum(edges[2:] - edges[1:-1], 1)
    bands = np.clip(np.minimum(rise, fall), 0, None) @ power.T
    return np.asarray(np.log(bands + 1e-7 * bands.max() + 1e-12), np.float32)


def read_sounds(paths: Sequence[Path | str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-mels, uint8 (sounds, 1, bands, frames), statistics of MFCC and of the rest, (sounds, features).

    Frames cover the 95th percentile of the lengths without silence, 10 seconds at most; of what is
    longer, the loudest part is taken. Each sound is normalised for itself. A file that cannot be
    read is the mean of the others.
    """
    known = [_try(p) for p in paths[:: max(1, len(paths) // 300)]]
    found = [(rate, len(heard(rate, wave)) / rate) for rate, wave, _ in known if not rate < 1]
    if not found:
        raise ValueError(f"no sound can be read, for example {paths[0]}: {known[0][2]}")
    top = min(11_025.0, 0.48 * float(np.percentile([rate for rate, _ in found], 5)))
    seconds = min(LONGEST, float(np.percentile([s for _, s in found], 95)))
    count = int(np.clip(seconds / 0.02, 64, 160))
    out = np.zeros((len(paths), 1, MELS, count), np.uint8)
    statistics: list[np.ndarray | None] = []
    reasons: list[str] = []
    for i, path in enumerate(paths):
        rate, wave, reason = _try(path)
        if reason:
            reasons.append(f"{path}: {reason}")
            statistics.append(None)
            continue
        whole, wave = wave, heard(rate, wave)
        frames = log_mels(rate, wave, seconds / count, min(top, rate / 2))
        if frames.shape[1] > count:
            loudness = np.cumsum(np.exp(frames - frames.max()).sum(0))
            first = int(np.argmax(loudness[count - 1 :] - np.r_[0, loudness[:-count]]))
            frames = frames[:, first : first + count]
        of_all = [_statistics(frames), _shape(rate, wave, len(whole)), _background(rate, whole, top)]
        statistics.append(np.concatenate(of_all))
        frames = (frames - frames.mean()) / (frames.std() + 1e-3)
        left = (count - frames.shape[1]) // 2
        filled = np.repeat(frames.min(1, keepdims=True), count, 1)
        filled[:, left : left + frames.shape[1]] = frames
        out[i, 0] = np.uint8(np.clip(filled / 3.5, -1, 1) * 127 + 128)
    good = np.array([s is not None for s in statistics])
    if reasons:
        told = f"{len(reasons)} of {len(paths)} sounds cannot be read, for example {reasons[0]}"
        print(f"WARNING: {told}", flush=True)
        out[~good] = np.uint8(out[good].mean(0))
    rows = np.stack([s for s in statistics if s is not None])
    features = np.tile(rows.mean(0), (len(paths), 1))
    features[good] = rows
    return out, features[:, :-BACKGROUND_FEATURES], features[:, -BACKGROUND_FEATURES:]


def _try(path: Path | str) -> tuple[int, np.ndarray, str]:
    try:
        return *whole_sound(path), ""
    except (OSError, ValueError, struct.error, EOFError, MemoryError) as error:
        return 0, np.zeros(0), str(error) or type(error).__name__


def _statistics(frames: np.ndarray) -> np.ndarray:
    """Of MFCC: means in eight parts of the time, deviations, and deviations of changes."""
    from scipy.fft import dct

    mfcc = dct(frames, axis=0, norm="ortho")[:COEFFICIENTS]
    change = np.diff(mfcc, axis=1, prepend=mfcc[:, :1])
    place = np.linspace(0, mfcc.shape[1], 9)
    parts = [mfcc[:, int(a) : max(int(b), int(a) + 1)].mean(1) for a, b in pairwise(place)]
    parts[0] = parts[0].copy()
    all_parts = np.stack([*parts, mfcc.mean(1), mfcc.std(1), change.std(1)])
    all_parts[:9, 0] -= mfcc[0].mean()  # loudness says how the sound was recorded
    return all_parts.reshape(-1)


def _background(rate: int, wave: np.ndarray, top: float) -> np.ndarray:
    """Of MFCC in the quietest fifth of the frames means and deviations, and the least level of some bands."""
    from scipy.fft import dct

    frames = log_mels(rate, wave[: int(LONGEST * rate)], 0.02, min(top, rate / 2))
    quiet = frames[:, frames.mean(0).argsort()[: max(3, frames.shape[1] // 5)]]
    mfcc = dct(quiet, axis=0, norm="ortho")[:COEFFICIENTS]
    return np.concatenate([mfcc.mean(1), mfcc.std(1), frames.min(1)[::4]])


def _shape(rate: int, wave: np.ndarray, whole: int) -> np.ndarray:
    """Of the sound as it is heard, without its loudness: lengths, how it rises and fades, how its spectrum
    lies and changes, how often it crosses zero and how often it begins anew."""
    step = max(rate // 200, 1)
    pieces = wave[: max(len(wave) // step, 2) * step]
    pieces = np.pad(pieces, (0, max(0, 2 * step - len(pieces))))
    power = (pieces[: len(pieces) // step * step].reshape(-1, step) ** 2).mean(1) + 1e-12
    level = 10 * np.log10(power / power.max())
    rising = (np.diff(level, prepend=-80.0) > 6) & (level > -20)
    passed = np.searchsorted(np.cumsum(power) / power.sum(), (0.1, 0.3, 0.5, 0.7, 0.9, 0.97))
    found = [np.log(len(wave) / rate), np.log(whole / rate), float(level.argmax()), np.log1p(rising.sum())]
    found += [*np.log1p(passed), *(np.log1p((level > -down).sum()) for down in (6, 12, 20, 30))]
    found += [float(level[min(place, len(level) - 1)]) for place in (2, 5, 10, 20, 40, 80)]
    for start, end in ((0.0, 0.02), (0.02, 0.08), (0.08, 0.3), (0.0, 10.0)):
        part = wave[int(start * rate) : int(end * rate)]
        part = np.pad(part, (0, max(0, 256 - len(part))))
        spectrum = np.abs(np.fft.rfft(part * np.hanning(len(part)))) ** 2 + 1e-12
        spectrum /= spectrum.sum()
        hertz = np.fft.rfftfreq(len(part), 1 / rate)
        centre = float((hertz * spectrum).sum())
        spread = np.sqrt(((hertz - centre) ** 2 * spectrum).sum())
        flat = np.exp(np.log(spectrum).mean()) / spectrum.mean()
        places = np.searchsorted(np.cumsum(spectrum), (0.1, 0.25, 0.5, 0.75, 0.9))
        below = hertz[places.clip(max=len(hertz) - 1)]
        crossed = np.mean(np.sign(part[1:]) != np.sign(part[:-1]))
        found += [np.log(centre + 20), np.log(spread + 20), np.log(flat), crossed, *np.log(below + 20)]
        found.append(np.log(hertz[spectrum.argmax()] + 20))
    return np.nan_to_num(np.asarray(found + pitch_of(rate, wave), np.float32))


def pitch_of(rate: int, wave: np.ndarray, lowest: float = 40.0, highest: float = 4500.0) -> list[float]:
    """Of the tone at a quarter, the half and three quarters of a sound: octaves above 440 Hz by the first
    strong peak of the autocorrelation (the medians over the three, and how far they are apart), how strong
    it is, and octaves by the sum of five harmonics."""
    size = min(len(wave), max(1024, rate // 8))
    octaves, strengths, sums = [], [], []
    for share in (0.25, 0.5, 0.75):
        first = max(0, min(len(wave) - size, int(share * len(wave)) - size // 2))
        part = np.pad(wave[first : first + size], (0, max(0, 256 - size)))
        part = part.astype(float) - part.mean()
        part /= np.abs(part).max() + 1e-12
        width = 2 ** int(np.ceil(np.log2(2 * len(part))))
        spectrum = np.abs(np.fft.rfft(part * np.hanning(len(part)), width))
        whole = np.fft.irfft(np.abs(np.fft.rfft(part, width)) ** 2)[: len(part)]
        energy = np.cumsum(part**2)
        left = np.sqrt((energy[::-1] * (energy[-1] - np.r_[0, energy[:-1]])).clip(0)) + 1e-9
        like = whole / left  # 1 at a lag by which the sound repeats itself
        start, end = max(2, int(rate / highest)), min(len(like) // 2, int(rate / lowest))
        lags = np.arange(start, max(end, start + 2))
        near = like[lags]
        peaks = lags[1:-1][(near[1:-1] >= near[:-2]) & (near[1:-1] > near[2:])]
        strong = peaks[like[peaks] > 0.85 * like[peaks].max()] if len(peaks) else peaks
        lag = float(strong[0]) if len(strong) else float(lags[np.argmax(near)])
        low, mid, high = (like[int(lag) + step] for step in (-1, 0, 1))
        bend = low - 2 * mid + high
        if mid >= max(low, high) and bend < -1e-9:  # a parabola through a peak
            lag += float(np.clip(0.5 * (low - high) / bend, -0.5, 0.5))
        octaves.append(np.log2(rate / lag / 440))
        strengths.append(float(mid))
        hertz = np.geomspace(lowest, min(highest, rate / 2.2), 300)
        places = np.outer(hertz, np.arange(1, 6)) * width / rate
        levels = np.log(spectrum + 1e-6 * spectrum.max() + 1e-9)
        heights = np.interp(places, np.arange(len(levels)), levels, right=levels.min())
        sums.append(np.log2(hertz[heights.sum(axis=1).argmax()] / 440))
    found = (np.median(octaves), np.ptp(octaves), np.median(strengths), np.median(sums))
    return [float(each) for each in found]


def _read(problem: Problem) -> Any:
    return once(problem, "sounds", lambda: read_sounds([*problem.inputs, *problem.test_inputs]))


def _sound_frames(problem: Problem, _rows: np.ndarray) -> tuple[np.ndarray, Augmentation, list[Any]]:
    pictures = _read(problem)[0]
    return pictures, SOUND_AUGMENTATION, [(lambda x: x, width) for width in SOUND_WIDTHS]


def _sound_statistics(problem: Problem, _rows: np.ndarray) -> list[np.ndarray]:
    features = _read(problem)[1]
    features = features / (features.std(0) + 1e-6)
    if problem.kind == "values":  # how high, how fast, how large: what the tone says counts alone
        return np.split(features, (MFCC_FEATURES, features.shape[1] - PITCH_FEATURES), axis=1)
    return [features[:, :MFCC_FEATURES], features[:, MFCC_FEATURES:]]


def _with_background(problem: Problem, rows: np.ndarray) -> list[np.ndarray]:
    """Also what is behind the sound: where and with what it was recorded."""
    behind = _read(problem)[2]
    return [*_sound_statistics(problem, rows), behind / (behind.std(0) + 1e-6)]


SOUND_STATISTICS = FileMember(
    "MFCC statistics, kernel", SOUND_FILES, "scipy", _sound_statistics, kernel_regression,
    lambda _n, files: 12.0 + 0.01 * files,
)  # fmt: skip
SOUND_BACKGROUND = FileMember(
    "MFCC and background, kernel", SOUND_FILES, "scipy", _with_background, kernel_regression,
    lambda _n, files: 10.0 + 2e-3 * files,
)  # fmt: skip
SOUND_TREES = FileMember(
    "sound statistics, trees", SOUND_FILES, "scipy", _sound_statistics, random_trees,
    lambda n, files: 2.0 + 0.01 * files + 4e-3 * n,
)  # fmt: skip
SOUND_NETWORK = FileMember(
    "small network, sounds", SOUND_FILES, "torch", _sound_frames, fit_network,
    lambda n, files: 10.0 + 0.01 * files + 2.5e-3 * samples_wanted(n), anytime=True, seeded=True,
)  # fmt: skip

SOUND_MEMBERS = (SOUND_STATISTICS, SOUND_BACKGROUND, SOUND_TREES, SOUND_NETWORK)
