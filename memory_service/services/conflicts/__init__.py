"""Where claims, estimates and measurements disagree."""
