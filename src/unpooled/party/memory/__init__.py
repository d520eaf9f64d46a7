"""What a silo keeps between requests: its audit log and arrays."""
