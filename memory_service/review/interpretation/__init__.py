"""The abstract interpretation of a script: its statements walked once in the order of a run.

Each expression gives an abstract value: constant, class, rows, columns, its origin. Nothing is executed.
"""
