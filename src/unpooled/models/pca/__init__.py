"""Principal component analysis, its solvers and what it takes for columns."""
