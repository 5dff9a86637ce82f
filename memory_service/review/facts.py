"""What rules look at: the script's index, its values, its training, and what was asked with it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from memory_service.review.interpretation.expressions import walk_script
from memory_service.review.interpretation.walk import Walk
from memory_service.review.source.script import Script, entries_of, is_call, last_name, name_of
from memory_service.review.tables import words_of
from memory_service.review.training import Training
from memory_service.review.values.values import Values

_RE, _SET, *_ = words_of("facts")


@dataclass(frozen=True, slots=True)
class Context:
    """What is known besides the script; None means "not given"."""

    task: str | None = None
    metric: str | None = None
    cpu_count: int | None = None
    n_train: int | None = None
    image_size: int | None = None
    card: str | None = None
    tensor_cores: bool | None = None  # the GPU is faster in half precision
    bf16: bool | None = None  # it has that


@dataclass
class Facts:
    """Everything a rule may ask."""

    script: Script
    values: Values
    training: Training
    context: Context
    cache: dict[str, Any] = field(default_factory=dict)  # what one rule has worked out and others want

    def argument(self, call: ast.Call, name: str, position: int | None = None) -> ast.AST | None:
        return self.values.argument(call, name, position)

    def value(self, call: ast.Call, name: str, position: int | None = None) -> Any:
        """The one value given for a parameter; None where there is none or several."""
        return self.values.one(self.values.argument(call, name, position))

    def number(self, call: ast.Call, name: str, position: int | None = None) -> float | None:
        return self.values.number(self.values.argument(call, name, position))

    def text(self, call: ast.Call, name: str, position: int | None = None) -> str | None:
        return self.values.text(self.values.argument(call, name, position))

    def given(self, call: ast.Call, params: int | None = None) -> dict[str, ast.AST]:
        """What a call is given by keyword, and by the entries of its `params`, which stand at a position."""
        stated: dict[str, ast.AST] = {k.arg: k.value for k in call.keywords if k.arg}
        return stated | self.values.entries(self.values.argument(call, "params", params)).known

    @cached_property
    def walk(self) -> Walk:
        return walk_script(self.values)

    @cached_property
    def modality(self) -> str:
        """image | text | audio | tabular | time-series | "" of the task asked for, else by imports."""
        uses, text, task = self.script.uses, self.script.text, self.context.task
        if task:
            known = "image" if task in ("object-detection", "video-classification") else ""
            return next((kind for kind in _SET.kinds if task.startswith(kind)), known)
        if uses("torchaudio", "librosa"):
            return "audio"
        if uses(*_SET.image_modules) or _RE.image_words.search(text):
            return "image"
        if uses(*_SET.text_modules) or "textvectorization" in text:
            return "text"
        return "tabular" if self.script.called("read_csv", "read_parquet", "read_feather") else ""

    @cached_property
    def dense(self) -> bool:
        """Whether the model answers per pixel or per box: batches are small there."""
        stated = self.script.uses(*_SET.dense_modules) or bool(_RE.dense_words.search(self.script.text))
        return stated or self.context.task in _SET.dense_tasks

    @cached_property
    def image_size(self) -> int | None:
        """Pixels a side, asked for or by the script's own names and resizes."""
        if self.context.image_size:
            return self.context.image_size
        whole = self.training.fits_of("ultralytics")
        if whole:
            pixels = self.training.set_for(whole[0], "imgsz")
            return int(pixels) if pixels else None
        cut = (self.argument(call, "size") for call in self.script.called("aug_transforms"))
        on_card = {size for node in cut if node is not None and (size := self._pixels(node))}  # of fastai
        sizes = on_card or set(self._sizes_of_cuts()) or self._sizes_of_resizes() or self._sizes_of_timm()
        if sizes:
            return max(sizes) if len(sizes) < 3 else min(sizes)
        stated = ((target, node.value) for node in self.script.all(ast.Assign) for target in node.targets)
        named = (self._pixels(value) for to, value in stated if _RE.size.fullmatch(last_name(to).lower()))
        return next((size for size in named if size is not None), None)

    def _pixels(self, node: ast.AST, at: int = 0) -> int | None:
        """A number, or one of a list of them, that can be the side of an image."""
        found = self.values.one(node)
        found = found[at] if isinstance(found, list) and found else found
        return found if isinstance(found, int) and 16 <= found <= 4096 else None

    def _sizes_of_cuts(self) -> Iterator[int]:
        cropped: set[ast.AST] = set()  # by `[Resize(256), CenterCrop(224)]`: the model gets what is cut out
        for around in {self.script.parents.get(one) for one in self.script.called("Resize")}:
            steps: list[ast.AST] = getattr(around, "elts", None) or getattr(around, "args", [])
            crops = [at for at, step in enumerate(steps) if name_of(step).endswith("Crop")]
            cropped |= {step for step in steps[: max(crops, default=0)] if is_call(step, "Resize")}
        for call in (one for one in self.script.called(*_SET.cuts) if one not in cropped):
            whole = last_name(call.func) == "create_transform"  # timm's: (channels, height, width)
            named = (k.value for k in call.keywords if k.arg in _SET.sizes)
            places = [*call.args[: 1 if whole else 2], *named]
            sizes = (self._pixels(place, -1 if whole else 0) for place in places)
            yield from (size for size in sizes if size is not None)

    def _sizes_of_resizes(self) -> set[int]:
        """`image.resize((512, 512))` of PIL, `cv2.resize(image, (512, 512))`."""
        places = [place for call in self.script.called("resize") for place in call.args[:2]]
        pairs = [(place, self.values.one(place)) for place in places]
        square = (at for at, two in pairs if isinstance(two, list) and len(two) == 2 and two[0] == two[1])
        return {size for place in square if (size := self._pixels(place)) is not None}

    def _sizes_of_timm(self) -> set[int]:
        """Sizes given to timm's `resolve_data_config`, or that the name of the model says."""
        if not self.script.called("resolve_data_config", "resolve_model_data_config"):
            return set()
        entries = (entry for item in self.script.all(ast.Dict) for entry in entries_of(item))
        known = [self.values.one(value) for key, value in entries if key == "input_size"]
        if known:
            return {one[-1] for one in known if isinstance(one, list) and one and isinstance(one[-1], int)}
        named = (self.text(call, "model_name", 0) or "" for call in self.script.called("create_model"))
        return {int(stated[-1]) for name in named if (stated := re.findall(r"_(\d{3})(?=\.|$)", name))}

    @cached_property
    def seq_len(self) -> int | None:
        """Tokens that a text is cut to, by the script's own parameters."""
        if self.modality != "text":
            return None
        numbers = map(self.values.number, self.script.given_as(*_SET.lengths))
        return max((int(number) for number in numbers if number and number >= 1), default=None)

    @cached_property
    def for_card(self) -> bool:
        """Whether the script trains on a card, as far as it and the question say."""
        return self.training.on_card and self.context.card != "cpu"
