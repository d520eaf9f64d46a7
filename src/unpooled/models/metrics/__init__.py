"""Metrics of predictions on rows that stay in their silos: counts and sums."""
