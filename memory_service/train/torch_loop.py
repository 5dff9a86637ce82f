"""What all networks share: device, loaders, the optimizer, the loop over epochs, checkpoints, predicting.

train.py beside it has the model, the data sets, the loss and the predictions. Several cards that train one
model are a process each, started by torchrun, as DistributedDataParallel asks: what depends on a clock or a
file the first process decides for all.
"""

import datetime as dt
import math
import os
import re
import sys
import time
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed, nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Sampler

from memory_service.train.budget import agreed, plan, report, state, usable_cores
from memory_service.train.folds import (
    baseline_score,
    is_worse,
    mean_of,
    metric_of,
    predict,
    score_predictions,
)
from memory_service.train.problem import from_folder
from memory_service.train.reading import Data, warn_unreadable
from memory_service.train.writing import write_submission

SECONDS_BETWEEN_SAVES = 30  # of the last epoch, from which a new start goes on
SECONDS_WITHIN = 180  # the same within an epoch, of at most so many weights that are trained
MOST_PARAMETERS = 500_000_000
QUICK_CHECK_ROWS = 1000  # at most, that validate a model whose first epoch the time has cut

device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def start_together() -> None:
    """Becomes torchrun where the plan has several cards and they are there; a process of torchrun joins."""
    cards = min(plan.N_GPUS, torch.cuda.device_count())
    if WORLD == 1 and cards > 1:
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={cards}"]
        os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # a new store for each restart
        os.execv(sys.executable, [sys.executable, *torchrun, "--max-restarts=2", *sys.argv])
    if WORLD > 1:
        cuda = torch.cuda.is_available()
        if cuda:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        limit = dt.timedelta(minutes=plan.MINUTES + 60)  # the first predicts while the others wait
        distributed.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=limit)
    if RANK > 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the first one prints


def first_says(value):
    """The value that the first process has."""
    if WORLD == 1:
        return value
    sent = [value]
    distributed.broadcast_object_list(sent, device=torch.device("cpu"))
    return sent[0]


def gathered(value) -> list:
    """Of all processes, in their order."""
    found = [value] * WORLD
    if WORLD > 1:
        distributed.all_gather_object(found, value)
    return found


def is_sharded(model: nn.Module) -> bool:
    """Whether each card holds a share of its weights (FSDP): then all cards compute each batch together."""
    return hasattr(model, "set_requires_gradient_sync")


def together(model: nn.Module) -> nn.Module:
    """The model as it is trained: gradients are the means over the cards."""
    return model if WORLD == 1 or is_sharded(model) else nn.parallel.DistributedDataParallel(model)


def accumulating(model: Any, more: bool):
    """Gradients stay on their card until the last batch of a step."""
    if is_sharded(model):
        model.set_requires_gradient_sync(not more)
        return nullcontext()
    return model.no_sync() if more and WORLD > 1 else nullcontext()


def mixed_precision() -> bool:
    return device == "cuda" and plan.PRECISION in ("bf16", "fp16")


def half_type() -> torch.dtype:
    return torch.float16 if plan.PRECISION == "fp16" else torch.bfloat16


def autocast() -> torch.autocast:
    """Mixed precision where the plan says so and there is a card for it."""
    return torch.autocast(device, dtype=half_type(), enabled=mixed_precision())


def memory_format() -> torch.memory_format:
    return torch.channels_last if plan.CHANNELS_LAST else torch.contiguous_format


def to_device(inputs: Any) -> Any:
    """A tensor, or a dictionary of them; images in the plan's memory format."""
    if isinstance(inputs, dict):
        return {name: to_device(each) for name, each in inputs.items()}
    form = memory_format() if inputs.ndim == 4 else torch.preserve_format
    return inputs.to(device, memory_format=form, non_blocking=True)


def gpu_peak() -> str:
    """Peak memory since it was last reset: reserved (what the card must hold) and allocated."""
    gib, card = 2**30, torch.cuda.get_device_properties(0).total_memory
    reserved, allocated = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    percent = 100 * reserved / card
    return f"GPU={reserved / gib:.1f}GB ({percent:.1f}%), GPU peak allocated={allocated / gib:.1f}GB"


