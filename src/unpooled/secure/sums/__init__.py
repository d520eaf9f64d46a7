"""Sums of which only the total is opened."""
