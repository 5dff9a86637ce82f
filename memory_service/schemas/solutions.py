"""A winning solution as a row of knowledge."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from memory_service.domain.recipe.vocabulary import Basis, Split
from memory_service.schemas import fields as f
from memory_service.schemas.base import Row


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Validation(_Part):
    split: Split = Field("unknown", description="how folds were split")
    by: f.Line | None = f.optional("what a fold keeps together or follows, e.g. patient")
    folds: f.Small | None = None


class Ensemble(_Part):
    members: f.Small | None = None
    method: f.Word = Field("unknown", description="mean, weighted, rank, stacking, hill-climbing, none")


class Score(_Part):
    cv: f.Number | None = None
    public: f.Number | None = None
    private: f.Number | None = None


Said = Annotated[list[f.Line], Field(max_length=40)]


class SolutionRow(Row):
    """A winning solution. What is null or empty is not known, which is not "not used"."""

    competition: f.Slug = Field(description="its slug")
    rank: Annotated[int, Field(ge=1, le=100_000)] = Field(description="on the private leaderboard")
    url: f.Url | None = f.optional("of the write-up")
    basis: Basis = Field("second-hand", description="read: the write-up or its code; recalled: from memory")
    read_at: f.Line | None = f.optional("where it was read, if not there")
    families: Annotated[list[f.Family], Field(max_length=40)] = Field(
        default_factory=list, description="of models: lightgbm, efficientnet, deberta-v3 ..."
    )
    models: Said = Field(default_factory=list, description="their names as written")
    input: f.Line | None = f.optional("what the models were given")
    image_size: f.Pixels | None = f.optional("pixels a side")
    seq_len: f.Small | None = f.optional("tokens or steps")
    validation: Validation = Field(default_factory=Validation, description="how it was validated")
    loss: Annotated[list[f.Loss], Field(max_length=20)] = Field(
        default_factory=list, description="bce, focal, mse ..."
    )
    techniques: Annotated[list[f.Technique], Field(max_length=40)] = Field(
        default_factory=list, description="tta, pseudo-labels, stacking ..."
    )
    features: Said = Field(default_factory=list, description="that mattered, of tables and series")
    ensemble: Ensemble = Field(default_factory=Ensemble, description="of how many models, blended how")
    epochs: f.Small | None = f.optional("of training")
    batch_size: f.Small | None = f.optional("samples a step")
    optimizer: f.Word | None = f.optional("as written")
    learning_rate: Annotated[f.Word | f.Amount, AfterValidator(str)] | None = f.optional(
        "a number, or as written"
    )
    hardware: f.Line | None = f.optional("that it was trained on")
    score: Score = Field(default_factory=Score, description="by the metric of the competition")
    what_mattered: Said = Field(default_factory=list, description="by its authors, a sentence each")
    what_failed: Said = Field(default_factory=list, description="what they tried in vain")

    @model_validator(mode="after")
    def _read_somewhere(self) -> SolutionRow:
        where = self.read_at or self.url
        if "source" not in self.model_fields_set and where:
            self.source = where
        return self
