"""Which parts of the data a plan of a task reads, and which it leaves out, in one line each."""

from collections.abc import Mapping
from math import prod, sqrt
from typing import Any

from memory_service.domain.common.vocabulary import FRAMES_A_SECOND, modality_of
from memory_service.domain.cost.bands import COLOURS
from memory_service.domain.description.phrases import patterns, readable, sentences_of
from memory_service.domain.description.stated_split import Stated

_P = patterns("modalities")

_OF_MODALITY = {
    "image": "photos", "text": "text", "tabular": "table", "audio": "sound", "video": "video",
    "time-series": "signals",
}  # fmt: skip
_MULTIMODAL = ("photos", "text", "table")
_GIVEN_TO = {
    "image-captioning": ("text",),
    "image-to-image": ("photos",),
    "question-answering": ("text",),
    "speech-recognition": ("text",),
}
"""Parts that are the answer, or that the plan reads anyway."""

_NARROW, _HUGE = 8.0, 3_000

STRIPS = ("image-classification", "image-regression")
OF_BANDS = (*STRIPS, "image-keypoints", "image-retrieval", "image-segmentation", "object-detection")
"""Tasks whose scripts keep the shape of pictures, and read more than three colours."""

TILE, _MOST_TILES, _SIDES_OF_TILES = 1024, 64, range(100, 2_000)


def tiles_of(text: str, task: str) -> int:
    """Tiles of `TILE` pixels a side that a picture is cut into where small things are looked for in large
    pictures; 1 where a picture is read as a whole, or cut already."""
    text = readable(text)
    sides = [sorted((int(match[1]), int(match[2]))) for match in _P["shape"].finditer(text)]
    huge = [each for each in sides if each[1] >= _HUGE and each[1] < _NARROW * each[0]]
    cut = _P["cut"].search(text) or any(each[1] in _SIDES_OF_TILES for each in sides)
    small = task in ("object-detection", "image-segmentation") and _P["small"].search(text)
    if cut or not (huge and small):
        return 1
    return min(_MOST_TILES, -(-huge[0][0] // TILE) * -(-huge[0][1] // TILE))


def uses_and_ignores(
    text: str, task: str, facts: Mapping[str, Any], model: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """What a plan of the task reads of the data that the text tells of, and sentences on what it does not, by
    the facts of the data and the plan's model."""
    text, modality = readable(text), modality_of(task)
    own: tuple[str, ...] = (_OF_MODALITY.get(modality, modality),)
    if modality == "multimodal":
        own = ("photos", "text") if task == "visual-question-answering" else _MULTIMODAL
    told = _parts_told(text)
    uses = [name for name in own if name in told]
    known = {*own, *_GIVEN_TO.get(task, ())}
    ignores = [f"{name}: a plan for {task} does not read it" for name in told if name not in known]
    if modality == "image":
        used, left = _of_pictures(text, task, facts, model)
        uses, ignores = [*(uses or own), *used], ignores + left
    if modality == "tabular" and (match := _P["molecules"].search(text)):
        ignores.append(f"{match[0]}: a string says little to a table; add descriptors and fingerprints first")
    seconds, frames = facts.get("clip_seconds"), model.get("seq_len")
    if seconds and modality == "video":
        ignores.append(f"clips of {seconds:g} s: frames evenly apart are read of each, however long it is")
    if seconds and modality == "audio" and frames and frames < 0.9 * FRAMES_A_SECOND * seconds:
        ignores.append(f"clips of {seconds:g} s: {frames / FRAMES_A_SECOND:g} s of each are read at once")
    if modality == "audio" and (match := _P["pair"].search(text)):
        ignores.append(f"{match[0]}: a sample is one recording; compare embeddings of two by their cosine")
    return uses or list(own), ignores


def _parts_told(text: str) -> list[str]:
    """The parts that one sentence joins: "a photo and a title"; none where no sentence joins any."""
    found: dict[str, None] = {}
    for sentence in sentences_of(_P["of_columns"].sub(r"\1", text)):
        named = dict.fromkeys(match.lastgroup or "" for match in _P["part"].finditer(sentence))
        if len(named) > 1 and _P["joined"].search(sentence) and not _P["ordinary"].search(sentence):
            found |= named
    return list(found)


def side_of(*sides: int) -> int:
    """The shorter side; of strips that of a square of as many pixels."""
    return min(sides) if max(sides) < _NARROW * min(sides) else round(sqrt(prod(sides)))


def pictures_in(text: str) -> Stated:
    """Bands beyond three colours, and how many times longer than wide strips are."""
    out: Stated = {}
    bands = max(_P["bands"].finditer(text), key=lambda match: int(match[1]), default=None)
    if bands is not None and int(bands[1]) > COLOURS:
        out["bands"] = int(bands[1]), bands[0]
    for match in _P["shape"].finditer(text):
        short, long = sorted((int(match[1]), int(match[2])))
        if long >= _NARROW * short:
            out["aspect_ratio"] = round(long / short, 2), match[0]
    return out


def _of_pictures(
    text: str, task: str, facts: Mapping[str, Any], model: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    bands, strip = facts.get("bands", COLOURS), " x ".join(map(str, model.get("image_shape", ())))
    read = [f"all {bands} bands"] if "bands" in model else []
    read += [f"the shape: strips of {strip} pixels"] if strip else []
    told = {
        f"bands beyond three of {bands}: the script reads three colours": bands > COLOURS
        and "bands" not in model,
        "the shape of strips: pictures are squeezed into squares; cut crops first": "aspect_ratio" in facts
        and not strip,
        "depth of volumes: slices are read one by one": _P["volume"].search(text)
        and task != "image-segmentation",
    }
    return read, [sentence for sentence, holds in told.items() if holds]
