"""Bridges to other libraries, each in a module that imports its library."""
