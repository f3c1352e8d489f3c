"""Lists of JSON objects, read column by column; every fault names its element."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import FileFormatError
from ..limits import MAX_IMAGE_ID, MAX_JSON_BYTES
from .entry_log import EntryLog
from .files import read_bytes
from .plain_rows import PlainRows
from .tables import Floats, Integers


class Kind(NamedTuple):
    """Types that a value may have (``bool`` is no ``int`` here), and what to call them."""

    types: tuple[type, ...]
    words: str


# Some tools write whole numbers as floats: 1.0 is the id 1.
INTEGER = Kind((int, float), "an integer")
IDENTIFIER = Kind((int, float, str), "an integer or a string")
STRING = Kind((str,), "a string")
NUMBER = Kind((int, float), "a number")
FLAG = Kind((int, bool, float), "0 or 1")
LIST = Kind((list,), "a list")

REQUIRED = object()
"""The default of a key that every element must have."""

_EXTREMES = (math.inf, -math.inf)
_NO_BOX = [0.0, 0.0, 0.0, 0.0]


def load_json(path: Path, *, max_bytes: int = MAX_JSON_BYTES) -> object:
    """Read and parse a JSON file.

    Raises:
        FileFormatError: if the file is too large or is not JSON.
        OSError: if there is no such file or it may not be read.
    """
    return parse_json(path, read_bytes(path, max_bytes=max_bytes))


def parse_json(path: Path, data: bytes) -> object:
    """Parse the text of a JSON file.

    Raises:
        FileFormatError: if it is not JSON.
    """
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


class Fault(NamedTuple):
    """What is wrong with an element, and the value that shows it (if any)."""

    complaint: str
    value: object = REQUIRED


class Rows:
    """A list of JSON objects and where it stands, for sentences that name the element.

    Methods read one key of all elements. An element at fault gets a harmless value there, and its
    first fault is kept: :meth:`require_sound` raises it, :meth:`report` counts it.

    Args:
        path: the file.
        name: the key of the list in the file, empty if the list is the whole file.
        rows: the list.
        remedy: what to do about a fault.
    """

    def __init__(self, path: Path, name: str, rows: list[Any], remedy: str) -> None:
        self.path, self.name, self.remedy = path, name, remedy
        self.faults: dict[int, Fault] = {}
        self.outside: dict[int, Fault] = {}
        self._unidentified: set[int] = set()
        self.rows: list[dict[str, Any]] = self._screen(
            rows, lambda row: isinstance(row, dict), "not a JSON object", {}
        )

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, index: int | None = None) -> str:
        """Say where the list, or the element at ``index``, stands."""
        element = "" if index is None else f"[{index}]"
        return f"{self.path}, {self.name}{element}" if self.name or element else str(self.path)

    def has(self, key: str) -> NDArray[np.bool_]:
        """[N] whether each element has a key."""
        return np.array([key in row for row in self.rows], np.bool_)

    def given_ids(self) -> list[Any]:
        """What each element has under ``id``, None where it has nothing."""
        return [row.get("id") for row in self.rows]

    def first_with(self, key: str) -> int | None:
        """The index of the first element that has a key and something under it."""
        return next((index for index, row in enumerate(self.rows) if row.get(key)), None)

    def objects(self, key: str) -> list[Any]:
        """What each element has under a key, None where it has nothing."""
        return [row.get(key) for row in self.rows]

    def put_shapeless_outside(self) -> None:
        """An annotation without any shape has no box: tools write the extremes of no points."""
        for index, row in enumerate(self.rows):
            if row.get("segmentation") == []:
                box = row.get("bbox")
                if box == [] or (isinstance(box, list) and any(v in _EXTREMES for v in box)):
                    self.put_outside(index, "the annotation has no shape", box)

    def add_fault(self, index: int, complaint: str, value: object = REQUIRED) -> None:
        """Keep a fault of an element, unless it has one already."""
        self.faults.setdefault(index, Fault(complaint, value))

    def put_outside(self, index: int, complaint: str, value: object = REQUIRED) -> None:
        """Say why an element is outside the evaluation; its faults do not matter then."""
        self.outside.setdefault(index, Fault(complaint, value))

    def require_sound(self) -> None:
        """Raise FileFormatError for the first element at fault, if there is any."""
        if self.faults:
            index = min(self.faults)
            raise self._error(index, self.faults[index])

    def report(self, selected: NDArray[np.bool_], log: EntryLog) -> NDArray[np.bool_]:
        """Log the elements that are left out, and say which are kept.

        Args:
            selected: [N] the elements that belong to the evaluation.
            log: counts those outside it and those at fault.

        Returns:
            [N] the elements that are selected, not outside the evaluation and not at fault.
        """
        faulty = {i for i in self.faults if selected[i] or i in self._unidentified}
        faulty -= self.outside.keys()
        ignored = sorted({*self.outside, *self.faults} - faulty)
        kept = selected.copy()
        kept[[*self.faults, *self.outside]] = False
        if ignored:
            first = ignored[0]
            reason = self.outside.get(first) or self.faults[first]
            log.ignore(self._error(first, reason), len(ignored))
        log.add_faults(len(faulty), (self._error(i, self.faults[i]) for i in sorted(faulty)))
        return kept

    def column(
        self, key: str, kind: Kind, *, default: object = REQUIRED, substitute: Any = 0
    ) -> list[Any]:
        """Values of a key that every element has, unless there is a default."""
        values = [row.get(key, default) for row in self.rows]
        if default is REQUIRED:
            values = self._present(key, values, substitute)
        if not set(map(type, values)) <= set(kind.types):
            values = self._screen(
                values, lambda v: type(v) in kind.types, f"{key} must be {kind.words}", substitute
            )
        if kind in (INTEGER, IDENTIFIER) and float in set(map(type, values)):
            complaint = f"{key} must be {kind.words}"
            values = self._screen(values, _is_whole, complaint, substitute)
            values = [int(value) if type(value) is float else value for value in values]
        if kind is INTEGER:
            complaint = f"{key} is too large"
            values = self._screen(values, lambda v: abs(v) <= MAX_IMAGE_ID, complaint, substitute)
        return values

    def _present(self, key: str, values: list[Any], substitute: Any) -> list[Any]:
        if not any(value is REQUIRED for value in values):
            return values
        for index, value in enumerate(values):
            if value is REQUIRED:
                self.add_fault(index, f"no {key!r} in the element")
        return [substitute if value is REQUIRED else value for value in values]

    def ids(self, key: str, kind: Kind) -> list[Any]:
        """Values that name the elements: all of one type, no two equal.

        Raises:
            FileFormatError: naming the first element of which this is not true.
        """
        values = self.column(key, kind)
        self.require_sound()
        first = type(values[0]) if values else int
        self._screen(values, lambda value: type(value) is first, f"{key} must be of one type", 0)
        self.require_sound()
        if first is int:
            self._screen(values, lambda value: abs(value) <= MAX_IMAGE_ID, f"{key} is too large", 0)
        times = Counter(values)
        self._screen(values, lambda value: times[value] == 1, f"{key} is given twice", 0)
        self.require_sound()
        return values

    def lookup(
        self,
        key: str,
        find: Callable[[list[Any]], Sequence[int | None]],
        expected: str,
        *,
        kind: Kind = IDENTIFIER,
        default: object = REQUIRED,
        outside: bool = False,
    ) -> Integers:
        """The index or label that each value of a key stands for: [N] int64, 0 for an unknown one.

        Args:
            key: of the values.
            find: gives index or label for each value, None for an unknown value.
            expected: what the value is not where it is unknown.
            kind: of the values.
            default: the value where the key is missing.
            outside: an element of an unknown value is outside the evaluation, not at fault.
        """
        values = self.column(key, kind, default=default)
        # Without it nobody can say whether the element belongs to the evaluation.
        self._unidentified |= self.faults.keys()
        found = find(values)
        if None in found:
            keep = self.put_outside if outside else self.add_fault
            for index, entry in enumerate(found):
                if entry is None and index not in self.faults:
                    keep(index, f"{key} is not {expected}", values[index])
        return np.array([0 if entry is None else entry for entry in found], np.int64)

    def numbers(self, key: str) -> Floats:
        """Finite numbers: [N] float64."""
        return self._finite(key, self.column(key, NUMBER))

    def scores(self, key: str) -> Floats:
        """Numbers, which may be infinite: [N] float64."""
        values = self.column(key, NUMBER)
        scores = _as_floats(values)
        if not np.isfinite(scores).all():
            scores = _as_floats(self._screen(values, _is_score, f"{key} must be a number", 0.0))
        return scores

    def integers(self, key: str) -> Integers:
        """Integers that int64 can hold: [N] int64."""
        return np.array(self.column(key, INTEGER), np.int64)

    def flags(self, key: str) -> NDArray[np.bool_]:
        """Flags 0 or 1, 0 where the key is missing: [N] bool."""
        values = self.column(key, FLAG, default=0)
        complaint = f"{key} must be {FLAG.words}"
        values = self._screen(values, lambda value: value in (0, 1), complaint, 0)
        return np.array(values, np.bool_)

    def boxes(self, key: str, *, optional: bool = False) -> Floats:
        """Boxes x, y, width, height without a negative size: [N, 4] float64.

        Args:
            key: of the boxes.
            optional: an element without the key has an empty box at the origin.
        """
        default = _NO_BOX if optional else REQUIRED
        values = self.column(key, LIST, default=default, substitute=_NO_BOX)
        four = f"{key} must hold 4 numbers"
        values = self._screen(values, lambda box: len(box) == 4, four, _NO_BOX)
        if not set(map(type, chain.from_iterable(values))) <= set(NUMBER.types):
            types = set(NUMBER.types)
            values = self._screen(values, lambda box: {*map(type, box)} <= types, four, _NO_BOX)
        boxes = _as_floats(list(chain.from_iterable(values)))
        if not np.isfinite(boxes).all():
            values = self._screen(values, _is_finite, f"{key} must be finite", _NO_BOX)
            boxes = _as_floats(list(chain.from_iterable(values)))
        boxes = boxes.reshape(-1, 4)
        if (boxes[:, 2:] < 0).any():
            complaint = f"{key} must not have a negative width or height"
            self._screen(values, lambda box: box[2] >= 0 and box[3] >= 0, complaint, _NO_BOX)
        return boxes

    def areas(self, key: str, own_areas: Floats) -> Floats:
        """Areas as given, ``own_areas`` [N] where the key is missing: [N] float64."""
        areas = self._finite(key, self.column(key, NUMBER, default=0.0))
        self._screen(areas.tolist(), lambda v: v >= 0, f"{key} must not be negative", 0)
        return np.where(self.has(key), areas, own_areas)

    def _finite(self, key: str, values: list[Any]) -> Floats:
        array = _as_floats(values)
        if np.isfinite(array).all():
            return array
        return _as_floats(self._screen(values, _is_finite, f"{key} must be finite", 0.0))

    def _screen(
        self,
        values: list[Any],
        holds: Callable[[Any], object],
        complaint: str,
        substitute: Any,
    ) -> list[Any]:
        """Keep a fault for each element whose value does not hold, and replace that value."""
        if all(map(holds, values)):
            return values
        screened = list(values)
        for index, value in enumerate(values):
            if not holds(value):
                self.add_fault(index, complaint, value)
                screened[index] = substitute
        return screened

    def _error(self, index: int, fault: Fault) -> FileFormatError:
        got = None if fault.value is REQUIRED else json.dumps(fault.value)[:60]
        return FileFormatError(
            fault.complaint, where=self.where(index), got=got, remedy=self.remedy
        )


def read_list(path: Path, content: object, name: str, form: str) -> Rows:
    """The list of objects that a JSON object has under a name.

    Raises:
        FileFormatError: if it has no list there.
    """
    rows = content.get(name) if isinstance(content, dict) else None
    if not isinstance(rows, list):
        raise FileFormatError(
            f"{name!r} must be a list",
            where=str(path),
            got=f"a JSON {type(rows).__name__}",
            remedy=form,
        )
    return Rows(path, name, rows, form)


def difficult_flags(annotations: Rows | PlainRows) -> NDArray[np.bool_]:
    """[N] whether each is difficult: the key of that name, else ``ignore``, else ``iscrowd``."""
    flags = {key: annotations.flags(key) for key in ("iscrowd", "ignore", "difficult")}
    difficult = flags["iscrowd"]
    for key in ("ignore", "difficult"):
        given = annotations.has(key)
        if given.any():
            difficult = np.where(given, flags[key], difficult)
    return difficult


def _is_whole(value: object) -> bool:
    return not isinstance(value, float) or value.is_integer()


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
