"""The plan of /recommend and its training script."""
