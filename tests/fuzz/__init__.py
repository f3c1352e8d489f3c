"""Searches for faults with random inputs: ``make fuzz`` runs every campaign for some minutes.

A module of this package that defines ``CAMPAIGN`` is a campaign. ``make fuzz N=30`` takes half an
hour; ``python -m fuzz interruption --first 1234 --cases 1`` (in ``tests``) repeats one case.
"""
