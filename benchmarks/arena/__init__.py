"""The arena: what a plan's script submits on real data, beside simple systems, after the same minutes on one core."""
