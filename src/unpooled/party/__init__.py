"""The role that runs in a silo: the only code that sees rows."""
