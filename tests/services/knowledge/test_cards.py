"""Whose calibrations count how much, and which devices are of one kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory_service.domain.calibration.calibration import Calibration, Fingerprint
from memory_service.errors import InvalidInput
from memory_service.services.devices.devices import Device, KeptCalibration
from memory_service.services.knowledge.cards import balanced, cards_of
from tests.registered import A100
from tests.synthetic import Truth, calibration, sheets

ONE, MANY = [("key ada", "a1")], [("key eve", f"e{n}") for n in range(16)]


@pytest.mark.parametrize(
    ("told", "asker", "found"),
    [
        (MANY, None, [one for _, one in MANY]),
        (MANY + ONE, None, ["e0", "a1"]),
        (MANY + ONE, "key eve", [one for _, one in MANY + ONE]),
        (MANY[:2] + ONE + [("", "h1"), ("", "h2")], "key ada", ["e0", "e1", "a1", "h1", "h2"]),
        ([], None, []),
    ],
)
def test_of_one_reporter_no_more_count_than_of_all_others(
    told: list[tuple[str, str]], asker: str | None, found: list[str]
) -> None:
    assert balanced(told, asker) == found


def test_a_device_that_its_calibration_measured_slow_is_of_another_kind() -> None:
    """Its honest runs would confirm made-up ones of healthy cards."""
    sheet = sheets()["a100"]
    whole = calibration(sheet, Truth(3))
    slow = {
        name: replace(one, value=one.value / 2.5 if one.unit in ("TFLOP/s", "GB/s") else one.value * 2.5)
        for name, one in whole.sections.items()
    }

    def kind(of: Calibration, fingerprint: Fingerprint = A100, teller: str = "", checked: bool = True) -> str:
        device = Device("box", "a100", fingerprint, None, "key ada")
        said = replace(of, device="box", fingerprint=fingerprint)
        kept = KeptCalibration(said, "a100", (), teller, checked, teller)
        return cards_of(sheets(), [device], [kept]).kinds["box"]

    lame = replace(whole, sections=slow)
    small = replace(A100, memory_gib=9.5)
    assert kind(whole) == ""
    assert kind(lame).endswith("slow: box"), "of no other's kind"
    assert kind(lame, teller="key ada") == kind(lame)
    assert kind(lame, teller="key eve") == "", "another key says nothing of the device"
    assert kind(whole, small) != kind(whole, replace(small, mig="2g.10gb"))


@pytest.mark.parametrize("asked", ["T4 15GB", "tesla t4, 15360 MiB", "Colab T4"])
def test_a_device_with_a_name_that_people_call_a_card_by_is_asked_for_by_that_name_alone(asked: str) -> None:
    name = asked.lower().replace(" ", "-").replace(",", "")
    cards = cards_of(sheets(), [Device(name, "a100", A100, None, "key eve")], [])
    assert cards.named(asked).key == "t4"
    assert cards.named(name).key == name
    mine = cards_of(sheets(), [Device("my-box", "a100", A100, None)], [])
    assert mine.named("My Box").key == "my-box"


def test_a_name_that_devices_of_several_owners_bear_but_for_separators_means_the_asker_s_or_none() -> None:
    owners = {"lab-box": "key eve", "lab_box": "key ada", "geforce-rack": "key eve", "rack": "key ada"}
    devices = [Device(name, "a100", A100, None, who) for name, who in owners.items()]
    cards = {who: cards_of(sheets(), devices, asker=who) for who in (None, "key ada", "key eve")}
    assert {each.named("Lab-Box").key for each in cards.values()} == {"lab-box"}
    assert cards["key ada"].named("lab box").key == "lab_box"
    assert cards["key eve"].named("lab box").key == "lab-box"
    with pytest.raises(InvalidInput, match=r"nknown gpu .*nearest: .*lab-box"):
        cards[None].named("lab box")
    assert replace(cards[None]).named("geforce rack").key == "geforce-rack"
    with pytest.raises(InvalidInput, match="nknown gpu"):
        cards["key ada"].named("nvidia rack")
