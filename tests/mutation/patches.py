"""The committed list of patches, and what applying one means."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parent.parent
PACKAGE = "torch_vocmetrics"


class Patch(NamedTuple):
    """A mistake in one file.

    Attributes:
        file: the file, as a path in the package.
        old, new: what is replaced, and by what.
        tests: tests that should notice, as paths in ``tests`` and maybe a name behind ``::``.
        equivalent: why no test can notice; empty if one must.
    """

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""

    def applied(self, source: str) -> str:
        """The source with the mistake in it.

        Raises:
            ValueError: unless the old text stands in it exactly once.
        """
        if source.count(self.old) != 1:
            raise ValueError(
                f"{self.file}: {self.old!r} stands there {source.count(self.old)} times"
            )
        return source.replace(self.old, self.new)

    def __str__(self) -> str:
        return f"{self.file}: {self.old!r} -> {self.new!r}"


def load_patches() -> list[Patch]:
    """All patches of ``patches.toml``."""
    content = tomllib.loads(Path(__file__).with_name("patches.toml").read_text(encoding="utf-8"))
    return [
        Patch(group["file"], row[0], row[1], tuple(group["tests"]), *row[2:])
        for group in content["group"]
        for row in group["patches"]
    ]
