"""Parameters of libraries' calls, as the review knows them, read from the installed libraries.

    python -m benchmarks.review_signatures [--write]

Prints what the installed libraries take that `signatures.txt` does not say; `--write` puts it into the file.
What they no longer take stays at the end of a line: a release or two before took it. A call is added by a
line with its dotted name and a colon; calls of the same parameters may share one.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
from collections.abc import Sequence
from pathlib import Path

FILE = Path("memory_service/review/rules/libraries/signatures.txt")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write them into the file")
    options = parser.parse_args(arguments)
    lines = []
    for line in FILE.read_text("utf-8").splitlines():
        name, _, known = line.partition(":")
        each = [parameters(one) for one in name.split()]
        taken = each[0] if None not in each and len({frozenset(one or ()) for one in each}) == 1 else None
        if taken is None:
            print(f"{name}: not installed, or no longer alike; left as it is")
        elif new := [one for one in taken if one not in known.split()]:
            print(f"{name}: takes {', '.join(new)} as well")
        lines.append(line if taken is None else f"{name}: {' '.join(merged(taken, known.split()))}")
    if options.write:
        FILE.write_text("\n".join(lines) + "\n", "utf-8")
    return 0


def merged(taken: Sequence[str], known: Sequence[str]) -> list[str]:
    """Parameters of now in their order, then those that a release before took."""
    return [*taken, *(one for one in known if one not in taken)]


def parameters(name: str) -> list[str] | None:
    """Parameters by name of a class or function, but `self` and what is starred; None where its library is
    not installed or has no such name."""
    module, _, attribute = name.rpartition(".")
    try:
        called = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError):
        return None
    given = inspect.signature(called).parameters.values()
    stated = (one for one in given if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD))
    return [one.name for one in stated if one.name != "self"]


if __name__ == "__main__":
    raise SystemExit(main())
