"""The version, where state files and headers of ranks find it too."""

__version__ = "0.1.0"
