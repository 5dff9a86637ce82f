"""Similarity search over past competitions: encoder, passages, exact index, full text, structure, fusion."""
