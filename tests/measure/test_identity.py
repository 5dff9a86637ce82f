"""A device says what it is and who uses it; cards are faked by replaying NVML's answers (`nvml_answers`)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from memory_service.errors import InvalidInput, Unavailable
from memory_service.measure.identity import identify, local_devices, occupancy
from tests.measure import nvml_answers
from tests.measure.nvml_answers import FakeCard

Install = Callable[..., None]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put cards into the host: a fake NVML that answers for them."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def install(*cards: FakeCard) -> None:
        monkeypatch.setitem(sys.modules, "pynvml", nvml_answers.module(list(cards)))

    return install


def test_an_h200_says_its_uuid_memory_power_and_driver(installed: Install) -> None:
    installed(nvml_answers.H200)
    found = identify("cuda:0")
    assert (found.kind, found.name, found.uuid) == ("cuda", "NVIDIA H200", nvml_answers.H200.uuid)
    assert found.memory_gib == pytest.approx(143771 / 1024)
    assert (found.architecture, found.compute_capability) == ("hopper", 9.0)
    assert (found.power_limit_w, found.driver, found.mig) == (700.0, "580.159.04", None)
    assert found.torch
    assert found.torch.startswith("2.")
    assert found.cuda
    assert found.cudnn
    assert found.host_cpu
    assert identify("cuda") == found


def test_a_slice_has_its_own_memory_and_uuid_and_the_power_of_its_card(installed: Install) -> None:
    installed(nvml_answers.cut_a100())
    found = identify("cuda:0")
    assert (found.name, found.mig, found.uuid) == ("NVIDIA A100-SXM4-40GB", "3g.20gb", "MIG-bbbb2222-3333")
    assert found.memory_gib == pytest.approx(19.5)
    assert (found.power_limit_w, found.compute_capability) == (400.0, 8.0)


def test_what_a_driver_does_not_tell_is_none(installed: Install) -> None:
    installed(replace(nvml_answers.H200, power_mw=None))
    assert identify("cuda:0").power_limit_w is None


@pytest.mark.parametrize(
    ("visible", "wanted"),
    [("1", ["GPU-second"]), ("1,0", ["GPU-second", "GPU-first"]), ("GPU-sec", ["GPU-second"]),
     ("0,9,1", ["GPU-first"]), ("", [])],
)  # fmt: skip
def test_cards_are_counted_as_cuda_visible_devices_lists_them(
    installed: Install, monkeypatch: pytest.MonkeyPatch, visible: str, wanted: list[str]
) -> None:
    first = replace(nvml_answers.H200, uuid="GPU-first")
    installed(first, replace(nvml_answers.H200, uuid="GPU-second"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert local_devices() == [*(f"cuda:{i}" for i in range(len(wanted))), "cpu"]
    assert [identify(f"cuda:{i}").uuid for i in range(len(wanted))] == wanted


def test_an_index_past_the_cards_names_those_there_are(installed: Install) -> None:
    installed(nvml_answers.H200)
    with pytest.raises(InvalidInput, match=r"no cuda:3 here; visible: cuda:0"):
        identify("cuda:3")


def test_without_a_driver_cuda_is_unavailable_and_the_processor_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml_answers.without_driver())
    with pytest.raises(Unavailable, match="No NVIDIA driver"):
        identify("cuda:0")
    assert local_devices() == ["cpu"]


def test_a_card_that_fell_off_the_bus_is_said_to_be_gone(installed: Install) -> None:
    installed(replace(nvml_answers.H200, lost=True))
    with pytest.raises(Unavailable, match="stopped answering"):
        identify("cuda:0")
    with pytest.raises(Unavailable, match="stopped answering"):
        occupancy("cuda:0")


@pytest.mark.parametrize("word", ["tpu", "cuda:", "cuda:-1", "cuda:1000", "", "gpu0", "x" * 5000])
def test_an_unknown_device_word_is_refused_with_those_there_are(word: str) -> None:
    with pytest.raises(InvalidInput, match="Unknown device") as refused:
        identify(word)
    assert "cpu" in refused.value.errors[0].nearest


def test_memory_of_another_process_makes_a_card_busy_and_names_it(installed: Install) -> None:
    installed(replace(nvml_answers.H200, used_mib=60_000, processes=[(os.getppid(), 59_000)]))
    found = occupancy("cuda:0")
    assert found.busy
    assert found.memory_share == pytest.approx(60_000 / 143_771)
    assert found.tenants[0].pid == os.getppid()
    assert found.tenants[0].memory_gib == pytest.approx(59_000 / 1024)
    assert str(os.getppid()) in found.sentence


def test_use_by_processes_that_cannot_be_seen_makes_a_card_busy(installed: Install) -> None:
    installed(replace(nvml_answers.H200, utilization=97))
    assert occupancy("cuda:0").busy
    assert "97%" in occupancy("cuda:0").sentence
    assert "cannot be seen" in occupancy("cuda:0").sentence


def test_own_memory_and_a_desktop_do_not_make_a_card_busy(installed: Install) -> None:
    installed(replace(nvml_answers.H200, used_mib=30_500, processes=[(os.getpid(), 30_000)], utilization=3))
    found = occupancy("cuda:0")
    assert not found.busy
    assert found.tenants == ()


def test_a_slice_that_tells_no_utilisation_is_judged_by_its_memory(installed: Install) -> None:
    whole = nvml_answers.cut_a100()
    whole.slices[0].used_mib = 11
    installed(whole)
    assert not occupancy("cuda:0").busy
    whole.slices[0].used_mib = 12_000
    assert occupancy("cuda:0").busy


def test_the_processor_is_the_same_device_each_time() -> None:
    first, second = identify("cpu"), identify("cpu")
    assert first == second
    assert first.changes(second) == ()
    assert first.cores
    assert 1 <= first.cores <= (os.cpu_count() or 1)
    assert first.memory_gib > 0.5
    assert first.cuda is None


def test_a_busy_process_is_a_tenant_of_the_processor() -> None:
    script = "import os\nif os.fork(): os._exit(0)\nprint(os.getpid(), flush=True)\nwhile True: pass"
    said = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert said.stdout is not None
    pid = int(said.stdout.readline())  # its parent has ended: it is no child of this process
    try:
        said.wait()
        seen = [tenant for _ in range(8) for tenant in occupancy("cpu").tenants if tenant.pid == pid]
        assert seen
        assert (seen[0].cores or 0.0) >= 0.1
        assert not occupancy("cpu").busy
    finally:
        os.kill(pid, 9)
        said.stdout.close()


def test_asking_for_identity_does_not_import_torch() -> None:
    code = (
        "import sys; from memory_service.measure.identity import identify, occupancy; identify('cpu');"
        "occupancy('cpu'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
