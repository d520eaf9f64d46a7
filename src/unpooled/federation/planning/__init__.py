"""Plans: dry runs of a fit that show what would leave, and at what cost."""
