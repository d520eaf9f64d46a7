"""Model files, the estimators they may name, and applying them in a silo."""
