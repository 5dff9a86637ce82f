"""The rules of a review: each group of functions takes the facts of a script and yields findings. Rows,
columns and codes are in `data`, traps of single libraries in `libraries`, the training itself here.
"""
