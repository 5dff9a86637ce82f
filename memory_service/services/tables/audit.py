"""The history: one entry for each change, in the change's own transaction.

Rows of knowledge write theirs with their versions (`services.tables.table_rows`); what has no versions (runs,
devices, calibrations, keys, sessions) writes it here.
"""

from memory_service.services.database.transactions import WriteTransaction
from memory_service.store.queries import history

ANONYMOUS = "anonymous"
"""Who did it, when nobody says."""

SERVICE = "memory_service"
"""Who did it, when the service does something by itself."""

NO_KEY = ("", ANONYMOUS, SERVICE)
"""Who did it, where no key of the server did."""


def note(
    transaction: WriteTransaction, table: str, row: str, action: history.Action, why: str, *, who: str | None
) -> None:
    """One entry of a change in this transaction. `who` None: nobody said who it is."""
    history.record(transaction.session, transaction.now, table, row, action, who=who or ANONYMOUS, why=why)
