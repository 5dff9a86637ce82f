"""What do the rules look at? The script's index, its values, its training, and what was asked with it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from memory_service.review.script import Script, last_name
from memory_service.review.training import Training
from memory_service.review.values import Values

__all__ = ["Asked", "Facts"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known besides the script; None means "not said".

    tensor_cores   whether the card computes faster in half precision
    """

    task: str | None = None
    metric: str | None = None
    cpu_count: int | None = None
    n_train: int | None = None
    image_size: int | None = None
    card: str | None = None
    tensor_cores: bool | None = None


@dataclass
class Facts:
    """Everything a rule may ask."""

    script: Script
    values: Values
    training: Training
    asked: Asked
    kept: dict[str, Any] = field(default_factory=dict)
    """What one rule has worked out and others want."""

    def argument(self, call: ast.Call, name: str, position: int | None = None) -> ast.AST | None:
        """The expression given for a parameter, by keyword, `**settings` or position."""
        return self.values.argument(call, name, position)

    def value(self, call: ast.Call, name: str, position: int | None = None) -> Any:
        """The one value given for a parameter; None where there is none or several."""
        return self.values.one(self.values.argument(call, name, position))

    def number(self, call: ast.Call, name: str, position: int | None = None) -> float | None:
        """The one number given for a parameter."""
        return self.values.number(self.values.argument(call, name, position))

    def text(self, call: ast.Call, name: str, position: int | None = None) -> str | None:
        """The one text given for a parameter."""
        return self.values.text(self.values.argument(call, name, position))

    @cached_property
    def modality(self) -> str:
        """image | text | audio | tabular | time-series | "" of the task asked for, else by what is
        imported."""
        if self.asked.task:
            for known in ("image", "text", "audio", "tabular", "time-series"):
                if self.asked.task.startswith(known):
                    return known
            if self.asked.task in ("object-detection", "video-classification"):
                return "image"
            return ""
        s = self.script
        if s.uses("torchaudio", "librosa"):
            return "audio"
        if s.uses(
            "timm",
            "torchvision",
            "albumentations",
            "segmentation_models_pytorch",
            "fastai.vision",
            "PIL",
            "cv2",
        ) or re.search(
            r"keras\.applications|image_dataset_from_directory|imagedatagenerator|decode_jpeg|"
            r"automodelforimage|conv2d\(",
            s.text,
        ):
            return "image"
        if (
            s.uses("transformers", "sentence_transformers", "tokenizers", "nltk")
            or "textvectorization" in s.text
        ):
            return "text"
        if re.search(r"read_csv|read_parquet|read_feather", s.text):
            return "tabular"
        return ""

    @cached_property
    def dense(self) -> bool:
        """Whether the model answers per pixel or per box: batches are small there."""
        if self.asked.task in (
            "image-segmentation",
            "object-detection",
            "image-to-image",
            "video-classification",
        ):
            return True
        return self.script.uses(
            "segmentation_models_pytorch", "torchvision.models.detection", "ultralytics", "effdet"
        ) or bool(
            re.search(
                r"\bunet\b|deeplab|mask_?rcnn|fasterrcnn|conv3d|segformer|unet_learner|MaskBlock",
                self.script.text,
            )
        )

    @cached_property
    def image_size(self) -> int | None:
        """Pixels a side, asked for or by the script's own names and resizes."""
        if self.asked.image_size:
            return self.asked.image_size
        sizes: set[int] = set()
        cuts = self.script.called(
            "Resize", "RandomResizedCrop", "CenterCrop", "RandomCrop", "create_transform"
        )
        cropped = self._cropped(self.script.called("Resize"))
        for call in cuts:
            if call in cropped:
                continue
            whole = last_name(call.func) == "create_transform"  # timm's: (channels, height, width)
            places = [
                *call.args[: 1 if whole else 2],
                *(k.value for k in call.keywords if k.arg in ("size", "height", "width", "input_size")),
            ]
            for place in places:
                found = self.values.one(place)
                found = found[-1 if whole else 0] if isinstance(found, list) and found else found
                if isinstance(found, int) and 16 <= found <= 4096:
                    sizes.add(found)
        sizes = sizes or self._sizes_of_timm()
        if sizes:
            return max(sizes) if len(sizes) < 3 else min(sizes)
        for node in self.script.all(ast.Assign):
            for target in node.targets:
                if re.fullmatch(
                    r"(img|image|input|crop)_?(size|sz|dim|height)|size|sz|h", last_name(target).lower()
                ):
                    found = self.values.one(node.value)
                    found = found[0] if isinstance(found, list) and found else found
                    if isinstance(found, int) and 16 <= found <= 4096:
                        return found
        return None

    def _cropped(self, resizes: list[ast.Call]) -> set[ast.AST]:
        """`[Resize(256), CenterCrop(224)]`: what is cut out of it afterwards is what the model gets."""
        out: set[ast.AST] = set()
        for around in {id(up): up for one in resizes if (up := self.script.parents.get(one))}.values():
            steps: list[ast.AST] = getattr(around, "elts", None) or getattr(around, "args", [])
            cut = False
            for step in reversed(steps):
                name = last_name(step.func) if isinstance(step, ast.Call) else ""
                cut = cut or name.endswith("Crop")
                out |= {step} if cut and name == "Resize" else set()
        return out

    def _sizes_of_timm(self) -> set[int]:
        """Sizes that `resolve_data_config({"input_size": (3, 384, 384)}, model=m)` is told, or that the
        model's own name tells where nothing else is said."""
        asked = self.script.called("resolve_data_config", "resolve_model_data_config")
        told = [
            self.values.one(value)
            for held in self.script.all(ast.Dict) if asked
            for key, value in zip(held.keys, held.values, strict=True)
            if isinstance(key, ast.Constant) and key.value == "input_size"
        ]  # fmt: skip
        sizes = {one[-1] for one in told if isinstance(one, list) and one and isinstance(one[-1], int)}
        if sizes or told or not asked:
            return sizes
        named = (self.values.text(self.values.argument(c, "model_name", 0))
                 for c in self.script.called("create_model"))  # fmt: skip
        return {int(said[-1]) for name in named if (said := re.findall(r"_(\d{3})(?=\.|$)", name or ""))}

    @cached_property
    def seq_len(self) -> int | None:
        """Tokens that a text is cut to, by the script's own parameters."""
        if self.modality != "text":
            return None
        found = {
            int(n) for k in self.script.all(ast.keyword)
            if k.arg in ("max_length", "max_len", "model_max_length")
            and (n := self.values.number(k.value)) and n >= 1
        }  # fmt: skip
        return max(found) if found else None

    @cached_property
    def half_useful(self) -> bool:
        """Whether mixed precision is worth a word on the card asked about."""
        return self.asked.tensor_cores is not False

    @cached_property
    def for_card(self) -> bool:
        """Whether the script trains on a card, as far as it and the question say."""
        return self.training.on_card and self.asked.card != "cpu"
