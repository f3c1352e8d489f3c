"""The names of overlaps; without torch, so that protocols are read without it."""

from __future__ import annotations

OVERLAP_NAMES = {"boxes", "masks"}
"""What ``overlap_of`` may say; :func:`torch_vocmetrics.matching.register_overlap` adds to it."""


def known_overlap(value: object) -> str | None:
    """What is wrong with the name of an overlap, or None."""
    if value in OVERLAP_NAMES:
        return None
    return f"must be one of {', '.join(sorted(OVERLAP_NAMES))}"
