"""Calibrate one device from a terminal or for the service; see the package."""

import argparse
import sys

from memory_service.measure.calibrate.runner import run

__all__: list[str] = []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m memory_service.measure.calibrate", description=__doc__)
    parser.add_argument("--device", default="cpu", help="cpu, mps or cuda:N")
    parser.add_argument("--budget-seconds", type=float, default=60.0, help="1 to 3600; 20 is quick")
    parser.add_argument("--force", action="store_true", help="also when others use the device")
    parser.add_argument("--only", default="", help="sections, with commas: matmul, step.cnn, trees")
    parser.add_argument("--with", dest="extra", default="", help="module with further PROBES and measure()")
    args = parser.parse_args()
    if not 1.0 <= args.budget_seconds <= 3600.0:
        parser.error(f"--budget-seconds must be 1 to 3600, got {args.budget_seconds:g}")
    only = tuple(word for word in args.only.split(",") if word)
    return run(args.device, args.budget_seconds, force=args.force, only=only, extra=args.extra)


if __name__ == "__main__":
    sys.exit(main())
