"""Runs that an experiment tracker recorded, read from its files; a tracker is a module of this folder."""

from importlib import import_module
from pkgutil import iter_modules

from memory_service.client.past_runs.past_run import READERS, PastRun, Unread

__all__ = ["READERS", "PastRun", "Unread"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
