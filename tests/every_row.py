"""A law of every row as one test, which names each row that breaks it: a test of its own for each row costs
far more than the law, to collect in every worker, to send and to report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["of_every"]

Row = TypeVar("Row")


def of_every(
    rows: Sequence[Row], name: Callable[[Row], str]
) -> Callable[[Callable[[Row], None]], Callable[[], None]]:
    """The decorated test is asked of every row, whatever it says of those before."""
    assert rows

    def decorated(law: Callable[[Row], None]) -> Callable[[], None]:
        def test() -> None:
            failed: list[Exception] = []
            for row in rows:
                try:
                    law(row)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is this row's fault
                    error.add_note(f"of {name(row)}")
                    failed.append(error)
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(rows)}", failed)

        test.__name__, test.__doc__, test.__module__ = law.__name__, law.__doc__, law.__module__
        return test

    return decorated
