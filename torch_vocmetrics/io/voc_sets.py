"""Image sets of every VOC task, with and without labels, and scores of classification."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from ..errors import FileFormatError
from ..limits import MAX_TEXT_BYTES
from .entry_log import EntryLog
from .files import read_text
from .names import check_row_name, path_inside
from .tables import Floats
from .voc_objects import parse_number

Pair = tuple[str, int]
"""Image id and object index, from 1."""

Key = str | Pair

K = TypeVar("K", bound=Key)
T = TypeVar("T", bound=Sized)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassificationFile:
    """Scores and targets of an image set, ready for ``ClassificationAP.update``.

    Attributes:
        image_ids: N image ids, or (image id, object index) pairs, in the order of the set.
        class_names: K names.
        scores: [N, K] float64, -inf where the results file has no row.
        targets: [N, K] int64: 1, -1, or 0 for neither.
    """

    image_ids: tuple[Key, ...]
    class_names: tuple[str, ...]
    scores: Tensor
    targets: Tensor


def read_class_set(
    path: str | Path,
    *,
    objects: bool = False,
    log: EntryLog | None = None,
    max_bytes: int = MAX_TEXT_BYTES,
) -> dict[Key, int]:
    """Read ``<class>_<set>.txt``: 1, -1, or 0 (difficult objects only) for each image.

    Args:
        path: rows ``<image id> <label>``, or ``<image id> <object index> <label>``.
        objects: whether rows have an object index, as those of ``ImageSets/Action``.
        log: counts the rows at fault, which are left out, or have the label 0 if only the label is
            at fault; None raises.
        max_bytes: the largest file that is read.

    Returns:
        Labels by image id, or by pair, in the order of the file.

    Raises:
        FileFormatError: naming file and line, for another form, an image listed twice or none.
        OSError: if there is no such file or it may not be read.
    """
    columns = ("image id", "object index", "label") if objects else ("image id", "label")
    labels: dict[Key, int] = {}
    for where, fields in _rows(path, columns, max_bytes, log):
        with _guard(log):
            key = _key(fields, where, objects=objects)
            _add(labels, key, 0, where)
            if fields[-1] not in ("1", "+1", "0", "-1"):
                got, remedy = repr(fields[-1][:40]), "labels are 1, 0, -1"
                raise FileFormatError("not a label", where=where, got=got, remedy=remedy)
            labels[key] = int(fields[-1])
    return _not_empty(labels, path)


def read_object_set(path: str | Path, *, max_bytes: int = MAX_TEXT_BYTES) -> tuple[Pair, ...]:
    """Read the rows ``<image id> <object index>`` of ``ImageSets/Layout`` (2008 on) or ``Action``.

    Raises:
        FileFormatError: naming file and line, for another form, a pair listed twice or none.
        OSError: if there is no such file or it may not be read.
    """
    pairs: dict[Pair, int] = {}
    for where, fields in _rows(path, ("image id", "object index"), max_bytes, None):
        _add(pairs, (fields[0], _index(fields[1], where)), 0, where)
    return tuple(_not_empty(pairs, path))


def read_scores(
    path: str | Path,
    known: Mapping[Key, int],
    *,
    objects: bool = False,
    log: EntryLog | None = None,
    max_bytes: int = MAX_TEXT_BYTES,
) -> Floats:
    """Read ``comp1_cls_<set>_<class>.txt`` or ``comp9_action_<set>_<action>.txt``.

    Args:
        path: rows ``<image id> [<object index>] <confidence>``; any number, NaN and Inf included.
        known: place of each image, or pair, of the set.
        objects: whether rows have an object index.
        log: counts the rows at fault, which are left out; None raises.
        max_bytes: the largest file that is read.

    Returns:
        [N] scores; -inf where there is no row; of several rows the last counts.

    Raises:
        FileFormatError: naming file and line, for a malformed row or an unknown image.
        OSError: if there is no such file or it may not be read.
    """
    columns = ("image id", "object index", "confidence") if objects else ("image id", "confidence")
    scores = np.full(len(known), -np.inf)
    for where, fields in _rows(path, columns, max_bytes, log):
        with _guard(log):
            key = _key(fields, where, objects=objects)
            if key not in known:
                raise FileFormatError(
                    "not in the image set",
                    where=where,
                    got=repr(key)[:60],
                    remedy="evaluate on the image set that the results were made for",
                )
            scores[known[key]] = _confidence(fields[-1], where)
    return scores


def read_voc_classification(
    folder: str | Path,
    image_set: str,
    results: Mapping[str, str | Path],
    *,
    actions: bool = False,
    on_fault: str = "error",
    max_bytes: int = MAX_TEXT_BYTES,
) -> ClassificationFile:
    """Read labels and scores of an image set of a development kit.

    Args:
        folder: the kit's data, with ``ImageSets/Main`` or ``ImageSets/Action``.
        image_set: such as ``"test"``: the files ``<class>_test.txt`` have the labels.
        results: results file of each class; class k is the k-th of them.
        actions: read ``ImageSets/Action``, whose rows are (image, object) pairs.
        on_fault: ``"error"``, or ``"skip"`` to leave rows at fault out with a warning: a result
            without its row, an image without its label for the class.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming file and line, for what cannot be understood, or if the classes
            list different images.
        OSError: for a file that does not exist or may not be read.

    Warns:
        VocMetricsWarning: of rows that are left out.
    """
    truth_log, results_log = EntryLog(folder, on_fault), EntryLog("results files", on_fault)
    place = Path(folder) / "ImageSets" / ("Action" if actions else "Main")
    ids: tuple[Key, ...] | None = None
    scores, targets = [], []
    for name, path in results.items():
        listed = path_inside(place, f"{name}_{image_set}.txt")
        labels = read_class_set(listed, objects=actions, log=truth_log, max_bytes=max_bytes)
        if on_fault == "error":
            truth_log.finish()
        if ids is not None and tuple(labels) != ids:
            raise FileFormatError(
                "not the images of the other classes in the same order", where=str(listed)
            )
        ids = tuple(labels)
        index = {key: row for row, key in enumerate(ids)}
        read = read_scores(path, index, objects=actions, log=results_log, max_bytes=max_bytes)
        scores.append(read)
        targets.append(list(labels.values()))
    for log in (truth_log, results_log):
        log.finish()
    return ClassificationFile(
        image_ids=ids or (),
        class_names=tuple(results),
        scores=torch.tensor(np.array(scores), dtype=torch.float64).T,
        targets=torch.tensor(targets, dtype=torch.int64).T,
    )


def write_image_set(path: str | Path, rows: Sequence[Key]) -> None:
    """Write image ids, or (image id, object index) pairs, one a line."""
    _write(path, [_words(key) for key in rows])


def write_class_set(path: str | Path, labels: Mapping[Key, int]) -> None:
    """Write labels by image id, or by pair, as :func:`read_class_set` reads them."""
    _write(path, [[*_words(key), f"{label:2d}"] for key, label in labels.items()])


def write_scores(path: str | Path, scores: Mapping[Key, float]) -> None:
    """Write scores by image id, or by pair, as :func:`read_scores` reads them, every digit kept."""
    _write(path, [[*_words(key), repr(float(score))] for key, score in scores.items()])


def _words(key: Key) -> list[str]:
    return [key] if isinstance(key, str) else [key[0], str(key[1])]


def _write(path: str | Path, rows: Sequence[Sequence[str]]) -> None:
    text = "".join(" ".join([check_row_name(row[0], str(path)), *row[1:]]) + "\n" for row in rows)
    Path(path).write_text(text, encoding="utf-8")


def _rows(
    path: str | Path, columns: tuple[str, ...], max_bytes: int, log: EntryLog | None
) -> list[tuple[str, list[str]]]:
    """File and line, and the fields, of each row that has its columns; other rows are logged."""
    rows = []
    for number, line in enumerate(read_text(Path(path), max_bytes=max_bytes).split("\n"), 1):
        fields = [field.strip() for field in line.rsplit(None, len(columns) - 1)]
        where = f"{path}, line {number}"
        if len(fields) == len(columns):
            rows.append((where, fields))
        elif fields:
            got, form = f"{len(fields)} columns", f"a row is {', '.join(columns)}"
            with _guard(log):
                raise FileFormatError("not a row of this file", where=where, got=got, remedy=form)
    return rows


def _guard(log: EntryLog | None) -> AbstractContextManager[None]:
    """Log a fault inside, or raise it where there is no log."""
    return nullcontext() if log is None else log.guard()


def _key(fields: list[str], where: str, *, objects: bool) -> Key:
    return (fields[0], _index(fields[1], where)) if objects else fields[0]


def _index(text: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0):
        raise FileFormatError(
            "not an object index", where=where, got=repr(text[:40]), remedy="objects count from 1"
        )
    return int(text)


def _confidence(text: str, where: str) -> float:
    """A number as MATLAB reads it, NaN and Inf included."""
    return math.nan if text.lower() == "nan" else parse_number(text, where, infinite=True)


def _add(listed: dict[K, int], key: K, value: int, where: str) -> None:
    if key in listed:
        raise FileFormatError(
            "listed twice", where=where, got=repr(key)[:60], remedy="list each image once"
        )
    listed[key] = value


def _not_empty(listed: T, path: str | Path) -> T:
    if not listed:
        raise FileFormatError("the image set is empty", where=str(path), remedy="list image ids")
    return listed
