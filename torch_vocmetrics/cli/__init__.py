"""The command ``vocmetrics``."""

from .command import main

__all__ = ["main"]
