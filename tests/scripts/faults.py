"""What is put into a child to make it fail: Python text that the fork server runs before the script."""

from __future__ import annotations

__all__ = ["NO_CLIENT", "card_for", "cut_in_replace", "kill_after_replace", "out_of_memory_over"]

NO_CLIENT = "import sys; sys.modules['memory_service'] = None"

_KILLS_AT_REPLACE = """
import os, signal
real, calls = os.replace, []
def replace(source, target, **more):
    if os.path.basename(os.fspath(target)).startswith({prefix!r}):
        calls.append(target)
        if len(calls) == {number}:
            if {before}:
                os.truncate(source, os.path.getsize(source) // 2)
            else:
                real(source, target, **more)
            os.killpg(0, signal.SIGKILL)
    return real(source, target, **more)
os.replace = os.rename = replace
"""


def cut_in_replace(number: int, prefix: str) -> str:
    """SIGKILL to the process group while the number-th file `prefix…` is written: half of it is there, not
    yet under its name."""
    return _KILLS_AT_REPLACE.format(number=number, prefix=prefix, before=True)


def kill_after_replace(number: int, prefix: str) -> str:
    """SIGKILL to the process group at the moment at which the number-th file `prefix…` has its name."""
    return _KILLS_AT_REPLACE.format(number=number, prefix=prefix, before=False)


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
