"""Builders of ECharts options from a page's data; no HTML, no colours."""
