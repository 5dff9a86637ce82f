"""Reads the files of images, masks and sounds for networks."""

import math
import random
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from wave import open as open_wave

import numpy as np

from memory_service.train.budget import plan
from memory_service.train.reading import drawn_runs

try:
    import soundfile  # type: ignore[import-not-found]  # reads flac, ogg and mp3, too
except ImportError:
    soundfile = None


USUAL_LEVELS = 110.0, 60.0  # mean and deviation of colours, of 255
COLOURED = ("RGB", "RGBA", "P", "LA", "1", "CMYK", "YCbCr")  # as Pillow calls what has more than greys


def flips(outputs: list) -> float:
    """FLIP; 0 where the classes are digits or letters."""
    names = {str(name).lower() for name in outputs}
    characters = names == set("0123456789") or (len(names) > 20 and all(len(name) == 1 for name in names))
    return 0.0 if characters else plan.FLIP


def read_image(path: Path | str, partial: bool = False, side: int = 0, upright: bool = True) -> Any:
    """An RGB image, greys of over 8 bits from black to white, upright by EXIF, what is transparent white.

    partial   of a truncated file what there is
    side      pixels that are enough, so that a large JPEG is decoded at a half, a quarter or an eighth
    """
    if plan.BANDS:
        return read_bands(path)
    from PIL import Image, ImageFile, ImageOps

    ImageFile.LOAD_TRUNCATED_IMAGES = partial
    with Image.open(path) as file:
        image: Any = file
        if side:
            image.draft(None, (side, side))
        if image.mode[0] in "IF":
            levels = np.nan_to_num(np.asarray(image, np.float64))
            low, high = float(levels.min()), float(levels.max())
            image = Image.fromarray((255 * (levels - low) / max(high - low, 1e-6)).astype(np.uint8))
        elif image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
            white = Image.new("RGBA", image.size, (255, 255, 255, 255))
            white.info = image.info  # with its EXIF
            image = Image.alpha_composite(white, image.convert("RGBA"))
        image = image.convert("RGB")
    with suppress(Exception):  # of a broken EXIF
        if upright:
            ImageOps.exif_transpose(image, in_place=True)
    plain = partial and max(image.resize((16, 16), 0).getcolors())[0] > 240  # as an end that is missing is
    return read_image(path, upright=upright) if plain else image  # fails, if there is one


def random_part(least: float = 0.5, most: float = 1.0) -> np.ndarray:
    """Left, top, right and bottom of such a share of an image's area, as shares of its sides."""
    share = random.uniform(least, most) ** 0.5
    left, top = random.uniform(0, 1 - share), random.uniform(0, 1 - share)
    return np.array([left, top, left + share, top + share]).clip(0, 1)


class BandPicture:
    """float32 (height, width, bands), with what scripts ask of a picture of Pillow."""

    def __init__(self, levels: np.ndarray) -> None:
        self.levels, (self.height, self.width) = levels.astype(np.float32), levels.shape[:2]
        self.size = self.width, self.height

    def resize(self, size: tuple[int, int], box: Any = None) -> np.ndarray:
        from PIL import Image

        bands = (Image.fromarray(np.ascontiguousarray(band)) for band in np.moveaxis(self.levels, 2, 0))
        return np.dstack([np.asarray(band.resize(size, Image.Resampling.BILINEAR, box)) for band in bands])


@lru_cache(maxsize=1)  # its size is asked before its pixels
def read_bands(path: Path | str) -> BandPicture:
    """Of .npy, of .tif by tifffile, or what Pillow reads; the bands may be the first axis or the last. Of
    colours where one band is wanted their mean."""
    kind = Path(path).suffix.lower()
    if kind in (".tif", ".tiff"):
        from tifffile import imread  # type: ignore[import-not-found]

        levels = imread(path)
    elif kind == ".npy":
        levels = np.load(path, allow_pickle=False)
    else:
        from PIL import Image

        with Image.open(path) as image:
            levels = np.asarray(image.convert("RGB") if plan.BANDS == 1 and image.mode in COLOURED else image)
    if levels.ndim == 2 and plan.BANDS == 1:
        levels = levels[..., None]
    if levels.ndim == 3 and levels.shape[2] not in ((1, 3, 4) if plan.BANDS == 1 else (plan.BANDS,)):
        levels = np.moveaxis(levels, 0, 2)
    if plan.BANDS == 1 and levels.shape[2:] in ((3,), (4,)):
        levels = levels[..., :3].mean(axis=2, keepdims=True)
    if levels.shape[2:] != (plan.BANDS,):
        raise ValueError(f"{Path(path).name} has the shape {levels.shape}, not {plan.BANDS} bands")
    return BandPicture(np.nan_to_num(levels))


