"""What a silo has: tables read in blocks of rows, from memory or from files."""
