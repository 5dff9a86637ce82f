"""Are numbers of training and of test samples told where they are sure, and left untold where not?"""

import pytest

from memory_service.domain.description.languages import in_english, language_of
from memory_service.recall.count_classifier import CONFIRMS, TELLS, count_classifier, told
from memory_service.services.competitions.signals import read_text


@pytest.mark.parametrize(
    ("text", "train", "test"),
    [
        ("9,000 rows; a third is held back as test.", 6000, 3000),
        ("6 species of moss, 250 photos of each species.", 1500, None),
        ("Unos 85 mil correos en 27 categorías.", 85_000, None),
        ("This dataset includes 5671 requests collected from [Reddit](http://www.reddit.com/r/30194).", 5671,
         None),
        ("8600 training images and 2150 testing images of birds", 8600, 2150),
        ("Hives: 70 hours of sound, a quarter of them marked.", None, None),
    ],
)  # fmt: skip
def test_counts_are_told_with_what_is_held_back_and_what_is_of_each(
    text: str, train: int | None, test: int | None
) -> None:
    facts = read_text(text, None).facts
    assert (facts.n_train, facts.n_test) == (train, test)


def test_an_unsure_number_is_not_told_and_one_that_the_rules_read_needs_less() -> None:
    between = {900: ((CONFIRMS + TELLS) / 2, "900 photos")}
    assert told(None, between) == (None, "")
    assert told(900, between)[0] == 900
    assert told(900, {900: (CONFIRMS - 0.01, "900 photos")}) == (None, "")
    assert told(5, {900: (0.1, "")}) == (5, "")  # of no number of the text


def test_probabilities_of_a_role_and_of_none_sum_to_one() -> None:
    text = "12,000 photos, 20 % of them for test. 40 photos of each of 300 birds."
    found = count_classifier().read(in_english(text, language_of(text)))
    assert all(0 < sum(probability for probability, _ in each.values()) < 1 for each in found)
