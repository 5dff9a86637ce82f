"""Routers of all pages, in the order in which they match."""

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
