"""Several cards: the exchange of gradients, hidden behind the backward pass or not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory_service.domain.cost.multi_gpu import cards_of, exchange_seconds_of, profile_on, step_on
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.hardware.gpu_spec import counted
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.errors import InvalidInput
from tests.synthetic import catalogue, sheets


def test_a_box_of_cards_is_read_from_its_name() -> None:
    assert counted("2xt4") == (2, "t4")
    assert counted("8 x h100") == (8, "h100")
    assert counted("T4 x2") == (2, "T4")
    assert counted("x570") == (1, "x570")
    with pytest.raises(InvalidInput):
        counted("0xt4")


def test_the_exchange_is_hidden_while_the_backward_pass_is_longer() -> None:
    card = sheets()["t4"]
    model = catalogue("fp32", "resnet50")[0]
    alone = prepare(model, card, StepConfig("fp32"))
    pair = cards_of(card, 2, "pcie")
    together = step_on(alone, model, pair)
    large, small = 512, 1
    assert alone.seconds(large) < together.seconds(large) < 1.1 * alone.seconds(large)
    slow = step_on(alone, model, replace(pair, gb_s=pair.gb_s / 1e6))
    assert slow.seconds(small) > exchange_seconds_of(model.params, pair) * 1e6 * 0.5
    assert step_on(alone, model, cards_of(card, 1)) is alone


def test_buckets_of_gradients_stand_beside_the_gradients() -> None:
    card, model = sheets()["t4"], catalogue("fp32", "resnet50")[0]
    held = profile_on(model, cards_of(card, 4))
    assert held.peak[0].fixed_bytes - model.peak[0].fixed_bytes == model.params * 4


def test_processors_are_not_joined() -> None:
    with pytest.raises(InvalidInput, match="n_gpus"):
        cards_of(sheets()["cpu"], 2)
