"""Everything a plan may rest on, as one snapshot: cards, costs, corrections, evidence, outcomes."""
