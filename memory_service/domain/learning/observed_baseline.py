"""What would have been predicted for this observation, had nothing been learned?"""

from __future__ import annotations

from dataclasses import replace

from memory_service.domain.cost.memory import inference_memory, peak_memory
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.rates import rates_of
from memory_service.domain.cost.step_time import card_log_sd, prepare
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.learning.baseline_prediction import Cold
from memory_service.domain.learning.observation import Observation

__all__ = ["cold_of"]


def cold_of(observation: Observation, profile: Profile, gpu: Gpu) -> Cold:
    """The prediction that an observation is compared with.

    profile   of the observed model at the observed input size and precision class
    gpu       the device, with its calibrations; what it has learned is left out
    """
    o, gpu = observation, replace(gpu, learned=None)
    step = prepare(profile, gpu, o.precision, o.layout, o.optimizer, o.mode, o.compiled, o.stack)
    if o.mode == "infer":
        peak = inference_memory(profile, o.batch_size, gpu)
    else:
        peak = peak_memory(
            profile, o.batch_size, gpu, o.optimizer, o.precision, grads_persistent=o.stack == "torch1"
        )
    return Cold(
        step.seconds(o.batch_size),
        step.shares(o.batch_size),
        card_log_sd(rates_of(gpu, o.precision, o.layout, o.stack)),
        peak.allocated_gib.value,
        peak.reserved_gib.value,
        peak.driver_gib.value,
        gpu.usable_gib,
    )
