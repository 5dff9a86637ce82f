"""What do shares, lifts and sizes say of the solutions they were counted from?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.recipe.votes import PRIOR, base_rates, sentences, typical, votes
from tests.domain.recipe.solutions import near, solution


def test_a_share_is_the_weight_of_those_that_used_it_and_names_the_weightiest() -> None:
    found = votes(
        near(
            (solution("a", families=("vit",)), 0.3),
            (solution("a", 2, families=("vit", "swin")), 0.7),
            (solution("b", families=("resnet",)), 0.5),
        ),
        "families",
        {},
    )
    assert {vote.name: vote.share for vote in found} == pytest.approx(
        {"vit": 1 / 1.5, "swin": 0.7 / 1.5, "resnet": 0.5 / 1.5}
    )
    assert [vote.name for vote in found] == ["vit", "swin", "resnet"], "most used first"
    assert {vote.name: vote.n for vote in found} == {"vit": 2, "swin": 1, "resnet": 1}
    assert found[0].sources == ("a#2", "a#1"), "the weightiest first"
    assert {vote.lift for vote in found} == {None}, "without a base rate there is no lift"


def test_what_a_solution_does_not_say_is_not_taken_for_not_used() -> None:
    silent = near((solution("a", loss=("dice",)), 1.0), (solution("b"), 1.0))
    assert [vote.share for vote in votes(silent, "loss", {})] == [1.0]
    half = near(
        (solution("a", loss=("dice",)), 0.5), (solution("a", 2), 0.5), (solution("b", loss=("bce",)), 1.0)
    )
    assert [vote.share for vote in votes(half, "loss", {})] == [0.5, 0.5], "a competition keeps its weight"
    assert votes(silent, "techniques", {"tta": 0.5}) == []


def test_few_neighbours_are_drawn_to_the_base_rate() -> None:
    one = near((solution("a", techniques=("tta",)), 1.0))
    (vote,) = votes(one, "techniques", {"tta": 0.2})
    assert vote.share == pytest.approx((1.0 + PRIOR * 0.2) / (1.0 + PRIOR))
    assert vote.lift == pytest.approx(vote.share / 0.2)
    two = near((solution("a", techniques=("tta",)), 1.0), (solution("b", techniques=("ema",)), 0.5))
    count = 1.5**2 / (1.0 + 0.5**2)  # of neighbours, by their weights (Kish)
    first, second = votes(two, "techniques", {"tta": 0.2})
    assert first.share == pytest.approx((count / 1.5 + PRIOR * 0.2) / (count + PRIOR))
    assert second.share == pytest.approx(count * (0.5 / 1.5) / (count + PRIOR))
    many = near(*((solution(f"c{i}", techniques=("tta",)), 1.0) for i in range(30)))
    assert votes(many, "techniques", {"tta": 0.2})[0].share > vote.share


def test_a_name_that_no_neighbour_used_has_its_base_rate_drawn_down() -> None:
    one = near((solution("a", families=("vit",)), 1.0))
    vit, swin = votes(one, "families", {"swin": 0.2})
    assert (vit.name, swin.name, swin.n) == ("vit", "swin", 0)
    assert swin.share == pytest.approx(PRIOR * 0.2 / (1.0 + PRIOR))


def test_leaks_and_names_that_say_nothing_are_never_advised() -> None:
    found = votes(near((solution(techniques=("leak-exploit", "other", "tta")), 1.0)), "techniques", {})
    assert [vote.name for vote in found] == ["tta"]


NAMES = st.sampled_from(["vit", "swin", "resnet", "unet"])
SOLUTIONS = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(NAMES, unique=True).map(tuple), st.floats(0.01, 1.0)),
    max_size=12,
)


@given(SOLUTIONS, st.dictionaries(NAMES, st.floats(0.01, 1.0)))
def test_shares_are_shares_in_falling_order(
    told: list[tuple[str, tuple[str, ...], float]], base: dict[str, float]
) -> None:
    some = near(*((solution(slug, i + 1, families=used), w) for i, (slug, used, w) in enumerate(told)))
    found = votes(some, "families", base)
    shares = [vote.share for vote in found]
    assert shares == sorted(shares, reverse=True)
    assert all(0.0 <= share <= 1.0 + 1e-9 for share in shares)
    used_by_some = {name for _, used, _ in told for name in used}
    assert {vote.name for vote in found if vote.n} == used_by_some
    assert {vote.name for vote in found if not vote.n} == (
        set(base) - used_by_some if used_by_some else set()
    )
    assert all(1 <= len(vote.sources) <= 3 for vote in found if vote.n)
    assert all(vote.n >= len(vote.sources) for vote in found)


def test_base_rates_count_competitions_alike() -> None:
    some = [solution("a", rank, families=("vit",)) for rank in range(1, 10)]
    some += [solution("b", families=("resnet",)), solution("c")]
    assert base_rates(some, "families") == pytest.approx({"vit": 0.5, "resnet": 0.5})
    assert base_rates([], "families") == {}


def test_the_usual_size_is_the_weighted_geometric_mean_of_those_that_say_one() -> None:
    some = near(
        (solution("a", image_size=256), 1.0), (solution("b", image_size=1024), 1.0), (solution("c"), 9.0)
    )
    assert typical(some, "image_size") == (512, 2)
    assert typical(some, "seq_len") is None


def test_sentences_are_said_once_by_the_nearest_and_each_competition_has_its_turn() -> None:
    some = near(
        (solution("a", what_mattered=("Two", "One", "Three")), 1.0),
        (solution("b", what_mattered=("one ", "Four")), 0.5),
    )
    found = sentences(some, "what_mattered", 5)
    assert [entry["text"] for entry in found] == ["Two", "One", "Four", "Three"]
    assert found[0]["from"] == ["a#1"]
    assert len(sentences(some, "what_mattered", 2)) == 2
