"""Spellings of models: classes of libraries, repositories of hubs, fine-tunes, and other networks."""

from __future__ import annotations

import pytest

from memory_service.domain.planning.model_catalogue import resolve_model, taken_for
from memory_service.domain.planning.model_names import built_name
from memory_service.errors import InvalidInput
from memory_service.resources import path as resource
from memory_service.services.knowledge.profiling import catalogue_models

CATALOGUE = {row.name: row for row in catalogue_models(resource("seeds"))}


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        ("LGBMClassifier", "lightgbm"), ("lgb.LGBMRanker", "lightgbm"), ("xgboost.XGBRegressor", "xgboost"),
        ("cat", "catboost"), ("RandomForestClassifier", "random-forest"), ("MLPRegressor", "mlp"),
        ("sklearn.svm.NuSVC", "svm"), ("KNeighborsRegressor", "knn"), ("LassoCV", "linear"),
        ("BertForSequenceClassification", "bert-base-uncased"), ("microsoft/resnet-101", "resnet101.a1_in1k"),
        ("yolov8n.pt", "yolov8n"), ("tf.keras.applications.EfficientNetB0", "efficientnet_b0.ra_in1k"),
    ],
)  # fmt: skip
def test_a_class_or_another_spelling_means_the_row_without_a_word(asked: str, row: str) -> None:
    assert resolve_model(asked, CATALOGUE).architecture == CATALOGUE[row].architecture
    assert taken_for(asked, CATALOGUE) == ""


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        ("Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"),
        ("TheBloke/Llama-2-13B-chat-GPTQ", "llama-2-13b"),
        ("nlptown/bert-base-multilingual-uncased-sentiment", "bert-base-multilingual-cased"),
        ("cardiffnlp/twitter-roberta-base-sentiment", "roberta-base"),
        ("Davlan/afro-xlmr-large", "xlm-roberta-large"),
        ("google/vit-base-patch16-224-in21k", "vit_base_patch16_224.augreg2_in21k_ft_in1k"),
        ("facebook/convnextv2-base-22k-384", "convnextv2_base.fcmae_ft_in22k_in1k_384"),
        ("nvidia/segformer-b1-finetuned-cityscapes-1024-1024", "segformer-b1"),
    ],
)
def test_a_fine_tune_is_priced_as_its_network_and_says_so(asked: str, row: str) -> None:
    assert resolve_model(asked, CATALOGUE).name == row
    assert f"is priced as {row}: the same network" in taken_for(asked, CATALOGUE)


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ("yolov5l6", "P6 variant"), ("yolo11x-seg", "mask head"),
        ("yolov8x-cls.pt", "classification variant"),
        ("facebook/esm2_t33_650M_UR50D", "protein"), ("Rostlab/prot_bert_bfd", "protein"),
        ("DeepChem/ChemBERTa-77M-MLM", "chemistry"), ("Qwen/Qwen2.5-Omni-7B", "pictures and text"),
        ("deepseek-ai/DeepSeek-V3", "mixture of experts"), ("ChaoningZhang/MobileSAM", "masks"),
        ("google/yamnet", "audio"), ("ppo", "reinforcement"),
        ("stabilityai/stable-diffusion-xl-base-1.0", "generator of pictures"),
    ],
)  # fmt: skip
def test_another_kind_of_network_is_refused_by_what_it_is(asked: str, word: str) -> None:
    with pytest.raises(InvalidInput, match="is known and not priced") as refused:
        resolve_model(asked, CATALOGUE)
    assert word in refused.value.detail


@pytest.mark.parametrize(
    "asked",
    [
        "bert-mini", "Qwen/Qwen2.5-7B-Instruct-1M", "meta-llama/Llama-4-7B",
        "distilbert-base-multilingual-cased",
        "facebook/deit-base-distilled-patch16-384", "hubert-xlarge-ll60k", "nateraw/clip-vit-base",
    ],
)  # fmt: skip
def test_another_size_version_or_input_is_not_taken_for_a_listed_one(asked: str) -> None:
    with pytest.raises(InvalidInput):
        resolve_model(asked, CATALOGUE)


def test_what_is_spelled_alike_is_of_one_kind_of_input() -> None:
    with pytest.raises(InvalidInput) as refused:
        resolve_model("facebook/hubert-xlarge-ll60k", CATALOGUE)
    nearest = refused.value.errors[0].nearest
    assert nearest[0] == "hubert-large"
    assert {CATALOGUE[name].tasks[0] for name in nearest} <= {"audio-classification", "speech-recognition"}


def test_keras_and_hub_names_are_what_timm_builds() -> None:
    assert built_name("tf.keras.applications.InceptionResNetV2") == "inception_resnet_v2"
    assert built_name("facebook/deit-base-distilled-patch16-384") == "deit_base_distilled_patch16_384"
    assert built_name("timm/some_net.tag") == "timm/some_net.tag"


@pytest.mark.parametrize("asked", ["fpn/resnet34", "linknet/resnet50", "manet/vit_base_patch16_224.xyz"])
def test_a_head_on_an_encoder_is_not_an_owner(asked: str) -> None:
    with pytest.raises(InvalidInput):
        resolve_model(asked, CATALOGUE)
    assert built_name(asked) == asked
