"""A probe's name, work and unit are enough to read a rate out of a stored calibration."""

from __future__ import annotations

import pytest

from memory_service.domain.calibration.probes import PRECISIONS, Kind, probe_of, probes, worker_counts
from memory_service.domain.cost.profile import OP_CLASSES

KINDS: tuple[Kind, ...] = ("cuda", "mps", "cpu")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cores", [1, 2, 6, 64])
def test_every_name_is_unique_known_again_and_of_one_section(kind: Kind, cores: int) -> None:
    listed = probes(kind, PRECISIONS[kind], cores)
    names = [probe.name for probe in listed]
    assert len(names) == len(set(names))
    for probe in listed:
        again = probe_of(kind, probe.name)
        assert again is not None
        assert (again.flops, again.bytes, again.unit) == (probe.flops, probe.bytes, probe.unit)
        assert probe.op_class in ("", *OP_CLASSES)
        assert probe.facts.get("of", names[0]) in names
    sections = [probe.section for probe in listed]
    starts = [s for i, s in enumerate(sections) if i == 0 or sections[i - 1] != s]
    assert len(starts) == len(set(starts))


@pytest.mark.parametrize("precisions", [("fp32",), ("fp32", "fp16"), ("fp32", "tf32", "fp16", "bf16")])
def test_cards_of_every_age_are_asked_only_for_what_they_have(precisions: tuple[str, ...]) -> None:
    listed = probes("cuda", precisions, 8)
    assert {probe.precision for probe in listed if probe.precision} == set(precisions)
    assert all(probe_of("cuda", probe.name) for probe in listed)


def test_a_product_counts_two_operations_per_multiply_and_add() -> None:
    probe = probe_of("cpu", "matmul.fp32.1024")
    assert probe is not None
    assert probe.flops == 2 * 1024**3
    assert probe.bytes == 3 * 4 * 1024**2
    assert probe.seconds(0.1) == pytest.approx(2 * 1024**3 / 1e11)


def test_a_convolution_counts_three_products_and_a_first_layer_two() -> None:
    dense, stem = probe_of("cpu", "conv.dense28.fp32.nchw.b16"), probe_of("cpu", "conv.stem64.fp32.nchw.b16")
    assert dense is not None
    assert stem is not None
    assert dense.flops == 3 * 2 * 16 * 28 * 28 * 128 * 128 * 9
    assert stem.flops == 2 * 2 * 16 * 64 * 64 * 3 * 32 * 9
    assert (dense.kernels, stem.kernels) == (3, 2)
    assert dense.seconds(5.0) == 0.005


def test_half_precision_moves_half_the_bytes() -> None:
    full, half = (probe_of("cuda", f"conv.dense56.{p}.nhwc.b32") for p in ("fp32", "bf16"))
    assert full is not None
    assert half is not None
    assert full.bytes == 2 * half.bytes
    assert full.flops == half.flops


def test_the_tile_fit_of_a_thin_product_is_the_useful_share() -> None:
    probe = probe_of("cpu", "linear.fp32.1024x50x512")
    assert probe is not None
    forward, to_input, to_weight = 50 / 64, 50 / 64, 50 / 64
    assert probe.tile_fit == pytest.approx(3 / (1 / forward + 1 / to_input + 1 / to_weight))


def test_memory_has_no_time_and_unknown_names_no_probe() -> None:
    memory = probe_of("cpu", "memory.process_gib")
    assert memory is not None
    with pytest.raises(ValueError, match="GiB"):
        memory.seconds(1.0)
    assert probe_of("cpu", "matmul.fp64.1024") is None
    assert probe_of("tpu", "launch.us") is None


@pytest.mark.parametrize(
    ("cores", "tried"), [(1, (0, 1)), (2, (0, 1, 2)), (6, (0, 1, 2, 4, 6)), (8, (0, 1, 2, 4, 8))]
)
def test_loader_workers_double_up_to_the_cores(cores: int, tried: tuple[int, ...]) -> None:
    assert worker_counts(cores) == tried
