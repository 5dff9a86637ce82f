"""Does each kind of script learn from real data, on the processor, by what docs/methods/scripts.md states?"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.scripts.harness import real, real_texts
from tests.scripts.harness.data import Data
from tests.scripts.harness.ending import ends_whole
from tests.scripts.harness.kinds import KINDS, OTHERS, tiny_model
from tests.scripts.harness.workshop import Workshop
from tests.scripts.test_normal import HERE

DOCS = Path(__file__).parents[2] / "docs" / "methods" / "scripts.md"


@dataclass(frozen=True)
class Case:
    """model: its own, of the same library or of torch."""

    write: Callable[[Path], Data]
    settings: dict[str, Any] = field(default_factory=dict)
    model: str = ""


NETWORK = {"epochs": 8, "batch_size": 32, "learning_rate": 2e-3}
SMALL = NETWORK | {"epochs": 6, "batch_size": 16}
BOXES = {"epochs": 14, "early_stopping_patience": 14, "batch_size": 16, "folds": 1, "learning_rate": 3e-2}
TABLES = {"epochs": 20, "batch_size": 32, "learning_rate": 2e-3}
WORDS = {"epochs": 8, "batch_size": 32, "learning_rate": 2e-2}
PAIRS = {"epochs": 8, "batch_size": 8, "learning_rate": 2e-3}
TOKENS = {"epochs": 6, "batch_size": 16, "learning_rate": 5e-3}
SOUNDS = {"epochs": 5, "batch_size": 8, "learning_rate": 3e-3}
CLASSES, VALUES = "tabular-classification", "tabular-regression"
CASES = {
    "image-classification": Case(real.digit_images, SMALL),
    "image-multi-label": Case(real.digit_labels, SMALL, model="test_resnet"),
    "image-regression": Case(real.digit_values, SMALL),
    "image-retrieval": Case(real.digit_groups, NETWORK),
    "image-segmentation": Case(real.digit_masks, {**NETWORK, "epochs": 4}),
    "object-detection": Case(real.digit_boxes, BOXES),
    "audio-classification": Case(real.digit_sounds, SOUNDS),
    "text-pair-similarity": Case(real_texts.pairs, PAIRS),
    "token-classification": Case(real_texts.signatures, TOKENS),
    "text-regression-members": Case(real_texts.places),
    f"{VALUES}-members": Case(real.diabetes, TABLES, model="realmlp"),
    f"{CLASSES}-members": Case(real.cancer),
    "time-series-regression-members": Case(real.lives),
}


def promised(name: str) -> float:
    """The least gain over the best constant that docs/methods/scripts.md states for this kind."""
    found = re.search(rf"^\| `{name}` \|.*\| ([\d.]+) \|$", DOCS.read_text(), re.MULTILINE)
    assert found, name
    return float(found[1])


def test_every_kind_is_trained_to_its_end_here_or_in_test_normal() -> None:
    assert {*KINDS, *OTHERS} <= {*CASES, *HERE}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_beats_the_best_constant_by_what_the_documentation_says(
    workshop: Workshop, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    written, model = case.write(tmp_path / "data"), workshop.plan(name)["model"]
    if case.model:
        model |= {"name": case.model}
    elif model["library"] == "transformers":
        tiny_model("Bert", tmp_path / "bert", real_texts.words_of(written.folder))
        model |= {"name": str(tmp_path / "bert")}
    trial = workshop.trial(name, own={"WEIGHTS": "none"}, model=model, **case.settings)
    trial.data = written
    ended = trial.train()
    found = ends_whole(trial, ended)
    print(f"GAIN {name} {found:.3f} {ended.seconds:.1f} s, {ended.cpu_seconds:.1f} s of the processor")
    assert found >= promised(name), (found, ended.log)
