"""Matching ids without showing those that do not match."""
