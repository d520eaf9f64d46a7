"""Linear algebra and statistics of the solvers: pure functions of arrays.

Nothing here reads a table or sends a message. The solvers of the models call these
functions on totals at the coordinator, and the steps call them on the rows of a silo.
"""
