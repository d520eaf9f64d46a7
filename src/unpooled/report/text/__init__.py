"""Sentences of the report, made from the ledger and the steps' declarations."""
