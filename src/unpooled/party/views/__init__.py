"""A silo's rows as a study selects and transforms them."""
