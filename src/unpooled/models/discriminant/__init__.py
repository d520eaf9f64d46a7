"""Linear discriminant analysis, exact, wide and in one shot."""
