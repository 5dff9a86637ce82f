"""Reads free text: which task, which facts in figures, which metric; cue phrases and rules, no model."""
