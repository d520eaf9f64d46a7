"""Where a silo's table comes from: memory, files, databases, clusters."""
