"""Lines of drivers and logs, counts, clouds, parts of cards, and words that name none."""

from __future__ import annotations

import pytest

from memory_service.domain.hardware.device_names import counted, several
from memory_service.domain.hardware.gpu_spec import gpu_index, resolve_gpu, two_memories
from memory_service.errors import InvalidInput
from tests.domain.hardware.test_gpu_names import GPUS


def meant(text: str) -> tuple[int, str]:
    """Of a name: how many of which card."""
    n, name = counted(text)
    return n, resolve_gpu(name, GPUS).slug


def refused(text: str) -> tuple[str, tuple[str, ...]]:
    with pytest.raises(InvalidInput) as error:
        meant(text)
    return error.value.detail, error.value.errors[0].nearest


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-00000000-0000)", "rtx3090"),
        ("CUDA:0 (Tesla T4, 15102MiB)", "t4"),
        ("device: 0, name: Tesla P100-PCIE-16GB, pci bus id: 0000:00:04.0, compute capability: 6.0", "p100"),
        ("_CudaDeviceProperties(name='NVIDIA A10G', major=8, minor=6, total_memory=22515MB)", "a10g"),
        ("|   0  Tesla V100-SXM2-16GB           Off  | 00000000:00:1E.0 Off |", "v100"),
        ("[0] NVIDIA A100-SXM4-80GB | 35'C,   0 % |     3 / 81920 MB |", "a100-80gb"),
        ("0, Quadro RTX 6000, 24576 MiB, 535.104.05", "rtx6000"),
        ("NVIDIA GeForce RTX 4060 Ti, 8188 MiB", "rtx4060ti"),
        ("NVIDIA GeForce RTX 4060 Ti, 16380 MiB", "rtx4060ti-16gb"),
        ("RTX 3080 12GB", "rtx3080-12gb"),
        ("v100, 32510 MiB", "v100-32gb"),
        ("colab pro A100", "a100"),
    ],
)
def test_a_line_means_the_card_named_in_it_and_the_memory_beside_it_says_which(text: str, slug: str) -> None:
    assert meant(text) == (1, slug)


@pytest.mark.parametrize(
    ("text", "n", "slug"),
    [
        ("2 x 3090", 2, "rtx3090"), ("2x4090", 2, "rtx4090"),
        ("GPU T4 x2", 2, "t4"), ("Tesla T4 (x2)", 2, "t4"), ("T4 × 2", 2, "t4"), ("2x T4", 2, "t4"),
        ("GPU T4 x2 (Kaggle)", 2, "t4"), ("v100-sxm(8x)", 8, "v100"), ("H100:8", 8, "h100"),
        ("gpu:a100:4", 4, "a100"), ("A6000x4", 4, "rtxa6000"), ("NvidiaTeslaT4", 2, "t4"),
        ("p3.2xlarge", 1, "v100"), ("ml.p4d.24xlarge", 8, "a100"), ("g4dn.12xlarge", 4, "t4"),
        ("Standard_NC24ads_A100_v4", 1, "a100-pcie-80gb"), ("Standard_ND96isr_H100_v5", 8, "h100"),
        ("a2-ultragpu-4g", 4, "a100-80gb"), ("g2-standard-48", 4, "l4"),
        ("gpu_8x_a100_80gb_sxm4", 8, "a100-80gb"),
        ("BM.GPU.A100-v2.8", 8, "a100-80gb"), ("a10g-largex2", 2, "a10g"), ("gx3-16x80x1l4", 1, "l4"),
    ],
)  # fmt: skip
def test_menus_and_instances_say_how_many_of_which(text: str, n: int, slug: str) -> None:
    assert meant(text) == (n, slug)


def test_an_instance_of_a_size_that_the_cloud_has_not_is_refused() -> None:
    assert "p3.3xlarge" in refused("p3.3xlarge")[0]


