"""Finding images by their id, or by the name of their file where nobody has that id.

Many tools write the name of the file, or its stem, where COCO has an id. A name is understood where
it stands for one image only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from ..errors import warn

IMAGE_SUFFIXES = frozenset(
    (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
)

MAX_DIGITS = 20
"""Longer numbers are no ids."""

_SEVERAL = -1


class ImageIndex:
    """The index of each image by its id, and by names of its file that no other image has.

    An exact id comes first. Then a name is compared whole, without its suffix, and, where one side
    has no folder, without the folder: ``batch_1/6.jpg`` is never ``batch_2/6.jpg``. Digits in a
    string stand for an integer id as well.

    Args:
        image_ids: of I images, in order.
        file_names: of the same images, empty where a file is not known; () knows none.
    """

    def __init__(self, image_ids: Sequence[int | str], file_names: Sequence[str] = ()) -> None:
        self._by_id: dict[Any, int] = {one: index for index, one in enumerate(image_ids)}
        self._file_names = file_names
        self._whole: dict[str, int] = {}
        self._without_folder: dict[str, int] = {}
        self._in_no_folder: dict[str, int] = {}

    def find(self, values: Sequence[Any]) -> list[int | None]:
        """The index of the image that each value names, None where it names none or several.

        Integers are numbers in the names of files, as in ``000139.jpg``, only if all of them are
        and not all of them are ids.

        Warns:
            VocMetricsWarning: if integers are read so.
        """
        found = [self._by_id.get(value) for value in values]
        if None not in found:
            return found
        if not self._whole:
            self._add_names()
        numbers = self._numbers_in_names(values, found)
        return [
            numbers.get(value)
            if numbers and isinstance(value, int)
            else self._by_name(value)
            if index is None and isinstance(value, str)
            else index
            for value, index in zip(values, found, strict=True)
        ]

    def _numbers_in_names(
        self, values: Sequence[Any], found: Sequence[int | None]
    ) -> dict[int, int]:
        pairs = zip(values, found, strict=True)
        if not any(index is None and isinstance(value, int) for value, index in pairs):
            return {}
        numbers: dict[Any, int] = {}
        for index, name in self._names():
            stem = PurePosixPath((_variants(name) or ("",))[-1]).name
            if _is_number(stem):
                _enter(numbers, int(stem), index)
        if not all(numbers.get(value, _SEVERAL) != _SEVERAL for value in values):
            return {}
        warn(
            "the image ids that are integers are no ids of the images but numbers in the names of "
            "their files, and are read so"
        )
        return numbers

    def _names(self) -> Iterator[tuple[int, str]]:
        """Index and name of each image, by its id if that is text and by its file."""
        yield from ((index, one) for one, index in self._by_id.items() if isinstance(one, str))
        yield from enumerate(self._file_names)

    def _add_names(self) -> None:
        for index, name in self._names():
            for variant in _variants(name):
                base = PurePosixPath(variant).name
                _enter(self._whole, variant, index)
                _enter(self._without_folder, base, index)
                if base == variant:
                    _enter(self._in_no_folder, base, index)

    def _by_name(self, name: str) -> int | None:
        candidates = {self._by_id.get(int(name))} if _is_number(name) else set()
        variants = _variants(name)
        tables = [(self._whole, variant) for variant in variants]
        for variant in variants:
            base = PurePosixPath(variant).name
            tables.append((self._without_folder if base == variant else self._in_no_folder, base))
        candidates.add(next((table[key] for table, key in tables if key in table), None))
        candidates.discard(None)
        index = candidates.pop() if len(candidates) == 1 else None
        return None if index == _SEVERAL else index


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS


def _variants(name: str) -> tuple[str, ...]:
    """The name with forward slashes, and the same without the suffix of an image."""
    plain = name.replace("\\", "/").removeprefix("./")
    suffix = PurePosixPath(plain).suffix
    if suffix.lower() in IMAGE_SUFFIXES:
        return plain, plain.removesuffix(suffix)
    return (plain,) if plain else ()


def _enter(table: dict[Any, int], name: Any, index: int) -> None:
    if table.setdefault(name, index) != index:
        table[name] = _SEVERAL
