"""The cards that can be asked about: GPU models and registered devices, with what was measured and observed.

A device goes by its own name and shadows a GPU model of the same name. What its calibrations say passes on to
other devices of its model, and, scaled by data sheet, to those of its architecture.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from memory_service.domain.calibration.calibration import Calibration, device_card
from memory_service.domain.calibration.corrected_rates import CalibratedRates, calibrated_rates
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.rates import with_cores
from memory_service.domain.cost.step_config import precision_class
from memory_service.domain.hardware.gpu_spec import (
    Gpu,
    counted,
    gpu_index,
    normal_gpu_name,
    resolve_gpu,
    two_memories,
)
from memory_service.domain.learning.observation import BaselinePrediction, Observation
from memory_service.domain.learning.observation_selection import ObservationSelection
from memory_service.domain.prediction.device import Provenance, TargetDevice, target_device
from memory_service.domain.prediction.device_host import host_baseline
from memory_service.domain.prediction.device_step_time import baseline_prediction
from memory_service.domain.prediction.trust import (
    MOST_OF_KEY,
    host_doubt,
    limits_of,
    run_doubt,
    told_alone,
    trusted,
)
from memory_service.errors import FieldError, InvalidInput
from memory_service.services.database.caches import Caches
from memory_service.services.database.transactions import ReadTransaction
from memory_service.services.devices.devices import MOST_OF_REPORTER, Device, KeptCalibration
from memory_service.services.knowledge.cost_cache import PricedCatalogue
from memory_service.store.engine import is_readable
from memory_service.store.queries import observations as store

MOST_NAMES = 4_096


@dataclass(frozen=True, eq=False)
class Cards:
    """Every card that can be asked about.

    sheets    GPU models by slug; devices: registered hardware by name
    silent    names of devices that have not said yet what they are
    calibrations   all that ended with something measured, the ones set aside too
    caches    of what follows from exactly these cards
    """

    sheets: Mapping[str, TargetDevice]
    devices: Mapping[str, TargetDevice] = field(default_factory=dict)
    silent: tuple[str, ...] = ()
    calibrations: tuple[KeptCalibration, ...] = ()
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
        plain = {normal_gpu_name(name): name for name in sorted(self.devices, reverse=True)}
        return {**plain, **{name.strip().lower(): name for name in self.devices}}

    def named(self, name: str) -> TargetDevice:
        """The device, else the GPU model, that a name means; InvalidInput with the nearest names
        otherwise."""
        for spelling in (name.strip().lower(), normal_gpu_name(name)):
            if spelling in self._devices:
                return self.devices[self._devices[spelling]]
        slug = self.models.get(normal_gpu_name(name))
        if slug is not None:
            return self.sheets[slug]
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
    asker          a key: what another one posted, and nobody else measured, counts for that device alone, and
                   only with its reference networks
    """
    bare = {
        device.name: device_card(device.name, device.fingerprint, sheets, device.gpu) for device in devices
    }
    slices = {device.name: device.fingerprint.mig for device in devices}
    known: dict[str, list[KeptCalibration]] = defaultdict(list)
    own: dict[str, Calibration] = {}
    alike: dict[Hashable, list[Calibration]] = defaultdict(list)
    kin: dict[Hashable, list[tuple[Gpu, Calibration]]] = defaultdict(list)
    told: Counter[Hashable] = Counter()
    listed = tuple(each for each in calibrations if each.calibration.device in bare)
    for each in listed:
        one, name = each.calibration, each.calibration.device
        known[name].append(each)
        alone = asker is not None and each.told_by not in ("", asker)
        if not each.current or (alone and not each.checked) or name in own:
            continue
        own[name], card = one, bare[name]
        model = card.slug, one.fingerprint.mig
        told[model, each.reporter] += not alone
        if not alone and told[model, each.reporter] <= MOST_OF_REPORTER:
            alike[model].append(one)
            kin[card.kind, card.architecture].append((card, one))

    def rated(card: Gpu) -> TargetDevice:
        mine = own.get(card.device) if card.device else None
        # A slice's times say nothing of the whole card's, nor these of it.
        model = card.slug, slices.get(card.device)
        of_model = [c for c in alike.get(model, ()) if c is not mine]
        others = kin.get((card.kind, card.architecture), ())
        of_kin = [(on, c) for on, c in others if (on.slug, c.fingerprint.mig) != model and c is not mine]
        rates = None
        if mine or of_model or of_kin:
            rates = calibrated_rates(mine, of_model, of_kin, card, reference_profiles)
        return target_device(card, rates, _provenance(card, rates, mine, known.get(card.device, ())))

    models = {slug: rated(card) for slug, card in sheets.items()}
    return Cards(models, {name: rated(card) for name, card in bare.items()}, tuple(silent), listed)


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


