"""Names that are known and not priced: what they are answered with, against the catalogue that ships."""

from __future__ import annotations

import pytest

from memory_service.domain.common.unpriced_models import KINDS, Kind
from memory_service.domain.planning.model_catalogue import normal_model_name, resolve_model
from memory_service.errors import InvalidInput
from memory_service.resources import path as resource
from memory_service.services.knowledge.profiling import catalogue_models

CATALOGUE = {row.name: row for row in catalogue_models(resource("seeds"))}


@pytest.mark.parametrize("kind", KINDS, ids=[f"{n} {kind.what}" for n, kind in enumerate(KINDS)])
def test_kin_are_rows_and_what_has_kin_is_none(kind: Kind) -> None:
    for name in kind.names:
        assert normal_model_name(name) == name
        with pytest.raises(InvalidInput, match="is known and not priced") as refused:
            resolve_model(name, CATALOGUE)
        assert kind.what in refused.value.detail
        assert refused.value.errors[0].nearest == kind.kin
    assert [resolve_model(name, CATALOGUE).name for name in kind.kin] == list(kind.kin)


@pytest.mark.parametrize(
    "name", ["AutonLab/MOMENT-1-large", "yolov10m", "CASIA/FastSAM-large", "iTransformer"]
)
def test_sizes_and_owners_do_not_hide_a_known_name(name: str) -> None:
    with pytest.raises(InvalidInput, match="but other models: "):
        resolve_model(name, CATALOGUE)


def test_other_names_are_answered_by_spelling() -> None:
    with pytest.raises(InvalidInput, match="Unknown model 'resnett50'; nearest: "):
        resolve_model("resnett50", CATALOGUE)


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        ("openai/clip-vit-base-patch32", "vit_base_patch32_clip_224.openai"),
        ("google/siglip2-base-patch16-224", "vit_base_patch16_siglip_224.v2_webli"),
        ("google/siglip-base-patch16-224", "vit_base_patch16_siglip_224.webli"),
        ("N-HiTS", "nhits"), ("N-BEATS", "nbeats"), ("TFT", "tft"), ("DeepAR", "deepar"),
        ("DLinear", "dlinear"),
        ("ARIMA", "autoarima"), ("ETS", "autoets"), ("Prophet", "prophet"), ("GRU4Rec", "gru4rec"),
        ("facebook/EUPE-ViT-B", "vit_base_patch16_dinov3_qkvb"), ("facebook/sam3", "sam3"),
        ("facebook/EUPE-ConvNeXt-T", "convnext_tiny.in12k_ft_in1k"), ("TabFM", "tabfm"),
        ("jinaai/jina-embeddings-v3", "jina-embeddings-v3"), ("nomic-embed", "nomic-embed-text-v1.5"),
    ],
)  # fmt: skip
def test_names_of_forecasts_and_of_hubs_mean_rows(asked: str, row: str) -> None:
    assert resolve_model(asked, CATALOGUE).name == row
