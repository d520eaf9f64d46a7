"""Fits that run nothing: what would leave, and at what cost."""
