"""From tables to results: the last step of every metric, on the host."""
