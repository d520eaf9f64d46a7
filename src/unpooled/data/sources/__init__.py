"""Sources of a silo's table: memory, files, databases, clusters."""
