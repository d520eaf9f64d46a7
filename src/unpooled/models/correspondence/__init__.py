"""Components of categories: multiple correspondence analysis, and of mixed data."""
