"""Canonical correlation analysis and partial least squares."""
