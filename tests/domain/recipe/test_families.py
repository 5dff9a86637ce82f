"""Does every model of the catalogue stand in a family that solutions name?"""

from __future__ import annotations

import pytest

from memory_service.domain.recipe.vocabulary import FAMILIES, families_of
from tests.planning import seed_knowledge

WITHOUT_A_NAME = {
    "automl", "cspnet", "edgenext", "efficientvit", "fasttext", "fastvit", "gbdt-additive", "ghostnet",
    "keypoint-matcher",
    "hgnet", "hiera", "kernel", "metaformer", "mobilenet", "nextvit", "pointnet", "pvt", "res2net",
    "rexnet", "segformer", "series-foundation", "tinyvit", "tnt", "xcit",
}  # fmt: skip
"""Families of the catalogue that solutions call "other", as the closed list has no name for them."""


def test_families_are_of_the_vocabulary_or_known_to_have_no_name_there() -> None:
    found = {
        name: family
        for model in seed_knowledge().models.values()
        for family in families_of(model.name, model.family)
        if (name := model.family) and family not in FAMILIES
    }
    assert set(found) == WITHOUT_A_NAME
    assert all(name == family for name, family in found.items()), "a family's own name, not an invented one"


@pytest.mark.parametrize(
    ("name", "family", "families"),
    [
        ("lightgbm", "gbdt", ("lightgbm",)),
        ("unet/seresnext50_32x4d", "unet", ("seresnext", "unet")),
        ("fpn/convnext_tiny", "convnext", ("convnext", "fpn")),
        ("vit_small_patch14_dinov2.lvd142m", "vit", ("dinov2",)),
        ("vit_base_patch16_224.augreg_in21k_ft_in1k", "vit", ("vit",)),
        ("seresnet50.ra2_in1k", "seresnet", ("senet",)),
        ("image+tabular/resnet50", "resnet", ("resnet",)),
        ("deberta-v3-base", "deberta-v3", ("deberta-v3",)),
        ("something-new", "newfamily", ("newfamily",)),
    ],
)
def test_what_is_built_around_an_encoder_counts_too(
    name: str, family: str, families: tuple[str, ...]
) -> None:
    model = seed_knowledge().models.get(name)
    assert families_of(name, model.family if model else family) == families
