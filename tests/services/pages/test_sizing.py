"""Do the pages of sizing carry the right figures, whatever is asked of them?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memory_service.domain.learning.observation import Observation
from memory_service.errors import InvalidInput, NotFound
from memory_service.services.conflicts.conflicts import conflicts
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.knowledge import model_page
from memory_service.services.pages.sizing import sizing_case_page, sizing_page, sizing_table
from memory_service.services.prediction.predict import predict
from memory_service.services.tables.file_formats import in_format
from memory_service.web.charts.knowledge import memory_curve, speed_curve
from tests.conftest import Servers
from tests.registered import observe

B4 = {"image_size": "224"}


@pytest.fixture
def own(servers: Servers) -> Iterator[Database]:
    """A seeded database of the test's own."""
    with servers.opened() as database:
        yield database


def test_a_cell_says_what_predict_says(seeded_sqlite: Database) -> None:
    page = sizing_page(seeded_sqlite, {"q": "convnext_base.fb_in1k", "image_size": "384", "gpu": "t4"})
    item = next(each for each in page["items"] if each["model"] == "convnext_base.fb_in1k")
    (cell,) = item["cells"]
    answer = predict(
        seeded_sqlite, {"model": item["model"], "gpu": "t4", "image_size": 384, "n_train": 10_000}
    )
    assert cell["max_batch_size"]["value"] == answer["max_batch_size"]["value"] == 32
    assert cell["samples_per_second"] == answer["samples_per_second"]
    assert cell["epoch_minutes"]["value"] == pytest.approx(answer["epoch_seconds"]["value"] / 60, rel=1e-3)
    assert cell["safe_batch_size"] == answer["safe_batch_size"]


def test_a_batch_that_fits_takes_no_more_than_a_process_can_use(seeded_sqlite: Database) -> None:
    knowledge = knowledge_of(seeded_sqlite)
    over = 0
    for name in ("efficientnet_b4.ra2_in1k", "convnext_base.fb_in1k", "resnet50.a1_in1k", "unet/resnet34"):
        for gpu in ("t4", "a10", "rtx3090", "v100", "l4", "rtx2080ti", "a100"):
            room = float(f"{knowledge.gpu(gpu).usable_gib:.4g}")
            most = predict(seeded_sqlite, {"model": name, "gpu": gpu})
            asked = int(most["max_batch_size"]["value"])
            at = predict(seeded_sqlite, {"model": name, "gpu": gpu, "batch_size": asked})
            for each in (*(row for row in most["curve"] if row["fits"]), at):
                peak = each["peak_memory_gib"]
                assert peak["low"] <= peak["value"] <= room
                assert peak["high"] <= room or each["batch_size"] > most["safe_batch_size"]
                over += "; fits" in peak["basis"]
    assert over


def test_pages_of_the_table_follow_one_another_without_a_gap(seeded_sqlite: Database) -> None:
    asked = {"task": "image-segmentation", "sort": "-quality_score", "limit": "10", "gpu": "a10"}
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = sizing_page(seeded_sqlite, asked | ({"cursor": cursor} if cursor else {}))
        seen += [item["model"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    models = knowledge_of(seeded_sqlite).models.values()
    wanted = [model for model in models if "image-segmentation" in model.tasks]
    assert len(seen) == len(set(seen)) == len(wanted) == page["matching"]
    scores = [knowledge_of(seeded_sqlite).models[name].quality_score for name in seen]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("ConvNeXt-Base", "convnext_base.fb_in1k"),
        ("EfficientNet B4", "efficientnet_b4.ra2_in1k"),
        ("BERT base uncased", "bert-base-uncased"),
        ("U-Net efficientnet b4", "unet/efficientnet_b4"),
    ],
)
def test_a_model_is_found_as_people_write_it(seeded_sqlite: Database, given: str, found: str) -> None:
    page = sizing_page(seeded_sqlite, {"q": given, "limit": "100", "gpu": "t4"})
    assert found in [item["model"] for item in page["items"]]


def test_a_typo_leads_to_the_nearest_models(seeded_sqlite: Database) -> None:
    page = sizing_page(seeded_sqlite, {"q": "convnxt_bse"})
    assert page["items"] == []
    assert any(name.startswith("convnext_base") for name in page["nearest"])


