"""Factor analysis by maximum likelihood."""
