"""Rules on libraries: parameters and names that are gone, unknown or contradictory, and traps of timm,
albumentations and boosted trees.
"""