@pytest.mark.parametrize(
    "asked",
    [
        {"tusk": "image"}, {"task": "imge"}, {"gpu": "a1000000"}, {"image_size": "0"}, {"limit": "101"},
        {"precision": "fp9"}, {"show": "x"}, {"sort": "gpu"}, {"params_min": "nan"}, {"cursor": "nope"},
        {"gpu": "a100,t4,l4,h100,p100,v100,a10,a40,rtx3060,rtx3070,rtx3080,rtx3090,rtx4090"},
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_by_name(seeded_sqlite: Database, asked: dict[str, str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        sizing_page(seeded_sqlite, asked)
    assert refused.value.errors[0].field in asked or refused.value.errors[0].field == "field"


def test_heat_says_which_figure_is_better_and_short_epochs_are(seeded_sqlite: Database) -> None:
    asked = {"family": "resnet", "gpu": "t4,h100", "show": "epoch"}
    cells = [cell for item in sizing_page(seeded_sqlite, asked)["items"] for cell in item["cells"]]
    ordered = sorted((c for c in cells if "epoch_minutes" in c), key=lambda c: c["epoch_minutes"]["value"])
    heats = [cell["heat"] for cell in ordered]
    assert heats == sorted(heats, reverse=True)
    assert {heats[0], heats[-1]} == {0, 5}


def test_fifty_models_stand_beside_six_cards(seeded_sqlite: Database) -> None:
    page = sizing_page(seeded_sqlite, {"task": "image", "limit": "50"})
    assert sum(len(item["cells"]) for item in page["items"]) == 300


def test_boosted_trees_have_a_fit_and_what_nobody_gave_a_cost_says_so(seeded_sqlite: Database) -> None:
    cells = {
        item["model"]: item["cells"][0]
        for item in sizing_page(seeded_sqlite, {"gpu": "cpu", "library": "lightgbm"})["items"]
        + sizing_page(seeded_sqlite, {"gpu": "cpu", "q": "panns"})["items"]
    }
    assert cells["lightgbm"]["fit_minutes"]["value"] > 0
    assert "cost" in cells["panns-cnn14"]["why_not"]
    assert cells["lightgbm"]["page"]
    assert not cells["panns-cnn14"]["page"]


def test_the_file_has_every_model_on_every_card(seeded_sqlite: Database) -> None:
    table = sizing_table(seeded_sqlite, {"family": "vgg", "gpu": "t4,a100"})
    lines = b"".join(in_format(table, "csv")).decode().splitlines()
    assert len(lines) == 1 + 6 * 2
    assert lines[0].startswith("model,family,library,params_m,gpu,precision,batch_size,safe_batch_size")


def test_the_answer_for_one_card_has_its_knee_its_limit_and_other_cards(seeded_sqlite: Database) -> None:
    page = sizing_case_page(seeded_sqlite, "t4", "convnext_base", {"image_size": "384", "batch_size": "512"})
    points = {what: point for point in page["points"] for what in point["is"]}
    assert points["safe"]["batch_size"] == 24
    assert points["largest"]["batch_size"] == 32
    assert points["asked"]["fits"] is False
    assert "32 samples fit" in points["asked"]["would_fit"]["why"]
    assert page["begin"] == points["knee"]["batch_size"]
    assert page["card"]["memory_gib"] > page["card"]["usable_gib"] > 14
    here = next(each for each in page["elsewhere"] if each["this"])
    assert here["times"] == 1.0
    assert here["samples_per_second"] == points["knee"]["samples_per_second"]
    times = [each["times"] for each in page["elsewhere"]]
    assert times == sorted(times)


@pytest.mark.parametrize(("gpu", "model"), [("a101", "resnet50"), ("t4", "resnet5000000")])
def test_an_unknown_card_or_model_is_not_found(seeded_sqlite: Database, gpu: str, model: str) -> None:
    with pytest.raises(NotFound) as missing:
        sizing_case_page(seeded_sqlite, gpu, model, {})
    assert missing.value.errors[0].nearest


def test_every_claim_about_efficientnet_b4_on_an_a100_says_why_it_is_not_followed(
    seeded_sqlite: Database,
) -> None:
    page = sizing_case_page(seeded_sqlite, "a100", "efficientnet_b4", B4)
    claims = {claim["id"]: claim for claim in page["claims"]}
    contradicted = {c["id"] for c in conflicts(seeded_sqlite) if c["gpu"] == "a100"} & set(claims)
    assert {"C01", "C29", "C30"} <= contradicted
    assert {key for key, c in claims.items() if c["agrees"] is False} == contradicted
    assert claims["C28"]["agrees"] is True
    assert claims["C29"]["times"] == pytest.approx(2000 / claims["C29"]["estimate"]["value"], rel=0.05)
    assert claims["C29"]["fits"] is False
    assert claims["C31"]["agrees"] is None
    assert all(claim["why"] for claim in claims.values())


def test_claims_hold_for_whoever_ported_the_weights(seeded_sqlite: Database) -> None:
    plain = sizing_case_page(seeded_sqlite, "a100", "efficientnet_b4", B4)
    ported = sizing_case_page(seeded_sqlite, "a100", "tf_efficientnet_b4.ns_jft_in1k", B4)
    assert {c["id"] for c in plain["claims"]} == {c["id"] for c in ported["claims"]}
    of_model = model_page(seeded_sqlite, "tf_efficientnet_b4.ns_jft_in1k")["claims"]
    assert {c["id"] for c in ported["claims"]} < {c["id"] for c in of_model}
    assert sizing_case_page(seeded_sqlite, "a10", "efficientnet_b4", B4)["claims"] != plain["claims"]


RAN = Observation(
    gpu="a100", model="efficientnet_b4", family="efficientnet", input_size=224, precision="bf16",
    batch_size=128, step_seconds=128 / 700.0, peak_driver_gib=16.0, n=9,
)  # fmt: skip


def test_what_runs_showed_is_drawn_apart_and_leads_to_its_run(own: Database) -> None:
    one, failed = observe(
        own,
        [
            RAN,
            Observation(
                gpu="a100", model="efficientnet_b4", family="efficientnet", input_size=224, precision="bf16",
                batch_size=384, out_of_memory=True,
            ),
            Observation(gpu="a10", model="resnet50", family="resnet", input_size=224, precision="bf16",
                        batch_size=64, step_seconds=0.1),
            Observation(gpu="a100", model="efficientnet_b4", family="efficientnet", input_size=320,
                        precision="bf16", batch_size=64, step_seconds=0.2, peak_driver_gib=17.0),
        ],
    )[:2]  # fmt: skip
    page = sizing_case_page(own, "a100", "efficientnet_b4", B4)
    assert sorted(m["batch_size"] for m in page["measurements"] if m["same"]) == [128, 384]
    assert len(page["measurements"]) == 3
    chart = memory_curve(page)
    assert chart is not None
    series = {each["name"]: each for each in chart["series"]}
    assert [p["value"] for p in series["measured"]["data"]] == [[128, 16.0]]
    assert series["measured"]["data"][0]["href"] == f"/browse/runs/{one.run_id}"
    assert series["ran out of memory"]["data"][0]["href"] == f"/browse/runs/{failed.run_id}"
    speed = speed_curve(page)
    assert speed is not None
    drawn = {each["name"]: each for each in speed["series"]}
    assert drawn["measured"]["data"][0]["value"] == [128, 700.0]
    assert page["answer"]["max_batch_size"]["value"] < 384


def test_the_chart_draws_the_cards_memory_claims_of_this_size_and_the_knee(seeded_sqlite: Database) -> None:
    page = sizing_case_page(seeded_sqlite, "a100", "efficientnet_b4", B4)
    chart = memory_curve(page)
    assert chart is not None
    lines = [
        line["yAxis"] for each in chart["series"] if "markLine" in each for line in each["markLine"]["data"]
    ]
    assert lines[0] == page["card"]["memory_gib"]
    named = {each["name"]: each for each in chart["series"]}
    claimed = {point["name"]: point["value"] for point in named["claimed"]["data"]}
    assert claimed["claim C01"] == [32, pytest.approx(0.395, abs=0.01)]  # 1 % of 39.5 GiB
    assert {p["value"][0] for p in named["claimed to fit"]["data"]} == {512, 1024}
    assert chart["xAxis"]["logBase"] == 4
    speed = speed_curve(page)
    assert speed is not None
    knee = next(each["markPoint"]["data"][0]["coord"] for each in speed["series"] if "markPoint" in each)
    assert knee[0] == page["answer"]["knee_batch_size"]
    other = memory_curve(sizing_case_page(seeded_sqlite, "a100", "efficientnet_b4", {"image_size": "320"}))
    assert other is not None
    assert "claimed to fit" not in {each["name"] for each in other["series"]}


def test_trees_have_no_curve(seeded_sqlite: Database) -> None:
    page = sizing_case_page(seeded_sqlite, "cpu", "lightgbm", {"n_train": "50000"})
    assert memory_curve(page) is None
    assert speed_curve(page) is None
    assert page["answer"]["n_train"] == 50_000


def test_adapters_fit_where_all_weights_do_not_and_other_models_are_tuned_as_ever(
    seeded_sqlite: Database,
) -> None:
    asked = {"q": "llama-3.1-8b", "gpu": "l40s"}
    whole, adapters = (
        sizing_page(seeded_sqlite, asked | more)["items"][0]["cells"][0] for more in ({}, {"method": "lora"})
    )
    assert whole["why_not"] == "not even one sample fits"
    assert adapters["safe_batch_size"] >= 1
    resnet = {"q": "resnet50.a1_in1k", "gpu": "l40s"}
    assert "why_not" not in sizing_page(seeded_sqlite, resnet | {"method": "lora"})["items"][0]["cells"][0]
    assert sizing_case_page(seeded_sqlite, "l40s", "llama-3.1-8b", {"method": "lora"})["points"]
