"""Rules on libraries: names and parameters that are gone, unknown or contradictory; traps of single ones."""
