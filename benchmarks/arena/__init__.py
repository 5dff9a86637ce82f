"""Arena: the submission of a plan's script beside those of simple systems, on real data."""
