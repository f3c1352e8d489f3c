"""Class names: names near to one that nobody has."""

from __future__ import annotations

import difflib
from collections.abc import Collection

MOST_NAMES = 20
"""A sentence lists so many names at most."""


def near_names(name: str, known: Collection[str]) -> str:
    """Say which known names are near to a name, or which there are."""
    lowered: dict[str, str] = {}
    for one in known:
        lowered.setdefault(one.casefold(), one)
    near = difflib.get_close_matches(name.casefold(), lowered, n=3, cutoff=0.6)
    if near:
        return f"near names: {', '.join(lowered[one] for one in near)}"
    listed = ", ".join(list(known)[:MOST_NAMES])
    more = len(known) - MOST_NAMES
    return f"there are {listed or 'none'}" + (f" and {more} more" if more > 0 else "")
