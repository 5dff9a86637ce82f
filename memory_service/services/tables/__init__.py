"""Rows of knowledge: list, page, read, validate, correct, with history."""
