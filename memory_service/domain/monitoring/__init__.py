"""Watches a running training: events are summed up, the end is projected, and one verdict follows."""
