"""Kinds of speech task, as descriptions tell of them."""

from __future__ import annotations

import pytest

from memory_service.domain.description.metrics import metric_named
from memory_service.services.competitions.signals import read_text

VERIFIED = [
    "Speaker verification: are two utterances of the same speaker? 1,211 speakers, 148,642 utterances, EER.",
    "Pairs of voice recordings: are both the same person? Equal error rate, 20 000 clips of 600 speakers.",
    "Speaker recognition challenge: 60,000 utterances of 900 speakers, trials of unknown speakers, EER.",
]


@pytest.mark.parametrize("text", VERIFIED)
def test_verified_speakers_are_others_than_those_of_training(text: str) -> None:
    facts = read_text(text, None).facts
    assert (facts.task, facts.subtask) == ("audio-classification", "speaker-verification")
    assert (facts.metric, facts.metric_direction) == ("equal error rate", "min")
    assert (facts.split, facts.group_by) == ("group", "speaker")
    assert facts.n_classes == facts.n_groups != facts.n_train
    assert facts.n_train is None or facts.n_train >= 20_000


def test_identified_speakers_are_classes_and_no_groups() -> None:
    facts = read_text("Who is speaking? 40 speakers, 8,000 recordings of 4 seconds; accuracy.", None).facts
    assert (facts.task, facts.subtask) == ("audio-classification", "speaker-identification")
    assert (facts.n_train, facts.n_classes, facts.n_groups, facts.group_by) == (8000, 40, None, None)


@pytest.mark.parametrize(
    "text",
    [
        "Phoneme recognition on TIMIT: 3,696 utterances, 39 phones, phoneme error rate.",
        "Phonetic transcription of speech into IPA, 12 hours of recordings, phone error rate (PER).",
    ],
)
def test_phones_are_transcribed_and_judged_by_their_errors(text: str) -> None:
    facts = read_text(text, None).facts
    assert (facts.task, facts.subtask) == ("speech-recognition", "phonemes")
    assert (facts.metric, facts.metric_direction) == ("phoneme error rate", "min")


def test_spoken_words_and_spoofed_voices_are_neither() -> None:
    words = read_text("Transcribe 20 hours of interviews, word error rate.", None).facts
    spoofed = read_text("Detect spoofed voices: genuine or synthetic speech, 25,000 clips, EER.", None).facts
    assert words.subtask is spoofed.subtask is None
    assert (spoofed.task, spoofed.n_classes) == ("audio-classification", 2)


def test_a_person_in_a_list_of_entities_is_no_phoneme_error_rate() -> None:
    named = metric_named("PER of 39 phones")
    assert named is not None
    assert named.name == "phoneme error rate"
    for text in ("tags PER, LOC and ORG", "B-PER and I-PER", "LOC, PER"):
        assert metric_named(text) is None
