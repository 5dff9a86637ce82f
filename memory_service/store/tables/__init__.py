"""Every table, typed."""
