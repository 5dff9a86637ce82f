"""How well a calibration's sections predict the reference networks that it trained."""

import logging
from functools import lru_cache
from typing import Any

from memory_service.domain.calibration.calibration import Calibration
from memory_service.domain.calibration.corrected_rates import self_check
from memory_service.domain.calibration.registered_device import device_card
from memory_service.domain.cost.profile import Profile
from memory_service.linear_algebra import on_one_thread
from memory_service.resources import path
from memory_service.services.database.transactions import ReadTransaction
from memory_service.services.editorial.seed_files import read_lines
from memory_service.services.tables.usable_rows import usable_sheets
from memory_service.store.queries.rows import all_rows

_log = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def reference_profiles() -> tuple[Profile, ...]:
    """Profiles of the networks that every calibration trains."""
    rows = read_lines(path("seeds", "reference_profiles.jsonl.gz"))
    own = ({name: row[name] for name in Profile.__slots__ if name in row} for _, row in rows)
    return tuple(map(Profile.from_dict, own))


def checked_by_networks(
    transaction: ReadTransaction, calibration: Calibration, gpu: str
) -> dict[str, Any] | None:
    """`domain.calibration.corrected_rates.self_check` of a calibration of a device of this GPU model; None
    where nothing was measured, or figures so far apart that nothing can be predicted from them."""
    if not calibration.sections:
        return None
    sheets = usable_sheets(all_rows(transaction.session, "gpus"))
    card = device_card(calibration.device, calibration.fingerprint, sheets, gpu)
    try:
        on_one_thread()
        return dict(self_check(calibration, card, reference_profiles()))
    except (ArithmeticError, LookupError, TypeError, ValueError):
        # A result that cannot be checked is still a result: posted figures may be plausible one by one only.
        _log.exception("calibration %s cannot be checked by its networks", calibration.id)
        return None