def observation_selection(
    cards: Cards, observations: Iterable[Observation], priced: PricedCatalogue
) -> ObservationSelection:
    """All that the observations say of predictions on the cards."""

    def predict(observation: Observation) -> BaselinePrediction | None:
        card = observed_card(cards, observation)
        if observation.part != "step":
            return None if card is None else host_baseline(observation, card)
        profile = observed_profile(priced, observation)
        return None if card is None or profile is None else baseline_prediction(observation, profile, card)

    return ObservationSelection(observations, predict)


def with_doubt(
    cards: Cards, priced: PricedCatalogue, observation: Observation, n_train: int | None
) -> Observation:
    """The observation with why it cannot be, by its model's trace and its card's data sheet alone."""
    card = observed_card(cards, observation)
    if card is not None and observation.part != "step":
        sheet = replace(card, calibrated=None, learned=None)
        doubt = host_doubt(observation, host_baseline(observation, sheet))
        return replace(observation, doubt=doubt)
    profile = observed_profile(priced, observation)
    if card is None or profile is None:
        return observation
    sheet = replace(card, calibrated=None, learned=None)
    predicted = baseline_prediction(observation, profile, sheet)
    return replace(observation, doubt=run_doubt(observation, profile, sheet, predicted, n_train))


def observed_card(cards: Cards, observation: Observation) -> TargetDevice | None:
    """The card that ran, a processor with the cores it ran on. None where nobody knows the card, or the cores
    of an unregistered processor: such observations were stored before cores were, and say nothing."""
    card = cards.devices.get(observation.device) or cards.sheets.get(observation.gpu)
    if card is None or (card.cores and not card.device and observation.cores is None):
        return None
    return with_cores(card, observation.cores)


def observed_profile(priced: PricedCatalogue, observation: Observation) -> Profile | None:
    """The profile of what ran, as `ProfileLibrary.between` finds it."""
    kind, saving = precision_class(observation.precision), observation.checkpointing
    return priced.library.between(observation.model, observation.input_size, kind, checkpointing=saving)


MOST_OF_A_CASE = 8
"""Of one model, batch and setting on one device: more than learning weighs
(`domain.learning.corrections`)."""

Kept = tuple[dt.datetime, str, str, Observation]
"""When it was written, id, case, observation."""


@dataclass(frozen=True)
class Observed:
    """The latest observations of each case and of each key, as the database had them.

    state   as `store.queries.observations.state` gave it; rows: the oldest first
    """

    state: tuple[int, dt.datetime | None] = (0, None)
    rows: Sequence[Kept] = ()

    @cached_property
    def all(self) -> tuple[Observation, ...]:
        """Those that may teach, the oldest first."""
        return trusted(row[-1] for row in self.rows)

    @cached_property
    def alone(self) -> tuple[bool, ...]:
        """Of each of `all` whether only one key told of it."""
        return told_alone(self.all)


def observed(transaction: ReadTransaction, cached: Observed | None = None) -> Observed:
    """The observations now; those of `cached`, read earlier, are reused unless something changed."""
    now, cached = store.state(transaction.session), cached or Observed()
    if cached.state == now:
        return cached
    if cached.state[1] is not None:
        known = {row[:2] for row in cached.rows if row[0] == cached.state[1]}
        later = store.since(transaction.session, cached.state[1])
        new = [row for row in later if (row.updated_at, row.id) not in known]
        # Only where nothing was replaced or deleted, and nobody wrote at an earlier time than what was read.
        if len(new) == now[0] - cached.state[0]:
            return Observed(now, _with(cached.rows, new))
    return Observed(now, _with((), store.latest(transaction.session, MOST_OF_A_CASE, MOST_OF_KEY)))


def _with(rows: Iterable[Kept], added: Iterable[store.ObservationRow]) -> Sequence[Kept]:
    """Without the older ones beyond what counts of a case and of a key."""
    new = (
        (row.updated_at, row.id, row.subject, Observation.from_dict(row.observation))
        for row in added if is_readable(row.observation)
    )  # fmt: skip
    every = sorted((*rows, *new), key=lambda row: row[:2])
    counted: Counter[Hashable] = Counter()
    kept = []
    for row in reversed(every):
        limits = (row[2], MOST_OF_A_CASE), *limits_of(row[3])
        if all(counted[what] < most for what, most in limits):
            counted.update(what for what, _ in limits)
            kept.append(row)
    return kept[::-1]
