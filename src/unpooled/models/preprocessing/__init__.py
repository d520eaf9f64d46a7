"""Imputation, scaling and Yeo-Johnson transforms."""
