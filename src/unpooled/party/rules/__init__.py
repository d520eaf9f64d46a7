"""What a silo refuses, and what it remembers in order to refuse."""
