"""Estimators, a folder for each family: the protocol, the silos' steps, the solver."""
