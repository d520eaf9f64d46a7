"""Displays of fitted models in scikit-learn's manner, drawn as a report draws them."""
