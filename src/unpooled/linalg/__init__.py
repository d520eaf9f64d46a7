"""Pure functions of arrays: what the solvers are made of. No data, no network."""