def print_devices() -> None:
    card = torch.cuda.get_device_name(0) if device == "cuda" else "none"
    card = f"{WORLD} x {card}" if WORLD > 1 else card
    mixed, cores = "ON" if mixed_precision() else "OFF", usable_cores()
    print(f"RESOURCES: {cores} CPU cores, batch={state.batch_size}, GPU={card}, Mixed Precision={mixed}")
    if device == "cuda":
        print(f"GPU Memory: {torch.cuda.get_device_properties(0).total_memory / 2**30:.1f} GB")
    persistent = plan.PERSISTENT_WORKERS and state.num_workers > 0
    kept = f"prefetch_factor={plan.PREFETCH_FACTOR}, persistent_workers={persistent}"
    print(f"DataLoader: num_workers={state.num_workers}, {kept}", flush=True)


@contextmanager
def pretrained_or_exit(pretrained: bool):
    """Ends the run where pretrained weights do not load: from random ones this plan learns too little."""
    try:
        yield
    except Exception as error:
        if not pretrained:
            raise
        otherwise = ", or set WEIGHTS=none to train this one from random weights: it learns much less"
        raise SystemExit(
            f"The pretrained weights of {plan.MODEL} cannot be loaded ({error!r:.200}): set WEIGHTS to a "
            "folder that holds them, or ask for a plan without them (/recommend with weights=none)"
            f"{'' if plan.HUB_NAME else otherwise}."
        ) from error


def timm_network(name: str, pretrained: bool, **how: Any) -> Any:
    """As `timm.create_model` makes it, at IMAGE_SIZE where it is made for one size."""
    import timm

    if plan.IMAGE_SIZE and timm.models.get_pretrained_cfg(name).fixed_input_size:
        how["img_size"] = plan.IMAGE_SHAPE or plan.IMAGE_SIZE
    if plan.BANDS:
        how["in_chans"] = plan.BANDS
    with pretrained_or_exit(pretrained):
        network = timm.create_model(name, pretrained, pretrained_cfg_overlay=from_folder(name), **how)
    if plan.GRADIENT_CHECKPOINTING:
        network.set_grad_checkpointing()
    return network


def take_settings(_worker: int) -> None:
    """A loader's worker that was not forked has read train.py anew, but `plan` is empty there."""
    if "MODEL" not in plan.__dict__:
        plan.__dict__.update(vars(sys.modules["__main__"]))


class AlikeLengths(Sampler):
    """Samples at random, but those of a batch are about as long, for it is as wide as its longest: sorted
    within fifty batches, or a quarter of all."""

    def __init__(self, dataset: Any) -> None:
        self.lengths = dataset.lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self):
        size, order = state.batch_size, torch.randperm(len(self.lengths)).numpy()
        pool = size * max(1, min(50, len(order) // (4 * size)))
        pools = [order[start : start + pool] for start in range(0, len(order), pool)]
        order = np.concatenate([rows[np.argsort(self.lengths[rows], kind="stable")] for rows in pools])
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        places = [*torch.randperm(len(batches) - 1).tolist(), -1]  # the last may have fewer
        return iter(np.concatenate([batches[place] for place in places]).tolist())


class Samples(Dataset):
    """(sample, row, 1.0, or 0.0 where a file cannot be read) of the rows."""

    sample: Any  # of a row
    unreadable: Any  # what takes the place of one

    def __init__(self, paths: list, rows) -> None:
        self.paths, self.rows = paths, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int):
        row = int(self.rows[index])
        try:
            return self.sample(row), row, 1.0
        except Exception as error:  # whatever is wrong with one file must not end the run
            warn_unreadable(self.paths[row], error)
            return self.unreadable(), row, 0.0


def make_loader(dataset: Any, train: bool = False) -> DataLoader:
    """Of all rows, or, of several cards' training rows, this one's share."""
    shared = train and WORLD > 1
    sampler: Any = None
    if shared:
        sampler = DistributedSampler(dataset, WORLD, RANK, seed=plan.SEED, drop_last=True)
    elif train and plan.training_order:
        sampler = plan.training_order(dataset)
    size, workers = state.batch_size, state.num_workers
    return DataLoader(
        dataset, size, shuffle=train and sampler is None, sampler=sampler, num_workers=workers,
        drop_last=train and len(dataset) // WORLD > size, pin_memory=plan.PIN_MEMORY and device == "cuda",
        prefetch_factor=plan.PREFETCH_FACTOR if workers else None, collate_fn=plan.collate,
        persistent_workers=plan.PERSISTENT_WORKERS and workers > 0, worker_init_fn=take_settings,
    )  # fmt: skip


def fitting_epochs(epochs: int, share: float, seconds: float) -> float:
    """Of the planned epochs those that end in time, by what a share of the first took; less than one where
    that one will be cut off."""
    each = 1.1 * seconds / share  # a tenth for validation
    if (lasting := share + state.seconds_left() / each) < 1:
        return lasting
    left = 60 * (state.minutes - state.reserve_minutes) - state.elapsed()
    return min(epochs, max(1, int(share + left / each)))


def learning_rate(epochs_done: float, epochs: float) -> float:
    """Linear warmup (over a tenth of the steps where the plan names no epochs, or these are few), then a
    cosine to zero."""
    warmup = plan.WARMUP_EPOCHS if 0 < plan.WARMUP_EPOCHS <= 0.5 * epochs else 0.1 * epochs
    if epochs_done < warmup:
        return plan.LEARNING_RATE * epochs_done / warmup
    share = (epochs_done - warmup) / max(epochs - warmup, 1e-9)
    return plan.LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))


