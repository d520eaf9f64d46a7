"""Model selection: cross-validation and searches over parameters."""
