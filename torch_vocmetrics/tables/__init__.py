"""The flat tables that metrics keep: match records, scores, pixel counts."""
