"""Whether a calibration can be: one that contradicts itself or the data sheet of its card is kept, and not
used until another reporter's agrees."""

from math import exp, log
from statistics import median

from memory_service.domain.calibration.calibration import Calibration
from memory_service.domain.hardware.gpu_spec import Gpu

MOST_ERROR_PERCENT = 50.0
LEAST_SHARE, MOST_SHARE = 0.05, 1.2
"""Of the data sheet's figure that the best of a card's own can be."""

SAME_RATES, LEAST_COMMON = 1.25, 3


def calibration_doubt(calibration: Calibration, sheet: Gpu | None, error_percent: float | None) -> str | None:
    """Why it cannot be, as a clause; None where it can. error_percent: of its self-check."""
    if error_percent is not None and error_percent > MOST_ERROR_PERCENT:
        return f"its reference networks ran {error_percent:,.0f} % away from what its own sections say"
    if sheet is None or sheet.kind != "cuda" or calibration.fingerprint.mig:
        return None
    stated = {f"matmul.{name}.": peak for name, peak in sheet.tflops.items()}
    for start, peak in {**stated, "bandwidth.": sheet.bandwidth_gb_s}.items():
        found = [
            one.value for name, one in calibration.sections.items()
            if name.startswith(start) and one.unit in ("TFLOP/s", "GB/s") and not name.endswith("mib")
        ]  # fmt: skip
        if found and not LEAST_SHARE <= max(found) / peak <= MOST_SHARE:
            what = start.strip(".").replace("matmul.", "products in ")
            return f"its {what} reach {max(found):.4g}, and the data sheet of {sheet.slug} says {peak:g}"
    return None


def calibrations_agree(one: Calibration, other: Calibration) -> bool:
    """Whether two devices measured much the same."""
    common = one.sections.keys() & other.sections.keys()
    if one.fingerprint.uuid == other.fingerprint.uuid or len(common) < LEAST_COMMON:
        return False
    apart = [abs(log(one.sections[name].value / other.sections[name].value)) for name in common
             if one.sections[name].value > 0.0 and other.sections[name].value > 0.0]  # fmt: skip
    return bool(apart) and exp(median(apart)) <= SAME_RATES
