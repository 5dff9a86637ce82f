"""The abstract interpretation of a script: each expression gives an abstract value. Nothing is executed."""
