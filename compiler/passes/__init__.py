"""Graph-to-graph passes, one file each."""