def layer_scale(name: str, model: Any) -> float:
    """LAYER_DECAY to the power of how many layers of the encoder lie above a weight; 1 without that."""
    if plan.LAYER_DECAY == 1 or not hasattr(model, "network"):
        return 1.0
    count = model.network.config.num_hidden_layers
    found = re.search(r"\.layers?\.(\d+)\.", name)
    above = count - 1 - int(found[1]) if found else count if "embeddings" in name else -1
    return plan.LAYER_DECAY ** (above + 1)


def make_optimizer(model: nn.Module) -> tuple[torch.optim.Optimizer, torch.amp.GradScaler]:
    """(optimizer, loss scaler) at their beginning, with no gradient left over."""
    model.zero_grad(set_to_none=True)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            continue
        decay = plan.WEIGHT_DECAY if weight.ndim > 1 else 0.0  # not on biases and norms
        groups.setdefault((decay, layer_scale(name, model)), []).append(weight)
    settings = [{"params": part, "weight_decay": how[0], "scale": how[1]} for how, part in groups.items()]
    optimizer: torch.optim.Optimizer
    if plan.MOMENTUM:
        optimizer = torch.optim.SGD(settings, lr=plan.LEARNING_RATE, momentum=plan.MOMENTUM, nesterov=True)
    elif plan.PAGED_OPTIMIZER and device == "cuda":
        optimizer = paged_adamw(model, settings)
    else:
        optimizer = torch.optim.AdamW(settings, lr=plan.LEARNING_RATE)
    return optimizer, torch.amp.GradScaler(device, enabled=mixed_precision() and plan.PRECISION == "fp16")


def paged_adamw(model: nn.Module, settings: list[dict]) -> torch.optim.Optimizer:
    """Of bitsandbytes, with 8 bits a value; of embeddings 32, as transformers' Trainer has it."""
    try:
        from bitsandbytes.optim import GlobalOptimManager, PagedAdamW8bit
    except ImportError as error:
        raise SystemExit(f"The plan's paged optimizer needs the package bitsandbytes: {error}") from error
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            GlobalOptimManager.get_instance().register_module_override(module, "weight", {"optim_bits": 32})
    return PagedAdamW8bit(settings, lr=plan.LEARNING_RATE)


def averaged(model: nn.Module) -> AveragedModel:
    """The running mean of its weights (EMA); short at first, that it does not lag behind."""

    def mean(old: torch.Tensor, new: torch.Tensor, steps: Any) -> torch.Tensor:
        return old + (new - old) * (9 / (10 + steps)).clamp(min=1 - plan.EMA)  # the card waits for nothing

    return AveragedModel(model, avg_fn=mean, use_buffers=True)


