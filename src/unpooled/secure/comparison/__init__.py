"""Comparisons under secure multiparty computation."""
