"""Results files of the PASCAL VOC kits: one text file per class, one row per detection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import FileFormatError
from ..limits import MAX_TEXT_BYTES
from .entry_log import EntryLog
from .files import read_text
from .image_names import ImageIndex
from .names import path_inside
from .tables import Floats, Integers
from .voc_objects import parse_number

_COLUMNS = ("image id", "confidence", "xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True, eq=False, kw_only=True)
class DetectionRows:
    """The rows of one results file, in file order.

    Attributes:
        image_index: [N] int64, place of each row's image in the image set.
        scores: [N] float64.
        boxes: [N, 4] float64, xmin, ymin, xmax, ymax.
    """

    image_index: Integers
    scores: Floats
    boxes: Floats


def find_results(pattern: str, class_names: Sequence[str]) -> dict[str, Path]:
    """Find the results files that exist, by class.

    Args:
        pattern: a path with ``{class}`` in place of the class, such as
            ``results/comp4_det_test_{class}.txt``.
        class_names: the classes to look for; what has no file was not entered.

    Raises:
        FileFormatError: if the pattern does not hold ``{class}``, or no class has a file.
    """
    if "{class}" not in pattern:
        raise FileFormatError(
            "not a pattern of results files",
            where=pattern,
            remedy="write {class} where the class stands, as in comp4_det_test_{class}.txt",
        )
    paths = {name: Path(pattern.replace("{class}", _file_name(name))) for name in class_names}
    found = {name: path for name, path in paths.items() if path.exists()}
    if not found:
        raise FileFormatError(
            f"none of the {len(paths)} classes has a results file",
            where=pattern,
            remedy="check the folder and the place of {class}",
        )
    return found


def _file_name(class_name: str) -> str:
    """The name of a class, if it can be a part of a file name."""
    if path_inside(".", class_name).name != class_name:
        raise FileFormatError(
            "the name of a class must not name a folder", where="class_names", got=repr(class_name)
        )
    return class_name


def read_results(
    path: str | Path,
    images: ImageIndex,
    *,
    log: EntryLog | None = None,
    max_bytes: int = MAX_TEXT_BYTES,
) -> DetectionRows:
    """Read the rows ``<image id> <confidence> <xmin> <ymin> <xmax> <ymax>`` of a file.

    An image id may hold blanks: the last five words of a row are its numbers.

    Args:
        path: the file; an empty one is a class without detections.
        images: the images of the set.
        log: counts the rows at fault, which are left out; None raises at once.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming file and line, for a malformed row or an unknown image.
        OSError: if there is no such file or it may not be read.
    """
    text = read_text(Path(path), max_bytes=max_bytes)
    columns = _columns_of_plain(text)
    if columns is not None and (table := _convert(columns, images)) is not None:
        return table
    numbers = len(_COLUMNS) - 1
    rows = [fields for line in text.split("\n") if (fields := line.rsplit(None, numbers))]
    table = _convert_rows(rows, images)
    if table is not None:
        return table
    own = log or EntryLog(path)
    sound: list[list[str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.rsplit(None, numbers)
        error = _fault_of(fields, images, f"{path}, line {number}") if fields else None
        if error is not None:
            own.add_faults(1, [error])
        elif fields:
            sound.append(fields)
    if log is None:
        own.finish()
    table = _convert_rows(sound, images)
    assert table is not None, f"{path}: rows without a fault"
    return table


def _columns_of_plain(text: str) -> list[list[str]] | None:
    """The words of each column, if every row has as many words as there are columns.

    No list is made for each row, so that the garbage collector has nothing to look at.
    """
    if not text.isascii():
        return None
    letters = np.frombuffer(text.encode("ascii"), np.uint8)
    blank = (letters - _TAB < 5) | (letters - _FILE_SEPARATOR < 5)  # what str.split splits at
    starts = ~blank
    starts[1:] &= blank[:-1]
    words_at = np.flatnonzero(starts)
    first_words = np.searchsorted(words_at, np.flatnonzero(letters == _NEWLINE))
    counts = np.diff(first_words, prepend=0, append=words_at.size)
    if not np.isin(counts, (0, len(_COLUMNS))).all():
        return None
    words = text.split()
    return [words[column :: len(_COLUMNS)] for column in range(len(_COLUMNS))]


_TAB, _NEWLINE, _FILE_SEPARATOR = np.uint8(9), np.uint8(10), np.uint8(28)


def _convert_rows(rows: list[list[str]], images: ImageIndex) -> DetectionRows | None:
    """Convert rows that may have names with blanks; None if any of them has a fault."""
    if not set(map(len, rows)) <= {len(_COLUMNS)}:
        return None
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in _COLUMNS]
    return _convert([list(map(str.strip, columns[0])), *columns[1:]], images)


def _convert(columns: list[list[str]], images: ImageIndex) -> DetectionRows | None:
    """Convert all rows at once, column by column; None if any of them has a fault."""
    index = images.find(columns[0])
    if None in index:
        return None
    try:
        numbers = [np.fromiter(map(float, one), np.float64, len(one)) for one in columns[1:]]
    except ValueError:
        return None
    plain = all("_" not in (text := "".join(column)) and text.isascii() for column in columns[1:])
    scores, boxes = numbers[0], np.stack(numbers[1:], axis=1)
    if not plain or np.isnan(scores).any() or not np.isfinite(boxes).all():
        return None
    return DetectionRows(
        image_index=np.array(index, np.int64),
        scores=scores,
        boxes=boxes,
    )


def _fault_of(fields: list[str], images: ImageIndex, where: str) -> FileFormatError | None:
    """What is wrong with a row, if anything is."""
    name = fields[0].strip()
    words = name.split()
    unknown = images.find([name]) == [None]
    if unknown and len(words) > 1 and images.find(words[:1]) != [None]:
        fields = [*words, *fields[1:]]  # An image that is known, and too many numbers.
    if len(fields) != len(_COLUMNS):
        return FileFormatError(
            "not a row of a results file",
            where=where,
            got=f"{len(fields)} columns",
            remedy=f"a row is {', '.join(_COLUMNS)}",
        )
    try:
        for column, field in zip(_COLUMNS[1:], fields[1:], strict=True):
            parse_number(field, f"{where}, {column}", infinite=column == "confidence")
    except FileFormatError as error:
        return error
    if unknown:
        return FileFormatError(
            "the image is not in the image set",
            where=where,
            got=repr(name[:60]),
            remedy="evaluate on the image set that the results were made for",
        )
    return None
