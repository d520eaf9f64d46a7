"""Differences between silos in their means and covariances."""
