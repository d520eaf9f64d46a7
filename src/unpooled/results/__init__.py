"""What a fitted model found, whatever the model: values, for people and for files."""
