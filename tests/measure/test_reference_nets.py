"""The reference networks run, and the profiles that ship are what tracing them gives."""

from __future__ import annotations

import pytest
import torch

from memory_service import resources
from memory_service.domain.calibration.probe_shapes import REFERENCE_NETS
from memory_service.domain.calibration.probes import probe_of
from memory_service.domain.cost.memory import allocated_bytes
from memory_service.measure.calibrate.hardware import Cpu
from memory_service.measure.calibrate.sections import steps
from memory_service.measure.calibrate.sections.steps import measure, training_step
from memory_service.measure.nets.reference import build_reference, reference_module
from memory_service.measure.trace import trace_profile
from memory_service.services.knowledge.profiling import read_profiles

EVERY = {(net.model, net.image_size): net for nets in REFERENCE_NETS.values() for net in nets}


def test_every_network_has_its_profiles_shipped() -> None:
    shipped = read_profiles(resources.path("seeds", "reference_profiles.jsonl.gz"))
    keys = {(profile.model, profile.input_size, profile.precision) for profile in shipped}
    assert keys == {(*key, precision) for key in EVERY for precision in ("fp32", "amp")}


@pytest.mark.parametrize("net", REFERENCE_NETS["cpu"], ids=lambda net: net.name)
def test_a_shipped_profile_is_what_a_trace_gives_today(net) -> None:
    shipped = {
        profile.model: profile
        for profile in read_profiles(resources.path("seeds", "reference_profiles.jsonl.gz"))
        if profile.precision == "fp32" and profile.input_size == net.image_size
    }[net.model]
    traced = trace_profile(build_reference(net), precision="fp32")
    assert traced.params == shipped.params
    assert [[p.fixed_bytes, p.per_sample_bytes] for p in traced.peak] == [
        [p.fixed_bytes, p.per_sample_bytes] for p in shipped.peak
    ]
    assert traced.forward == shipped.forward
    assert traced.backward == shipped.backward


@pytest.mark.parametrize("net", EVERY.values(), ids=lambda net: f"{net.model}@{net.image_size}")
def test_every_network_answers_with_logits(net) -> None:
    with torch.no_grad():
        logits = reference_module(net).eval()(torch.zeros(1, 3, net.image_size, net.image_size))
    assert logits.shape == (1, net.n_outputs)


def test_a_training_step_moves_every_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    net = REFERENCE_NETS["cpu"][1]
    module = reference_module(net)
    monkeypatch.setattr(steps, "reference_module", lambda _: module)
    step = training_step(net, Cpu("cpu", ""), "fp32", "nhwc", 4)
    before = [parameter.detach().clone() for parameter in module.parameters()]
    step()
    assert all(not torch.equal(was, now) for was, now in zip(before, module.parameters(), strict=True))


def test_where_a_peak_cannot_be_read_the_time_is_still_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cpu, "peak", lambda self: None)
    probe = probe_of("cpu", "step.cnn.fp32.nchw.b16")
    assert probe is not None
    assert [name for name, _ in measure(probe, Cpu("cpu", ""), 0.1)] == [probe.name]


def test_a_step_peaks_at_no_less_than_the_tensors_that_must_be_alive() -> None:
    probe = probe_of("cpu", "step.vit.fp32.nchw.b64")
    assert probe is not None
    found = dict(measure(probe, Cpu("cpu", ""), 0.1))
    profile = next(
        p
        for p in read_profiles(resources.path("seeds", "reference_profiles.jsonl.gz"))
        if p.model == probe.facts["model"] and p.precision == "fp32"
    )
    needed = allocated_bytes(profile, 64) / 2**30
    assert 0.6 * needed < found[f"{probe.name}.steady_peak_gib"].value < 3.0 * needed
