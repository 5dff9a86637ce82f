"""The cards that can be asked about: GPU models and registered devices, with what was measured and observed.

A device goes by its own name and shadows a GPU model of the same name. What its calibrations say passes on to
other devices of its model, and, scaled by data sheet, to those of its architecture.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import TypeVar

from cachetools import LRUCache, cached

from memory_service.domain.calibration.calibration import LEAST_SPEED, Calibration, device_card, speed_of
from memory_service.domain.calibration.corrected_rates import CalibratedRates, calibrated_rates
from memory_service.domain.cost.profile import Profile
from memory_service.domain.hardware.device_names import plain_name
from memory_service.domain.hardware.gpu_spec import (
    UNKNOWN_GPU,
    Gpu,
    counted,
    gpu_index,
    normal_gpu_name,
    resolve_gpu,
    two_memories,
)
from memory_service.domain.learning.observation_selection import ObservationSelection
from memory_service.domain.prediction.device import Provenance, TargetDevice, target_device
from memory_service.errors import FieldError, InvalidInput
from memory_service.services.database.caches import Caches
from memory_service.services.devices.devices import MOST_OF_REPORTER, Device, KeptCalibration

Found = TypeVar("Found")

_log = logging.getLogger(__name__)

MOST_NAMES = 4_096

LEAST_OF_WHOLE = 0.85
"""Of the data sheet's memory and power: below it a device is a slice, or runs at a lower limit."""


