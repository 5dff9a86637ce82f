"""What a description leaves open is asked, with what the answer changes; what is no task is not planned."""

from __future__ import annotations

import pytest

from memory_service.schemas.recommend import plan_request
from memory_service.services.database.transactions import Database
from memory_service.services.planning.questions import brief
from memory_service.services.planning.recommend import question_of, recommend

OUTSIDE = [
    ("generation", "Train a GAN on 900 photos of lighthouses and submit 5,000 new images; judged by FID."),
    ("agents-games", "Write a bot for a card game. Submissions play each other and get a skill rating."),
    ("code-repair", "Given a GitHub issue and the repository, produce a patch that makes hidden tests pass."),
    ("optimization", "Find the shortest tour over 3,000 cities. There is no training data; length counts."),
    (
        "reasoning",
        "Solve olympiad problems with a language model at inference; no training set.",
    ),
]


@pytest.mark.parametrize(("kind", "text"), OUTSIDE)
def test_what_is_outside_is_not_planned_and_says_what_it_is(
    seeded_sqlite: Database, kind: str, text: str
) -> None:
    answer = recommend(seeded_sqlite, {"description": text, "gpu": "a100"})
    assert (answer["feasible"], answer["why"], answer["kind"]) == (False, "out-of-scope", kind)
    assert answer["task"] is None
    assert "no plan is made for that" in answer["detail"]
    assert answer["similar"]


def test_speech_is_planned_as_speech_and_questions_on_pictures_as_these(seeded_sqlite: Database) -> None:
    heard = "Transcribe recordings of court hearings; word error rate on 40 hidden hours."
    seen = "Answer questions about charts: a row is a chart, a question and its answer. Accuracy."
    for text, task in ((heard, "speech-recognition"), (seen, "visual-question-answering")):
        answer = recommend(
            seeded_sqlite, {"description": text, "gpu": "a100-80gb", "minutes": 600, "n_train": 4_000}
        )
        assert (answer["task"], answer["feasible"]) == (task, True)
        assert not [each for each in answer["warnings"] if each["code"] == "no-script"]


def test_a_stored_competition_that_nothing_is_planned_for_says_so_by_its_slug(
    seeded_sqlite: Database,
) -> None:
    answer = recommend(
        seeded_sqlite, {"competition": "fide-google-efficiency-chess-ai-challenge", "gpu": "a100"}
    )
    assert (answer["feasible"], answer["why"], answer["kind"]) == (False, "out-of-scope", "agents-games")


PALLETS = (
    "Melon Miles: predict how many hours a pallet of melons stays saleable\n\nEach row of train.csv is one "
    "pallet that left a farm: 6,200 pallets of 41 growers (grower_id). 14 columns hold sensor readings of "
    "temperature and shocks during transport, two hold variety and truck type. The target column is "
    "shelf_hours. test.csv has 1,550 pallets of growers that do not occur in train.csv.\n\nSubmissions are "
    "evaluated by mean absolute error (MAE)."
)


def test_columns_that_a_text_names_are_planned_by_name(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {"description": PALLETS, "gpu": "cpu", "cpu_count": 2, "minutes": 3})
    assert answer["group_by"] == "grower_id"
    assert not answer["ignores"], "columns of sensor readings are no signals beside the table"


def test_a_blend_names_its_script_where_there_is_one(seeded_sqlite: Database) -> None:
    pictures = {"task": "image", "size": "small", "gpu": "t4", "minutes": 60, "folds": 1}
    for asked, named in ((pictures, True), ({"description": PALLETS, "gpu": "cpu", "minutes": 3}, False)):
        answer = recommend(seeded_sqlite, {**asked, "detail": "full"})
        assert len(answer["blend"]["runs"]) > 1
        told = {each["setting"] for each in answer["recipe"]["techniques"] if each["name"] == "mean-blend"}
        assert told
        assert all(str(setting).startswith("blend.py") == named for setting in told)


def test_groups_that_nobody_labelled_are_no_classes(seeded_sqlite: Database) -> None:
    answer = recommend(
        seeded_sqlite, {"description": "Segment customers into five groups by their purchases", "gpu": "t4"}
    )
    assert (answer["feasible"], answer["kind"]) == (False, "clustering")


def test_a_table_of_measurements_is_a_table_whatever_was_measured(seeded_sqlite: Database) -> None:
    texts = (
        "Tell the species from 58 measurements of one leaf: shape, contour, texture. Log loss, 32 species.",
        "Cells were photographed and 30 features of each nucleus computed; benign or malignant? AUC.",
    )
    for text in texts:
        assert (
            recommend(seeded_sqlite, {"description": text, "gpu": "t4"})["task"] == "tabular-classification"
        )
    pictures = "Tell the species from photos of leaves, PNG of 256 pixels, 32 species. Log loss."
    assert recommend(seeded_sqlite, {"description": pictures, "gpu": "t4"})["task"] == "image-classification"


