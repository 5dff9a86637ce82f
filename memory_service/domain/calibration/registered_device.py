"""Data sheet of a registered device: its GPU model's, with the device's own figures."""

import re
from collections.abc import Mapping
from dataclasses import replace

from memory_service.domain.calibration.calibration import Fingerprint
from memory_service.domain.cost.rates import with_cores
from memory_service.domain.hardware.gpu_spec import Gpu, normal_gpu_name

_SLICE = re.compile(r"^(\d+)g\.")
SLICES = 7
"""A card that is cut (MIG) has seven slices of arithmetic."""


def device_card(name: str, fingerprint: Fingerprint, sheets: Mapping[str, Gpu], slug: str | None) -> Gpu:
    """The device as a card: memory, cores, power and MIG share of its fingerprint, all else of its model.

    slug   of its GPU model; None where nobody knows it: then the most alike sheet lends its rates, and the
           device keeps its own name as model, so that nothing measured on it counts for the lender
    """
    sheet = sheets.get(slug or "")
    lent = sheet is None
    if sheet is None:
        sheet = _most_alike(fingerprint, sheets)
    found, fraction = _SLICE.match(fingerprint.mig or ""), fingerprint.memory_gib / sheet.memory_gib
    share = int(found.group(1)) / SLICES if found else None
    memory, usable = fingerprint.memory_gib, _usable_gib(sheet, fingerprint.memory_gib)
    card = with_cores(sheet, fingerprint.cores)
    card = replace(card, device=name, name=fingerprint.name, memory_gib=memory, usable_gib=usable)
    if fingerprint.cores is not None:
        card = replace(card, extra={**card.extra, "host_cores": fingerprint.cores})
    if share is not None:
        tflops = {precision: peak * share for precision, peak in card.tflops.items()}
        card = replace(card, tflops=tflops, bandwidth_gb_s=card.bandwidth_gb_s * min(1.0, fraction))
    if fingerprint.power_limit_w is not None and card.tdp_w is not None:
        card = replace(card, tdp_w=fingerprint.power_limit_w * (share or 1.0))
    if not lent:
        return card
    return replace(
        card,
        slug=slug or normal_gpu_name(fingerprint.name) or name,
        architecture=fingerprint.architecture or card.architecture,
        compute_capability=fingerprint.compute_capability,
        aliases=(),
        source=f"no data sheet is known: figures of {sheet.name} until it is calibrated",
    )


def cores_beside(card: Gpu) -> int | None:
    """Processor cores that work for the card: of a device as it said, of a processor its own."""
    cores = card.extra.get("host_cores") or card.cores
    return cores if isinstance(cores, int) else None


def _usable_gib(sheet: Gpu, memory_gib: float) -> float:
    """Drivers of cards keep a fixed amount back, hosts a share."""
    if sheet.kind == "cuda":
        return max(0.0, memory_gib - (sheet.memory_gib - sheet.usable_gib))
    return memory_gib * sheet.usable_gib / sheet.memory_gib


def _most_alike(fingerprint: Fingerprint, sheets: Mapping[str, Gpu]) -> Gpu:
    """Same kind first, then compute capability, then memory; of what is left the weaker."""
    wanted = fingerprint.compute_capability or 0.0

    def distance(sheet: Gpu) -> tuple[float, float, float]:
        apart = abs((sheet.compute_capability or 0.0) - wanted)
        return apart, abs(sheet.memory_gib - fingerprint.memory_gib), sheet.tflops["fp32"]

    kin = [sheet for sheet in sheets.values() if sheet.kind == fingerprint.kind]
    return min(kin or list(sheets.values()), key=distance)
