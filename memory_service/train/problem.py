"""A member of a training run: what it is given, and what it gives back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from memory_service.train.budget import plan


@dataclass
class Problem:
    """What is learned and what is predicted. Row i of `inputs` belongs to row i of `targets`.

    inputs, test_inputs   a DataFrame, or a list of paths of files
    targets               classes: class numbers, (rows,); labels: 0 and 1, (rows, labels); values: (rows,
                          targets), in the scale that the metric judges
    outputs               names of the classes, labels or targets: predictions have as many columns
    loss                  what a fit minimises
    score                 the metric of (truth, predictions): higher is better
    groups, times         one value a row: rows of a group stay together, later rows validate
    columns               of a table: column -> number, code, category, date or text
    metric                the function of the score, such as "auc"; "" where it is the loss
    shared                what members keep for each other: encoded texts, features of a fold
    cache                 a folder where a member keeps what is dear to make
    levels                of each output the quantile, where the loss is that of quantiles
    beside                of files: a DataFrame of further columns, of all rows and then of the test rows
    weights               one value a row, 1 in the mean, by which the metric counts it
    blocks                of media: (rows and then test rows, features) each
    """

    kind: Literal["classes", "labels", "values"]
    inputs: Any
    test_inputs: Any
    targets: np.ndarray
    outputs: list[Any]
    score: Callable[[np.ndarray, np.ndarray], float]
    loss: Literal["log_loss", "squared", "absolute", "poisson", "quantile"] = "log_loss"
    groups: np.ndarray | None = None
    times: np.ndarray | None = None
    test_times: np.ndarray | None = None
    columns: dict[str, str] = field(default_factory=dict)
    cores: int = 1
    metric: str = ""
    shared: dict[str, Any] = field(default_factory=dict)
    cache: Path | None = None
    levels: list[float] = field(default_factory=list)
    beside: Any = None
    weights: np.ndarray | None = None
    blocks: list[np.ndarray] = field(default_factory=list)

    @property
    def width(self) -> int:
        return len(self.outputs)

    def losses(self, rows: np.ndarray, predictions: np.ndarray) -> np.ndarray:
        """What a fit minimises, of each of these rows, times its weight: log loss, absolute or squared
        errors, the deviance of counts or the loss of quantiles."""
        found = self._losses(rows, predictions)
        return found if self.weights is None else found * self.weights[rows]

    def _losses(self, rows: np.ndarray, predictions: np.ndarray) -> np.ndarray:
        truth = self.targets[rows]
        if self.kind == "classes":
            return np.asarray(-np.log(predictions[np.arange(len(truth)), truth].clip(1e-7)))
        truth = truth.reshape(predictions.shape)
        if self.kind == "labels":
            return np.asarray(-np.log(np.where(truth > 0.5, predictions, 1 - predictions).clip(1e-7)).mean(1))
        if self.loss == "poisson":
            return np.asarray(poisson_deviances(truth, predictions).mean(1))
        if self.loss == "quantile":
            return pinball_losses(truth, predictions, self.levels).mean(1)
        off = np.abs(truth - predictions)
        return np.asarray((off if self.loss == "absolute" else off**2).mean(1))

    def scales(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(center, scale) of these rows, by which a fit standardises values; counts keep their 0, and others
        stay as they are."""
        if self.kind != "values":
            return np.zeros(1), np.ones(1)
        if self.loss == "poisson":
            return np.zeros(1), self.targets[rows].mean(axis=0).clip(1e-9)
        return self.targets[rows].mean(axis=0), self.targets[rows].std(axis=0).clip(1e-9)


@dataclass
class Prediction:
    """What a fit gives: (rows, outputs) of the rows that validate and of the test set.

    memo       what a fit to all rows must know, such as {"rounds": 120}
    complete   whether it gained what it can: False where the clock cut it
    """

    valid: np.ndarray
    test: np.ndarray
    memo: dict[str, Any] = field(default_factory=dict)
    complete: bool = True


class Clock(Protocol):
    def left(self) -> float:
        """Seconds that this fit may still use, with predicting."""


@dataclass
class Fit:
    """What a member is given for a fit; `valid_rows` may be none, and then `memo` is that of earlier fits."""

    problem: Problem
    train_rows: np.ndarray
    valid_rows: np.ndarray
    seed: int
    clock: Clock
    memo: dict[str, Any]

    @property
    def nothing(self) -> np.ndarray:
        """Predictions of no rows."""
        return np.zeros((0, self.problem.width))

    def loss(self, predictions: np.ndarray) -> float:
        """The mean loss of the rows that validate."""
        return float(self.problem.losses(self.valid_rows, predictions).mean())


class Member:
    """One way to learn a problem.

    anytime   it ends whenever the clock says so, and is fitted however little time there is
    least     share of its price below which a fit gives nothing
    once      most of its price is paid once, whatever the number of fits
    seeded    fits with other seeds differ, and their mean is better than one
    base      what all others are compared with: it is fitted first
    """

    name: str
    anytime: bool = False
    least: float = 0.0
    once: bool = False
    seeded: bool = False
    base: bool = False

    def applies(self, problem: Problem) -> bool:
        raise NotImplementedError

    def price(self, problem: Problem) -> float:
        """Seconds that one fit takes on one core, at the median."""
        raise NotImplementedError

    def fit(self, *given: Any) -> Prediction:
        """Learn from what `Fit` is made of."""
        return self.learn(Fit(*given))

    def learn(self, fit: Fit) -> Prediction:
        raise NotImplementedError


def answers_of(model: Any, problem: Problem, inputs: np.ndarray) -> np.ndarray:
    """(rows, outputs) that a fitted scikit-learn estimator predicts; 0 for a class that it never saw."""
    if problem.kind == "values":
        return np.reshape(model.predict(inputs), (inputs.shape[0], -1))
    chances = model.predict_proba(inputs)
    if isinstance(chances, list):  # of forests: (rows, 2) for each label
        return np.column_stack([one[:, -1] if one.shape[1] > 1 else 0 * one[:, 0] for one in chances])
    if problem.kind == "labels":
        return np.asarray(chances)[:, -problem.width :]  # of one label both chances
    found = np.zeros((len(chances), problem.width))
    found[:, np.asarray(model.classes_, dtype=int)] = chances
    return found


def poisson_deviances(truth: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Of each count from its expected count, which is above 0."""
    expected = predictions.clip(1e-6)
    logs = np.log(np.where(truth > 0, truth, expected) / expected)
    return np.asarray(2 * (truth * logs - truth + expected))


def pinball_losses(truth: np.ndarray, predictions: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Of each value: a value above its quantile costs `level` times the distance, one below 1 - `level`."""
    off, level = truth - predictions, np.asarray(levels)
    return np.asarray(np.where(off > 0, level * off, (level - 1) * off))


def installed(*names: str) -> bool:
    return all(find_spec(name) is not None for name in names)


def from_folder(name: str) -> dict | None:
    """Where the folder WEIGHTS has a model's file: named by it, in a folder of its name, or the only one."""
    if plan.WEIGHTS in ("hub", "none"):
        return None
    endings = (".safetensors", ".pth", ".pt", ".bin")
    found = sorted(path for path in Path(plan.WEIGHTS).rglob("*") if path.suffix in endings)
    named = [path for path in found if name in str(path.relative_to(plan.WEIGHTS)).replace("__", ".")]
    if not named and len(found) != 1:
        raise FileNotFoundError(f"{plan.WEIGHTS} has no file of {name}")
    return {"file": str((named or found)[0]), "hf_hub_id": None, "url": ""}
