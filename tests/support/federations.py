"""Rows or columns of a test, divided among silos."""

from unpooled import Policy, partition_rows, simulate


def open_silos(rows, m=3, **options):
    return simulate(partition_rows(rows, m), policy=Policy.open(), **options)


def federation_of(parts, **options):
    return simulate(parts, partition="columns", aligned=True, **options)
