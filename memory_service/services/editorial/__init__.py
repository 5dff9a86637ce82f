"""How rows enter and change: seed files, seeding, and edits by people and agents."""
