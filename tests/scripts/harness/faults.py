"""What is put into a child to make it fail: Python text that the fork server runs before the script."""

from __future__ import annotations

from pathlib import Path

__all__ = ["NO_CLIENT", "PROCESSOR_CLOCK", "card_for", "copies_of_writes", "out_of_memory_over"]

NO_CLIENT = "import sys; sys.modules['memory_service'] = None"

PROCESSOR_CLOCK = """
import threading, time
def no_clock(*_):
    raise OSError
time.monotonic, time.clock_gettime = time.process_time, no_clock
threading.Timer = lambda *_: threading.Thread()
"""
"""Its clock is the processor time that it took, which other work on the machine does not move. The timer that
ends whatever hangs goes by the wall: it does not begin."""

_COPIES = """
import os, shutil
real, count = os.replace, {first}
def replace(source, target, **more):
    global count
    folder, name = os.path.split(target)
    if not name.startswith({prefixes!r}):
        return real(source, target, **more)
    count += 1
    copy = os.path.join({copies!r}, f"{{count:03}}_{{name}}")
    if count % 2:
        real(source, target, **more)
        shutil.copytree(folder, copy)
    else:
        shutil.copytree(folder, copy)
        half = os.path.join(copy, os.path.basename(source))
        os.truncate(half, os.path.getsize(half) // 2)
        real(source, target, **more)
os.replace = os.rename = replace
"""


def copies_of_writes(copies: Path, prefixes: tuple[str, ...], first: int) -> str:
    """What a SIGKILL would leave at each file that is put in place: `copies` gets the folder as it is then,
    by turns with half of the file, not yet under its name, and with all of it. An odd `first` begins with the
    half."""
    return _COPIES.format(copies=str(copies), prefixes=prefixes, first=first)


def out_of_memory_over(most: int) -> str:
    """A card that has memory for so many samples at once. There is no GPU on this machine: the error is
    raised by the first layer of every network instead of the allocator."""
    return f"""
import torch
real = torch.nn.Module.__call__
def call(self, *inputs, **named):
    for one in (*inputs, *named.values()):
        if isinstance(one, torch.Tensor) and self.training and one.shape and one.shape[0] > {most}:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB (pretended)")
    return real(self, *inputs, **named)
torch.nn.Module.__call__ = call
"""


def card_for(rounds: int) -> str:
    """A card that XGBoost and CatBoost find, with memory for no more than so many rounds; trees grow on the
    processor all the same. CatBoost refuses callbacks, as it does on a card."""
    return f"""
import catboost, xgboost
real_train, real_fit = xgboost.train, catboost.CatBoost.fit
def train(settings, rows, few, **named):
    if settings["device"] == "cuda" and few > {rounds}:
        raise xgboost.core.XGBoostError("Memory allocation error on worker 0 (pretended)")
    return real_train({{**settings, "device": "cpu"}}, rows, few, **named)
def fit(self, *inputs, **named):
    if self.get_param("task_type") == "GPU":
        if named.get("callbacks") or self.get_param("iterations") > {rounds}:
            raise catboost.CatBoostError("out of memory, or callbacks (pretended)")
        self.set_params(task_type="CPU")
    return real_fit(self, *inputs, **named)
xgboost.train, catboost.CatBoost.fit = train, fit
xgboost.Booster.save_config = lambda self: "cuda:0"
"""
