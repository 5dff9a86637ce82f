"""How do rows enter and change? Seed files, seeding, and edits by people and agents."""
