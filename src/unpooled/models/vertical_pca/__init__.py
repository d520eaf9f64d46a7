"""VFedPCA and VFedAKPCA: principal components of columns by merging."""