def test_columns_that_are_listed_are_planned_as_a_table_with_the_question_beside(
    seeded_sqlite: Database,
) -> None:
    text = (
        "Predict the mean stars (1-10) of plays. For each play: title, year, minutes, cost (often missing), "
        "number of votes and seven flags of genre. 30,000 plays in train.csv. RMSE."
    )
    answer = recommend(seeded_sqlite, {"description": f"{text} 4 cores, no GPU.", "minutes": 20})
    assert (answer["feasible"], answer["task"]) == (True, "tabular-regression")
    cores = next(fact for fact in answer["facts"] if fact["name"] == "cpu_count")
    assert (cores["value"], cores["from"]) == (4, "text")


def test_a_task_named_is_planned_whatever_the_text_asks_for(seeded_sqlite: Database) -> None:
    asked = {"description": OUTSIDE[0][1], "gpu": "a100", "task": "image-to-image"}
    assert recommend(seeded_sqlite, asked)["feasible"]


def test_a_task_that_is_not_told_is_asked_with_the_likeliest_first(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {"description": "We have a data set. Predict the target.", "gpu": "t4"})
    assert (answer["feasible"], answer["why"]) == (False, "task-not-told")
    (need,) = answer["needs"]
    assert need["field"] == "task"
    chances = [each["probability"] for each in need["options"]]
    assert chances == sorted(chances, reverse=True)
    told = {"description": "We have a data set. Predict the target.", "gpu": "t4"}
    assert recommend(seeded_sqlite, {**told, "task": need["options"][0]["value"]})["feasible"]


def test_a_count_that_nobody_says_is_asked_with_the_plan_of_another(seeded_sqlite: Database) -> None:
    text = "Classify photographs of mushrooms by species. Accuracy."
    answer = recommend(seeded_sqlite, {"description": text, "gpu": "t4", "minutes": 30})
    asked = {each["field"]: each for each in answer["questions"]}
    assert len(answer["questions"]) <= 3
    other = asked["n_train"]["options"][1]["value"]
    assert asked["n_train"]["changes"].startswith(f"with n_train={other}: ")
    known = recommend(seeded_sqlite, {"description": text, "gpu": "t4", "minutes": 30, "n_train": 9000})
    assert "n_train" not in {each["field"] for each in known["questions"]}


def test_nothing_is_asked_of_bare_facts(seeded_sqlite: Database) -> None:
    assert recommend(seeded_sqlite, {"task": "image", "gpu": "t4"})["questions"] == []


def test_parts_of_the_data_that_a_plan_leaves_out_are_said(seeded_sqlite: Database) -> None:
    text = "Which listings show the same product? Each has a photo and a title; 34,000 photos. Classify."
    answer = recommend(seeded_sqlite, {"description": text, "gpu": "t4", "task": "image-classification"})
    assert answer["uses"] == ["photos"]
    assert [each.split(":")[0] for each in answer["ignores"]] == ["text"]


def test_a_german_description_is_read_and_its_language_goes_to_text_models(seeded_sqlite: Database) -> None:
    text = (
        "Kundenbewertungen sollen als positiv oder negativ eingeordnet werden. Die Trainingsdaten enthalten "
        "18.400 deutsche Texte. Bewertet wird die Genauigkeit."
    )
    answer = recommend(seeded_sqlite, {"description": text, "gpu": "t4"})
    facts = {fact["name"]: fact["value"] for fact in answer["facts"]}
    assert answer["task"] == "text-classification"
    assert (facts["n_train"], facts["metric"], facts["language"]) == (18_400, "accuracy", "de")


def test_a_brief_asks_without_planning(seeded_sqlite: Database) -> None:
    read = brief(seeded_sqlite, plan_request({"description": OUTSIDE[1][1]}))
    assert read["outside"] == "agents-games"
    read = brief(seeded_sqlite, plan_request({"description": "Predict the target of our data."}))
    assert [each["field"] for each in read["questions"]] == ["task"]


def test_a_text_taken_for_a_stored_competition_without_its_name_is_asked_about(
    seeded_sqlite: Database,
) -> None:
    text = "Build an automated essay grader. Students' argumentative essays, holistic scores of 1-6, QWK."
    known = plan_request({"description": text, "gpu": "t4"})
    first = recommend(seeded_sqlite, known)["questions"][0]
    assert (first["field"], [each["value"] for each in first["options"]]) == ("mode", ["open", "family"])
    assert "learning-agency-lab-automated-essay-scoring-2" in first["options"][0]["why"]
    assert first["changes"].startswith("with mode=family: ")
    settled = recommend(seeded_sqlite, plan_request({"description": text, "gpu": "t4", "mode": "open"}))
    assert "mode" not in {each["field"] for each in settled["questions"]}, "it was answered"
    again = question_of(seeded_sqlite, settled["plan_id"])
    assert again is not None
    assert again.mode_given
    named = f"Learning Agency Lab - Automated Essay Scoring 2.0\n\n{text}"
    asked = brief(seeded_sqlite, plan_request({"description": named}))["questions"]
    assert "mode" not in {each["field"] for each in asked}


def test_a_script_without_weights_does_not_claim_to_fit_the_planned_network(seeded_sqlite: Database) -> None:
    asked = {"task": "image", "n_train": 900, "gpu": "cpu", "minutes": 5, "weights": "none"}
    said = " ".join(each["text"] for each in recommend(seeded_sqlite, asked)["warnings"])
    assert "in place of the model that is priced" in said
    assert "fits first" not in said
