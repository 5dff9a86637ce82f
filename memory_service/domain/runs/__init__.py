"""Evaluates finished runs: outcome, wasted minutes, observations, effect of the advice followed."""
