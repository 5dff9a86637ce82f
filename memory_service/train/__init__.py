"""The runtime of generated training scripts."""
