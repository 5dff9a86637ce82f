"""What is put into a child to make it fail: Python text that the fork server runs before the script."""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "NO_CLIENT",
    "PROCESSOR_CLOCK",
    "card_for",
    "copies_of_writes",
    "diverging",
    "out_of_memory_over",
    "slow_disk",
]

NO_CLIENT = "import sys; sys.modules['memory_service'] = sys.modules['memory_service.client'] = None"

PROCESSOR_CLOCK = """
import threading, time
def no_clock(*_):
    raise OSError
time.monotonic, time.clock_gettime = time.process_time, no_clock
real = threading.Timer
threading.Timer = lambda *_: real(0.0, int)
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


def diverging(after: int) -> str:
    """In the first fold all weights are NaN behind so many steps, as after a gradient of NaN."""
    return f"""
import torch
steps = {{}}
def spoiled(real):
    def step(self, *inputs, **named):
        answer = real(self, *inputs, **named)
        steps[self] = steps.get(self, 0) + 1
        if steps[self] >= {after} and self is next(iter(steps)):
            with torch.no_grad():
                for group in self.param_groups:
                    for weight in group["params"]:
                        weight.fill_(float("nan"))
        return answer
    return step
for kind in (torch.optim.AdamW, torch.optim.SGD):
    kind.step = spoiled(kind.step)
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


_SLOW_DISK = """
import builtins, io, os, time
spent, sleep = [0.0], time.sleep
def wait(seconds):
    spent[0] += seconds
    if not {virtual}:
        sleep(seconds)
if {virtual}:
    real_clock = time.monotonic
    time.monotonic = lambda: real_clock() + spent[0]
class SlowFile(io.FileIO):
    def readinto(self, buffer):
        count = super().readinto(buffer)
        wait(count / {rate})
        return count
    def readall(self):
        found = super().readall()
        wait(len(found) / {rate})
        return found
    def write(self, some):
        count = super().write(some)
        wait(count / {rate})
        return count
real_open, real_replace = io.open, os.replace
def slow_open(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *more, **named):
    kind = mode.replace("b", "").replace("t", "")
    folders = os.environ["DATA_DIR"], os.environ["OUT_DIR"]
    there = not isinstance(file, int) and str(file).startswith(folders)
    if not there or kind not in ("r", "w") or buffering != -1 or more or named:
        return real_open(file, mode, buffering, encoding, errors, newline, *more, **named)
    raw = SlowFile(file, kind)
    wait({latency})
    buffered = io.BufferedReader(raw) if kind == "r" else io.BufferedWriter(raw)
    return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)
def slow_replace(source, target, **more):
    wait({latency} + os.path.getsize(source) / {rate})
    real_replace(source, target, **more)
builtins.open = io.open = slow_open
os.replace = slow_replace
"""


def slow_disk(latency: float, bytes_a_second: float, *, virtual: bool = False) -> str:
    """Each file of DATA_DIR and OUT_DIR takes so many seconds to open and to be put in place, and its bytes
    theirs. `virtual`: nobody sleeps, the clock moves."""
    return _SLOW_DISK.format(latency=latency, rate=bytes_a_second, virtual=virtual)
