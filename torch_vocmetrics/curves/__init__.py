"""From records to results: ranking, counts, curves, averages, and the result of each protocol."""
