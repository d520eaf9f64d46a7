"""Regression: linear, ridge, logistic and generalised linear models."""
