"""One file of queries per aggregate."""
