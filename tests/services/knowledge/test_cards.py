"""Whose calibrations count how much, and which devices are of one kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory_service.domain.calibration.calibration import Calibration, Fingerprint
from memory_service.domain.prediction.device import provenance_warnings
from memory_service.errors import InvalidInput
from memory_service.services.database.transactions import Database
from memory_service.services.devices.devices import Device, KeptCalibration, keep_device
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


def test_what_another_key_said_of_a_device_is_told_to_be_unconfirmed_and_counts_for_no_third_one() -> None:
    """Whoever registers a device by its name alone leaves what it is to the first key that calibrates it."""
    told = replace(calibration(sheets()["a100"], Truth(3)), id="told", device="shed", fingerprint=A100)
    kept = KeptCalibration(told, "a100", (), "key eve", True, "key eve")

    def used(asker: str, registrant: str = "key ada") -> tuple[bool, int]:
        shed = Device("shed", "a100", A100, None, "key eve", registrant)
        card = cards_of(sheets(), [shed], [kept], asker=asker).devices["shed"]
        assert card.provenance is not None
        return card.provenance.calibration == "told", len(provenance_warnings([card]))

    assert [used(f"key {who}") for who in ("eve", "ada", "bob")] == [(True, 0), (True, 1), (False, 1)]
    assert used("key bob", registrant="key eve") == (True, 0)


def test_who_registered_a_device_confirms_what_another_said_it_is(seeded_database: Database) -> None:
    with seeded_database.write() as writing:
        for fingerprint, who in ((None, "ada"), (A100, "eve"), (A100, "ada")):
            row, _ = keep_device(writing, "shed", fingerprint, who=who)
        assert row.told_by == "ada"
