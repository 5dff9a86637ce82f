"""What scripts that match images share: embeddings by ArcFace, their nearest, and which of these match.

DIMENSIONS, ARC_SCALE, ARC_MARGIN and MOST_MATCHES are settings of train.py.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from memory_service.train.budget import plan
from memory_service.train.reading import Data
from memory_service.train.torch_loop import device

CUTS = np.arange(0.1, 1.0, 0.05)  # cosines from which two images match: the best one is found on validation


class Embedder(nn.Module):
    """Images in; unit embeddings (n, DIMENSIONS) out, in training their cosines with each group's center."""

    def __init__(self, network: nn.Module, groups: int) -> None:
        super().__init__()
        self.network = network
        self.centers = nn.Parameter(torch.randn(groups, plan.DIMENSIONS))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        embeddings = functional.normalize(self.network(images).float())
        with torch.autocast(device, enabled=False):  # half precision cannot tell near angles apart
            return embeddings @ functional.normalize(self.centers).T if self.training else embeddings


def prior_of(targets: np.ndarray, width: int) -> np.ndarray:
    """An embedding like no other. Each fold has its own DIMENSIONS, so that a mean joins them end to end."""
    return np.zeros(plan.DIMENSIONS * plan.FOLDS * plan.SEEDS, dtype=np.float32)


def prepare_fold(data: Data, train_rows: np.ndarray) -> tuple[torch.Tensor, dict]:
    """(targets as the loss takes them, what a checkpoint keeps of the training rows)."""
    return torch.from_numpy(data.targets), {"prior": prior_of(data.targets, 0).tolist()}


def loss_of(cosines: torch.Tensor, groups: torch.Tensor, readable: torch.Tensor) -> torch.Tensor:
    """ArcFace: cross entropy, with the angle to the own group's center taken ARC_MARGIN wider than it is."""
    own = cosines.float().gather(1, groups[:, None]).clamp(-0.999, 0.999)
    margin = plan.ARC_MARGIN
    turned, off = torch.cos(torch.acos(own) + margin), own - margin * np.sin(margin)
    wider = torch.where(own > -np.cos(margin), turned, off)
    logits = plan.ARC_SCALE * cosines.float().scatter(1, groups[:, None], wider)
    losses = functional.cross_entropy(logits, groups, reduction="none")
    return (losses * readable).sum() / readable.sum().clamp(min=1)


def validation_loss(truth: np.ndarray, predictions: np.ndarray, checkpoint: dict) -> float:
    """Mean cosine distance between an embedding and the mean of its group's."""
    sums = pd.DataFrame(predictions).groupby(truth).transform("sum").to_numpy()
    norms = np.linalg.norm(predictions, axis=1) * np.linalg.norm(sums, axis=1)
    return float(1 - ((predictions * sums).sum(axis=1) / norms.clip(1e-9)).mean())


def answers_in(embeddings: torch.Tensor, data: Data, checkpoint: dict) -> torch.Tensor:
    """Each fold's in its own place."""
    before, width = plan.DIMENSIONS * (checkpoint["fold"] - 1), len(checkpoint["prior"])
    return functional.pad(embeddings, (before, width - before - plan.DIMENSIONS))


def neighbors(embeddings: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, cosines) of the nearest of each embedding, (n, most): itself, then the nearest first."""
    unit = functional.normalize(torch.from_numpy(np.float32(embeddings)).to(device))
    found = []
    for start in range(0, len(unit), 1024):
        cosines = unit[start : start + 1024] @ unit.T
        own = torch.arange(len(cosines), device=device)
        cosines[own, start + own] = 2.0
        found.append([part.cpu().numpy() for part in cosines.topk(min(most, len(unit)))[::-1]])
    rows, near = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rows, near


def match_classes(predictions: np.ndarray, thresholds: Sequence[float]) -> np.ndarray:
    """Rows that match each, (n, MOST_MATCHES), itself first; -1: none."""
    rows, cosines = neighbors(predictions, plan.MOST_MATCHES)
    return np.where(cosines >= thresholds[0], rows, -1)


def match_defaults(data: Data) -> list[float]:
    return [0.5]


def match_cuts(data: Data, truth: np.ndarray, predictions: np.ndarray) -> list[float]:
    """Where the score of these rows is best. They are held out, so the score is only a little too good."""
    rows, cosines = neighbors(predictions, plan.MOST_MATCHES)
    scores = [plan.score_of(truth, np.where(cosines >= cut, rows, -1)) for cut in CUTS]
    return [float(CUTS[np.argmax(scores) if plan.HIGHER_IS_BETTER else np.argmin(scores)])]


def match_table(data: Data, predictions: np.ndarray) -> pd.DataFrame:
    """The ids of the test images that match each of the sample's between spaces: those that are near enough,
    itself first, or as many as the metric counts, the nearest first."""
    if plan.best_thresholds:
        cuts = np.mean(data.thresholds, axis=0) if data.thresholds else [0.5]
        matches = match_classes(predictions, cuts)
    else:
        matches = neighbors(predictions, plan.K + 1)[0][:, 1:]
    names = np.array([str(name) for name in data.test_ids])
    texts = [" ".join(names[row[row >= 0]]) for row in matches]
    column = "matches" if data.sample is None else data.sample.columns[1]
    table = pd.DataFrame({data.id_column: data.test_ids, column: texts})
    asked = {*names} if data.sample is None else {*data.sample.iloc[:, 0].map(str)}
    return table[[name in asked for name in names]]  # all of test.csv may match; the sample's are answered


def score_f1_matches(targets: np.ndarray, matches: np.ndarray) -> float:
    """The mean over the rows of 2 x right matches / (matches + rows of its group), itself among them."""
    right = (targets[matches] == targets[:, None]) & (matches >= 0)
    true = pd.Series(targets).groupby(targets).transform("size").to_numpy()
    return float((2 * right.sum(axis=1) / ((matches >= 0).sum(axis=1) + true)).mean())


def score_missed_matches(targets: np.ndarray, matches: np.ndarray) -> float:
    """One less the mean F1 of the rows' matches."""
    return 1 - score_f1_matches(targets, matches)


def score_map_matches(targets: np.ndarray, embeddings: np.ndarray) -> float:
    """Mean average precision of the K nearest others, of rows that have one of their group."""
    nearest = neighbors(embeddings, plan.K + 1)[0][:, 1:]
    hits = targets[nearest] == targets[:, None]
    precision = hits.cumsum(axis=1) / np.arange(1, nearest.shape[1] + 1)
    others = pd.Series(targets).groupby(targets).transform("size").to_numpy() - 1
    each = (precision * hits).sum(axis=1) / others.clip(1, plan.K)
    return float(each[others > 0].mean()) if (others > 0).any() else 0.0


plan.prior_of, plan.prepare_fold, plan.loss_of = prior_of, prepare_fold, loss_of
plan.answers_in, plan.embedder = answers_in, Embedder
plan.validation_loss, plan.neighbors, plan.submission_of = validation_loss, neighbors, match_table
