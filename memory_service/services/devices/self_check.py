"""How well a calibration's sections predict the reference networks that it trained."""

import logging
from functools import lru_cache
from typing import Any

from memory_service.domain.calibration.calibration import Calibration
from memory_service.domain.calibration.corrected_rates import self_check
from memory_service.domain.cost.profile import Profile
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.linear_algebra import on_one_thread
from memory_service.resources import path
from memory_service.services.editorial.seed_files import read_lines

_log = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def reference_profiles() -> tuple[Profile, ...]:
    """Profiles of the networks that every calibration trains."""
    rows = read_lines(path("seeds", "reference_profiles.jsonl.gz"))
    own = ({name: row[name] for name in Profile.__slots__ if name in row} for _, row in rows)
    return tuple(map(Profile.from_dict, own))


def checked_by_networks(calibration: Calibration, card: Gpu) -> dict[str, Any] | None:
    """`domain.calibration.corrected_rates.self_check` of a calibration of a device that is such a card; None
    where nothing was measured. Figures so far apart that nothing can be predicted from them are in doubt.

    It takes up to two seconds: nobody should wait for it to write.
    """
    if not calibration.sections:
        return None
    try:
        on_one_thread()
        return dict(self_check(calibration, card, reference_profiles()))
    except (ArithmeticError, LookupError, TypeError, ValueError):
        # A result that cannot be checked is still a result: posted figures may be plausible one by one only.
        _log.exception("calibration %s cannot be checked by its networks", calibration.id)
        doubt = "its sections are too far apart to predict anything from them"
        return {"median_error_percent": None, "networks": [], "doubt": doubt}
