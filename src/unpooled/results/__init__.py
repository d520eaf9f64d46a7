"""Results of a fitted model of any class: values, for people and for files."""
