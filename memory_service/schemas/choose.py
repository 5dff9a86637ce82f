"""Requests that choose hardware and compare trainings before they run."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from memory_service.domain.choice.offer import AIMS, Aim, Offer
from memory_service.domain.planning.request import Question
from memory_service.errors import FieldError
from memory_service.schemas import fields as f
from memory_service.schemas.base import FromText, Request
from memory_service.schemas.rank import RankRow
from memory_service.schemas.recommend import RecommendRequest
from memory_service.schemas.review import LONGEST_SCRIPT
from memory_service.schemas.validation_errors import wrong_fields

MOST_OFFERS, MOST_SIDES = 32, 20

Money = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
HostGib = Annotated[float, Field(gt=0, le=65_536, allow_inf_nan=False)]

OF_OFFERS = (
    "gpu", "plan_for", "n_gpus", "cpu_count", "vram_gib", "run", "include", "detail", "single",
)  # fmt: skip
"""Fields of a plan's question that offers say, or that shape a plan's answer."""


class OfferRow(Request):
    """A box that can be had."""

    name: f.Word120 = Field(description="Yours; answers use it.")
    gpu: f.Text200 = Field(description=f.ABOUT_GPU, examples=["a10g"])
    n_gpus: f.NGpus | None = f.optional("Equal cards in it that train one model together.")
    vram_gib: f.VramGib | None = f.optional("Memory of a card, where it is not the card's own.")
    cpu_count: f.CpuCount | None = f.optional("Processor cores.")
    memory_gib: HostGib | None = f.optional("Memory of the host, in GiB.")
    price_per_hour: Money | None = f.optional("In your currency; 0: free. Left out, nobody knows it.")
    minutes_max: f.Minutes | None = f.optional("The longest job it takes, start-up included.")
    spot: bool | None = f.optional("It may be taken away.")
    start_up_minutes: Annotated[float, Field(ge=0, le=1440, allow_inf_nan=False)] | None = f.optional(
        "Before a script begins: pull, installation, data. Learned from runs when not given."
    )

    def to_offer(self) -> Offer:
        return Offer(**self.explicit(), price_source="as asked" if self.price_per_hour is not None else None)


class _OnOffers(RecommendRequest):
    """A question whose hardware is open."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        made = handler(core_schema)
        whole = handler.resolve_ref_schema(made)
        whole["properties"] = {n: part for n, part in whole["properties"].items() if n not in OF_OFFERS}
        return made

    @model_validator(mode="after")
    def _no_hardware(self) -> "_OnOffers":
        given = [name for name in OF_OFFERS if getattr(self, name) is not None]
        if given:
            raise wrong_fields([FieldError(name, "is said by the offers", None) for name in given])
        return self


class ChooseRequest(_OnOffers):
    """The task and the data, and what can be had: which box, which plan, which time limit, what cost."""

    offers: Annotated[list[OfferRow], Field(min_length=1, max_length=MOST_OFFERS)] | None = f.optional(
        "Boxes to choose from; common ones (Kaggle, Colab, usual clouds) when not given."
    )
    deadline_minutes: f.Minutes | None = f.optional(
        "From ordering the box to the end; 720 when neither this nor `minutes` is known. `minutes` "
        "bounds the script alone."
    )
    budget: Money | None = f.optional("Most that the job may cost, in the currency of the prices.")
    objective: Annotated[Aim, f.LOWER] | None = f.optional(  # type: ignore[assignment]
        f"{f.quoted(AIMS)}; balanced when not given."
    )

    def to_domain(self) -> Question:
        """The question of a plan; what an objective weighs is weighed among offers."""
        return replace(super().to_domain(), objective="balanced")

    @model_validator(mode="after")
    def _own_names(self) -> "ChooseRequest":
        names = [offer.name for offer in self.offers or ()]
        if len(set(names)) < len(names):
            raise wrong_fields([FieldError("offers", "name an offer twice", names)])
        return self


class ChooseTexts(FromText, ChooseRequest):
    """The same as texts, the offers apart."""


class CompareRequest(Request):
    """Two trainings or more on one data set; of each kind any number, together 2 to 20."""

    plans: list[f.Word | f.JsonObject] | None = f.optional(
        "Plans: a plan_id that was given not long ago, or the answer of /recommend."
    )
    rows: Annotated[list[RankRow], Field(max_length=MOST_SIDES)] | None = f.optional(
        "Candidates as in /rank; with `gpu` and `minutes` planned."
    )
    scripts: list[Annotated[str, Field(min_length=1, max_length=LONGEST_SCRIPT)]] | None = f.optional(
        "Training scripts as text; nothing of them is run."
    )
    task: f.Task | None = f.optional(f"{f.ABOUT_TASK} Needed for scripts without a plan beside them.")
    gpu: f.Text200 | None = f.optional("Of the scripts: without it nothing is said of their time.")
    n_train: f.Samples | None = f.optional("Training samples, of the scripts.")
    n_classes: f.NClasses | None = f.optional("Classes, of the scripts.")
    n_features: f.NFeatures | None = f.optional("Columns of a table, of the scripts.")

    @model_validator(mode="after")
    def _enough(self) -> "CompareRequest":
        sides = sum(len(part or ()) for part in (self.plans, self.rows, self.scripts))
        if not 2 <= sides <= MOST_SIDES:
            raise wrong_fields([FieldError("plans", f"rows and scripts: 2 to {MOST_SIDES} together", sides)])
        return self

    def facts(self) -> dict[str, Any]:
        """What is said of the data and the card."""
        return {k: v for k, v in self.explicit().items() if k not in ("plans", "rows", "scripts")}
