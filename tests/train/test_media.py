"""Members of pictures and sounds, and masks: small made-up files, and a clock that counts its readings."""

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.io import wavfile

from memory_service.train import kernels, masks, media_files, networks, pictures, sounds
from memory_service.train.problem import Fit, Prediction, Problem
from memory_service.train.writing import run_lengths

pytest.importorskip("torch")


class Readings:
    """A clock on which each reading takes a second: what a fit does depends on its seed alone."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def left(self) -> float:
        self.seconds -= 1
        return self.seconds


def _accuracy(truth: np.ndarray, given: np.ndarray) -> float:
    return float((given.argmax(1) == truth).mean())


def _stripes(folder: Path, rng: np.random.Generator, rows: int) -> tuple[list[Path], np.ndarray]:
    """Pictures of stripes: class 0 lies, class 1 stands."""
    targets = np.arange(rows) % 2
    paths = []
    for i, kind in enumerate(targets):
        wave = np.sin(np.arange(32) * rng.uniform(0.7, 1.3) + rng.uniform(0, 6))[:, None].repeat(32, 1)
        values = 128 + 80 * (wave.T if kind else wave) + rng.normal(0, 20, (32, 32))
        paths.append(folder / f"{i}.png")
        Image.fromarray(np.uint8(values.clip(0, 255))).save(paths[-1])
    return paths, targets


@pytest.fixture
def striped(tmp_path: Path) -> Problem:
    paths, targets = _stripes(tmp_path, np.random.default_rng(0), 90)
    return Problem("classes", paths[:70], paths[70:], targets[:70], ["lies", "stands"], _accuracy)


def _cut(member, problem: Problem, seconds: float = 120, seed: int = 0):
    return member.fit(problem, np.arange(50), np.arange(50, 70), seed, Readings(seconds), {})


@pytest.mark.parametrize(
    "member", [pictures.PICTURE_GRADIENTS, pictures.PICTURE_TREES, pictures.PICTURE_NETWORK]
)
def test_pictures_are_learned_and_a_fit_to_all_rows_needs_no_rows_that_validate(member, striped: Problem):
    assert member.applies(striped)
    assert member.price(striped) > 0
    fit = _cut(member, striped)
    assert _accuracy(striped.targets[50:70], fit.valid) >= 0.9
    every = member.fit(striped, np.arange(70), np.zeros(0, int), 0, Readings(120), fit.memo)
    assert every.valid.shape == (0, 2)
    assert _accuracy(np.arange(70, 90) % 2, every.test) >= 0.9
    np.testing.assert_allclose(every.test.sum(1), 1, atol=1e-5)


@pytest.mark.parametrize(
    "member", [pictures.PICTURE_GRADIENTS, pictures.PICTURE_TREES, pictures.PICTURE_NETWORK]
)
def test_the_same_seed_gives_the_same_prediction(member, striped: Problem):
    np.testing.assert_array_equal(_cut(member, striped).test, _cut(member, striped).test)


def test_columns_beside_the_files_count(striped: Problem):
    """The class is whether stripes stand or a column says so: neither knows it alone."""
    rng = np.random.default_rng(1)
    mark = rng.integers(0, 2, 90)
    striped.targets = (np.arange(90) % 2 ^ mark)[:70]
    member = dataclasses.replace(pictures.PICTURE_GRADIENTS)
    alone = _accuracy(striped.targets[50:70], _cut(member, striped).valid)
    table = {"mark": np.where(mark, "red", "blue"), "weight": rng.normal(size=90)}
    both = dataclasses.replace(striped, beside=pd.DataFrame(table), shared={})
    assert _accuracy(both.targets[50:70], _cut(member, both).valid) >= max(0.85, alone + 0.2)


def test_a_network_stops_when_the_time_is_over_and_says_that_it_was_cut(striped: Problem):
    clock = Readings(40)
    fit = pictures.PICTURE_NETWORK.fit(striped, np.arange(50), np.arange(50, 70), 0, clock, {})
    assert clock.seconds >= 0
    assert not fit.complete
    late = pictures.PICTURE_NETWORK.fit(striped, np.arange(50), np.arange(50, 70), 0, Readings(-5), {})
    assert np.isfinite(late.test).all()


@pytest.mark.parametrize(
    "member", [pictures.PICTURE_GRADIENTS, pictures.PICTURE_TREES, pictures.PICTURE_NETWORK]
)
def test_labels_and_values_of_pictures(member, striped: Problem):
    stands = striped.targets[:, None].astype(np.float32)
    labels = Problem(
        "labels", striped.inputs, striped.test_inputs, np.hstack([stands, 1 - stands]), ["a", "b"], _accuracy
    )
    fit = _cut(member, labels)
    assert ((fit.valid > 0.5) == labels.targets[50:70]).mean() >= 0.9
    values = Problem(
        "values", striped.inputs, striped.test_inputs, 500 + 30 * stands, ["y"], _accuracy, loss="squared"
    )
    fit = _cut(member, values)
    assert np.abs(fit.valid - values.targets[50:70]).mean() < 10


def test_a_broken_picture_is_the_mean_of_the_others_and_is_told(tmp_path: Path, capsys):
    paths, _ = _stripes(tmp_path, np.random.default_rng(0), 6)
    paths[2].write_bytes(b"no picture")
    paths[4].unlink()
    read = pictures.read_pictures(paths, 16)
    assert "2 of 6 pictures cannot be read" in capsys.readouterr().out
    np.testing.assert_array_equal(read[2], np.uint8(read[[0, 1, 3, 5]].mean(0)))
    np.testing.assert_array_equal(read[2], read[4])


def test_grey_sixteen_bit_transparent_and_palette_pictures_are_read(tmp_path: Path):
    ramp = np.tile(np.arange(64), (48, 1))
    Image.fromarray(np.uint16(ramp * 60)).save(tmp_path / "deep.png")
    Image.fromarray(np.uint8(ramp * 4)).save(tmp_path / "grey.png")
    clear = Image.new("RGBA", (20, 30), (255, 0, 0, 0))
    lying = Image.Exif()
    lying[0x0112] = 6  # to be turned by 90 degrees
    clear.save(tmp_path / "clear.png", exif=lying.tobytes())
    Image.new("RGB", (20, 30), (10, 200, 10)).convert("P").save(tmp_path / "palette.png")
    read = pictures.read_pictures([tmp_path / f"{n}.png" for n in ("deep", "grey", "clear", "palette")], 32)
    assert read.shape == (4, 3, 32, 32)
    assert read[0, 0, 0, -1] > 240
    assert np.abs(read[0].astype(int) - read[1]).max() < 8
    assert read[2].min() == 255
    assert media_files.read_image(tmp_path / "clear.png").size == (30, 20)
    assert read[3, 1].mean() > 2 * read[3, 0].mean()


def test_a_flip_is_kept_where_it_teaches_and_not_where_it_changes_the_class():
    rng = np.random.default_rng(0)
    rows = 600
    targets = np.arange(rows) % 2
    size = rng.integers(10, 26, rows)
    place = rng.integers(0, 40, rows)
    left = np.zeros((rows, 1, 64, 64), np.uint8)
    for i, (kind, start, wide) in enumerate(zip(targets, place, size, strict=True)):
        slope = np.arange(wide)[None] * 255 // wide
        left[i, 0, 10:50, start : start + wide] = slope if kind else slope[:, ::-1]
    left = (left + rng.integers(0, 40, left.shape)).clip(0, 255).astype(np.uint8)
    directed = Problem("classes", [], [], targets, ["rises", "falls"], _accuracy)
    assert pictures.flips_that_help(directed, left, np.arange(rows), rng) == (False, False)
    order = rng.permutation(rows)
    mixed = np.where(rng.random(rows)[:, None, None, None] < 0.5, left, left[..., ::-1])
    wide_ones = Problem("classes", [], [], (size > 17).astype(int), ["narrow", "wide"], _accuracy)
    assert pictures.flips_that_help(wide_ones, mixed, order, rng)[0]


@pytest.mark.parametrize("still", [0, 1])
def test_of_values_it_is_measured_whether_moved_pictures_teach(
    still: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fitted(fit: Fit, known: networks.Known) -> Prediction:
        assert fit.clock.left() in (3.0, 6.0)
        off = float(bool(known[1].shift)) if still else float(not known[1].shift)
        return Prediction(np.full((len(fit.valid_rows), 1), off), np.full((1, 1), off))

    monkeypatch.setattr(networks, "fit_of_size", fitted)
    problem = Problem("values", [], [], np.zeros((4, 1)), ["x"], _accuracy, "squared")
    known, clock = (np.zeros(0), networks.Augmentation(), ()), SimpleNamespace(left=lambda: 6.0)
    fit = Fit(problem, np.arange(3), np.arange(3, 4), 0, clock, {})
    first = networks.fit_network(fit, known)
    assert (first.test.item(), first.memo) == (0.0, {"still": still})
    every = networks.fit_network(dataclasses.replace(fit, valid_rows=np.arange(0), memo=first.memo), known)
    assert every.test.item() == 0.0


def _tones(folder: Path, rows: int, rate: int = 8000) -> tuple[list[Path], np.ndarray]:
    """Half a second of a rising or a falling tone between silence."""
    rng = np.random.default_rng(0)
    targets = np.arange(rows) % 2
    paths = []
    for i, kind in enumerate(targets):
        pitch = (
            rng.uniform(300, 500) * np.linspace(1, 4, int(rate * rng.uniform(0.4, 0.6)))[:: 1 if kind else -1]
        )
        wave = np.concatenate([np.zeros(rate // 5), np.sin(np.cumsum(pitch) * 2 * math.pi / rate)])
        paths.append(folder / f"{i}.wav")
        wavfile.write(paths[-1], rate, np.int16(9000 * wave + rng.normal(0, 20, len(wave))))
    return paths, targets


def test_what_is_behind_a_sound_tells_how_it_was_recorded(tmp_path: Path):
    paths, rng, where = [], np.random.default_rng(0), np.arange(80) % 2
    for i in range(80):  # one tone, in two rooms
        room = rng.normal(size=12_000) if where[i] else np.cumsum(rng.normal(size=12_000)) / 20
        wave = 0.02 * room / room.std()
        wave[4000:8000] += np.sin(np.arange(4000) * rng.uniform(0.2, 0.4))
        paths.append(tmp_path / f"{i}.wav")
        wavfile.write(paths[-1], 8000, np.float32(wave))
    problem = Problem("classes", paths[:60], paths[60:], where[:60], ["hall", "street"], _accuracy)
    fit = sounds.SOUND_BACKGROUND.fit(problem, np.arange(40), np.arange(40, 60), 0, Readings(120), {})
    assert _accuracy(where[60:], fit.test) >= 0.9


@pytest.mark.parametrize("member", [sounds.SOUND_STATISTICS, sounds.SOUND_TREES, sounds.SOUND_NETWORK])
def test_sounds_are_learned(member, tmp_path: Path):
    paths, targets = _tones(tmp_path, 60)
    problem = Problem("classes", paths[:50], paths[50:], targets[:50], ["falls", "rises"], _accuracy)
    assert member.applies(problem)
    fit = member.fit(problem, np.arange(40), np.arange(40, 50), 0, Readings(120), {})
    assert _accuracy(targets[40:50], fit.valid) >= 0.9
    every = member.fit(problem, np.arange(50), np.zeros(0, int), 0, Readings(120), fit.memo)
    assert _accuracy(targets[50:], every.test) >= 0.9


def test_sounds_of_any_rate_width_and_channels_are_read_and_a_broken_one_is_told(tmp_path: Path, capsys):
    tone = np.sin(np.arange(16_000) * 0.2)
    wavfile.write(tmp_path / "a.wav", 16_000, np.float32(tone))
    wavfile.write(tmp_path / "b.wav", 44_100, np.int32(np.stack([tone, tone], 1) * 2**30))
    wavfile.write(tmp_path / "c.wav", 8000, np.uint8(128 + 100 * tone[:4000]))
    (tmp_path / "d.wav").write_bytes(b"RIFF")
    wavfile.write(tmp_path / "e.wav", 8000, np.zeros(4000, np.int16))
    frames, statistics, _ = sounds.read_sounds([tmp_path / f"{n}.wav" for n in "abcde"])
    assert "1 of 5 sounds cannot be read" in capsys.readouterr().out
    assert frames.shape[:3] == (5, 1, sounds.MELS)
    assert np.isfinite(statistics).all()
    with pytest.raises(ValueError, match="no sound can be read"):
        sounds.read_sounds([tmp_path / "d.wav"])


def test_silence_around_a_sound_is_cut_and_short_sounds_fill_their_frames(tmp_path: Path):
    paths, _ = _tones(tmp_path, 8)
    rate, wave = sounds.whole_sound(paths[0])
    assert len(sounds.heard(rate, wave)) < len(wave) - rate // 10
    frames, *_ = sounds.read_sounds(paths)
    moving = (np.abs(np.diff(frames[:, 0].astype(int), axis=2)).sum(1) > 0).mean()
    assert moving > 0.6


def _boxes(folder: Path, rows: int) -> tuple[list[Path], list[str]]:
    """A bright box on noise, or none."""
    rng = np.random.default_rng(0)
    images, given = [], []
    for i in range(rows):
        values, mask = rng.normal(80, 15, (48, 64, 3)), np.zeros((48, 64), bool)
        if i % 5:
            top, left = rng.integers(0, 24), rng.integers(0, 36)
            mask[top : top + 20, left : left + 24] = True
            values[mask] += 110
        images.append(folder / f"{i}.jpg")
        Image.fromarray(np.uint8(values.clip(0, 255))).save(images[-1], quality=95)
        given.append(run_lengths(mask) if i % 2 else "")
        if i % 5 and not i % 2:
            given[-1] = str(folder / f"{i}_mask.png")
            Image.fromarray(np.uint8(mask * 255)).save(given[-1])
    return images, given


def test_masks_are_learned_from_files_and_run_lengths(tmp_path: Path):
    images, given = _boxes(tmp_path, 40)
    images[3].write_bytes(b"broken")
    fit = masks.fit_masks(
        images[:34], given[:34], images[34:], np.arange(26), np.arange(26, 34), 0, Readings(400)
    )
    assert fit.score is not None
    assert fit.score > 0.8
    assert len(fit.valid) == 8
    truth, shown = ([masks.true_masks(m, (64, 48)) for m in each] for each in (given[34:], fit.test))
    assert np.mean([masks.dice(t, s) for t, s in zip(truth, shown, strict=True)]) > 0.8


def test_masks_of_two_kinds_are_learned_each_with_its_threshold(tmp_path: Path):
    images, given = _boxes(tmp_path, 40)
    both = [f"{text}\n" for text in given]  # the second kind is on none
    sides = np.arange(26), np.arange(26, 34)
    fit = masks.fit_masks(images[:34], both[:34], images[34:], *sides, 0, Readings(400))
    assert [each.shape for each in fit.valid] == [(2, 48, 64)] * 8
    assert not any(each[1].any() for each in fit.valid)
    assert fit.score is not None
    assert fit.score > 0.85
    assert all(text.count("\n") == 1 for text in fit.test)


def test_masks_without_rows_that_validate_end_in_time(tmp_path: Path):
    images, given = _boxes(tmp_path, 12)
    clock = Readings(60)
    fit = masks.fit_masks(images[:10], given[:10], images[10:], np.arange(10), np.zeros(0, int), 0, clock)
    assert fit.score is None
    assert len(fit.test) == 2
    assert clock.seconds >= 0


def test_run_lengths_go_down_the_columns_from_one():
    mask = np.array([[0, 1], [1, 1]], bool)
    assert run_lengths(mask) == "2 3"
    np.testing.assert_array_equal(np.asarray(media_files.read_mask("2 3", (2, 2))) > 0, mask)
    assert masks.dice(mask & False, mask & False) == 1


def test_pictures_that_look_alike_are_held_out_together(tmp_path: Path):
    paths = []
    for i in range(64):
        paths.append(tmp_path / f"{i}.png")
        scene = np.random.default_rng(i % 8).integers(0, 255, (8, 8, 3))
        Image.fromarray(np.uint8(scene)).resize((32, 32)).save(paths[-1])
    train_rows, valid_rows = masks.hold_out(paths, 0)
    assert len(valid_rows)
    assert not set(train_rows % 8) & set(valid_rows % 8)


def test_a_kernel_of_few_centres_learns_values():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    y = np.sin(x[:, :1]) + 10
    problem = Problem("values", list(range(250)), list(range(50)), y[:250], ["y"], _accuracy, loss="squared")
    given = Fit(problem, np.arange(200), np.arange(200, 250), 0, Readings(9), {})
    fit = kernels.kernel_regression(given, [x])
    assert np.abs(fit.test - y[250:]).mean() < 0.15


def test_more_time_takes_a_larger_network():
    wanted = networks.samples_wanted(2000)
    assert networks.samples_wanted(100) < wanted < networks.samples_wanted(50_000)
    small, large = (
        networks.multiplications(networks.small_network((1, 32, 32), 3, w), (1, 32, 32)) for w in (8, 16)
    )
    assert 3 < large / small < 4.1


@pytest.mark.parametrize("hertz", [55.0, 196.0, 440.0, 1318.5])
def test_the_pitch_of_a_tone_is_heard_whatever_its_harmonics(hertz: float):
    seconds = np.arange(8000) / 16_000
    tone = sum(np.sin(2 * np.pi * hertz * n * seconds + n) / n for n in (1, 2, 3, 5))
    noise = 0.05 * np.random.default_rng(0).normal(size=8000)
    octaves, apart, strength, _ = sounds.pitch_of(16_000, np.asarray(tone + noise, np.float32))
    assert octaves == pytest.approx(np.log2(hertz / 440), abs=0.02)
    assert apart < 0.05
    assert strength > 0.9


def test_near_copies_of_pictures_stay_together(tmp_path: Path):
    """Twenty-five pictures in two colours each, and fifty of one."""
    rng, paths = np.random.default_rng(0), []
    for n in range(100):
        if n % 4 != 1:
            coarse = rng.integers(40, 215, (8, 8, 3), dtype=np.uint8)
        shape = Image.fromarray(coarse if n % 4 != 1 else 255 - coarse // 2).resize((64, 64))
        paths.append(tmp_path / f"{n}.png")
        shape.save(paths[-1])
    groups = pictures.near_copies(paths, [])
    assert groups is not None
    assert [groups[n] == groups[n + 1] for n in range(0, 100, 4)] == [True] * 25
    assert len(set(groups)) == 75
    assert pictures.near_copies([path for n, path in enumerate(paths) if n % 4 != 1], []) is None


@pytest.mark.parametrize(
    "wave", [np.sin(np.arange(8000) / 8000 * 50 * np.pi), np.ones(5), np.cumsum(np.ones(8000))]
)
def test_a_sound_without_a_tone_has_a_pitch_all_the_same(wave: np.ndarray):
    assert np.isfinite(sounds.pitch_of(8_000, wave.astype(np.float32))).all()