def recover(error: RuntimeError, run, shared: bool = False) -> None:
    """Out of memory: half the batch. A dead worker: load in this process. Else raise it again.

    shared   other cards wait for this one: torchrun starts all again, with the half"""
    text = str(error).lower()
    if shared:
        if "out of memory" in text:
            (state.out_dir / "batch_size.txt").write_text(str(max(1, state.batch_size // 2)))
        raise error
    if ("out of memory" in text or "alloc" in text) and state.batch_size > 1:
        state.set_batch_size(state.batch_size // 2)
        print(f"NOTE: out of memory; now batch={state.batch_size} x {state.accumulation}", flush=True)
        report(run, "note", "out of memory: the batch is halved", out_of_memory=True)
        report(run, "set", batch_size=state.batch_size)
        torch.cuda.empty_cache()
    elif "dataloader worker" in text and state.num_workers:
        state.num_workers = 0
        print("NOTE: a loader's worker died; loading in the main process", flush=True)
    else:
        raise error


def train_epoch(trained: tuple, loader, targets, epoch: int, epochs: int, run, save) -> tuple:
    """(mean loss, samples skipped as unreadable, whether the epoch ended before the time was over), by the
    steps behind the share that is trained already."""
    model, optimizer, scaler, average = trained
    model.train()
    before = int(state.share * len(loader))
    if WORLD > 1:
        loader.sampler.set_epoch(epoch + 1000 * before)
    total, skipped, start, first_ended = torch.zeros((), device=device), 0, time.monotonic(), 0.0
    lasting, state.start_seconds = epochs, 0.0
    watched = loader if run is None else run.loader(loader)  # the client measures the waiting for it
    for step, (inputs, rows, readable) in enumerate(islice(watched, len(loader) - before), before + 1):
        skipped += int((readable == 0).sum())
        if skipped == (step - before) * len(rows) and (skipped >= 500 or step == len(loader)):
            raise OSError(f"none of {skipped} samples could be read: change read_data, or how a file is read")
        ends_step, share_done = step % state.accumulation == 0 or step == len(loader), step / len(loader)
        with accumulating(model, not ends_step):
            loss = plan.batch_loss(model, inputs, rows, readable, targets)
            scaler.scale(loss / state.accumulation).backward()
        if ends_step:
            if epoch == 1 and share_done > 0.1 and first_ended:  # later ones know what an epoch takes
                seconds = (time.monotonic() - first_ended) * step / (step - before - 1)
                lasting = agreed(fitting_epochs(epochs, share_done, seconds))
            for group in optimizer.param_groups:
                group["lr"] = group["scale"] * learning_rate(epoch - 1 + share_done, lasting)
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), plan.GRADIENT_NORM)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            if average is not None:
                average.update_parameters(model.module if WORLD > 1 else model)
            if step < len(loader):
                state.share = share_done
                save(epoch - 1, max(SECONDS_WITHIN, 50 * state.save_seconds))
        total += loss.detach()
        texts = inputs.get("input_ids", rows) if isinstance(inputs, dict) else rows  # a text has many rows
        report(run, "batch", WORLD * len(texts))
        state.row_seconds = (time.monotonic() - start) / (step - before) / len(rows)
        if epoch == 1 and step == 1 and device == "cuda":
            print(f"First batch: {gpu_peak()}", flush=True)
        if not first_ended:
            first_ended = time.monotonic()
        else:  # what the first step took beyond another: loaders begin, kernels are loaded
            each = (time.monotonic() - first_ended) / (step - before - 1)
            state.start_seconds = max(0.0, first_ended - start - each)
        lost = step % 50 == 0 and not scaler.is_enabled() and not total.isfinite()  # the card waits seldom
        if agreed(bool(lost or state.seconds_left() == 0)):
            return float(total) / (step - before), skipped, False
    state.share = 0.0
    return float(total) / (len(loader) - before), skipped, True


def computed(model: nn.Module, by, *inputs) -> torch.Tensor:
    """by(*inputs) in mixed precision, and once more in full where that overflows: fp16 ends at 65 504."""
    with autocast():
        outputs = by(*inputs)
    whole = not is_sharded(model) and all(one.dtype == torch.float32 for one in model.parameters())
    if mixed_precision() and whole and not outputs.isfinite().all():
        outputs = by(*inputs)
    return outputs


def fill_predictions(model, loader, predictions, data: Data, checkpoint, until: float, of=None) -> bool:
    """Fill in the loader's rows of each view (views, rows, outputs), infinite where the model gives NaN;
    unreadable ones stay as they are. False: the time `until` came first. of: the data's rows that
    `predictions` has, else all."""
    places = np.arange(predictions.shape[1])
    if of is not None:
        places = np.full(len(data.targets), -1)
        places[of] = np.arange(len(of))
    model.eval()
    for inputs, rows, readable in loader:
        late = time.monotonic() > until
        if agreed(late) if is_sharded(model) else late:
            return False
        asked = model, inputs, data, checkpoint, len(predictions)
        outputs = computed(model, plan.predict_batch, *asked)
        at = places[rows.numpy()]
        good = (readable.numpy() > 0) & (at >= 0)  # a text's batch has words that nobody asked for
        numbers = outputs.nan_to_num(math.inf, math.inf, -math.inf)
        predictions[:, at[good]] = numbers.cpu().numpy()[:, good]
    return True


def fill_lost(predictions: np.ndarray, prior: Any, what: str) -> None:
    """Rows for which the model gave no number get the prior, as unreadable ones; FloatingPointError where
    these are more than one in a hundred: then nothing that it says can be trusted."""
    lost = ~np.isfinite(predictions).all(axis=(0, 2))
    if lost.mean() > 0.01:
        raise FloatingPointError(f"NaN is predicted for {lost.sum()} of {len(lost)} {what} rows")
    if lost.any():
        print(f"WARNING: NaN is predicted for {lost.sum()} {what} rows: they get the prior", flush=True)
        predictions[:, lost] = np.asarray(prior, np.float32)


def some_rows(data: Data, rows: np.ndarray, most: int) -> np.ndarray:
    """About so many of the rows, at random; where a sample has several, those of whole samples."""
    dice = np.random.default_rng(plan.SEED)
    if not data.samples or data.groups is None:
        return dice.permutation(rows)[:most]
    samples = dice.permutation(np.unique(data.groups[rows]))
    return rows[np.isin(data.groups[rows], samples[: max(1, most * len(samples) // len(rows))])]


def own_rows(rows: np.ndarray, model: nn.Module) -> np.ndarray:
    """This card's share, for words are judged in their order; where all compute each batch together, each has
    as many, one of them twice."""
    own = np.array_split(rows, WORLD)[RANK]
    return np.append(own, rows[0]) if is_sharded(model) and len(own) * WORLD < len(rows) else own


def validate(model, loader, data: Data, checkpoint: dict, until: float) -> tuple | None:
    """(loss, score, held-out rows and their predictions); None where the time came first. With TTA the mean
    of two views counts if it scores no worse than the first."""
    rows = loader.dataset.rows
    views = 2 if plan.TTA else 1
    own = np.unique(rows)
    predictions = np.tile(np.float32(checkpoint["prior"]), (views, len(own), 1))
    complete = fill_predictions(model, loader, predictions, data, checkpoint, until, own)
    parts = gathered((own, predictions) if complete else None)
    if any(part is None for part in parts):
        return None
    rows, predictions = np.concatenate([each for each, _ in parts]), np.hstack([each for _, each in parts])
    if is_sharded(model):
        rows, first = np.unique(rows, return_index=True)
        predictions = predictions[:, first]
    fill_lost(predictions, checkpoint["prior"], "held-out")
    truth = data.targets[rows]
    best: Any = None
    for number in range(1, views + 1):
        mean = mean_of(predictions[:number])
        score, thresholds = score_predictions(data, truth, mean)
        if best is None or not (score < best[0] if plan.HIGHER_IS_BETTER else score > best[0]):
            best = score, mean
            checkpoint |= {"views": number, **thresholds}
    answers = {"rows": torch.from_numpy(rows), "valid": torch.from_numpy(best[1])}
    return plan.validation_loss(truth, best[1], checkpoint), best[0], answers


def save_checkpoint(name: str, checkpoint: dict) -> None:
    """Whole or not at all, also when the process is killed meanwhile; one of several writes."""
    if RANK > 0:
        return
    began, temporary = time.monotonic(), state.out_dir / f"{name}.tmp"
    torch.save({**checkpoint, "batch_size": state.batch_size}, temporary)
    os.replace(temporary, state.out_dir / name)
    state.save_seconds = time.monotonic() - began


def state_of(part) -> dict:
    """All of it; of a model that LoRA trains without what is frozen, which each fold loads again."""
    if not isinstance(part, nn.Module):
        return part.state_dict()
    values, named = part.state_dict(), part.named_parameters(remove_duplicate=False)
    if plan.LORA_RANK:
        kept = {name for name, _ in part.named_buffers()}
        kept |= {name for name, weight in named if weight.requires_grad}
        values = {name: each for name, each in values.items() if name in kept}
    return plan.whole_state(values) if is_sharded(part) else values


def restore(part, values: dict) -> None:
    """What `state_of` returned, which of LoRA is not all."""
    if isinstance(part, nn.Module):
        if unknown := part.load_state_dict(values, strict=False).unexpected_keys:
            raise ValueError(f"another version of a library names weights otherwise: {unknown[0]} is unknown")
    elif not getattr(part, "is_paged", False):  # loaded, its state would stay on the card: it begins anew
        part.load_state_dict(values)


def earlier_start(name: str) -> dict:
    """What an earlier start of this run left there; nothing where there is none, or none that is whole."""
    with suppress(Exception):
        return torch.load(state.out_dir / name, map_location="cpu", weights_only=True)
    return {}


def is_better(score: float, than: float) -> bool:
    return score > than if plan.HIGHER_IS_BETTER else score < than


def train_fold(fold: int, data: Data, train_rows: np.ndarray, valid_rows: np.ndarray, run) -> dict | None:
    """Train one fold and keep its best epoch in fold_K.pt; None where it was never validated.

    Its score, the constant's, and the predictions of the rows that validated it; done: it had all its epochs,
    or gained no more."""
    masks = plan.predict_masks is not None
    torch.manual_seed(plan.SEED + fold + 1000 * RANK)
    if (halved := state.out_dir / "batch_size.txt").exists():
        state.set_batch_size(min(state.batch_size, int(halved.read_text())))
    state.set_batch_size(agreed(state.batch_size))
    torch.set_float32_matmul_precision("highest" if plan.PRECISION == "fp32" else "high")
    targets, prepared = plan.prepare_fold(data, train_rows)
    checkpoint = {"fold": fold, "outputs": data.outputs, **prepared}
    if not masks:
        checkpoint["constant"] = baseline_score(data, train_rows, valid_rows)
    if WORLD > 1 and plan.SHARDED:
        model = plan.build_sharded(checkpoint)
    else:
        model = plan.build_model(checkpoint, plan.PRETRAINED)
    learner = together(model)
    average = averaged(model) if plan.EMA else None
    judged = model if average is None else average.module
    optimizer, scaler = make_optimizer(model)
    loaders: Any = None
    best, best_epoch, epoch, epochs, done = None, 0, 1, state.epochs, False
    last, saved, state.share = earlier_start("last.pt"), time.monotonic(), 0.0
    small = sum(each.numel() for each in model.parameters() if each.requires_grad) <= MOST_PARAMETERS
    if last.get("fold") == fold:  # it was cut off in this one
        parts = [part for part in (model, average, optimizer, scaler) if part is not None]
        for part, values in zip(parts, last["states"], strict=True):
            restore(part, values)
        best, best_epoch, epoch = last["best"], last["best_epoch"], last["epoch"] + 1
        state.share = last.get("share", 0.0)
        state.set_batch_size(min(state.batch_size, last["batch_size"]))
        torch.manual_seed(torch.initial_seed() + round(1e6 * state.share))  # other rows come first
        more = f" and {state.share:.0%} of the next" if state.share else ""
        print(f"Going on behind epoch {epoch - 1} of fold {fold}{more}", flush=True)
    earlier: Any = earlier_start(f"fold_{fold}.pt").get("best")  # it may be later than last.pt
    whole = earlier is not None and earlier["checked"] == len(valid_rows)  # few rows may just have been easy
    if whole and (best is None or is_better(earlier["score"], best["score"])):
        best, best_epoch = earlier, epoch - 1
        print(f"Its best epoch so far is that of fold_{fold}.pt: {earlier['score']:.4f}", flush=True)

    def save(behind: int, every: float) -> None:
        """Behind so many epochs and the share of the next."""
        nonlocal saved
        if time.monotonic() - saved > every and not is_sharded(model) and (small or not state.share):
            parts = [part for part in (model, average, optimizer, scaler) if part is not None]
            progress = {"fold": fold, "epoch": behind, "best": best, "best_epoch": best_epoch}
            progress |= {"share": state.share, "states": [state_of(part) for part in parts]}
            save_checkpoint("last.pt", progress)
            saved = time.monotonic()

    while epoch <= epochs:
        epoch_start, before = time.monotonic(), state.share
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        try:
            anew = loaders is None or loaders[0].batch_size != state.batch_size
            if anew:
                train_set = plan.make_dataset("train", data, train_rows, checkpoint)
                valid_set = plan.make_dataset("valid", data, own_rows(valid_rows, model), checkpoint)
                loaders = make_loader(train_set, train=True), make_loader(valid_set)
                with suppress(ImportError):  # weights and vocabulary are there: later folds wait for no hub
                    if plan.PRETRAINED:
                        constants: Any = import_module("huggingface_hub.constants")
                        constants.HF_HUB_OFFLINE = True
            trained, ready = (learner, optimizer, scaler, average), time.monotonic()
            loss, skipped, whole = train_epoch(trained, loaders[0], targets, epoch, epochs, run, save)
            if not agreed(scaler.is_enabled() or math.isfinite(loss)):  # a scaler leaves out such a step
                raise FloatingPointError(f"the training loss is {loss}")
            validation_start = time.monotonic()
            judge, checked = plan.validate_masks if masks else validate, None
            if whole:
                until = validation_start + state.seconds_left()
                checked = judge(judged, loaders[1], data, checkpoint, until)
            stopped = agreed(state.stop)
            if checked is None and best is None and not (stopped and fold > 1):  # better than no epoch at all
                few = 3.0 if stopped else 15 * state.reserve_minutes  # seconds: it may be killed in ten
                fitting = max(16, int(few / agreed(state.row_seconds)))
                most = QUICK_CHECK_ROWS * len(data.targets) // (data.samples or len(data.targets))
                valid_rows = some_rows(data, valid_rows, min(fitting, most))
                if not masks:
                    checkpoint["constant"] = baseline_score(data, train_rows, valid_rows)
                valid_set = plan.make_dataset("valid", data, own_rows(valid_rows, model), checkpoint)
                loaders = loaders[0], make_loader(valid_set)
                validation_start = time.monotonic()
                until = validation_start + state.seconds_left() + 2 * few
                checked, whole = judge(judged, loaders[1], data, checkpoint, until), False
        except FloatingPointError as error:
            kept = f"the fold ends with epoch {best_epoch}" if best else "the fold has no good one"
            print(f"WARNING: fold {fold} has diverged in epoch {epoch}: {error}; {kept}", flush=True)
            report(run, "note", f"fold {fold} has diverged in epoch {epoch}: {error}", error=True)
            done = True
            break
        except RuntimeError as error:
            recover(error, run, shared=WORLD > 1)
            optimizer, scaler = make_optimizer(model)  # memory may have run out in the middle of a step
            loaders = None
            continue
        if checked is None:
            print(f"NOTE: training time is over in epoch {epoch}", flush=True)
            break
        (valid_loss, score, answers), seconds = checked, (time.monotonic() - epoch_start) / (1 - before)
        valid_seconds = time.monotonic() - validation_start
        per_row = valid_seconds / max(len(valid_rows) // WORLD, 1)
        per_row += plan.seconds_to_encode(data.inputs[valid_rows[0]]) if masks else 0.0
        state.predict_seconds = 1.2 * per_row * len(data.test_ids)
        print_epoch(epoch, epochs, loss, valid_loss, score, seconds, skipped)
        facts = {"seconds": seconds, "valid_seconds": valid_seconds}
        facts |= {"train_loss": loss, "valid_loss": valid_loss, "epochs": epochs}
        state.follow(report(run, "epoch", epoch, fold=fold, **facts, **metric_of(score)))
        if best is None or is_better(score, best["score"]):
            best, best_epoch = {"score": score, "constant": checkpoint["constant"], **answers}, epoch
            best["checked"] = len(valid_rows)
            checkpoint |= {"score": score, "model": state_of(judged), "best": best}
            save_checkpoint(f"fold_{fold}.pt", checkpoint)
            quarter = 4 * epoch // epochs > 4 * (epoch - 1) // epochs
            quick = state.predict_seconds < 15 * state.reserve_minutes and not is_sharded(model)
            if RANK == 0 and fold == 1 and quarter and quick and epoch < epochs:
                write_interim(judged, checkpoint, data, run)
        if not whole:
            break
        done = epoch == state.epochs
        if epoch - best_epoch >= plan.PATIENCE and not done:
            print(f"Early stopping at epoch {epoch}", flush=True)
            done = True
            break
        save(epoch, SECONDS_BETWEEN_SAVES)
        once = ready - epoch_start + state.start_seconds if anew else 0.0  # no later epoch takes that
        lasts = max(time.monotonic() - epoch_start - once, 1e-6) / (1 - before)
        epochs = agreed(min(state.epochs, epoch + int(state.seconds_left() / lasts)))  # as many as still fit
        epoch += 1
    if best is None:
        return None
    result = {name: value.numpy() if torch.is_tensor(value) else value for name, value in best.items()}
    return result | {"done": done}


def print_epoch(epoch: int, epochs: int, loss, valid_loss, score, seconds, skipped: int) -> None:
    scores = f"Loss={loss:.4f}, Val_loss={valid_loss:.4f}"
    if metric_of(score):
        scores += f", {plan.METRIC_LABEL}={score:.4f}"
    gpu = f", {gpu_peak()}" if device == "cuda" else ""
    print(f"Epoch {epoch}/{epochs}: {scores}, time={seconds:.1f}s{gpu}", flush=True)
    if not math.isfinite(loss):  # else the fold has ended
        print("NOTE: fp16 overflowed in training; the steps with such a batch are left out", flush=True)
    if skipped:
        print(f"NOTE: {skipped} samples could not be read and were skipped", flush=True)


def predict_fold(data: Data, path: Path, until: float, run) -> dict:
    """The predictions of one checkpoint for the test set."""
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    data.outputs = checkpoint["outputs"]
    state.set_batch_size(min(state.batch_size, checkpoint["batch_size"]))
    model = plan.build_model(checkpoint, pretrained=False)
    restore(model, checkpoint["model"])
    return predict_test(model, checkpoint, data, until, run)


def predict_test(model, checkpoint: dict, data: Data, until: float, run) -> dict:
    """test: predictions; complete: whether the time sufficed for all; and how good the model is."""
    rows = np.arange(len(data.test_ids))
    prior, complete = np.asarray(checkpoint["prior"], np.float32), None
    predictions = np.full((checkpoint["views"], len(rows), len(prior)), np.float32(np.nan))
    while complete is None:
        try:
            loader = make_loader(plan.make_dataset("test", data, rows, checkpoint))
            complete = fill_predictions(model, loader, predictions, data, checkpoint, until)
        except RuntimeError as error:
            recover(error, run)
    unread = np.isnan(predictions[0, :, 0])
    predictions[:, unread] = prior
    fill_lost(predictions, prior, "test")
    known = {name: checkpoint[name] for name in ("thresholds", "score", "constant") if name in checkpoint}
    known["unread"] = rows[unread & complete]
    return {"test": mean_of(predictions), "complete": complete, **known}


def write_interim(model, checkpoint: dict, data: Data, run) -> None:
    """A submission within the first fold, so that it is not the baseline until the fold's end."""
    if plan.predict_masks:
        predict(data, run)
        return
    try:
        result = predict_test(model, checkpoint, data, time.monotonic() + 15 * state.reserve_minutes, run)
    except FloatingPointError:  # a later epoch may do better
        return
    if result["complete"] and not is_worse(result):
        state.interim = True
        data.thresholds = [result["thresholds"]] if "thresholds" in result else []
        write_submission(data, plan.submission_of(data, result["test"]), state.out_dir)
        print("Submission written from the best epoch so far", flush=True)


plan.train_fold, plan.predict_fold, plan.print_devices = train_fold, predict_fold, print_devices
plan.start_together, plan.first_says, plan.RANK, plan.WORLD = start_together, first_says, RANK, WORLD
