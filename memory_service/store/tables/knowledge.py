"""Tables of knowledge: a column for what is filtered and sorted, JSON for the rest.

Rows that people may correct (`Correctable`) carry an optimistic lock (`version`), where they came from
(`origin`), whether a person changed them (`corrected`) and the digest of the seed they were made from.
Relationships are never loaded by accident: each query says what it wants.
"""

import datetime as dt
from typing import Any, ClassVar

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, MetaData, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedColumn, declared_attr, mapped_column

from memory_service.store.dialects import Embedding, Json, Name, Prose, UtcDateTime, Vector32


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {str: Name, dt.datetime: UtcDateTime()}


LISTED = {"listed": True}
"""Of a column that lists are narrowed and sorted by although its index is one of several columns."""


def key_column() -> MappedColumn[str]:
    return mapped_column(Name, primary_key=True)


class Correctable(Base):
    """A row of knowledge that a seed brought or a person wrote, and that a person may correct."""

    __abstract__ = True

    source: Mapped[str] = mapped_column(Prose)
    grade: Mapped[str] = mapped_column(Name, index=True)
    version: Mapped[int]
    origin: Mapped[str]
    corrected: Mapped[bool]
    seed_digest: Mapped[str | None]
    created_at: Mapped[dt.datetime]
    updated_at: Mapped[dt.datetime] = mapped_column(index=True)

    @declared_attr.directive
    def __mapper_args__(cls) -> dict[str, Any]:  # noqa: N805 - declared_attr passes the class
        return {"version_id_col": cls.version}

    @declared_attr.directive
    def __table_args__(cls) -> tuple[Any, ...]:  # noqa: N805
        return (
            CheckConstraint("grade IN ('measured', 'estimated', 'claimed')", name="grade"),
            CheckConstraint("origin IN ('seed', 'user')", name="origin"),
        )


class Competition(Correctable):
    """A past competition and its facts; `size` follows from `n_train`."""

    __tablename__ = "competitions"

    slug: Mapped[str] = key_column()
    title: Mapped[str] = mapped_column(Name, index=True)
    year: Mapped[int | None] = mapped_column(index=True)
    task: Mapped[str | None] = mapped_column(Name, index=True)
    modality: Mapped[str | None] = mapped_column(Name, index=True)
    metric: Mapped[str | None] = mapped_column(Prose)
    metric_family: Mapped[str | None] = mapped_column(Name, index=True)
    metric_direction: Mapped[str | None]
    size: Mapped[str | None] = mapped_column(Name, index=True)
    n_train: Mapped[int | None] = mapped_column(BigInteger, index=True)
    n_test: Mapped[int | None] = mapped_column(BigInteger, index=True)
    n_classes: Mapped[int | None] = mapped_column(index=True)
    image_size: Mapped[int | None]
    dataset_gb: Mapped[float | None]
    domain: Mapped[str | None] = mapped_column(Prose)
    label_structure: Mapped[str | None] = mapped_column(Prose)
    split: Mapped[str | None] = mapped_column(Name, index=True)
    group_by: Mapped[str | None] = mapped_column(Prose)
    host_kind: Mapped[str | None] = mapped_column(Name, index=True)
    teams: Mapped[int | None] = mapped_column(index=True)
    code_competition: Mapped[bool | None]
    inference_limit_hours: Mapped[float | None]
    summary: Mapped[str | None] = mapped_column(Prose)
    description: Mapped[str] = mapped_column(Prose)
    pitfalls: Mapped[str | None] = mapped_column(Prose)


class Solution(Correctable):
    """One of a competition's best solutions; its id is `<competition>#<rank>`. Null: not known."""

    __tablename__ = "solutions"

    @declared_attr.directive
    def __table_args__(cls) -> tuple[Any, ...]:  # noqa: N805
        known = CheckConstraint("basis IN ('read', 'second-hand', 'recalled')", name="basis")
        return (*super().__table_args__, known)

    id: Mapped[str] = key_column()
    competition: Mapped[str] = mapped_column(ForeignKey("competitions.slug"), index=True)
    rank: Mapped[int] = mapped_column(index=True)
    url: Mapped[str | None] = mapped_column(Prose)
    basis: Mapped[str] = mapped_column(Name, index=True)
    read_at: Mapped[str | None] = mapped_column(Prose)
    families: Mapped[Any] = mapped_column(Json, nullable=False)
    models: Mapped[Any] = mapped_column(Json, nullable=False)
    input: Mapped[str | None] = mapped_column(Prose)
    image_size: Mapped[int | None]
    seq_len: Mapped[int | None]
    validation: Mapped[Any] = mapped_column(Json, nullable=False)
    loss: Mapped[Any] = mapped_column(Json, nullable=False)
    techniques: Mapped[Any] = mapped_column(Json, nullable=False)
    features: Mapped[Any] = mapped_column(Json, nullable=False)
    ensemble: Mapped[Any] = mapped_column(Json, nullable=False)
    epochs: Mapped[int | None]
    batch_size: Mapped[int | None]
    optimizer: Mapped[str | None]
    learning_rate: Mapped[str | None]
    hardware: Mapped[str | None] = mapped_column(Prose)
    score: Mapped[Any] = mapped_column(Json, nullable=False)
    what_mattered: Mapped[Any] = mapped_column(Json, nullable=False)
    what_failed: Mapped[Any] = mapped_column(Json, nullable=False)


