"""A run from its first event to what it taught: taking in, summaries, verdicts, evidence, retention."""
