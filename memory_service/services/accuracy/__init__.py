"""How close predictions were to what was measured."""
