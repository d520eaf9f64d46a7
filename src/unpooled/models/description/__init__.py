"""Descriptions of columns: quantiles, and the first table of a paper."""