class Passage(Base):
    """A piece of a competition's text as it is searched; `embedding` is null until an encoder was there."""

    __tablename__ = "passages"
    __table_args__ = (UniqueConstraint("competition", "position"),)

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    competition: Mapped[str] = mapped_column(ForeignKey("competitions.slug", ondelete="CASCADE"))
    position: Mapped[int]
    kind: Mapped[str]
    text: Mapped[str] = mapped_column(Prose)
    text_digest: Mapped[str] = mapped_column(Name, index=True)
    encoder: Mapped[str | None]
    embedding: Mapped[Vector32 | None] = mapped_column(Embedding)


class Pattern(Correctable):
    """What worked: for one competition, or for a kind (task and size) of them."""

    __tablename__ = "patterns"

    id: Mapped[str] = key_column()
    scope: Mapped[str] = mapped_column(Name, index=True)
    competition: Mapped[str | None] = mapped_column(ForeignKey("competitions.slug"), index=True)
    task: Mapped[str | None] = mapped_column(Name, index=True)
    size: Mapped[str | None] = mapped_column(Name, index=True)
    kind: Mapped[str] = mapped_column(Name, index=True)
    statement: Mapped[str] = mapped_column(Prose)
    advice: Mapped[Any] = mapped_column(Json, nullable=False)
    rule: Mapped[str | None] = mapped_column(Name, index=True)


class Model(Correctable):
    """A catalogue entry: what it is good for, how good, and the figures to build it offline."""

    __tablename__ = "models"

    name: Mapped[str] = key_column()
    library: Mapped[str] = mapped_column(Name, index=True)
    family: Mapped[str] = mapped_column(Name, index=True)
    tasks: Mapped[Any] = mapped_column(Json, nullable=False)
    params_m: Mapped[float | None] = mapped_column(index=True)
    input_kind: Mapped[str] = mapped_column(Name, index=True)
    input_sizes: Mapped[Any] = mapped_column(Json, nullable=False)
    default_input_size: Mapped[int | None]
    pretrained: Mapped[bool]
    licence: Mapped[str] = mapped_column(Name, index=True)
    licence_note: Mapped[str | None] = mapped_column(Prose)
    good_for: Mapped[str | None] = mapped_column(Prose)
    quality: Mapped[Any] = mapped_column(Json, nullable=False)
    quality_score: Mapped[float | None] = mapped_column(index=True)
    config: Mapped[Any] = mapped_column(Json, nullable=False)
    aliases: Mapped[Any] = mapped_column(Json, nullable=False)
    device: Mapped[str] = mapped_column(Name, index=True)


class ModelTask(Base):
    """`Model.tasks` again, one a row, so that models of a task are found by index."""

    __tablename__ = "model_tasks"

    model: Mapped[str] = mapped_column(ForeignKey("models.name", ondelete="CASCADE"), primary_key=True)
    task: Mapped[str] = mapped_column(Name, primary_key=True, index=True)


class Profile(Correctable):
    """What one sample of a model costs at one input size: `profile` whole, and the figures to list it by."""

    __tablename__ = "profiles"
    __table_args__ = (
        *Correctable.__table_args__,
        Index("ix_profiles_lookup", "model", "input_size", "precision"),
    )

    id: Mapped[str] = key_column()
    model: Mapped[str]
    library: Mapped[str] = mapped_column(Name, index=True)
    family: Mapped[str] = mapped_column(Name, index=True)
    input_kind: Mapped[str]
    input_size: Mapped[int] = mapped_column(index=True)
    precision: Mapped[str] = mapped_column(Name, index=True)
    checkpointing: Mapped[bool]
    fused_attention: Mapped[bool]
    channels_last: Mapped[bool]
    params_m: Mapped[float] = mapped_column(index=True)
    fixed_mib: Mapped[float] = mapped_column(index=True)
    per_sample_mib: Mapped[float] = mapped_column(index=True)
    forward_gflops_per_sample: Mapped[float] = mapped_column(index=True)
    torch_version: Mapped[str | None]
    profile: Mapped[Any] = mapped_column(Json, nullable=False)


