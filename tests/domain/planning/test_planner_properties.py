"""Which laws hold for any question? Time, memory, size and speed each push a plan one way only."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service.domain.common.vocabulary import TASKS
from memory_service.domain.planning.candidates import Candidate, price_candidates
from memory_service.domain.planning.plan_settings import settings_of
from memory_service.domain.portfolio.portfolio_plan import plan_portfolio
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.recipe.preferences import Preferences, SizePreference
from tests.planning import CARDS, best, case, plan, promises_kept, seed_knowledge

CARD = st.sampled_from(CARDS)
TASK = st.sampled_from(
    [task for task in TASKS if task.startswith(("image-cl", "text-cl", "tabular", "audio", "image-seg"))]
)
N_TRAIN = st.integers(50, 2_000_000)
MINUTES = st.floats(1, 600)
OBJECTIVE = st.sampled_from(["fast", "balanced", "quality"])
MODEL = st.sampled_from(
    ["resnet50", "tf_efficientnet_b4", "vit_base_patch16_224", "convnext_tiny", "efficientnet_b0", "resnet18"]
)


def quality_of(**asked: object) -> float:
    found = best(**asked)
    return -1.0 if found is None else found.quality


@settings(max_examples=60, deadline=None)
@given(TASK, CARD, N_TRAIN, MINUTES, MINUTES, OBJECTIVE)
def test_more_minutes_never_lower_the_expected_quality(
    task: str, gpu: str, n_train: int, first: float, second: float, objective: str
) -> None:
    asked = {"task": task, "gpu": gpu, "n_train": n_train, "objective": objective}
    assert quality_of(**asked, minutes=max(first, second)) >= quality_of(**asked, minutes=min(first, second))


@settings(max_examples=40, deadline=None)
@given(MODEL, CARD, N_TRAIN, st.floats(2, 100), st.floats(2, 100))
def test_more_memory_never_lowers_the_batch_of_a_pinned_model(
    model: str, gpu: str, n_train: int, first: float, second: float
) -> None:
    batches = []
    for vram in sorted((first, second)):
        asked = {"task": "image", "gpu": gpu, "n_train": n_train, "model": model, "image_size": 224}
        found = best(**asked, vram_gib=vram, minutes=10_000)
        batches.append(0 if found is None else found.batch_size)
    assert batches[0] <= batches[1]


SIZE_WORTH = 1.0
"""Points that a pinned size may be better by: it is weighed of more models, and between two usual sizes (0.7
is the most of 2 765 pins)."""


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["cpu", "t4", "a100"]),
    st.floats(1, 60),
    st.integers(1_000, 50_000),
    st.sampled_from(["hub", "none"]),
    st.sampled_from([None, 32, 100, 300]),
    st.sampled_from([32, 64, 96, 128, 160, 224, 384]),
)
def test_a_pinned_image_size_is_no_better_than_the_free_plan(
    gpu: str, minutes: float, n_train: int, weights: str, own: int | None, size: int
) -> None:
    """But for sizes beyond what the images have, which only who pins them gets."""
    most = None if own is None else max(own * 3, 128) if own < 128 else own * 2
    asked = {"gpu": gpu, "minutes": minutes, "n_train": n_train, "weights": weights, "task": "image",
             "objective": "quality"}  # fmt: skip
    said = Preferences(image_size=SizePreference(None, most, "", own=own))
    free, pinned = (
        price_candidates(replace(case(**each), preferences=said), seed_knowledge()).best("quality", minutes)
        for each in (asked, {**asked, "image_size": size})
    )
    if pinned is None or (most is not None and size > most):
        return
    assert free is not None
    assert pinned.quality <= free.quality + SIZE_WORTH


@settings(max_examples=40, deadline=None)
@given(TASK, CARD, N_TRAIN, MINUTES, OBJECTIVE)
def test_pinning_what_was_planned_plans_the_same_run(
    task: str, gpu: str, n_train: int, minutes: float, objective: str
) -> None:
    """With its batch pinned, too, a larger picture or longer text may just fit: at the knee its batch would
    be smaller and slower."""
    asked = {"task": task, "gpu": gpu, "n_train": n_train, "minutes": minutes, "objective": objective}

    def found(**own: object) -> Candidate | None:
        return price_candidates(case(**asked, **own), seed_knowledge()).best(objective, minutes)

    chosen = found()
    if chosen is None:
        return
    first, own = settings_of(chosen), dict[str, object]()
    for pin in ("model", "epochs", "folds", "batch_size"):
        own[pin] = first["model"]["name"] if pin == "model" else first[pin]
        pinned = found(**own)
        assert pinned is not None
        if pin == "batch_size" and pinned.quality > chosen.quality:
            assert pinned.option.input_size > chosen.option.input_size
            continue
        again = settings_of(pinned)
        for name in ("model", "batch_size", "grad_accumulation", "folds", "epochs", "learning_rate"):
            assert again[name] == first[name], own
        assert pinned.quality == chosen.quality


@settings(max_examples=40, deadline=None)
@given(MODEL, CARD, st.sampled_from([1, 8, 32, 100]), st.integers(2, 40), st.integers(2, 40))
def test_a_larger_image_never_needs_less_memory(
    model: str, gpu: str, batch: int, first: int, second: int
) -> None:
    peaks: list[float] = []
    for size in sorted((first * 16, second * 16)):
        asked = case(
            task="image", gpu=gpu, n_train=5000, model=model, batch_size=batch, image_size=size, vram_gib=4000
        )
        search = price_candidates(asked, seed_knowledge()).sets[0]
        peaks.extend(search.grid.batches.peak_high_gib[:1] if search.table.options else [])
    assert peaks == sorted(peaks)


def faster(card: TargetDevice, speed: float, bandwidth: float) -> TargetDevice:
    return replace(
        card,
        tflops={name: value * speed for name, value in card.tflops.items()},
        bandwidth_gb_s=card.bandwidth_gb_s * bandwidth,
    )


@settings(max_examples=40, deadline=None)
@given(MODEL, CARD, N_TRAIN, st.floats(1, 4), st.floats(1, 4))
def test_a_faster_card_never_takes_longer(
    model: str, gpu: str, n_train: int, speed: float, bandwidth: float
) -> None:
    asked = case(
        task="image", gpu=gpu, n_train=n_train, model=model, batch_size=16, folds=1, epochs=3, minutes=10_000
    )
    better = replace(asked, cards=(faster(asked.cards[0], speed, bandwidth),))
    minutes = [price_candidates(each, seed_knowledge()).least_minutes() for each in (asked, better)]
    assert minutes[1] <= minutes[0] * (1 + 1e-9)


@settings(max_examples=80, deadline=None)
@given(
    TASK, CARD, N_TRAIN, MINUTES, OBJECTIVE,
    st.none() | st.integers(1, 6), st.none() | st.integers(1, 60), st.none() | st.integers(1, 600),
    st.none() | st.sampled_from([32, 128, 224, 300, 512, 1024]), st.none() | st.integers(2, 40_000),
)  # fmt: skip
def test_any_plan_keeps_its_promises_and_any_refusal_says_what_fits(
    task: str, gpu: str, n_train: int, minutes: float, objective: str, folds: int | None, epochs: int | None,
    batch_size: int | None, image_size: int | None, n_classes: int | None,
) -> None:  # fmt: skip
    asked = {"task": task, "gpu": gpu, "n_train": n_train, "minutes": minutes, "objective": objective}
    asked |= {
        "folds": folds,
        "epochs": epochs,
        "batch_size": batch_size,
        "image_size": image_size,
        "n_classes": n_classes and min(n_classes, n_train),  # more than samples is refused
    }
    answer = plan_portfolio(case(**asked), seed_knowledge()).as_dict()
    if answer["feasible"]:
        assert promises_kept(answer) == []
        for name in ("folds", "epochs", "batch_size"):
            assert asked[name] in (None, answer[name])
    else:
        assert answer["why"]
        assert answer["closest"] is not None
        assert promises_kept(plan(**{**asked, **answer["closest"]["set"]})) == []
