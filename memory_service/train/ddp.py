"""Several cards that train one model: a process each, started by torchrun, as DistributedDataParallel asks.

What depends on a clock or a file the first process decides for all.
"""

import datetime as dt
import os
import sys
from contextlib import nullcontext
from typing import Any

import torch
from torch import distributed, nn

from memory_service.train.budget import plan

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


plan.start_together, plan.first_says, plan.RANK, plan.WORLD = start_together, first_says, RANK, WORLD
