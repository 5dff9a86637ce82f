"""The process that imports torch once, touches no device, and forks a child for each section.

On Linux children are forked, so that they start in milliseconds; elsewhere, and should an import have
counted the cards through CUDA, they are spawned (neither Metal nor CUDA survives a fork). A child that runs
out of memory, raises, dies by a signal or hangs costs its section alone.
Requests come as lines on stdin: {"section", "probes", "kind", "torch_device", "uuid", "seconds",
"limit_seconds", "extra"}; a child's lines are passed on, then {"event": "ended", "section", "why",
"cpu_seconds"}.
"""

import contextlib
import ctypes
import json
import multiprocessing
import os
import resource
import signal
import stat
import sys
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection, wait
from typing import Any

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve requests until stdin closes."""
    wire = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no event
    try:
        context: Any = multiprocessing.get_context(_import_torch())
    except Exception as error:  # noqa: BLE001 - whatever breaks an import here is the reason to report
        os.write(wire, line({"event": "broken", "why": f"torch cannot be imported: {error}"}))
        return
    os.write(wire, line({"event": "ready"}))
    while request := _request():
        _serve(context, wire, request)


def _import_torch() -> str:
    """Import what every child needs; the start method that is safe afterwards."""
    import torch
    import torch._dynamo  # what an optimizer and the first backward pass import: a second each time
    import torch.fx.experimental.symbolic_shapes

    import memory_service.measure.calibrate.sections  # noqa: F401

    if sys.platform != "linux":
        return "spawn"
    trial = os.fork()
    if trial == 0:
        os._exit(int(torch.cuda._is_in_bad_fork()))
    return "spawn" if os.waitstatus_to_exitcode(os.waitpid(trial, 0)[1]) else "fork"


def _request() -> dict[str, Any] | None:
    """The next request, read byte by byte: a buffer would hide from `wait` that stdin was closed."""
    read = bytearray()
    while not read.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return None
        read += byte
    return json.loads(read)


def _serve(context: Any, wire: int, request: Mapping[str, Any]) -> None:
    parent_end, child_end = context.Pipe(duplex=False)
    options = {**request, "forked": context.get_start_method() == "fork"}
    child = context.Process(target=_child, args=(child_end, options, os.getpid()))
    child.start()
    child_end.close()
    why = _pass_on(wire, parent_end, child, time.monotonic() + float(request["limit_seconds"]), request)
    parent_end.close()
    child.join()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = {"event": "ended", "section": request["section"], "why": why}
    os.write(wire, line({**ended, "cpu_seconds": spent.ru_utime + spent.ru_stime}))


def _pass_on(
    wire: int, pipe: Connection, child: Any, deadline: float, request: Mapping[str, Any]
) -> str | None:
    """Relay a child's lines until it ended; why it did not end by itself, else None."""
    open_pipe = True
    while True:
        watched: list[Any] = [child.sentinel, 0, *([pipe] if open_pipe else [])]
        ready = wait(watched, timeout=max(0.0, deadline - time.monotonic()))
        if pipe in ready:
            try:
                os.write(wire, pipe.recv_bytes())
            except (EOFError, OSError):
                open_pipe = False
            continue
        if 0 in ready:  # nothing is asked meanwhile: the runner closed its end
            _kill(child)
            os._exit(1)
        if child.sentinel in ready:
            child.join()
            return _cause(child.exitcode)
        if not ready:
            _kill(child)
            return f"took longer than its {float(request['limit_seconds']):.1f} s"


def _cause(code: int | None) -> str | None:
    if not code:
        return None
    if code > 0:
        return f"its process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    if name == "SIGKILL":
        return "its process was killed (SIGKILL): most likely out of memory"
    return f"its process died by {name}"


def _kill(child: Any) -> None:
    """The child and its process group."""
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.kill(child.pid, signal.SIGKILL)
    child.join()


def _child(pipe: Connection, request: Mapping[str, Any], parent: int) -> None:
    os.setsid()
    _die_with(parent)
    from memory_service.measure.calibrate.sections import measure_section

    measure_section(request, lambda event: pipe.send_bytes(line(event)))


def _die_with(parent: int) -> None:
    """End when the sections' process does: by the kernel, else by polling."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)

    def watch_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    if sys.platform != "linux":
        threading.Thread(target=watch_parent, daemon=True).start()


def line(event: Mapping[str, Any]) -> bytes:
    """One event as a line of JSON."""
    return json.dumps(event, separators=(",", ":"), default=str).encode() + b"\n"


def is_pipe(descriptor: int) -> bool:
    """Whether it is a pipe or socket, not a terminal, file or nothing."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


if __name__ == "__main__":
    main()
