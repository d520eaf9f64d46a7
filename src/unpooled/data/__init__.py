"""A silo's data: tables that are read in blocks of rows, from memory or from files."""
