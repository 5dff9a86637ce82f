"""Parses training logs: lines of text become events."""
