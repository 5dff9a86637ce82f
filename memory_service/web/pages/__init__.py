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
    solutions,
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
    solutions,
    docs,
)


def routers() -> tuple[APIRouter, ...]:
    return (assets.router, *(page.router for page in _PAGES))
