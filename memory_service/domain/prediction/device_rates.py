"""Achieved rates of a device: its data sheet's, corrected by its calibrations."""

from __future__ import annotations

from memory_service.domain.cost.rates import Rates, sheet_rates
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.prediction.device import TargetDevice


def rates_of(device: TargetDevice, config: StepConfig) -> Rates:
    """Rates at the configuration's precision and layout."""
    rates = sheet_rates(device, config.precision, config.layout, config.stack)
    if device.calibrated is None:
        return rates
    return device.calibrated.applied(rates, config.precision, config.layout)
