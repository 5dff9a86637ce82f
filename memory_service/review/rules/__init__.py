"""The rules of a review: each group of functions takes the facts of a script and yields findings."""
