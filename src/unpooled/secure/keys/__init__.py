"""Who takes part, and the keys that each two of them agree on."""
