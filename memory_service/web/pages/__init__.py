"""Which pages are there? One router a file; the first that matches a path answers it."""

from __future__ import annotations

from fastapi import APIRouter

from memory_service.web import assets
from memory_service.web.pages import (
    accuracy,
    ask,
    competitions,
    conflicts,
    devices,
    docs,
    edit,
    login,
    models,
    patterns,
    runs,
    sizing,
    strategies,
)

__all__ = ["routers"]

_PAGES = (
    login,
    ask,
    competitions,
    sizing,
    strategies,
    edit,
    runs,
    devices,
    accuracy,
    conflicts,
    models,
    patterns,
    docs,
)


def routers() -> tuple[APIRouter, ...]:
    return (assets.router, *(page.router for page in _PAGES))
