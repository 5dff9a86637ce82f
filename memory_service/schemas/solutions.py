"""A winning solution as a row of knowledge."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from memory_service.domain.recipe.vocabulary import Basis, Split
from memory_service.schemas.base import Row
from memory_service.schemas.fields import (
    Amount,
    Family,
    Line,
    Loss,
    Number,
    Pixels,
    Slug,
    Small,
    Technique,
    Url,
    Word,
)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Validation(_Part):
    split: Split = Field("unknown", description="how folds were split")
    by: Line | None = Field(None, description="what a fold keeps together or follows, e.g. patient")
    folds: Small | None = None


class Ensemble(_Part):
    members: Small | None = None
    method: Word = Field("unknown", description="mean, weighted, rank, stacking, hill-climbing, none")


class Score(_Part):
    cv: Number | None = None
    public: Number | None = None
    private: Number | None = None


Said = Annotated[list[Line], Field(max_length=40)]


class SolutionRow(Row):
    """A winning solution. What is null or empty is not known, which is not "not used"."""

    competition: Slug = Field(description="its slug")
    rank: Annotated[int, Field(ge=1, le=100_000)] = Field(description="on the private leaderboard")
    url: Url | None = Field(None, description="of the write-up")
    basis: Basis = Field("second-hand", description="read: the write-up or its code; recalled: from memory")
    read_at: Line | None = Field(None, description="where it was read, if not there")
    families: Annotated[list[Family], Field(max_length=40)] = Field(
        default_factory=list, description="of models: lightgbm, efficientnet, deberta-v3 ..."
    )
    models: Said = Field(default_factory=list, description="their names as written")
    input: Line | None = Field(None, description="what the models were given")
    image_size: Pixels | None = Field(None, description="pixels a side")
    seq_len: Small | None = Field(None, description="tokens or steps")
    validation: Validation = Field(default_factory=Validation, description="how it was validated")
    loss: Annotated[list[Loss], Field(max_length=20)] = Field(
        default_factory=list, description="bce, focal, mse ..."
    )
    techniques: Annotated[list[Technique], Field(max_length=40)] = Field(
        default_factory=list, description="tta, pseudo-labels, stacking ..."
    )
    features: Said = Field(default_factory=list, description="that mattered, of tables and series")
    ensemble: Ensemble = Field(default_factory=Ensemble, description="of how many models, blended how")
    epochs: Small | None = Field(None, description="of training")
    batch_size: Small | None = Field(None, description="samples a step")
    optimizer: Word | None = Field(None, description="as written")
    learning_rate: Annotated[Word | Amount, AfterValidator(str)] | None = Field(
        None, description="a number, or as written"
    )
    hardware: Line | None = Field(None, description="that it was trained on")
    score: Score = Field(default_factory=Score, description="by the metric of the competition")
    what_mattered: Said = Field(default_factory=list, description="by its authors, a sentence each")
    what_failed: Said = Field(default_factory=list, description="what they tried in vain")

    @model_validator(mode="after")
    def _read_somewhere(self) -> SolutionRow:
        where = self.read_at or self.url
        if "source" not in self.model_fields_set and where:
            self.source = where
        return self
