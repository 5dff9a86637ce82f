"""How does a test run a training script two hundred times where importing torch alone takes seconds?

A process of its own imports everything once, with one thread, and forks a child for each run; the child leads
a process group of its own, changes folder, environment and output, and runs the script as `__main__`. What
differs from `python train.py`: the libraries are already loaded. Each kind is run by plain `python` too.

One request is one line of JSON on standard input; the answers are `{"pid"}` at once and `{"status"}` (as
`subprocess` gives it) when the child has ended. One run at a time.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import signal
import sys
import threading
import time
import traceback
import weakref
from types import CodeType, ModuleType
from typing import Any

LIBRARIES = (
    "torch",
    "torchvision",
    "timm",
    "segmentation_models_pytorch",
    "transformers",
    "transformers.models.bert.modeling_bert",
    "transformers.models.bert.tokenization_bert",
    "transformers.models.llama.modeling_llama",
    "pandas",
    "scipy.signal",
    "sklearn.compose",
    "sklearn.feature_extraction.text",
    "sklearn.impute",
    "sklearn.linear_model",
    "sklearn.metrics",
    "sklearn.model_selection",
    "sklearn.multiclass",
    "sklearn.preprocessing",
    "lightgbm",
    "xgboost",
    "catboost",
    "PIL.Image",
    "memory_service.client",
)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for name in LIBRARIES:
        importlib.import_module(name)
    with contextlib.suppress(ImportError):
        importlib.import_module("peft")  # where it is installed
    for ending in weakref.finalize._registry:  # type: ignore[attr-defined]
        ending.atexit = False  # the libraries' own: each child would copy 40 MB to tidy up what it never used
    gc.collect()
    gc.freeze()  # the children copy fewer pages
    print(json.dumps({"threads": threading.active_count()}), file=answers)
    while line := sys.stdin.readline():
        request = json.loads(line)
        with contextlib.suppress(OSError, SyntaxError, ValueError):  # the child says so
            _compiled(request["script"])
        pid = os.fork()
        if pid == 0:
            answers.close()
            _child(request)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        print(json.dumps({"pid": pid}), file=answers)
        _, status, used = os.wait4(pid, 0)
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)  # workers of its loaders
        cpu = used.ru_utime + used.ru_stime
        print(json.dumps({"status": os.waitstatus_to_exitcode(status), "cpu_seconds": cpu}), file=answers)
    os._exit(0)  # nothing to put in order, and taking all that down would take a second


def _compiled(script: str) -> CodeType:
    with open(script, encoding="utf-8") as file:  # noqa: PTH123
        return _code(file.read(), script)


@functools.lru_cache(maxsize=2)
def _code(text: str, path: str) -> CodeType:
    """The children inherit it: a trial's script is run up to fifty times, and half of a `predict` is this."""
    return compile(text, path, "exec", dont_inherit=True)


def _child(request: dict[str, Any]) -> None:
    """Never returns."""
    code = 1
    try:
        _enter(request)
        code = _run(request)
    except BaseException:  # noqa: BLE001 - a child must never go on as the server
        traceback.print_exc()
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _enter(request: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    signal.alarm(request["limit_seconds"])  # if the tests are gone
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for target, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)
    sys.stdin = open(0)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1)  # noqa: SIM115
    time.tzset()


def _run(request: dict[str, Any]) -> int:
    if request.get("before"):  # a fault put into this child alone
        exec(request["before"], {"__name__": "fault"})
    sys.argv = [request["script"], *request["arguments"]]
    sys.path[0] = os.path.dirname(os.path.abspath(request["script"]))  # noqa: PTH100, PTH120
    try:
        main = sys.modules["__main__"] = ModuleType("__main__")
        main.__file__ = request["script"]
        exec(_compiled(request["script"]), main.__dict__)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    main()