def as_colours(pixels: np.ndarray, levels: Any) -> np.ndarray:
    """float32 (height, width, bands), each spread as colours usually are, of 255; without levels as it is."""
    if levels is None:
        return pixels
    (mean, deviation), (usual, spread) = levels, USUAL_LEVELS
    return (usual + spread * (pixels / 255 - mean) / deviation).astype(np.float32)


def take_pictures(paths: list) -> None:
    """Mean and deviation of each band, in 255ths as of colours; whether strips are wide or high."""
    found: list[Any] = []
    for path in paths[:: 1 + len(paths) // 200] if plan.BANDS or plan.IMAGE_SHAPE else ():
        with suppress(OSError, ValueError):
            found.append(plan.read_image(path))
    if plan.BANDS and not found:
        raise OSError(f"none of the pictures can be read as {plan.BANDS} bands, such as {paths[0]}")
    if plan.BANDS:
        pixels = [
            each.levels.reshape(-1, plan.BANDS)[:: 1 + each.levels[..., 0].size // 1000] for each in found
        ]
        plan.BAND_LEVELS = np.concatenate(pixels).mean(0) / 255, np.concatenate(pixels).std(0) / 255 + 1e-9
    if plan.IMAGE_SHAPE:
        wide = 2 * sum(each.size[0] > each.size[1] for each in found) > len(found)
        plan.IMAGE_SHAPE = tuple(sorted(plan.IMAGE_SHAPE, reverse=not wide))


def read_mask(path: str, size: tuple[int, int] = (1, 1)) -> Any:
    """255 where the object is, else 0 (of a JPEG up to 127); "mask.png#3": where it is 3. Run lengths or no
    file are of the size given."""
    from PIL import Image

    path, _, value = path.partition("#")

    if not path:
        return Image.new("L", size)
    if (drawn := drawn_runs(path, size)) is not None:
        return Image.fromarray(drawn)
    with Image.open(path) as image:
        levels = np.asarray(image if len(image.getbands()) == 1 else image.convert("L"))
        most = 127 if image.format == "JPEG" else 0
    there = levels == int(value) if value else levels > most
    return Image.fromarray(np.where(there, 255, 0).astype(np.uint8))


def read_sound(path: Path, seconds: float, place: float, rate: int) -> np.ndarray:
    """So many seconds of a sound, or all of a shorter one, at `rate`, one channel, in [-1, 1]; place: 0 at
    its beginning to 1 at its end. Without soundfile of a .wav of whole numbers only."""
    if soundfile is not None:
        with soundfile.SoundFile(str(path)) as file:
            frames = int(seconds * file.samplerate) + 1
            file.seek(int(place * max(file.frames - frames, 0)))
            sound = file.read(frames, dtype="float32", always_2d=True)
            return resampled(sound.mean(axis=1), file.samplerate, rate)
    with open_wave(str(path)) as file:
        own, width, channels = file.getframerate(), file.getsampwidth(), file.getnchannels()
        frames = int(seconds * own) + 1
        file.setpos(int(place * max(file.getnframes() - frames, 0)))
        raw = np.frombuffer(file.readframes(frames), dtype=np.uint8).reshape(-1, width)
    whole = np.zeros((len(raw), 4), dtype=np.uint8)
    whole[:, 4 - width :] = raw ^ 128 if width == 1 else raw  # 8 bits are unsigned
    return resampled(whole.view("<i4").reshape(-1, channels).mean(axis=1) / 2**31, own, rate)


@lru_cache(maxsize=100_000)
def sound_seconds(path: Path) -> float:
    """By its head; 0 where that cannot be read."""
    with suppress(Exception):
        if soundfile is not None:
            return float(soundfile.info(str(path)).duration)
        with open_wave(str(path)) as file:
            return file.getnframes() / file.getframerate()
    return 0.0


def resampled(sound: np.ndarray, own: int, rate: int) -> np.ndarray:
    from scipy.signal import resample_poly

    if rate != own and len(sound):
        common = math.gcd(rate, own)
        sound = resample_poly(sound, rate // common, own // common, padtype="edge")
    return sound.astype(np.float32)
