"""Does every spelling of a card reach its row, and do the rows hold what a planner needs?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_service.domain.hardware.gpu_spec import Gpu, gpu_from_row, normal_gpu_name, resolve_gpu
from memory_service.errors import InvalidInput
from tests.every_row import of_every

SEED = Path(__file__).parents[3] / "seeds" / "gpus.jsonl"
ROWS = [json.loads(line) for line in SEED.read_text(encoding="utf-8").splitlines()]
GPUS: dict[str, Gpu] = {row["slug"]: gpu_from_row(row) for row in ROWS}

PROMISED = (
    *("t4", "p100", "v100", "v100-32gb", "a10", "a10g", "l4", "l40s", "a40", "rtxa6000", "a100", "a100-80gb"),
    *(
        "h100",
        "h100-pcie",
        "h200",
        "b200",
        "rtx2080ti",
        "rtx3060",
        "rtx3080",
        "rtx3090",
        "rtx4070",
        "rtx4080",
    ),
    *("rtx4090", "rtx5090", "rtx6000ada", "mps", "cpu"),
)

BENCHMARK_FILES = {
    "a100-sxm-40gb": "a100",
    "p100-pcie-16gb": "p100",
    "rtx2080ti": "rtx2080ti",
    "rtx3090": "rtx3090",
    "rtx4090": "rtx4090",
    "rtx8000": "rtx8000",
    "rtxa6000": "rtxa6000",
    "t4": "t4",
    "v100-16gb": "v100",
    "v100-32gb": "v100-32gb",
    "v100-pcie-32gb": "v100-pcie-32gb",
    "v100-sxm(8x)": "v100",
    "v100-sxm-16gb": "v100",
    "v100-sxm-32gb": "v100-32gb",
    "a100-sxm-80gb": "a100-80gb",
    "h100-sxm": "h100",
}

DRIVER_NAMES = {
    "NVIDIA A100-SXM4-40GB": "a100",
    "NVIDIA A100-SXM4-80GB": "a100-80gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "Tesla T4": "t4",
    "Tesla P100-PCIE-16GB": "p100",
    "Tesla V100-SXM2-16GB": "v100",
    "Tesla V100-SXM2-32GB": "v100-32gb",
    "NVIDIA GeForce RTX 3090": "rtx3090",
    "NVIDIA GeForce RTX 2080 Ti": "rtx2080ti",
    "NVIDIA RTX A6000": "rtxa6000",
    "Quadro RTX 8000": "rtx8000",
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA RTX 6000 Ada Generation": "rtx6000ada",
    "NVIDIA A10G": "a10g",
    "NVIDIA L40S": "l40s",
    "Apple M2 Max": "m2max",
}


@pytest.mark.parametrize("slug", PROMISED)
def test_every_card_of_the_vocabulary_is_known(slug: str) -> None:
    assert resolve_gpu(slug, GPUS).slug == slug


@pytest.mark.parametrize(("name", "slug"), [*BENCHMARK_FILES.items(), *DRIVER_NAMES.items()])
def test_names_of_drivers_and_benchmark_files_resolve(name: str, slug: str) -> None:
    assert resolve_gpu(name, GPUS).slug == slug


@pytest.mark.parametrize("name", ["A100", " a100 ", "NVIDIA A100", "A100_40GB", "nvidia-a100-40gb"])
def test_a100_means_the_40_gb_card_however_it_is_written(name: str) -> None:
    gpu = resolve_gpu(name, GPUS)
    assert gpu.slug == "a100"
    assert 39 < gpu.memory_gib < 40


def test_a_typo_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(InvalidInput) as refused:
        resolve_gpu("rtx309", GPUS)
    assert "rtx3090" in refused.value.errors[0].nearest


@pytest.mark.parametrize(
    "name", ["NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", ""]
)
def test_a_lesser_device_is_not_taken_for_the_card(name: str) -> None:
    with pytest.raises(InvalidInput):
        resolve_gpu(name, GPUS)


def test_no_spelling_means_two_cards() -> None:
    owner: dict[str, str] = {}
    for gpu in GPUS.values():
        for name in (gpu.slug, gpu.name, *gpu.aliases):
            assert owner.setdefault(normal_gpu_name(name), gpu.slug) == gpu.slug, name


@of_every(ROWS, lambda row: row["slug"])
def test_a_row_is_complete_and_physical(row: dict[str, object]) -> None:
    gpu = gpu_from_row(row)
    assert len(gpu.source) > 20
    assert row["grade"] == "claimed"
    assert 0 < gpu.usable_gib <= gpu.memory_gib
    assert gpu.bandwidth_gb_s > 0
    assert gpu.tflops["fp32"] > 0
    assert set(gpu.tflops) <= {"fp32", "tf32", "fp16", "bf16"}
    if gpu.kind == "cuda":
        assert gpu.sm_count
        assert gpu.tdp_w
        assert gpu.l2_cache_mib
        assert gpu.year
        assert gpu.usable_gib > 0.94 * gpu.memory_gib
        assert ("bf16" in gpu.tflops) == (gpu.architecture not in {"pascal", "volta", "turing"})
    assert all(rate >= 0.99 * gpu.tflops["fp32"] for rate in gpu.tflops.values())


def test_precision_follows_the_generation() -> None:
    assert GPUS["a100"].preferred_precision() == "bf16"
    assert GPUS["t4"].preferred_precision() == "fp16"
    assert GPUS["v100"].preferred_precision() == "fp16"
    assert GPUS["p100"].preferred_precision() == "fp32"
    assert GPUS["cpu"].preferred_precision() == "fp32"


def test_geforce_tensor_rates_are_those_with_fp32_accumulation() -> None:
    assert GPUS["rtx3090"].tflops["fp16"] == pytest.approx(71, abs=0.5)
    assert GPUS["rtx2080ti"].tflops["fp16"] == pytest.approx(53.8, abs=0.5)
    assert GPUS["rtx4090"].tflops["fp16"] == pytest.approx(165.2, abs=0.5)


def test_the_number_of_a_mistaken_name_finds_its_card() -> None:
    for name in ("gtx 5090", "GTX 5090 Super"):
        with pytest.raises(InvalidInput) as refused:
            resolve_gpu(name, GPUS)
        assert "rtx5090" in refused.value.errors[0].nearest