def test_a_card_that_stands_there_twice_is_two_cards() -> None:
    assert several("t4,t4") == ["2xt4"]
    assert several("a100, T4") == ["a100", "t4"]
    assert several("Quadro RTX 6000, 24576 MiB") == ["quadro rtx 6000 24576 mib"]


@pytest.mark.parametrize(
    ("text", "what", "whole"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "a MIG slice of 20 GB", "gpu=a100 with vram_gib=19.5"),
        ("GRID A100D-40C", "a virtual GPU (vGPU) of 40 GB", "gpu=a100-80gb with vram_gib=39"),
        ("NVIDIA A10-8Q", "a virtual GPU (vGPU) of 8 GB", "gpu=a10 with vram_gib=7.8"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", "a laptop's chip of 6 GB", "gpu=rtx3060 with vram_gib=5.85"),
        ("MIG 1g.20gb     Device  0: (UUID: MIG-0)", "a MIG slice of 20 GB", "vram_gib=19.5"),
    ],
)
def test_a_part_of_a_card_is_refused_with_its_memory_and_how_to_give_it(
    text: str, what: str, whole: str
) -> None:
    detail, nearest = refused(text)
    assert what in detail
    assert whole in detail
    assert nearest == ()  # the whole card's name alone would be taken, and a plan would not fit


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("cuda:0", "which one is it"), ("gpu", "which one is it"),
        ("/physical_device:GPU:0", "which one is it"),
        ("kaggle", "Kaggle lends 2xt4"), ("TPU v3-8", "is a TPU"), ("v5e-1 TPU", "is a TPU"),
        ("Radeon RX 7900 XTX", "is of AMD"), ("NVIDIA Jetson AGX Orin", "Jetson"), ("Apple M5", "Apple"),
        ("Intel(R) Arc(TM) A770 Graphics", "is of Intel"), ("HPU Gaudi2", "Gaudi"), ("Ascend 910B", "Huawei"),
        ("trn1.32xlarge", "Trainium"),
    ],
)  # fmt: skip
def test_what_is_no_card_that_is_priced_is_told_so(text: str, word: str) -> None:
    assert word in refused(text)[0]


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [("Tesla K80", 10, 13), ("Quadro M4000", 7, 9), ("GTX 980 Ti", 5, 7), ("Tesla M6", 6, 9)],
)
def test_the_nearest_of_a_card_not_priced_have_its_memory(text: str, least: float, most: float) -> None:
    detail, nearest = refused(text)
    assert "nearest in memory and generation" in detail
    assert all(least <= GPUS[slug].memory_gib <= most for slug in nearest)
    assert GPUS[nearest[0]].architecture == "pascal"


def test_a_memory_that_the_card_never_had_is_refused() -> None:
    assert "ask `/recommend` for gpu=rtx3090 with vram_gib=12" in refused("RTX 3090, 12288 MiB")[0]


@pytest.mark.parametrize("name", ["RTX 5060 Ti", "rtx3050", "NVIDIA GeForce RTX 3060", "GTX 1060", "3080"])
def test_a_name_of_two_memories_is_answered_with_both(name: str) -> None:
    gpu = resolve_gpu(name, GPUS)
    words = two_memories(name, gpu, gpu_index(GPUS), GPUS)
    assert f"{gpu.slug} was taken" in words
    assert words.count(" GB (") == 2


@pytest.mark.parametrize("name", ["rtx3060-8gb", "RTX 3080, 12288 MiB", "a100", "l4", "a10", "t4"])
def test_a_name_that_tells_the_memory_is_answered_without_a_word(name: str) -> None:
    assert two_memories(name, resolve_gpu(name, GPUS), gpu_index(GPUS), GPUS) == ""


def test_a_turing_card_without_tensor_cores_trains_in_fp32() -> None:
    assert GPUS["gtx1660ti"].preferred_precision() == "fp32"


@pytest.mark.parametrize("device", ["box7-t4x2", "lab:3", "cuda:0", "cpu:1"])
def test_a_device_of_such_a_name_is_not_several(device: str) -> None:
    assert counted(device) == (1, device)
