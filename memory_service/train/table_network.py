"""A network for tables: periodic embeddings of numbers (Gorishniy et al., 2022), and several networks that
share their weights but for a first adapter and the heads (TabM-mini: Gorishniy et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from memory_service.train.problem import Clock, Prediction, Problem
from memory_service.train.tables import installed, is_table, loss_of, matrices

BATCH = 256
MOST_EPOCHS, PATIENT_EPOCHS = 150, 12


@dataclass
class TableNetwork:
    """members   networks that share weights; width: of their layers; frequencies: of a number's embedding"""

    name: str = "network (TabM)"
    members: int = 6
    width: int = 160
    frequencies: int = 12
    learning_rate: float = 2e-3
    anytime: bool = True
    seeded: bool = True

    def applies(self, problem: Problem) -> bool:
        return is_table(problem) and installed("torch") and len(problem.inputs) >= 100

    def price(self, problem: Problem) -> float:
        """At 25 epochs: the multiplications of a step at some 15 billion a second on one core."""
        inputs = 9 * len(problem.columns)
        weights = self.members * (self.width * (inputs + self.width + problem.width))
        return 1 + 25 * len(problem.inputs) * (6 * weights / 1e10 + 2e-6)

    def fit(
        self,
        problem: Problem,
        train_rows: np.ndarray,
        valid_rows: np.ndarray,
        seed: int,
        clock: Clock,
        memo: dict[str, Any],
    ) -> Prediction:
        import torch

        torch.manual_seed(seed)
        torch.set_num_threads(problem.cores)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        table, test = (torch.from_numpy(each).to(device) for each in matrices(problem, train_rows))
        targets = problem.targets
        center, scale = np.zeros(1, np.float32), np.ones(1, np.float32)
        if problem.kind == "values":
            known = targets[train_rows]
            center, scale = known.mean(axis=0), known.std(axis=0).clip(1e-9)
            targets = ((targets - center) / scale).astype(np.float32)
        truth = torch.from_numpy(targets).to(device)
        numeric = [n for n in range(table.shape[1]) if len(torch.unique(table[:, n])) > 2]
        model = network(self, table.shape[1], numeric, problem.width).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), self.learning_rate, weight_decay=1e-2)
        rows = torch.from_numpy(train_rows).to(device)

        def loss(outputs: Any, wanted: Any) -> Any:
            """Of (rows, members, outputs), each member judged alone."""
            wanted = wanted[:, None].expand(outputs.shape[:2] + wanted.shape[1:])
            if problem.kind == "classes":
                return torch.nn.functional.cross_entropy(outputs.flatten(0, 1), wanted.flatten())
            if problem.kind == "labels":
                return torch.nn.functional.binary_cross_entropy_with_logits(outputs, wanted)
            if problem.loss == "absolute":
                return torch.nn.functional.l1_loss(outputs, wanted)
            return torch.nn.functional.mse_loss(outputs, wanted)

        @torch.no_grad()
        def answers(inputs: Any) -> np.ndarray:
            model.eval()
            parts = []
            for piece in torch.split(inputs, 4096):
                outputs = model(piece)
                if problem.kind == "classes":
                    parts.append(outputs.softmax(-1).mean(1))
                else:
                    parts.append((outputs.sigmoid() if problem.kind == "labels" else outputs).mean(1))
            found = torch.cat(parts).cpu().double().numpy()
            return found * scale + center if problem.kind == "values" else found

        budget, epochs = clock.left(), int(memo.get("epochs", MOST_EPOCHS))
        best, best_loss, since, complete, done = None, np.inf, 0, True, 0
        for epoch in range(epochs):
            before = clock.left()
            model.train()
            for piece in torch.split(rows[torch.randperm(len(rows), device=device)], BATCH):
                if len(piece) < 2:
                    continue
                optimizer.zero_grad(set_to_none=True)
                loss(model(table[piece]), truth[piece]).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            if len(valid_rows):
                found = answers(table[valid_rows])
                now = loss_of(problem, valid_rows, found)
                since = 0 if now < best_loss else since + 1
                if now < best_loss:
                    best, best_loss, done = (found, answers(test)), now, epoch + 1
                if since >= PATIENT_EPOCHS:
                    break
            if clock.left() < max(0.1 * budget, 1.5 * (before - clock.left())):
                complete = False
                break
        if best is None:
            best, done = (np.empty((0, problem.width)), answers(test)), epoch + 1
        return Prediction(best[0], best[1], {"epochs": done}, complete)


def network(how: TableNetwork, inputs: int, numeric: list[int], outputs: int) -> Any:
    """(rows, inputs) -> (rows, members, outputs)."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frequencies = nn.Parameter(torch.randn(len(numeric), how.frequencies) * 0.3)
            self.embed = nn.Parameter(torch.randn(len(numeric), 2 * how.frequencies, 6) * 0.2)
            wide = inputs + 6 * len(numeric)
            self.adapter = nn.Parameter(
                torch.randn(how.members, wide).sign() + 0.1 * torch.randn(how.members, wide)
            )
            self.layers = nn.Sequential(
                nn.Linear(wide, how.width), nn.ReLU(), nn.Dropout(0.1),
                nn.Linear(how.width, how.width), nn.ReLU(), nn.Dropout(0.1),
            )  # fmt: skip
            self.heads = nn.Parameter(torch.randn(how.members, how.width, outputs) / how.width**0.5)
            self.bias = nn.Parameter(torch.zeros(how.members, outputs))

        def forward(self, table: Any) -> Any:
            angles = 2 * torch.pi * table[:, numeric, None] * self.frequencies
            waves = torch.cat([angles.cos(), angles.sin()], -1)
            embedded = torch.einsum("rnf,nfe->rne", waves, self.embed).relu().flatten(1)
            joined = torch.cat([table, embedded], 1)[:, None] * self.adapter
            return torch.einsum("rmw,mwo->rmo", self.layers(joined), self.heads) + self.bias

    return Net()
