"""Federations between organisations, over NVIDIA FLARE."""
