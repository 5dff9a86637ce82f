"""Does what a script reads mean what is in the files? Its own functions are called, nothing is trained."""

from __future__ import annotations

import shutil
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_service.domain.description.metric_resolution import resolve_metric
from tests.scripts.harness.workshop import Workshop, rows_of, write_rows

Script = types.SimpleNamespace
Open = Callable[..., Script]


@pytest.fixture
def opened(workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """The names of a kind's script, whose data lie, to be changed first, in the folder `data`."""

    def open_script(name: str, spoil: Callable[[Path], object], **changes: Any) -> Script:
        trial = workshop.trial(name, **changes)
        shutil.copytree(trial.data.folder, tmp_path / "data")
        spoil(tmp_path / "data")
        monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
        monkeypatch.setenv("OUT_DIR", str(tmp_path / "out"))
        module = types.ModuleType("train")
        monkeypatch.setitem(sys.modules, "train", module)  # dataclasses look their module up
        exec(compile((trial.folder / "train.py").read_text(), "train.py", "exec"), module.__dict__)
        vars(module)["START"] = time.monotonic()  # this process began long before
        vars(module)["begin"](module)
        return types.SimpleNamespace(**vars(module), module=module)

    return open_script


def column(place: int, values: list[str]) -> Callable[[Path], None]:
    """The column of train.csv at `place` holds these in turn."""

    def spoil(folder: Path) -> None:
        head, *rows = rows_of(folder / "train.csv")
        changed = [
            [*row[:place], values[n % len(values)], *row[place + 1 :]]
            if place >= 0
            else [*row[:-1], values[n % len(values)]]
            for n, row in enumerate(rows)
        ]
        write_rows(folder / "train.csv", [head, *changed])

    return spoil


def test_texts_of_a_training_batch_are_about_as_long(opened: Open) -> None:
    script = opened("text-classification", lambda folder: None)
    lengths = np.random.default_rng(3).integers(1, 400, 515)
    data = types.SimpleNamespace(inputs=["x" * length for length in lengths])
    texts = script.Texts("train", data, np.arange(515), {})
    script.state.batch_size = 16
    order = script.make_loader(texts, train=True).sampler
    first, second = list(order), list(order)
    assert sorted(first) == sorted(second) == list(range(515))
    assert first != second
    widest = [lengths[first[start : start + 16]].max() for start in range(0, 515, 16)]
    assert np.mean(widest) < 1.25 * lengths.mean()
    assert np.corrcoef(widest[:-1], range(len(widest) - 1))[0, 1] < 0.5, "batches come in any order"


def test_of_a_pair_that_is_too_long_the_longer_text_is_cut(opened: Open) -> None:
    script = opened("text-pair-similarity", lambda folder: None)
    script.plan.SEQ_LEN = 32
    tokenizer = script.load_tokenizer()
    (word, *_), mark = tokenizer("good", add_special_tokens=False)["input_ids"], tokenizer.sep_token_id
    for lengths, kept in (((90, 5), (19, 5)), ((90, 80), (12, 12)), ((3, 4), (3, 4))):
        texts = script.pd.DataFrame(
            {f"text{n}": [" ".join(["good"] * count)] for n, count in enumerate(lengths)}
        )
        (tokens,) = script.encode(script.joined(texts)[0])
        place = tokens.index(mark)
        assert (tokens[:place].count(word), tokens[place:].count(word)) == kept


def test_a_class_may_be_named_none_and_one_of_the_sample_may_have_no_sample(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoil(folder: Path) -> None:
        column(-1, ["None", "ape", ""])(folder)
        head, *rows = rows_of(folder / "sample_submission.csv")
        write_rows(folder / "sample_submission.csv", [[head[0], "bee", "ape", "None"], *rows])

    script = opened("image-classification", spoil)
    data = script.read_data()
    assert data.outputs == ["None", "ape"]
    assert "16 rows without animal are left out" in capsys.readouterr().out
    answers = script.submission_of(data, np.tile([0.25, 0.75], (len(data.test_ids), 1)))
    assert answers.iloc[0, 1:].to_dict() == {"bee": 0.0, "ape": 0.75, "None": 0.25}


def test_columns_of_the_sample_are_the_classes_that_they_begin_or_end_with(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    script = opened("image-classification", column(-1, ["cat", "wild cat", "dog"]))
    data = script.read_data()
    chances = np.tile([0.5, 0.3, 0.2], (len(data.test_ids), 1))  # cat, dog, wild cat
    given, wild = ["image", "is_Dog", "p_wild cat", "cat_p", "newt"], {"is_Dog": 0.3, "p_wild cat": 0.2}
    for columns, answer, told in (
        (given, {**wild, "cat_p": 0.5, "newt": 0.0}, "NOTE: taken by name"),
        (["image", "dogs", "cats", "rest"], {"dogs": 0.5, "cats": 0.3, "rest": 0.2}, "taken in this order"),
    ):
        data.sample = script.pd.DataFrame(columns=columns)
        script.WARNED.discard("classes")
        assert script.submission_of(data, chances).iloc[0, 1:].to_dict() == answer
        assert told in capsys.readouterr().out
    data.sample = script.pd.DataFrame(columns=["image", "dogs", "cats"])
    with pytest.raises(ValueError, match="the sample has the columns"):
        script.submission_of(data, chances)


def test_labels_between_spaces_are_several_and_a_name_of_words_is_one(opened: Open) -> None:
    def spoil(cells: list[str]) -> Callable[[Path], None]:
        def spoiled(folder: Path) -> None:
            write_rows(folder / "sample_submission.csv", [["image", "label"], ["0048", "rust scab"]])
            column(1, cells)(folder)

        return spoiled

    script = opened("image-classification", spoil(["rust", "scab rust", "scab", "rust rot", "scab rot"]))
    data = script.read_data()
    assert data.outputs == ["rot", "rust", "scab"]
    assert data.targets[:5].tolist() == [[0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 1, 0], [1, 0, 1]]
    chances = np.array([[0.6, 0.2, 0.7], [0.2, 0.4, 0.1]] * (len(data.test_ids) // 2))
    answers = script.submission_of(data, chances).iloc[:, 1]
    assert answers[:2].tolist() == ["rot scab", "rust"], "at least one"


@pytest.mark.parametrize(
    "named",
    [
        ["healthy", "apple scab", "black rot", "cedar apple rust"],
        ["very negative", "negative", "neutral", "positive", "very positive"],
        ["cat", "dog", "black cat", "black dog", "white cat", "white dog"],
    ],
)
def test_names_of_several_words_stay_classes(opened: Open, named: list[str]) -> None:
    assert opened("image-classification", column(1, named)).read_data().outputs == sorted(named)


def test_classes_are_submitted_aloud_where_no_metric_says_what_is_judged(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    script = opened("image-classification", lambda _: None)
    data = script.read_data()
    data.sample = None
    chances = np.eye(len(data.outputs))[np.zeros(len(data.test_ids), int)]
    assert set(script.submission_of(data, chances).iloc[:, 1]) == {data.outputs[0]}
    script.submission_of(data, chances)
    assert capsys.readouterr().out.count("NOTE: classes are submitted") == 1


def test_columns_of_which_each_row_has_one_are_classes(opened: Open, tmp_path: Path) -> None:
    def spoil(folder: Path) -> None:
        _, *rows = rows_of(folder / "train.csv")
        ones = [["1", "0", "0"], ["0", "0", "1"], ["0", "1", "0"]]
        changed = [[*row[:1], *ones[n % 3]] for n, row in enumerate(rows)]
        write_rows(folder / "train.csv", [["image", "a", "b", "tie"], *changed])
        sample = [[row[0], "0", "0", "0"] for row in rows_of(folder / "sample_submission.csv")[1:]]
        write_rows(folder / "sample_submission.csv", [["image", "a", "b", "tie"], *sample])

    for metric, answer in (("log loss", [0.2, 0.7, 0.1]), ("accuracy", [0, 1, 0]), ("F1", [0, 1, 0])):
        shutil.rmtree(tmp_path / "data", ignore_errors=True)
        judged = resolve_metric(metric, "as asked", "image-classification").as_dict()
        script = opened("image-classification", spoil, metric=judged)
        data = script.read_data()
        assert (data.targets[:3].tolist(), data.outputs) == ([0, 2, 1], ["a", "b", "tie"])
        table = script.submission_of(data, np.tile([0.2, 0.7, 0.1], (len(data.test_ids), 1)))
        assert table.iloc[0, 1:].to_dict() == dict(zip(data.outputs, answer, strict=True))
    (tmp_path / "out").mkdir()
    result = {"rows": np.arange(3), "valid": np.eye(3), "test": np.ones((len(data.test_ids), 3))}
    script.save_result(1, {**result, "score": 1.0, "constant": 0.0, "done": True})
    script.write_out_of_fold(data)
    assert [row[1:4] for row in rows_of(tmp_path / "out" / "oof.csv")[1:]] == [
        ["1", "0", "0"], ["0", "0", "1"], ["0", "1", "0"],
    ]  # fmt: skip


def test_an_empty_sample_shows_no_probabilities(opened: Open) -> None:
    script = opened("image-classification", column(1, ["ham", "spam"]))
    data = script.read_data()
    chances = np.tile([0.3, 0.7], (len(data.test_ids), 1))
    for shown, answer in ((np.nan, "spam"), (0, "spam"), (0.5, 0.7)):
        data.sample = script.pd.DataFrame({"image": data.test_ids, "label": shown})
        assert set(script.submission_of(data, chances)["label"]) == {answer}


def test_without_a_sample_a_metric_of_probabilities_has_a_column_a_class(opened: Open) -> None:
    judged = resolve_metric("log loss", "as asked", "image-classification").as_dict()
    script = opened("image-classification", lambda _: None, metric=judged)
    data = script.read_data()
    chances = np.tile([0.2, 0.3, 0.5], (len(data.test_ids), 1))
    data.sample = None
    table = script.submission_of(data, chances)
    assert table.iloc[0, 1:].to_dict() == dict(zip(data.outputs, [0.2, 0.3, 0.5], strict=True))
    data.sample = script.pd.DataFrame({"image": data.test_ids, "animal": ""})
    assert set(script.submission_of(data, chances)["animal"]) == {data.outputs[2]}


def test_a_column_that_the_test_rows_have_is_not_predicted_though_the_sample_shares_it(opened: Open) -> None:
    script = opened("text-regression", lambda _: None)
    train = script.pd.DataFrame(columns=["id", "date", "size", "y"])
    sample = script.pd.DataFrame(columns=["id", "date", "y"])
    assert script.target_columns(train, train.drop(columns="y"), sample) == ["y"]
    assert script.target_columns(train, sample, sample) == ["date", "y"], "there is no test.csv"


def test_an_id_that_is_missing_costs_its_own_row_only(opened: Open) -> None:
    script = opened("image-classification", column(0, ["", "0001", "0002"]))
    paths = script.read_data().inputs
    assert not paths[0].exists()
    assert paths[1].exists()


def without_test(folder: Path) -> None:
    (folder / "test.csv").unlink()
    (folder / "sample_submission.csv").unlink()


def test_tables_that_are_not_there_are_named(opened: Open) -> None:
    script = opened("text-regression", without_test)
    with pytest.raises(FileNotFoundError, match=r"train\.csv and test\.csv"):
        script.read_data()


def test_files_alone_are_rows_to_predict(opened: Open) -> None:
    data = opened("image-classification", without_test).read_data()
    assert {Path(path).stem for path in data.test_inputs} == {Path(name).stem for name in data.test_ids}
    assert len(data.test_ids) == len([*(Path(data.test_inputs[0]).parent).iterdir()])


def test_the_text_is_the_column_that_has_one(opened: Open) -> None:
    def spoil(folder: Path) -> None:
        for name in ("train.csv", "test.csv"):
            head, *rows = rows_of(folder / name)
            renamed = ["id", "url", "excerpt", *head[2:]]
            write_rows(folder / name, [renamed, *([row[0], "", *row[1:]] for row in rows)])

    data = opened("text-classification", spoil).read_data()
    assert min(map(len, data.inputs)) > 5
    assert min(map(len, data.test_inputs)) > 5


def test_fewer_groups_than_parts_are_as_many_parts(opened: Open) -> None:
    script = opened("image-classification", lambda folder: None, folds=1)
    data = script.read_data()
    data.groups = np.arange(len(data.targets)) % 2
    assert [sorted(set(data.groups[valid])) for _, valid in script.split_once(data, 0)] in (
        [[0], [1]],
        [[1], [0]],
    )


def test_what_rows_are_split_by_is_not_predicted_and_the_class_column_is_what_the_sample_names(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    script = opened("image-classification", lambda folder: None)
    script.plan.GROUP_BY = "patient"
    rows = {"id": [f"{n}_a" for n in range(9)], "patient": list("ppqqrrsst"), "site": list("xyzxyzxyz")}
    train = script.pd.DataFrame({**rows, "grade": [0, 1, 2] * 3})
    wide = script.pd.DataFrame(columns=["id", "0", "1", "2"])
    assert script.target_columns(train, None, wide) == ["grade"]
    assert script.read_labels(train, None, script.pd.DataFrame(columns=["id", "label"]))[1] == ["site"]
    assert "WARNING: site is predicted, not grade" in capsys.readouterr().out
    assert script.target_columns(train.drop(columns="site"), None, None) == ["grade"]


def test_grades_that_are_not_evenly_apart_are_named_in_their_order(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    script = opened("image-classification", lambda folder: None)
    script.plan.METRIC = "quadratic weighted kappa"
    for grades, warned in (([1, 2, 3], False), ([0, 1, 3], True), (["mild", "none", "severe"], True)):
        script.read_labels(script.pd.DataFrame({"id": range(9), "grade": grades * 3}), None, None)
        assert (f"in this order: {grades}" in capsys.readouterr().out) is warned


def test_groups_are_read_from_the_beginning_of_ids_where_no_column_has_them(opened: Open) -> None:
    script = opened("image-classification", lambda folder: None)
    script.plan.SPLIT, script.plan.GROUP_BY = "stratified-group", "patient"
    eyes = script.pd.DataFrame({"id": [f"{n}_{side}" for n in range(30) for side in ("left", "right")]})
    assert script.groups_of(eyes.assign(grade=0)).tolist() == [str(n // 2) for n in range(60)]
    assert (
        script.groups_of(script.pd.DataFrame({"id": [f"image_{n}" for n in range(60)], "grade": 0})) is None
    )
    named = eyes.assign(patient_id=[n // 4 for n in range(60)])
    assert script.groups_of(named).tolist() == [str(n // 4) for n in range(60)]


def test_ids_that_begin_alike_are_told_of_where_they_may_be_on_both_sides(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    script = opened("image-classification", lambda folder: None)
    slices = script.pd.DataFrame({"id": [f"p{n // 3}_{n % 3}" for n in range(90)], "grade": 0})
    for split, told in (("random", "have 30 beginnings, such as p0"), ("time", ""), ("group", "30 groups")):
        script.plan.SPLIT = split
        assert (script.groups_of(slices) is None) is (split != "group")
        said = capsys.readouterr().out
        assert told in said
        assert bool(said) is bool(told)


def test_a_stratified_split_of_values_and_of_labels_gives_each_fold_its_share(opened: Open) -> None:
    script = opened("text-regression", lambda folder: None, folds=5)
    script.plan.SPLIT = "stratified"
    values = np.exp(np.random.default_rng(0).normal(0, 1.5, (100, 1))).astype(np.float32)
    labels = (np.random.default_rng(1).random((400, 2)) < (0.5, 0.1)).astype(np.float32)
    for targets, spread in ((np.argsort(np.argsort(values, axis=0), axis=0) // 20, 0), (labels, 2)):
        data = types.SimpleNamespace(
            targets=values if spread == 0 else targets, strata=None, groups=None, times=None
        )
        each = np.array([targets[valid].sum(axis=0) for _, valid in script.split_once(data, 0)])
        assert np.ptp(each, axis=0).max() <= spread
    script.plan.SPLIT = "random"
    assert script.strata_of(data, 5) is None


def test_a_blend_gets_no_fold_that_the_constant_beats(opened: Open) -> None:
    script = opened("text-regression", lambda folder: None, folds=2)
    data = script.read_data()
    script.state.out_dir.mkdir()
    rows, test = np.arange(len(data.targets)), np.ones((len(data.test_ids), 1))
    halves = {1: (rows[::2], 0.5, 1.0), 2: (rows[1::2], 5.0, 9.0)}
    for fold, (valid, score, answer) in halves.items():
        np.savez(
            script.state.out_dir / f"answers_{fold}.npz",
            rows=valid,
            valid=answer * np.ones((len(valid), 1)),
            test=answer * test,
            score=score,
            constant=1.0,
            done=True,
        )
    script.write_out_of_fold(data)
    answered = script.pd.read_csv(script.state.out_dir / "test_predictions.csv").iloc[:, 1]
    assert answered.tolist() == [1.0] * len(answered)
    assert len(script.pd.read_csv(script.state.out_dir / "oof.csv")) == len(rows)


def test_a_fold_that_fails_costs_no_other(opened: Open, capsys: pytest.CaptureFixture[str]) -> None:
    script = opened("image-classification", lambda folder: None, folds=3)
    script.state.out_dir.mkdir()

    def fold(number: int, *_: object) -> dict[str, float]:
        if number == 2:
            raise RuntimeError("out of luck")
        (script.state.out_dir / f"fold_{number}.pt").write_bytes(b"")
        return {"score": number / 10}

    script.plan.train_fold, script.module.finish_fold = fold, lambda *_: None
    assert script.train_folds(script.read_data(), None) == [0.1, 0.3]
    assert "WARNING: fold 2 failed" in capsys.readouterr().out
    for path in script.state.out_dir.iterdir():
        path.unlink()
    script.plan.train_fold = lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        script.train_folds(script.read_data(), None)


def test_the_rows_of_one_id_are_where_the_sample_has_its_first_and_its_second(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoil(folder: Path) -> None:
        head, *rows = rows_of(folder / "test.csv")
        write_rows(folder / "test.csv", [head, ["a", *rows[0][1:]], ["b", *rows[1][1:]], ["a", *rows[2][1:]]])
        write_rows(folder / "sample_submission.csv", [["id", "price"], ["a", "0"], ["a", "0"], ["b", "0"]])

    script = opened("text-regression", spoil)
    data, out = script.read_data(), script.DATA_DIR
    answers = script.submission_of(data, np.array([[1.0], [2.0], [3.0]]))
    script.write_submission(data, answers, out)
    assert rows_of(out / "submission.csv")[1:] == [["a", "1.0"], ["a", "3.0"], ["b", "2.0"]]
    data.sample.iloc[0, 0] = "c"
    for _ in range(2):
        script.write_submission(data, answers, out)
    assert rows_of(out / "submission.csv")[1:] == [["a", "1.0"], ["b", "2.0"], ["a", "3.0"]]
    assert capsys.readouterr().out.count("2 of the 3 rows of sample_submission.csv are predicted") == 1


def test_texts_of_one_id_stay_two_texts(opened: Open) -> None:
    def spoil(folder: Path) -> None:
        rows = [["a", "one two"], ["b", "three"], ["a", "four five six"]]
        write_rows(folder / "test.csv", [["id", "tokens"], *rows])
        write_rows(folder / "sample_submission.csv", [["id", "labels"], ["b", "O"], ["a", "O"], ["a", "O"]])

    script = opened("token-classification", spoil)
    data = script.read_data()
    answers = script.submission_of(data, np.eye(3)[[0, 1, 2, 0, 1, 2]])
    script.write_submission(data, answers, script.DATA_DIR)
    cells = [[name, len(labels.split())] for name, labels in rows_of(script.DATA_DIR / "submission.csv")[1:]]
    assert cells == [["b", 1], ["a", 2], ["a", 3]]


def test_small_targets_are_learned_as_large_ones(opened: Open) -> None:
    script = opened("text-regression", column(-1, ["1e-9", "3e-9"]))
    data = script.read_data()
    kept: dict[str, Any] = {}
    script.module.save_checkpoint = lambda name, said: kept.update(said)
    script.state.epochs = 1
    script.train_fold(1, data, np.arange(80), np.arange(80, 96), None)
    assert kept["scale"] == pytest.approx([1e-9], rel=1e-3)
    assert kept["center"][0] == pytest.approx(2e-9, rel=0.1)


def test_a_table_without_ids_keeps_its_first_column(opened: Open, capsys: pytest.CaptureFixture[str]) -> None:
    script = opened("text-regression", lambda _: None)
    tables = {
        "train.csv": script.pd.DataFrame({"hour": ["3", "5"], "y": [1, 2]}),
        "test.csv": script.pd.DataFrame({"id": ["a"], "hour": [4]}),
    }
    script.module.read_table = tables.get
    train, *_ = script.module.read_tables("test.csv")
    assert train.to_dict("list") == {"id": ["0", "1"], "hour": [3, 5], "y": [1, 2]}
    assert "its first column hour is learned from" in capsys.readouterr().out


def test_columns_of_text_that_are_not_read_are_named(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    def with_answer(folder: Path) -> None:
        for name in ("train.csv", "test.csv"):
            rows = rows_of(folder / name)
            write_rows(folder / name, [[*rows[0], "answer"], *([*row, "no"] for row in rows[1:])])

    opened("text-classification", with_answer).read_data()
    assert "not read: answer" in capsys.readouterr().out


def test_a_number_is_no_text_and_columns_of_texts_about_as_long_are_read_as_one(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoil(folder: Path) -> None:
        for name in ("train.csv", "test.csv"):
            head, *rows = rows_of(folder / name)
            several = [[row[0], "0.123456789", row[1], "x", f"not {row[1]}", *row[2:]] for row in rows]
            several[0][2] = ""
            write_rows(folder / name, [["id", "rate", "title", "mark", "body", *head[2:]], *several])

    data = opened("text-classification", spoil).read_data()
    assert data.inputs[0].startswith(" | not ")
    title, _, body = data.inputs[1].partition(" | ")
    assert body == f"not {title}"
    assert len(title) > 5
    assert "the texts are title, body; not read: mark" in capsys.readouterr().out


def test_a_text_without_a_token_has_one_and_a_tokenizer_that_drops_spaces_is_loaded_as_it_is_written(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("peft")
    script = opened("text-classification-lora", lambda _: None)
    real = script.load_tokenizer()

    class Dropping:
        def __call__(self, text: str, **how: object) -> dict[str, list[int]]:
            return {"input_ids": [ord(letter) for letter in text if letter != " "]}

        def __len__(self) -> int:
            return 99

    monkeypatch.setattr(script.module.AutoTokenizer, "from_pretrained", lambda _: Dropping())
    script.load_tokenizer.cache_clear()
    assert script.load_tokenizer()("a b")["input_ids"] == real("a b")["input_ids"]
    monkeypatch.setattr(Dropping, "eos_token_id", 7, raising=False)
    monkeypatch.setattr(Dropping, "pad_token_id", None, raising=False)
    script.module.load_tokenizer = Dropping
    assert script.encode("") == [[7]]
    script.load_tokenizer.cache_clear()


def test_weights_of_other_names_are_not_taken_for_none(opened: Open) -> None:
    script = opened("text-regression", lambda _: None)
    layer = script.nn.Linear(2, 1)
    script.restore(layer, {"weight": layer.weight.data})
    with pytest.raises(ValueError, match="kernel is unknown"):
        script.restore(layer, {"kernel": layer.weight.data})


def test_the_hub_is_asked_until_weights_and_vocabulary_are_there(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    script = opened("text-classification", lambda _: None)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    asked: list[bool] = []
    make_dataset = script.plan.make_dataset

    def noted(*arguments: object) -> object:
        asked.append(constants.HF_HUB_OFFLINE)
        return make_dataset(*arguments)

    monkeypatch.setattr(script.plan, "make_dataset", noted)
    script.plan.PRETRAINED = True
    model = script.build_model({"outputs": script.read_data().outputs}, False)
    monkeypatch.setattr(script.plan, "build_model", lambda *_: model)
    script.state.minutes, script.plan.EPOCHS, script.state.epochs = 1e-9, 1, 1
    data, rows = script.read_data(), np.arange(16)
    script.state.out_dir.mkdir()
    script.train_fold(1, data, rows, rows, None)
    script.train_fold(2, data, rows, rows, None)
    assert asked[:2] == [False, False]
    assert asked[-1] is True
