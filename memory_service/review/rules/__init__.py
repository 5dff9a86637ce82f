"""The rules of a review: each module reads the facts of one script and yields findings."""