@dataclass(frozen=True, eq=False)
class Cards:
    """Every card that can be asked about.

    sheets    GPU models by slug; devices: registered hardware by name
    silent    names of devices that have not said yet what they are
    calibrations   all that ended with something measured, the ones set aside too
    kinds     device -> what sets it apart from a whole one of its model at full power and speed
    spelled   `plain_name` of devices -> the one that it means: the asker's, else that of a single owner
    caches    of what follows from exactly these cards
    """

    sheets: Mapping[str, TargetDevice]
    devices: Mapping[str, TargetDevice] = field(default_factory=dict)
    silent: tuple[str, ...] = ()
    calibrations: tuple[KeptCalibration, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    spelled: Mapping[str, str] = field(default_factory=dict)
    caches: Caches = field(default_factory=Caches, init=False)

    @cached_property
    def all(self) -> Mapping[str, TargetDevice]:
        """By the key they are asked for: a device hides the model of its name."""
        return {**self.sheets, **self.devices}

    @cached_property
    def untaught(self) -> Cards:
        """The same ones, whatever runs taught since."""
        return self

    @cached_property
    def models(self) -> Mapping[str, str]:
        """Normalised name or alias of a GPU model -> its slug."""
        return gpu_index(self.sheets)

    @cached_property
    def _devices(self) -> Mapping[str, str]:
        return {name.lower(): name for name in self.devices}

    def named(self, name: str) -> TargetDevice:
        """The device, else the GPU model, that a name means; InvalidInput with the nearest names
        otherwise."""
        if exact := name if name in self.devices else self._devices.get(name.strip().lower()):
            return self.devices[exact]
        if slug := self.models.get(normal_gpu_name(name)):
            return self.sheets[slug]
        if spelled := self.spelled.get(plain_name(name)):
            try:  # "T4 15GB" is a card to people, whoever called a device "t4-15gb"
                return self.caches.stored("card", name, lambda: resolve_gpu(name, self.sheets), MOST_NAMES)
            except InvalidInput as refused:
                if not refused.errors[0].message.startswith(UNKNOWN_GPU):
                    raise
            return self.devices[spelled]
        if name.strip().lower() in {silent.lower() for silent in self.silent}:
            message = "is registered and has not said yet what it is: run `memory-service calibrate` there"
            raise InvalidInput(f"gpu {name!r} {message}", [FieldError("gpu", message, name)])
        return resolve_gpu(name, self.all)

    def words_on(self, name: str) -> str:
        """How a name was taken that cards of several memories bear."""

        def words() -> str:
            plain = counted(name)[1]
            return two_memories(plain, self.named(plain), self.models, self.sheets)

        return self.caches.stored(two_memories, name, words, MOST_NAMES)

    def taught(self, selection: ObservationSelection) -> Cards:
        """The same cards with what observed runs say."""

        def provenance(card: TargetDevice) -> Provenance | None:
            return card.provenance and replace(card.provenance, observations=selection.count(card.device))

        cards = Cards(
            {slug: replace(card, learned=selection.about("", slug)) for slug, card in self.sheets.items()},
            {
                name: replace(card, learned=selection.about(name, card.slug), provenance=provenance(card))
                for name, card in self.devices.items()
            },
            self.silent,
            self.calibrations,
            self.kinds,
            self.spelled,
        )
        cards.__dict__.update(models=self.models, untaught=self.untaught)  # names stay as they were
        return cards


def cards_of(
    sheets: Mapping[str, Gpu],
    devices: Sequence[Device] = (),
    calibrations: Sequence[KeptCalibration] = (),
    reference_profiles: Sequence[Profile] = (),
    silent: Sequence[str] = (),
    asker: str | None = None,
) -> Cards:
    """The cards with their calibrated rates; nothing learned yet.

    calibrations   newest first; silent: names of devices that have not said yet what they are
    asker          a key: of what another one posted counts `shared`, for other devices; for the device itself
                   what it posted that first said what it is, with its reference networks, if that key or the
                   asker's registered it. None: all that was posted, of a device first what that key did
    """
    owner = {device.name: device.told_by for device in devices}
    unconfirmed = {device.name for device in devices if device.is_unconfirmed_for(asker)}
    strangers = {device.name for device in devices if device.registrant != asker} & unconfirmed
    bare = {
        device.name: device_card(device.name, device.fingerprint, sheets, device.gpu) for device in devices
    }
    slices = {device.name: device.fingerprint.mig for device in devices}
    known: dict[str, list[KeptCalibration]] = defaultdict(list)
    own: dict[str, Calibration] = {}
    registrants: dict[str, KeptCalibration] = {}
    alike: dict[Hashable, list[tuple[str, Calibration]]] = defaultdict(list)
    kin: dict[Hashable, list[tuple[str, tuple[Gpu, Calibration]]]] = defaultdict(list)
    told: Counter[Hashable] = Counter()
    listed = tuple(each for each in calibrations if each.calibration.device in bare)
    for each in listed:
        if each.current and each.told_by in ("", owner[each.calibration.device]):
            registrants.setdefault(each.calibration.device, each)
    for each in listed:
        one, name = each.calibration, each.calibration.device
        known[name].append(each)
        anothers = asker is not None and each.told_by not in ("", asker)
        shared = each.shared if anothers else one
        card = bare[name]
        if not each.current or name in own:
            continue
        owners = each.told_by == owner[name] and name not in strangers
        if not anothers or (owners and each.checked):
            own[name] = one
        model = card.slug, one.fingerprint.mig
        told[model, each.reporter] += shared is not None
        if shared is not None and told[model, each.reporter] <= MOST_OF_REPORTER:
            alike[model].append((each.reporter, shared))
            kin[card.kind, card.architecture].append((each.reporter, (card, shared)))
    if asker is None:
        own |= {name: each.calibration for name, each in registrants.items()}
    of_models = {model: balanced(some, asker) for model, some in alike.items()}
    of_architectures = {key: balanced(some, asker) for key, some in kin.items()}

    said_of = {
        key: tuple((_said(c), _rated_by(on)) for on, c in some) for key, some in of_architectures.items()
    }

    def rated(card: Gpu) -> TargetDevice:
        mine = own.get(card.device) if card.device else None
        # A slice's times say nothing of the whole card's, nor these of it.
        model = card.slug, slices.get(card.device)
        of_model = [c for c in of_models.get(model, ()) if mine is None or c.id != mine.id]
        others = of_architectures.get((card.kind, card.architecture), ())
        of_kin = [(on, c) for on, c in others if (on.slug, c.fingerprint.mig) != model]
        rates = None
        if mine or of_model or of_kin:
            kin_said = said_of.get((card.kind, card.architecture), ())
            own_said = mine and (card.device, _said(mine))
            said = _rated_by(card), model, own_said, *map(_said, of_model), kin_said, *map(id, profiles)
            rates = _rates(said, mine, of_model, of_kin, card, profiles)
        provenance = _provenance(card, rates, mine, known.get(card.device, ()))
        if provenance and card.device in unconfirmed:
            provenance = replace(provenance, unconfirmed=card.device)
        return target_device(card, rates, provenance)

    profiles = tuple(reference_profiles)
    models = {slug: rated(card) for slug, card in sheets.items()}
    kinds = {
        device.name: _kind(bare[device.name], sheets, device.fingerprint.mig, registrants.get(device.name))
        for device in devices
    }
    devices_rated = {name: rated(card) for name, card in bare.items()}
    return Cards(models, devices_rated, tuple(silent), listed, kinds, _spelled(owner, asker))


@cached(LRUCache(4_096), key=lambda said, *_: said, lock=Lock())
def _rates(
    _: Hashable,
    own: Calibration | None,
    of_model: Sequence[Calibration],
    of_kin: Sequence[tuple[Gpu, Calibration]],
    card: Gpu,
    profiles: tuple[Profile, ...],
) -> CalibratedRates | None:
    """What the rest says comes first: where it says the same again these are the same ones, and prices made
    of them stay. None where one device's figures give none, which stops no other's."""
    try:
        return calibrated_rates(own, of_model, of_kin, card, profiles)
    except (ArithmeticError, ValueError) as error:
        _log.warning("%s goes by its data sheet: its calibrations give no rates: %s", card.key, error)
        return None


def _said(calibration: Calibration) -> Hashable:
    """What rates and words follow from of a calibration that ended."""
    return calibration.id, calibration.usable, calibration.content


def _rated_by(card: Gpu) -> Hashable:
    """What rates follow from of a data sheet."""
    figures = card.compute_capability, card.bandwidth_gb_s, card.tdp_w, card.cores, *card.tflops.items()
    return card.slug, card.kind, card.architecture, *figures


def _spelled(owner: Mapping[str, str], asker: str | None) -> dict[str, str]:
    """`Cards.spelled` of devices with who told of each first."""
    alike: dict[str, dict[str, str]] = defaultdict(dict)
    for name in sorted(owner, reverse=True):
        alike[plain_name(name)][owner[name]] = name
    own = {plain: by[asker or ""] for plain, by in alike.items() if (asker or "") in by}
    return {plain: name for plain, by in alike.items() for name in by.values() if len(by) == 1} | own


def balanced(told: Sequence[tuple[str, Found]], asker: str | None) -> list[Found]:
    """(reporter, what it told), in its order: where several told, of one never more than of all others
    together, but for whoever asks."""
    counts = Counter(reporter for reporter, _ in told)
    most = {who: n if who == asker or len(counts) == 1 else len(told) - n for who, n in counts.items()}
    met: Counter[str] = Counter()
    out = []
    for who, one in told:
        met[who] += 1
        if met[who] <= most[who]:
            out.append(one)
    return out


def _kind(card: Gpu, sheets: Mapping[str, Gpu], mig: str | None, measured: KeptCalibration | None) -> str:
    """What sets a device apart from a whole one of its model at full power and speed; a processor's name. A
    slow one is of no other's kind: its runs confirm nobody's."""
    if card.kind == "cpu":
        return card.name
    sheet = sheets.get(card.slug, card)
    memory = card.memory_gib / sheet.memory_gib if sheet.memory_gib else 1.0
    power = card.tdp_w / sheet.tdp_w if card.tdp_w and sheet.tdp_w else 1.0
    speed = speed_of(measured.calibration, card) if measured else None
    slow = speed is not None and speed < LEAST_SPEED
    if not mig and min(memory, power) >= LEAST_OF_WHOLE and not slow:
        return ""
    kind = f"{mig or 'whole'}: {memory:.1f} of the memory, {power:.1f} of the power"
    return f"{kind}, slow: {card.device}" if slow else kind


def _provenance(
    card: Gpu, rates: CalibratedRates | None, own: Calibration | None, known: Sequence[KeptCalibration]
) -> Provenance | None:
    """None for a GPU model that nothing measured stands behind. known: calibrations of the device."""
    set_aside = tuple(why for each in known for why in _why_aside(each, newer=own is not None))
    if rates is None and not card.device:
        return None
    provenance = Provenance(set_aside=set_aside)
    if rates is None:
        return provenance
    provenance = replace(provenance, basis=rates.basis, n=rates.n)
    if own is None or rates.origin != "device":
        return provenance
    return replace(provenance, calibration=own.id, measured_at=own.started_at)


def _why_aside(each: KeptCalibration, *, newer: bool) -> list[str]:
    """Why a calibration of the device is not used; nothing where a newer one took its place."""
    if newer or each.current:
        return []
    name, device = each.calibration.id, each.calibration.device
    because = None
    if each.stale:
        kind = "stale" if not each.stale[-1].startswith("in quarantine") else "not used"
        because = f"is {kind}: {'; '.join(each.stale)}"
    elif each.calibration.contended:
        because = "is not used: another process used the device meanwhile"
    how = "recalibrate with `memory-service calibrate`"
    return [f"calibration {name} of {device} {because}; {how}"] if because else []
