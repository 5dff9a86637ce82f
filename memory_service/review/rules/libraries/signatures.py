"""Parameters of the calls that training scripts make, read from the installed libraries.

`signatures.txt` holds one call a line, as of scikit-learn 1.9, torch 2.15, lightgbm 4.7, xgboost 3.2,
lightning 2.6, transformers 5.23 and accelerate 1.15, with what a release or two before still took.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path


def parameters_of(qualified: str) -> list[str]:
    """Parameters by the dotted name of what is called; none for a call that is not known."""
    qualified = qualified.replace("pytorch_lightning.", "lightning.pytorch.", 1)
    if qualified.startswith("lightning.") and not qualified.startswith("lightning.pytorch."):
        qualified = qualified.replace("lightning.", "lightning.pytorch.", 1)
    return _signatures().get(qualified, [])


@cache
def _signatures() -> dict[str, list[str]]:
    lines = (Path(__file__).parent / "signatures.txt").read_text(encoding="utf-8").splitlines()
    return {name: parameters.split() for name, _, parameters in (line.partition(": ") for line in lines)}
