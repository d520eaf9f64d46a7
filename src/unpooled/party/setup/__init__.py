"""A silo's own file, and how a silo is set up."""
