"""Estimators: one file each, the protocol, the party's steps and the solver together."""
