"""Storage: engine, tables, dialects and one file of queries per aggregate."""
