"""Lists of JSON objects, read column by column; every fault names its element."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import FileFormatError
from ..limits import MAX_IMAGE_ID, MAX_IMAGE_SIDE, MAX_JSON_BYTES, MAX_POLYGON_COORDINATE
from .files import read_bytes
from .tables import Floats, Integers


class Kind(NamedTuple):
    """Types that a value may have (``bool`` is no ``int`` here), and what to call them."""

    types: tuple[type, ...]
    words: str


INTEGER = Kind((int,), "an integer")
IDENTIFIER = Kind((int, str), "an integer or a string")
STRING = Kind((str,), "a string")
NUMBER = Kind((int, float), "a number")
FLAG = Kind((int, bool), "0 or 1")
LIST = Kind((list,), "a list")
SEGMENTATION = Kind((list, dict), "polygons or run lengths")

_REQUIRED = object()


def load_json(path: Path, *, max_bytes: int = MAX_JSON_BYTES) -> object:
    """Parse a JSON file.

    Raises:
        FileFormatError: if the file is too large or is not JSON.
        OSError: if there is no such file or it may not be read.
    """
    data = read_bytes(path, max_bytes=max_bytes)
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        where, got = f"{path}, line {error.lineno}, column {error.colno}", error.msg
    except RecursionError:
        where, got = str(path), "lists nested too deep"
    except ValueError as error:  # not text at all, or a number of thousands of digits
        where, got = str(path), str(error)
    raise FileFormatError(
        "not a JSON file", where=where, got=got, remedy="check that the file is complete"
    )


class Rows:
    """A list of JSON objects and where it stands, for sentences that name the element.

    Args:
        path: the file.
        name: the key of the list in the file, empty if the list is the whole file.
        rows: the list.
        remedy: what to do about a fault.

    Raises:
        FileFormatError: if an element is no object; every method raises it for its own faults.
    """

    def __init__(self, path: Path, name: str, rows: list[Any], remedy: str) -> None:
        self.path, self.name, self.rows, self.remedy = path, name, rows, remedy
        self._require(rows, lambda row: isinstance(row, dict), "not a JSON object")

    def where(self, place: int | None = None) -> str:
        """Say where the list, or the element at ``place``, stands."""
        element = "" if place is None else f"[{place}]"
        return f"{self.path}, {self.name}{element}" if self.name or element else str(self.path)

    def column(self, key: str, kind: Kind, *, default: object = _REQUIRED) -> list[Any]:
        """Values of a key that every element has, unless there is a default."""
        if default is _REQUIRED:
            self._require(
                self.rows, lambda row: key in row, f"no {key!r} in the element", show=None
            )
        values = [row.get(key, default) for row in self.rows]
        if not set(map(type, values)) <= set(kind.types):
            self._require(values, lambda v: type(v) in kind.types, f"{key} must be {kind.words}")
        return values

    def ids(self, key: str, kind: Kind) -> list[Any]:
        """Values that name the elements: all of one type, no two equal."""
        values = self.column(key, kind)
        first = type(values[0]) if values else int
        self._require(values, lambda value: type(value) is first, f"{key} must be of one type")
        if first is int:
            self._require(values, lambda value: abs(value) <= MAX_IMAGE_ID, f"{key} is too large")
        times = Counter(values)
        self._require(values, lambda value: times[value] == 1, f"{key} is given twice")
        return values

    def lookup(self, key: str, known: Mapping[Any, int], expected: str) -> Integers:
        """What ``known`` has for each value of a key: [N] int64."""
        values = self.column(key, IDENTIFIER)
        self._require(values, known.__contains__, f"{key} is not {expected}")
        return np.array([known[value] for value in values], np.int64)

    def numbers(self, key: str) -> Floats:
        """Finite numbers: [N] float64."""
        values = self.column(key, NUMBER)
        return self._finite(key, values, values)

    def scores(self, key: str) -> Floats:
        """Numbers, which may be infinite: [N] float64."""
        values = self.column(key, NUMBER)
        scores = _as_floats(values)
        if not np.isfinite(scores).all():
            self._require(values, _is_score, f"{key} must be a number")
        return scores

    def flags(self, key: str) -> NDArray[np.bool_]:
        """Flags 0 or 1, 0 where the key is missing: [N] bool."""
        values = self.column(key, FLAG, default=0)
        self._require(values, lambda value: value in (0, 1), f"{key} must be {FLAG.words}")
        return np.array(values, np.bool_)

    def boxes(self, key: str) -> Floats:
        """Boxes x, y, width, height without a negative size: [N, 4] float64."""
        values = self.column(key, LIST)
        four = f"{key} must hold 4 numbers"
        self._require(values, lambda box: len(box) == 4, four)
        flat = list(chain.from_iterable(values))
        if not set(map(type, flat)) <= set(NUMBER.types):
            self._require(values, lambda box: {*map(type, box)} <= set(NUMBER.types), four)
        boxes = self._finite(key, flat, values).reshape(-1, 4)
        complaint = f"{key} must not have a negative width or height"
        self._require(values, lambda box: box[2] >= 0 and box[3] >= 0, complaint)
        return boxes

    def integers(self, key: str, *, default: object = _REQUIRED) -> Integers:
        """Integers that int64 can hold: [N] int64."""
        values = self.column(key, INTEGER, default=default)
        self._require(values, lambda value: abs(value) <= MAX_IMAGE_ID, f"{key} is too large")
        return np.array(values, np.int64)

    def segmentations(self) -> list[Any]:
        """Run lengths or polygons: lists of numbers, and of run lengths ``size`` and ``counts``."""
        values = self.column("segmentation", SEGMENTATION)
        self._require(
            values,
            lambda one: _is_polygons(one) if isinstance(one, list) else _is_run_lengths(one),
            "segmentation must be polygons x, y, x, y, ..., or run lengths with the height and "
            "width as size and text or a list of integers as counts",
        )
        return values

    def areas(self, key: str, boxes: Floats) -> Floats:
        """Areas as given, width * height of the box where the key is missing: [N] float64."""
        values = self.column(key, NUMBER, default=0.0)
        areas = self._finite(key, values, values)
        self._require(values, lambda value: value >= 0, f"{key} must not be negative")
        given = np.array([key in row for row in self.rows], np.bool_)
        return np.where(given, areas, boxes[:, 2] * boxes[:, 3])

    def _finite(self, key: str, numbers: list[Any], values: list[Any]) -> Floats:
        """Convert numbers to float64; ``values`` are the elements' own, to find the fault in."""
        array = _as_floats(numbers)
        if not np.isfinite(array).all():
            self._require(values, _is_finite, f"{key} must be finite")
        return array

    def _require(
        self,
        values: list[Any],
        holds: Callable[[Any], object],
        complaint: str,
        *,
        show: int | None = 60,
    ) -> None:
        """Raise for the first element that does not hold, showing so many letters of its value."""
        if all(map(holds, values)):
            return
        place = next(place for place, value in enumerate(values) if not holds(value))
        got = None if show is None else json.dumps(values[place])[:show]
        raise FileFormatError(complaint, where=self.where(place), got=got, remedy=self.remedy)


