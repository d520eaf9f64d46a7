"""Generalised eigenproblems of declared matrices."""
