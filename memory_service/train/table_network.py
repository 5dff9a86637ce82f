"""Networks for tables: the usual member, and those that a plan may name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from memory_service.train.networks import criterion
from memory_service.train.problem import Fit, Member, Prediction, Problem, installed
from memory_service.train.tables import is_table, matrices


@dataclass
class TableNetwork(Member):
    """patience   epochs without a lower loss, after which the fit ends; epochs: the most"""

    name: str = "network (TabM)"
    batch_size: int = 256
    epochs: int = 150
    learning_rate: float = 2e-3
    patience: int = 12
    anytime: bool = True
    seeded: bool = True

    def applies(self, problem: Problem) -> bool:
        return is_table(problem) and installed("torch") and len(problem.inputs) >= 100

    def price(self, problem: Problem) -> float:
        """At 25 epochs: the multiplications of a step at some 15 billion a second on one core."""
        multiplications = NETWORKS.get(self.name.partition(",")[0], NETWORKS[""])[1](len(problem.columns))
        return 1 + 25 * len(problem.inputs) * (6 * multiplications / 1e10 + 2e-6)

    def learn(self, fit: Fit) -> Prediction:
        import torch

        problem, train_rows, valid_rows, clock = fit.problem, fit.train_rows, fit.valid_rows, fit.clock
        torch.manual_seed(fit.seed)
        torch.set_num_threads(problem.cores)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        table, test = (torch.from_numpy(each).to(device) for each in matrices(problem, train_rows))
        targets, (center, scale) = problem.targets, problem.scales(train_rows)
        if problem.kind == "values":
            targets = ((targets - center) / scale).astype(np.float32)
        truth = torch.from_numpy(targets).to(device)
        numeric = [n for n in range(table.shape[1]) if len(torch.unique(table[:, n])) > 2]
        make = NETWORKS.get(self.name.partition(",")[0], NETWORKS[""])[0]
        model = make(table.shape[1], problem.width, numeric).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), self.learning_rate, weight_decay=1e-2)
        rows = torch.from_numpy(train_rows).to(device)

        compare = criterion(problem)

        def loss(outputs: Any, wanted: Any) -> Any:
            """Of (rows, members, outputs), each member judged alone."""
            wanted = wanted[:, None].expand(outputs.shape[:2] + wanted.shape[1:])
            return compare(outputs.flatten(0, 1), wanted.flatten(0, 1))

        @torch.no_grad()
        def answers(inputs: Any) -> np.ndarray:
            model.eval()
            parts = []
            for piece in torch.split(inputs, 4 * batch_size):
                outputs = model(piece)
                if problem.kind == "classes":
                    parts.append(outputs.softmax(-1).mean(1))
                else:
                    parts.append((outputs.sigmoid() if problem.kind == "labels" else outputs).mean(1))
            found = torch.cat(parts).cpu().double().numpy()
            return found * scale + center if problem.kind == "values" else found

        def learn() -> None:
            model.train()
            for piece in torch.split(rows[torch.randperm(len(rows), device=device)], batch_size):
                if len(piece) < 2:
                    continue
                optimizer.zero_grad(set_to_none=True)
                loss(model(table[piece]), truth[piece]).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()

        batch_size, budget, epochs = self.batch_size, clock.left(), int(fit.memo.get("epochs", self.epochs))
        best, best_loss, since, complete, done = None, np.inf, 0, True, 0
        for epoch in range(epochs):
            before = clock.left()
            try:
                learn()
            except torch.OutOfMemoryError:
                if batch_size < 4:
                    raise
                batch_size //= 2
                print(f"WARNING: out of memory: {self.name} learns {batch_size} rows at once", flush=True)
                continue
            if len(valid_rows):
                found = answers(table[valid_rows])
                now = fit.loss(found)
                since = 0 if now < best_loss else since + 1
                if now < best_loss:
                    best, best_loss, done = (found, answers(test)), now, epoch + 1
                if since >= self.patience:
                    break
            if clock.left() < max(0.1 * budget, 1.5 * (before - clock.left())):
                complete = False
                break
        if best is None:
            best, done = (fit.nothing, answers(test)), epoch + 1
        return Prediction(best[0], best[1], {"epochs": done}, complete)


def several(inputs: int, outputs: int, numeric: list[int]) -> Any:
    """Periodic embeddings of numbers (Gorishniy et al., 2022), and six networks that share their weights but
    for a first adapter and the heads (TabM-mini: Gorishniy et al., 2024)."""
    import torch
    from torch import nn

    class Several(nn.Module):
        def __init__(self, members: int = 6, width: int = 160, frequencies: int = 12) -> None:
            super().__init__()
            self.frequencies = nn.Parameter(torch.randn(len(numeric), frequencies) * 0.3)
            self.embed = nn.Parameter(torch.randn(len(numeric), 2 * frequencies, 6) * 0.2)
            wide = inputs + 6 * len(numeric)
            self.adapter = nn.Parameter(torch.randn(members, wide).sign() + 0.1 * torch.randn(members, wide))
            self.layers = nn.Sequential(
                nn.Linear(wide, width), nn.ReLU(), nn.Dropout(0.1),
                nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1),
            )  # fmt: skip
            self.heads = nn.Parameter(torch.randn(members, width, outputs) / width**0.5)
            self.bias = nn.Parameter(torch.zeros(members, outputs))

        def forward(self, table: Any) -> Any:
            angles = 2 * torch.pi * table[:, numeric, None] * self.frequencies
            waves = torch.cat([angles.cos(), angles.sin()], -1)
            embedded = torch.einsum("rnf,nfe->rne", waves, self.embed).relu().flatten(1)
            joined = torch.cat([table, embedded], 1)[:, None] * self.adapter
            return torch.einsum("rmw,mwo->rmo", self.layers(joined), self.heads) + self.bias

    return Several()


def tabm(inputs: int, outputs: int, _numeric: list[int]) -> Any:
    """32 networks that share their matrices and differ by scalings (TabM, Gorishniy et al., 2024)."""
    import torch
    from torch import nn

    class TabM(nn.Module):
        def __init__(self, members: int = 32, width: int = 512) -> None:
            super().__init__()
            pairs = [(inputs, width), (width, width), (width, width)]
            self.shared = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairs)
            self.before = nn.ParameterList(torch.randn(members, a).sign() for a, _ in pairs)
            self.after = nn.ParameterList(torch.ones(members, b) for _, b in pairs)
            self.bias = nn.ParameterList(torch.zeros(members, b) for _, b in pairs)
            self.head = nn.Parameter(torch.randn(members, width, outputs) / width**0.5)

        def forward(self, table: Any) -> Any:
            inner = table[:, None]
            for parts in zip(self.shared, self.before, self.after, self.bias, strict=True):
                shared, before, after, bias = parts
                inner = (shared(inner * before) * after + bias).relu()
                inner = nn.functional.dropout(inner, 0.1, self.training)
            return torch.einsum("rmw,mwo->rmo", inner, self.head)

    return TabM()


def mlp(inputs: int, outputs: int, _numeric: list[int], width: int = 512) -> Any:
    """Linear, batch norm, ReLU, dropout, three times (Gorishniy et al., 2021)."""
    from torch import nn

    layers: list[Any] = []
    for before in (inputs, width, width):
        layers += [nn.Linear(before, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(width, outputs), nn.Unflatten(1, (1, outputs)))


def resnet(inputs: int, outputs: int, _numeric: list[int], width: int = 256) -> Any:
    """Residual blocks: batch norm, linear up, ReLU, dropout, linear down (Gorishniy et al., 2021)."""
    from torch import nn

    class Block(nn.Sequential):
        def forward(self, rows: Any) -> Any:
            return rows + super().forward(rows)

    layers: list[Any] = [nn.Linear(inputs, width)]
    for _ in range(4):
        up, down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        layers.append(Block(nn.BatchNorm1d(width), up, nn.ReLU(), nn.Dropout(0.1), down))
    layers += [nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, outputs)]
    return nn.Sequential(*layers, nn.Unflatten(1, (1, outputs)))


def ft_transformer(inputs: int, outputs: int, _numeric: list[int], width: int = 192) -> Any:
    """A token a column and a class token through a small transformer (Gorishniy et al., 2021)."""
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(width, 8, width * 4 // 3, 0.1, batch_first=True, norm_first=True)

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(inputs, width) / width**0.5)
            self.bias = nn.Parameter(torch.randn(inputs + 1, width) / width**0.5)
            self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)

        def forward(self, table: Any) -> Any:
            tokens = nn.functional.pad(table[..., None] * self.weight, (0, 0, 0, 1)) + self.bias
            return self.body(tokens)[:, -1:]

    return nn.Sequential(Tokens(), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, outputs))


def realmlp(inputs: int, outputs: int, _numeric: list[int], width: int = 256, waves: int = 16) -> Any:
    """Periodic embeddings of every column, then three layers with SELU (Holzmueller et al., 2024)."""
    import torch
    from torch import nn

    class Waves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frequency = nn.Parameter(0.1 * torch.randn(inputs, waves))
            self.phase = nn.Parameter(2 * torch.pi * torch.rand(inputs, waves))
            self.embed = nn.Parameter(torch.randn(inputs, waves, 4) / waves**0.5)

        def forward(self, table: Any) -> Any:
            found = torch.cos(2 * torch.pi * table[..., None] * self.frequency + self.phase)
            return torch.cat([table, torch.einsum("rnf,nfe->rne", found, self.embed).flatten(1)], 1)

    layers: list[Any] = [Waves()]
    for before in (5 * inputs, width, width):
        layers += [nn.Linear(before, width), nn.SELU(), nn.Dropout(0.15)]
    return nn.Sequential(*layers, nn.Linear(width, outputs), nn.Unflatten(1, (1, outputs)))


NETWORKS: dict[str, tuple[Callable[[int, int, list[int]], Any], Callable[[int], float]]] = {
    "": (several, lambda columns: 6 * 160 * (9 * columns + 160)),
    "tabm": (tabm, lambda columns: 32 * 512 * (2 * columns + 1024)),
    "mlp": (mlp, lambda columns: 512 * (2 * columns + 1024)),
    "tabular-resnet": (resnet, lambda columns: 256 * (2 * columns + 4096)),
    "ft-transformer": (ft_transformer, lambda columns: 2 * columns * 3 * (250_000 + 768 * columns)),
    "realmlp": (realmlp, lambda columns: 256 * (10 * columns + 512)),
}
"""Name of a plan's model ("": any other) -> what makes the network of (inputs, outputs, places of numbers),
which answers (rows, members, outputs) to (rows, inputs), and its multiplications for a row of so many
columns."""
