"""Principal component analysis and its solvers, on rows and on columns."""
