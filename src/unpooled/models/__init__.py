"""Estimators: one file each, with the protocol, the party's steps and the solver."""
