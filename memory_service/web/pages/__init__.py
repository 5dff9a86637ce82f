"""Which pages are there? One router a file; the first that matches a path answers it."""

from __future__ import annotations

from fastapi import APIRouter

from memory_service.web import assets
from memory_service.web.pages import accuracy, ask, conflicts, devices, docs, models, patterns, sizing

__all__ = ["routers"]


def routers() -> tuple[APIRouter, ...]:
    """The routers of all pages."""
    return (
        assets.router, docs.router, ask.router, devices.router, models.router, patterns.router, sizing.router,
        accuracy.router, conflicts.router,
    )  # fmt: skip
