"""Multi-view feature selection with shared pseudo-labels."""
