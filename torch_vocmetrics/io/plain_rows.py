"""Lists of JSON objects decoded straight into columns by msgspec, where that is installed.

Most files are sound, and then nobody asks for the element at fault. So typed decoders read a list
first and refuse everything unusual: a missing key, another type, a number out of range, text that
msgspec and the standard library understand differently. :class:`NotPlain` then sends the caller to
:class:`json_rows.Rows`, which reads the list element by element and names what is wrong.
"""

from __future__ import annotations

import codecs
import importlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from .entry_log import EntryLog
from .tables import Floats, Integers

_BLOCK = 2**16
"""Bytes that are decoded at once: typed objects take several times the memory of their text."""

_START = re.compile(rb"[ \t\n\r]*\[")
_SEPARATOR = re.compile(rb"\}[ \t\n\r]*,[ \t\n\r]*(?=\{)")
_WHITESPACE = b" \t\n\r"

FLAGS = ("iscrowd", "ignore", "difficult")

_TYPED = ("id", "area", *FLAGS)
"""Optional keys whose values are read; others are only looked for."""


class RunLengths(TypedDict):
    """Run lengths as files have them."""

    size: tuple[int, int]
    counts: str | list[int]


class NotPlain(Exception):  # noqa: N818 - no error, but the way to the careful reader
    """The list is not one that typed decoders read; the careful reader says why, or reads it."""


class PlainRows:
    """Columns of sound elements, with the methods of :class:`json_rows.Rows` that read them.

    Args:
        path: the file.
        name: the key of the list in the file, empty if the list is the whole file.
        columns: values of each key that was asked for, zero where an element does not have it: an
            array, but a list of the segmentations.
        present: [N] bool for each key that elements may lack.
        length: N.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        columns: dict[str, Any],
        present: dict[str, NDArray[np.bool_]],
        length: int,
    ) -> None:
        self.path, self.name = path, name
        self._columns, self._present, self._length = columns, present, length
        boxes = columns.get("bbox")
        if boxes is not None and boxes.ndim == 2 and (boxes[:, 2:] < 0).any():
            raise NotPlain
        if "area" in columns and (columns["area"] < 0).any():
            raise NotPlain
        for key in FLAGS:
            if key in columns and not np.isin(columns[key], (0, 1)).all():
                raise NotPlain

    def __len__(self) -> int:
        return self._length

    def where(self, index: int) -> str:
        """Say where the element at ``index`` stands."""
        return f"{self.path}, {self.name}[{index}]"

    def first_with(self, key: str) -> int | None:
        """The index of the first element that has a key and something under it."""
        return next(iter(np.flatnonzero(self._present[key]).tolist()), None)

    def has(self, key: str) -> NDArray[np.bool_]:
        """[N] whether each element has a key."""
        return self._present[key]

    def given_ids(self) -> list[Any]:
        """The id of each element, None where it has none."""
        if "id" not in self._columns:
            return [None] * len(self)
        values: list[Any] = self._columns["id"].tolist()
        if not self._present["id"].all():
            given = zip(values, self._present["id"].tolist(), strict=True)
            values = [value if present else None for value, present in given]
        return values

    def lookup(
        self, key: str, find: Callable[[list[Any]], Sequence[int | None]], *_: object, **__: object
    ) -> Integers:
        """The index or label that each value of a key stands for: [N] int64.

        Raises:
            NotPlain: if ``find`` does not know a value.
        """
        values, inverse = _distinct(self._columns[key])
        found = find(values.tolist())
        if None in found:
            raise NotPlain
        return np.array(found, np.int64)[inverse]

    def objects(self, key: str) -> list[Any]:
        """What each element has under a key: N values."""
        values: list[Any] = self._columns[key]
        return values

    def scores(self, key: str) -> Floats:
        """Numbers: [N] float64."""
        values: Floats = self._columns[key]
        return values

    def flags(self, key: str) -> NDArray[np.bool_]:
        """Flags, 0 where the key is missing: [N] bool."""
        flags: NDArray[np.bool_] = self._columns[key].astype(np.bool_)
        return flags

    def boxes(self, key: str, *, optional: bool = False) -> Floats:  # noqa: ARG002 - as in Rows
        """Boxes x, y, width, height without a negative size: [N, 4] float64."""
        boxes: Floats = self._columns[key]
        return boxes

    def areas(self, key: str, own_areas: Floats) -> Floats:
        """Areas as given, ``own_areas`` [N] where the key is missing: [N] float64."""
        return np.where(self._present[key], self._columns[key], own_areas)

    def put_shapeless_outside(self) -> None:
        """Nothing: an element without a shape has no box of four finite numbers."""

    def report(self, selected: NDArray[np.bool_], log: EntryLog) -> NDArray[np.bool_]:  # noqa: ARG002
        """[N] the elements that are kept: all that are selected, since none is at fault."""
        return selected


def read_plain_list(
    path: Path, name: str, data: bytes, keys: Sequence[str], optional: Sequence[str] = ()
) -> PlainRows:
    """Decode a JSON list of objects.

    Args:
        path, name: where the list stands.
        data: the text of the list.
        keys: the keys to read, which every element must have.
        optional: keys to read that elements may lack.

    Raises:
        NotPlain: if msgspec is not installed, or for anything but sound elements.
    """
    start = _START.match(data)
    end = data.rfind(b"]")
    if start is None or end < start.end() or data[end + 1 :].strip(_WHITESPACE):
        raise NotPlain
    require_utf8(data)
    optional = tuple(dict.fromkeys(optional))
    decoder, length = _decoder(tuple(keys), optional), 0
    parts: dict[str, list[Any]] = {key: [] for key in (*keys, *optional)}
    present: dict[str, list[NDArray[np.bool_]]] = {key: [] for key in optional}
    for block in _blocks(data, start.end(), end):
        rows = _decode(decoder, block)
        length += len(rows)
        for key in keys:
            parts[key].append(_column(key, map(attrgetter(key), rows), len(rows)))
        for key in optional:
            has, values = _given(list(map(attrgetter(key), rows)))
            present[key].append(has)
            parts[key].append(_column(key, values, len(rows)) if key in _TYPED else _nothing(rows))
    columns: dict[str, Any] = {
        key: list(chain.from_iterable(one)) if key == "segmentation" else np.concatenate(one)
        for key, one in parts.items()
    }
    has_key = {key: np.concatenate(arrays) for key, arrays in present.items()}
    return PlainRows(path, name, columns, has_key, length)


def _given(values: list[Any]) -> tuple[NDArray[np.bool_], list[Any]]:
    """[N] whether each element has the key, and the values, 0 where it does not."""
    missing = _msgspec().UNSET
    has = np.array([value is not missing for value in values], np.bool_)
    return has, values if has.all() else [0 if value is missing else value for value in values]


def parse_plain(text: bytes) -> Any:
    """Parse the text of a member by the standard library.

    Raises:
        NotPlain: if that refuses what msgspec took, such as numbers of thousands of digits.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise NotPlain from None