class Gpu(Correctable):
    """A model of device as its data sheet describes it (see `domain.hardware.gpu_spec.Gpu`)."""

    __tablename__ = "gpus"

    slug: Mapped[str] = key_column()
    name: Mapped[str] = mapped_column(Name, index=True)
    kind: Mapped[str] = mapped_column(Name, index=True)
    architecture: Mapped[str] = mapped_column(Name, index=True)
    memory_gib: Mapped[float] = mapped_column(index=True)
    usable_gib: Mapped[float]
    bandwidth_gb_s: Mapped[float] = mapped_column(index=True)
    tflops: Mapped[Any] = mapped_column(Json, nullable=False)
    compute_capability: Mapped[float | None] = mapped_column(index=True)
    aliases: Mapped[Any] = mapped_column(Json, nullable=False)
    sm_count: Mapped[int | None]
    l2_cache_mib: Mapped[float | None]
    tdp_w: Mapped[float | None]
    year: Mapped[int | None] = mapped_column(index=True)
    extra: Mapped[Any] = mapped_column(Json, nullable=False)


class Claim(Correctable):
    """A number that somebody wrote, kept as written; `statement` is the sentence where there is one."""

    __tablename__ = "claims"

    id: Mapped[str] = key_column()
    gpu: Mapped[str | None] = mapped_column(Name, index=True)
    vram_gib: Mapped[float | None]
    task: Mapped[str | None] = mapped_column(Name, index=True)
    size: Mapped[str | None] = mapped_column(Name, index=True)
    model: Mapped[str | None] = mapped_column(Name, index=True)
    image_size: Mapped[int | None]
    batch_min: Mapped[int | None]
    batch_max: Mapped[int | None]
    folds: Mapped[int | None]
    epochs: Mapped[str | None]
    precision: Mapped[str | None]
    quantity: Mapped[str] = mapped_column(Name, index=True)
    value_min: Mapped[float | None] = mapped_column(index=True)
    value_max: Mapped[float | None] = mapped_column(index=True)
    unit: Mapped[str | None]
    statement: Mapped[str | None] = mapped_column(Prose)


class Strategy(Correctable):
    """A row of a strategy table: under `key` do `value`; `followed`: whether plans obey it."""

    __tablename__ = "strategies"

    id: Mapped[str] = key_column()
    rule: Mapped[str] = mapped_column(Name, index=True)
    table: Mapped[str] = mapped_column(Name, index=True)
    key: Mapped[Any] = mapped_column(Json, nullable=False)
    value: Mapped[Any] = mapped_column(Json, nullable=False)
    statement: Mapped[str] = mapped_column(Prose)
    followed: Mapped[bool] = mapped_column(index=True)
    why_not: Mapped[str | None] = mapped_column(Prose)


class History(Base):
    """Who did what to a row, when and why, and what it was before. Never changed, never deleted.

    Also the audit of what has no versions (`services.tables.audit`); `version` is 0 there.
    """

    __tablename__ = "history"
    __table_args__ = (
        Index("ix_history_row", "table", "row", "id"),
        *(Index(f"ix_history_{name}_id", name, "id") for name in ("table", "row", "action", "who")),
        CheckConstraint("action IN ('create', 'update', 'delete')", name="action"),
        CheckConstraint("origin IN ('seed', 'user')", name="origin"),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    table: Mapped[str] = mapped_column(Name, info=LISTED)
    row: Mapped[str] = mapped_column(Name, info=LISTED)
    version: Mapped[int]
    action: Mapped[str] = mapped_column(Name, info=LISTED)
    origin: Mapped[str]
    at: Mapped[dt.datetime] = mapped_column(index=True)
    who: Mapped[str] = mapped_column(Name, info=LISTED)
    why: Mapped[str] = mapped_column(Prose)
    before: Mapped[Any] = mapped_column(Json, nullable=True)
    after: Mapped[Any] = mapped_column(Json, nullable=True)


class Knowledge(Base):
    """One row: a counter that every write raises, and the digest of the seeds that were loaded last."""

    __tablename__ = "knowledge"
    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    revision: Mapped[int]
    seeds_digest: Mapped[str | None]
    updated_at: Mapped[dt.datetime]
