"""What runs showed, read bit by bit, is what is read at once, whatever happened in between."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from sqlalchemy import func, select

from memory_service.domain.learning.observation import Observation
from memory_service.domain.prediction import trust
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge import learned_corrections
from memory_service.services.knowledge.cards import Cards
from memory_service.services.knowledge.learned_corrections import Observed, observed
from memory_service.store.queries import runs
from memory_service.store.tables.runs import Observation as Observation_
from tests.registered import observe

RAN = Observation(
    gpu="a100", model="resnet50", family="resnet", input_size=224, precision="bf16", batch_size=64,
    step_seconds=0.2,
)  # fmt: skip


def read(database: Database, held: Observed | None) -> Observed:
    """The same bit by bit; checked against a reading from the beginning."""
    with database.read() as unit:
        found, whole = observed(unit, Cards({}), held), observed(unit, Cards({}))
    assert found.all == whole.all
    assert found.state == whole.state
    return found


def test_what_is_read_bit_by_bit_is_what_is_read_at_once(database: Database) -> None:
    held = read(database, None)
    assert held.all == ()
    first = observe(database, [RAN, replace(RAN, batch_size=32)])
    held = read(database, held)
    assert len(held.all) == 2
    assert read(database, held) is held
    observe(database, [RAN] * (runs.MOST_OF_A_CASE + 3))
    held = read(database, held)
    assert len(held.all) == runs.MOST_OF_A_CASE + 1
    with database.write() as unit:  # a run told of more: its observation changes
        runs.replace_observations(
            unit.session, first[1].run_id, [replace(first[1], step_seconds=0.3).as_dict()], unit.now
        )
    held = read(database, held)
    assert held.all[-1].step_seconds == 0.3
    with database.write() as unit:  # another process whose clock is behind
        earlier = unit.now - dt.timedelta(minutes=5)
        runs.replace_observations(unit.session, first[0].run_id, [], unit.now)
        runs.replace_observations(
            unit.session, first[1].run_id, [replace(first[1], batch_size=16).as_dict()], earlier
        )
    held = read(database, held)
    assert held.rows
    assert len(held.all) == 1 + runs.MOST_OF_A_CASE


def test_what_is_taken_back_makes_room_for_what_was_told_before(database: Database) -> None:
    """However much is stored of a case, no more than the latest few are read; their removal uncovers older
    ones, and what is written anew is the latest."""
    most, told = runs.MOST_OF_A_CASE, []
    for n in range(most + 4):
        told += observe(database, [replace(RAN, reporter="key eve", step_seconds=0.2 + n / 100)])
    held = read(database, None)
    assert [o.run_id for o in held.all] == [o.run_id for o in told[-most:]]
    with database.write() as unit:
        runs.replace_observations(unit.session, told[-1].run_id, [], unit.now)
    held = read(database, held)
    assert [o.run_id for o in held.all] == [o.run_id for o in told[-most - 1 : -1]]
    with database.write() as unit:
        runs.replace_observations(unit.session, told[0].run_id, [told[0].as_dict()], unit.now)
    held = read(database, held)
    assert [o.run_id for o in held.all] == [o.run_id for o in (*told[-most:-1], told[0])]
    with database.write() as unit:
        runs.change(unit.session, told[0].run_id, {"told_by": ""})
        teller = select(Observation_.teller).where(Observation_.run_id == told[0].run_id)
        assert unit.session.scalars(teller).all() == [""]
        assert unit.session.scalar(select(func.count()).where(Observation_.latest)) == most
    assert read(database, held).rows.keys() == held.rows.keys()


@pytest.mark.parametrize(("of_case", "of_key", "kept"), [(8, 20, (0, 4, 8, 8)), (6, 99, (6, 6, 6, 6))])
def test_of_a_key_the_latest_teach_and_of_hosts_all(
    database: Database, monkeypatch: pytest.MonkeyPatch, of_case: int, of_key: int, kept: tuple[int, ...]
) -> None:
    monkeypatch.setattr(trust, "MOST_COMPARED", of_case)
    monkeypatch.setattr(trust, "MOST_OF_KEY", of_key)
    monkeypatch.setattr(learned_corrections, "MOST_OF_KEY", of_key)
    held = read(database, None)
    for who in ("key eve", "host box7"):
        for n in range(4):
            told = replace(RAN, reporter=who, model=f"net{n}")
            observe(database, [replace(told, batch_size=1 + b) for b in range(8)])
            held = read(database, held)
    models = [o.model for o in held.all if o.reporter == "key eve"]
    assert tuple(models.count(f"net{n}") for n in range(4)) == kept
    assert sum(o.reporter == "host box7" for o in held.all) == 32
