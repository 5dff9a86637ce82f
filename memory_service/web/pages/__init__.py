"""Routers of all pages, in the order in which they match."""

from fastapi import APIRouter

from memory_service.web import assets
from memory_service.web.pages import ask, browse, devices, docs, edit, login, operate, runs

_PAGES = (login, ask, edit, runs, devices, operate, browse, docs)


def routers() -> tuple[APIRouter, ...]:
    return (assets.router, *(page.router for page in _PAGES))
