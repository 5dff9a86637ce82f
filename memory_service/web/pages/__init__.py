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
    find,
    knowledge,
    login,
    runs,
    sizing,
)

_PAGES = (
    login, ask, find, competitions, sizing, edit, runs, devices, accuracy, conflicts, knowledge, docs,
)  # fmt: skip


def routers() -> tuple[APIRouter, ...]:
    return (assets.router, *(page.router for page in _PAGES))
