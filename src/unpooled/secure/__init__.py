"""Secure sums: both ends of each scheme in one file."""
