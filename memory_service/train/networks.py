"""Small convolutional networks that learn from random weights in the seconds that are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_service.train.problem import Clock, Fit, Prediction, Problem

if TYPE_CHECKING:
    from torch import Tensor

RATE, DECAY, WARMUP = 3e-3, 0.02, 0.08
VIEWS = 8


def device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def samples_wanted(rows: int) -> float:
    """Pictures that a network must see: 25 passes of some thousand rows, more of few, fewer of many."""
    return float(np.clip(25 * rows, 30_000, 300_000))


def small_network(shape: tuple[int, ...], outputs: int, width: int, places: int = 1) -> Any:
    """Convolutions of 3x3 that halve a picture of `shape`, (channels, height, width), to about 4 pixels, of
    which `places` a side are told apart."""
    from torch import nn

    def layer(inside: int, outside: int, halve: bool = False) -> list[Any]:
        pool = [nn.MaxPool2d(2)] if halve else []
        weights = nn.Conv2d(inside, outside, 3, padding=1, bias=False)
        return [weights, *pool, nn.BatchNorm2d(outside), nn.ReLU(inplace=True)]

    layers, side = layer(shape[0], width, halve=True), min(shape[1:]) // 2
    inside = width
    while side > 4:
        outside = min(2 * inside, 8 * width)
        layers += layer(inside, outside) + layer(outside, outside, halve=True)
        inside, side = outside, side // 2
    head = [nn.AdaptiveAvgPool2d(places), nn.Flatten(), nn.Dropout(0.2)]
    head += [nn.Linear(inside * places**2, outputs)]
    return nn.Sequential(*layers, *head)


@dataclass
class Augmentation:
    """What is changed at random in a batch of pictures, (pictures, channels, height, width).

    degrees, shift, scale   of an affine change; shift is a share of the picture
    stretch                 a change of scale of each axis for itself
    bend                    smooth displacement, a share of the picture
    mirrored, turned        flips left to right; flips upside down and turns by 90 degrees
    light                   change of contrast and brightness of the first `colours` channels, in deviations
    gaps                    stripes that are blanked, as shares of width and height
    """

    degrees: float = 0.0
    shift: float = 0.08
    scale: float = 0.12
    stretch: float = 0.0
    bend: float = 0.0
    mirrored: bool = False
    turned: bool = False
    light: float = 0.0
    gaps: tuple[float, float] = (0.0, 0.0)
    colours: int = 3

    def moves(self, n: int, rng: np.random.Generator, strength: float = 1.0) -> np.ndarray:
        """(n, 2, 3): where each place of a changed picture was, both from -1 to 1."""

        def draw(limit: float, *size: int) -> np.ndarray:
            return rng.uniform(-limit * strength, limit * strength, size)

        angle = np.deg2rad(draw(self.degrees, n))
        scale = draw(self.scale, n)
        move = draw(2 * self.shift, 2, n)
        across, down = np.exp(scale + draw(self.stretch, n)), np.exp(scale + draw(self.stretch, n))
        if self.mirrored:
            across = across * rng.choice([-1, 1], n)
        if self.turned:
            down, angle = down * rng.choice([-1, 1], n), angle + rng.choice([0.0, np.pi / 2], n)
        cosine, sine = np.cos(angle), np.sin(angle)
        matrix = [cosine * across, -sine * down, move[0], sine * across, cosine * down, move[1]]
        return np.stack(matrix, 1).reshape(n, 2, 3)

    def __call__(
        self, x: Tensor, rng: np.random.Generator, strength: float = 1.0, moves: np.ndarray | None = None
    ) -> Tensor:
        """moves   as `moves` drew them, where what lies in the pictures is to move with them"""
        import torch
        from torch.nn import functional

        def tensor(values: np.ndarray) -> Tensor:
            return torch.tensor(values, dtype=torch.float32, device=x.device)

        n = len(x)
        theta = tensor(self.moves(n, rng, strength) if moves is None else moves)
        grid = functional.affine_grid(theta, list(x.shape), align_corners=False)
        if self.bend:
            coarse = tensor(rng.normal(0, 2 * self.bend * strength, (n, 2, 5, 5)))
            fine = functional.interpolate(coarse, size=x.shape[2:], mode="bilinear")
            grid = grid + fine.permute(0, 2, 3, 1)
        x = functional.grid_sample(x, grid, align_corners=False, padding_mode="border")
        if self.light:
            light, shape = self.light * strength, (n, min(self.colours, x.shape[1]), 1, 1)
            colours = x[:, : self.colours] * tensor(np.exp(rng.uniform(-light, light, (n, 1, 1, 1))))
            colours = colours + tensor(rng.uniform(-light, light, shape))
            x = torch.cat([colours, x[:, self.colours :]], 1)
        for axis, share in zip((3, 2), self.gaps, strict=True):
            if share:
                place = np.arange(x.shape[axis])[None]
                wide = rng.uniform(0, share * strength * x.shape[axis], (n, 1))
                start = rng.uniform(0, 1, (n, 1)) * (x.shape[axis] - wide)
                keep = tensor((place < start) | (place >= start + wide))
                x = x * (keep[:, None, None, :] if axis == 3 else keep[:, None, :, None])
        return x


def multiplications(network: Any, shape: tuple[int, ...]) -> float:
    """Multiplications of the convolutions for one picture."""
    import torch

    total: list[float] = []

    def count(layer: Any, _inputs: Any, output: Any) -> None:
        total.append(float(layer.weight.numel()) * output.shape[2] * output.shape[3])

    hooks = [m.register_forward_hook(count) for m in network.modules() if isinstance(m, torch.nn.Conv2d)]
    with torch.no_grad():
        network.to(device(), memory_format=torch.channels_last)  # a third faster on processors
        network.eval()(torch.zeros(1, *shape, device=device()))
    for hook in hooks:
        hook.remove()
    return sum(total)


def speed(network: Any, shape: tuple[int, ...], clock: Clock, batch: int = 32) -> float:
    """Multiplications a second of this machine in training: a pass forward counts one, backward two."""
    import torch

    work = 3 * batch * multiplications(network, shape)
    x = torch.randn(batch, *shape, device=device())
    best = 0.0
    for _ in range(3):
        start = clock.left()
        network.train()(x).float().square().mean().backward()
        best = max(best, work / max(start - clock.left(), 1e-4))
    return best


def train_small(
    network: Any,
    rows: int,
    loss: Callable[[Any, np.ndarray, np.random.Generator], Any],
    clock: Clock,
    seconds: float,
    seed: int,
    batch: int,
) -> float:
    """Train for `seconds`, by AdamW at a rate that falls as a cosine of the time. Gives the rows seen."""
    import torch

    rng, order, seen, done = np.random.default_rng(seed), np.zeros(0, np.int64), 0.0, 0.0
    network.to(device(), memory_format=torch.channels_last).train()
    optimiser = torch.optim.AdamW(network.parameters(), RATE, weight_decay=DECAY)
    start = clock.left()
    while done < 1:
        if len(order) < batch:
            order = np.concatenate([order, rng.permutation(rows)])
        now, order = order[:batch], order[batch:]
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(0.02 + done / WARMUP, 0.5 * (1 + np.cos(np.pi * done)))
        value = loss(network, now, rng)
        optimiser.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimiser.step()
        seen += len(now)
        left = clock.left()
        done = (start - left) / max(seconds, 1e-3) if left > 0 else 1.0
    network.eval()
    return seen


Known = tuple[np.ndarray, Augmentation, Sequence[tuple[Callable[["Tensor"], "Tensor"], int]]]


def fit_network(fit: Fit, known: Known) -> Prediction:
    """`fit_of_size`; of values it is measured whether moved pictures teach: places may be what is asked."""
    fixed = replace(known[1], degrees=0, shift=0, scale=0, stretch=0, bend=0, mirrored=False, turned=False)
    still = known[0], fixed, known[2]
    if fit.problem.kind != "values" or not len(fit.valid_rows) or "still" in fit.memo:
        found = fit_of_size(fit, still if fit.memo.get("still") else known)
        return replace(found, memo=fit.memo | found.memo)
    rest = fit.clock.left() / 2
    half = SimpleNamespace(left=lambda: fit.clock.left() - rest)
    tried = [fit_of_size(replace(fit, clock=half), known), fit_of_size(fit, still)]
    best = min((0, 1), key=lambda each: fit.loss(tried[each].valid))
    return replace(tried[best], memo={**tried[best].memo, "still": best})


def fit_of_size(fit: Fit, known: Known) -> Prediction:
    """Fit the largest network that sees enough pictures in the time.

    known   pictures, uint8, (rows and then test rows, channels, height, width); how they are changed;
            sizes, the dearest first: how pictures are made smaller, and the width of the network
    """
    import torch

    problem, train_rows, valid_rows, clock = fit.problem, fit.train_rows, fit.valid_rows, fit.clock
    pictures, augment, sizes = known
    every = torch.from_numpy(pictures)
    x, test = every[: len(problem.inputs)], every[len(problem.inputs) :]
    torch.set_num_threads(problem.cores)
    torch.manual_seed(fit.seed)
    wanted, n = samples_wanted(len(train_rows)), len(valid_rows) + len(test)
    shapes = [tuple(shrink(x[:1]).shape[1:]) for shrink, _ in sizes]
    places = 1 if augment.shift else 4  # where things are matters
    trial = small_network(shapes[-1], problem.width, sizes[-1][1], places)
    per_second = speed(trial, shapes[-1], clock)
    for (shrink, width), shape in zip(sizes, shapes, strict=True):  # noqa: B007
        network = small_network(shape, problem.width, width, places)
        cost = multiplications(network, shape) / per_second
        if cost * (3 * wanted + n * (1 + VIEWS)) < 0.9 * clock.left():
            break
    views = int(np.clip(0.2 * clock.left() / (cost * n + 1e-9) - 1, 0, VIEWS))
    centre, spread = problem.scales(train_rows)
    targets = torch.from_numpy(problem.targets[train_rows])
    if problem.kind != "classes":
        known_targets = problem.targets[train_rows].reshape(len(train_rows), -1)
        targets = torch.tensor((known_targets - centre) / spread, dtype=torch.float32)
    small, small_valid, small_test = shrink(x[train_rows]), shrink(x[valid_rows]), shrink(test)
    sample = small[:: max(1, len(small) // 2000)].float()
    mean, deviation = (f((0, 2, 3), keepdim=True).to(device()) for f in (sample.mean, sample.std))
    compare = criterion(problem, 0.05)

    def normal(part: Tensor) -> Tensor:
        return (part.to(device()).float() - mean) / (deviation + 1e-3)

    def loss(network: Any, now: np.ndarray, rng: np.random.Generator) -> Any:
        return compare(network(augment(normal(small[now]), rng)), targets[now].to(device()))

    batch = int(np.clip(len(train_rows) // 25, 16, 64))
    seconds = clock.left() - 1.5 * cost * n * (1 + views) - 1
    seen = train_small(network, len(train_rows), loss, clock, seconds, fit.seed, batch)
    tried, shown = {0, views}, (small_valid, small_test)
    if not len(valid_rows):
        tried = {views * fit.memo.get("views", 1)}
    given = {n: predict_network(network, shown, normal, augment, n, problem.kind) for n in tried}
    off = {m: fit.loss(valid * spread + centre) for m, (valid, _) in given.items() if len(valid)}
    best = min(given, key=lambda many: off.get(many, 0.0))
    valid, answer = (part * spread + centre for part in given[best])
    return Prediction(valid, answer, {"views": int(best > 0)}, seen >= 0.6 * wanted)


def predict_network(
    network: Any,
    parts: Sequence[Tensor],
    normal: Callable[[Tensor], Tensor],
    augment: Augmentation,
    views: int,
    kind: str,
) -> list[np.ndarray]:
    """The mean answer to each picture as it is and to `views` changed ones."""
    import torch

    rng, out = np.random.default_rng(0), []
    shown: list[Any]
    endings: dict[str, Callable[[Any], Any]] = {"classes": lambda y: y.softmax(1), "labels": torch.sigmoid}
    ending = endings.get(kind, lambda y: y)
    network.eval()
    with torch.no_grad():
        for part in parts:
            answers = [np.zeros((0, network[-1].out_features))]
            for i in range(0, len(part), 256):
                x = normal(part[i : i + 256])
                shown = [x] + [augment(x, rng, 0.5) for _ in range(views)]
                answers.append(np.mean([ending(network(y)).cpu().numpy() for y in shown], 0))
            out.append(np.concatenate(answers))
    return out


def criterion(problem: Problem, smoothing: float = 0.0) -> Callable[[Any, Any], Any]:
    from torch import nn

    if problem.kind == "classes":
        return nn.CrossEntropyLoss(label_smoothing=smoothing)
    if problem.kind == "labels":
        return nn.BCEWithLogitsLoss()
    return nn.L1Loss() if problem.loss == "absolute" else nn.MSELoss()
