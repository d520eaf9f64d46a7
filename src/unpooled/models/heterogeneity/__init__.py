"""How much silos differ in their means and covariances."""
