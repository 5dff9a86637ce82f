"""How does a run go, and what should be changed now? Events summed up, projected, and judged."""
