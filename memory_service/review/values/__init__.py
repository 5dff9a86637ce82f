"""Constants of a script on demand, with the expression that each was written as."""