def _is_polygons(polygons: list[Any]) -> bool:
    """Whether these are lists of finite numbers that may be coordinates."""
    for polygon in polygons:
        if type(polygon) is not list or not set(map(type, polygon)) <= {int, float}:
            return False
        if max(map(abs, polygon), default=0) > MAX_POLYGON_COORDINATE:
            return False
        if any(map(math.isnan, polygon)):
            return False
    return True


def _is_run_lengths(one: dict[str, Any]) -> bool:
    """Whether these are run lengths of an image of a sensible size."""
    size, counts = one.get("size"), one.get("counts")
    if not (isinstance(size, list) and len(size) == 2 and set(map(type, size)) == {int}):
        return False
    if not all(0 <= side <= MAX_IMAGE_SIDE for side in size):
        return False
    if isinstance(counts, str):
        return counts.isascii()
    if not isinstance(counts, list) or not set(map(type, counts)) <= {int}:
        return False
    return all(0 <= run <= size[0] * size[1] for run in counts)


def _is_finite(numbers: object) -> bool:
    return bool(np.isfinite(_as_floats(numbers)).all())


def _is_score(number: object) -> bool:
    """Whether a number is finite or a float's infinity; an integer may be too large for either."""
    return _is_finite(number) or (isinstance(number, float) and math.isinf(number))


def _as_floats(numbers: object) -> Floats:
    """Numbers as float64; an integer too large for that is infinite."""
    try:
        return np.array(numbers, np.float64)
    except OverflowError:
        return np.array(np.inf)