def read_members(data: bytes, names: Sequence[str]) -> dict[str, bytes]:
    """The text of some members of a JSON object, those that it has.

    Raises:
        NotPlain: if msgspec is not installed, or the text is no sound JSON object.
    """
    require_utf8(data)
    return {
        name: bytes(text)
        for name, text in _decode(_members_decoder(), data).items()
        if name in names
    }


def require_utf8(data: bytes) -> None:
    """Refuse text that is not UTF-8: msgspec does not look at strings that it passes over.

    Raises:
        NotPlain: for such text.
    """
    if data.isascii():
        return
    portions = (data[start : start + _BLOCK] for start in range(0, len(data), _BLOCK))
    try:
        for _ in codecs.iterdecode(portions, "utf-8"):
            pass
    except UnicodeDecodeError:
        raise NotPlain from None


def _blocks(data: bytes, start: int, stop: int) -> Iterator[bytes]:
    """The elements of a list in portions, each of them a JSON list.

    A portion ends between two objects. If these are not elements but parts of one, the portion is
    no complete list, and is refused.
    """
    while stop - start > _BLOCK:
        separator = _SEPARATOR.search(data, start + _BLOCK, stop)
        if separator is None:
            break
        yield b"[%b]" % data[start : separator.start() + 1]
        start = separator.end()
    yield b"[%b]" % data[start:stop]


def _distinct(values: Integers) -> tuple[Integers, Integers]:
    """The distinct values [D] by rising value, and the index [N] of each value among them."""
    lowest = int(values.min(initial=0))
    span = int(values.max(initial=0)) - lowest + 1
    if span > 4 * len(values) + 1024:
        distinct, inverse = np.unique(values, return_inverse=True)
        return distinct, inverse
    offsets = values - lowest
    occurs = np.zeros(span, np.bool_)
    occurs[offsets] = True
    return np.flatnonzero(occurs) + lowest, (np.cumsum(occurs) - 1)[offsets]


def _nothing(rows: Sequence[Any]) -> NDArray[Any]:
    """The column of a key that is only looked for."""
    return np.empty(len(rows), np.void)


def _column(key: str, values: Iterable[Any], length: int) -> Any:
    """The values of a key: an array, but a list of segmentations."""
    if key == "segmentation":
        return list(values)
    if key == "bbox":
        return np.fromiter(chain.from_iterable(values), np.float64, 4 * length).reshape(-1, 4)
    if key in ("score", "area"):
        return np.fromiter(values, np.float64, length)
    try:
        column = np.fromiter(values, np.int64, length)
    except OverflowError:
        raise NotPlain from None
    if length and column.min() == np.iinfo(np.int64).min:
        raise NotPlain
    return column


def _decode(decoder: Any, text: bytes) -> Any:
    try:
        return decoder.decode(text)
    except (_msgspec().MsgspecError, RecursionError):
        raise NotPlain from None


@lru_cache(maxsize=1)
def _msgspec() -> Any:
    """The library, which is optional.

    Raises:
        NotPlain: if it is not installed.
    """
    try:
        return importlib.import_module("msgspec")
    except ImportError:
        raise NotPlain from None


@lru_cache(maxsize=1)
def _members_decoder() -> Any:
    raw: Any = _msgspec().Raw
    return _msgspec().json.Decoder(dict[str, raw])


@lru_cache(maxsize=16)
def _decoder(keys: tuple[str, ...], optional: tuple[str, ...]) -> Any:
    """A decoder of lists of objects with some keys; other keys are passed over."""
    msgspec = _msgspec()
    types: dict[str, Any] = {
        "image_id": int,
        "category_id": int,
        "id": int,
        "bbox": tuple[float, float, float, float],
        "segmentation": RunLengths | list[list[float]],
        "score": float,
        "area": float,
        **dict.fromkeys(FLAGS, int | bool),
    }
    fields: list[Any] = [(key, types[key]) for key in keys]
    for key in optional:
        kind = types[key] | msgspec.UnsetType if key in _TYPED else Any
        fields.append((key, kind, msgspec.UNSET))
    element: Any = msgspec.defstruct("Element", fields, gc=False)
    return msgspec.json.Decoder(list[element])
