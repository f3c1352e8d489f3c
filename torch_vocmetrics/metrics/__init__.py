"""Stateful metrics: the shells around packing, matching and averaging."""
