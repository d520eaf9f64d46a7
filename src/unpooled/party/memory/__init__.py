"""The memory of a silo between requests: its audit log and kept arrays."""
