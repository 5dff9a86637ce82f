"""Registered hardware, and what its calibrations measured."""
