"""Correlations of columns over all silos."""
