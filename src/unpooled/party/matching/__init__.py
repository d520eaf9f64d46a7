"""A silo's end of matching people by their ids."""
