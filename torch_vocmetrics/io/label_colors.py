"""Colours as labels: lists of colours as CVAT writes them, and VOC's own colours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import FileFormatError
from ..limits import MAX_TEXT_BYTES
from .class_names import near_names
from .files import read_text

VOID_NAMES = ("void", "ignored", "ignore")
"""Names of a list of colours that are no classes."""

VOC_VOID = 255
"""The label of VOC's void colour."""

_FORM = "a row is name:red,green,blue, as in background:0,0,0::"


def voc_colormap(size: int = 256) -> NDArray[np.uint8]:
    """[size, 3] RGB colours of the labels 0 .. size - 1.

    Bits 0, 1 and 2 of the label become the highest bits of red, green and blue, the next three the
    second highest, and so on.

    Source: VOCcode/VOClabelcolormap.m (2007-2012, equal text).

    Example:
        >>> voc_colormap()[[1, 15, 255]].tolist()
        [[128, 0, 0], [192, 128, 128], [224, 224, 192]]
    """
    labels = np.arange(size)[:, None] >> np.arange(3)
    colors = np.zeros((size, 3), dtype=np.int64)
    for index in range(8):
        colors |= ((labels >> (3 * index)) & 1) << (7 - index)
    return colors.astype(np.uint8)


class LabelColors(NamedTuple):
    """Which label each colour stands for.

    Attributes:
        class_names: the classes of the list; empty for VOC's colours, which any classes have.
        colors: [C, 3] uint8.
        labels: [C] int64, the label of each colour.
        source: what a sentence calls the list.
    """

    class_names: tuple[str, ...]
    colors: NDArray[np.uint8]
    labels: NDArray[np.int64]
    source: str

    @classmethod
    def voc(cls) -> LabelColors:
        """The 256 colours of VOC's palette."""
        return cls((), voc_colormap(), np.arange(256), "VOC's colours")

    def read(self, pixels: NDArray[np.uint8], path: str | Path) -> NDArray[np.int64]:
        """Labels [H, W] of pixels [H, W, 3].

        Raises:
            FileFormatError: naming file and pixel of the first colour that is not in the list.
        """
        codes, known = _codes(pixels), _codes(self.colors)
        order = np.argsort(known)
        indices = np.searchsorted(known[order], codes).clip(max=known.size - 1)
        found = order[indices]
        wrong = known[found] != codes
        if wrong.any():
            row, column = (int(k) for k in np.argwhere(wrong)[0])
            raise FileFormatError(
                f"the colour of a pixel is none of {self.source}",
                where=f"{path}, pixel (row {row}, column {column})",
                got=tuple(pixels[row, column].tolist()),
                remedy="give the list of colours (--label-colors labelmap.txt), or save labels as "
                "an indexed, grey or 16-bit PNG",
            )
        labels: NDArray[np.int64] = self.labels[found]
        return labels


def read_label_colors(
    path: str | Path,
    class_names: Sequence[str] | None = None,
    *,
    void_label: int = VOC_VOID,
    max_bytes: int = MAX_TEXT_BYTES,
) -> LabelColors:
    """Read a list of colours: rows ``name:red,green,blue``, as in CVAT's ``labelmap.txt``.

    Args:
        path: the file; rows that begin with ``#`` are comments.
        class_names: the classes in the order of their labels; None takes the order of the file.
            Colours of other classes are not known then.
        void_label: the label of rows called void, ignored or ignore, and of VOC's void colour.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming file and line, for another form, a name or a colour given twice, or
            a class that the file does not have.
        OSError: if there is no such file or it may not be read.
    """
    listed: dict[str, tuple[int, int, int]] = {}
    for number, line in enumerate(read_text(Path(path), max_bytes=max_bytes).split("\n"), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, color = _row(line, f"{path}, line {number}")
            if name in listed or color in listed.values():
                what = "the name" if name in listed else "the colour"
                raise FileFormatError(
                    f"{what} is given twice", where=f"{path}, line {number}", got=repr(line[:60])
                )
            listed[name] = color
    plain = [name for name in listed if name.casefold() not in VOID_NAMES]
    names = tuple(plain if class_names is None else class_names)
    for name in names:
        if name not in listed:
            remedy = near_names(name, plain)
            raise FileFormatError(f"no colour of class {name!r}", where=str(path), remedy=remedy)
    labels = {listed[name]: label for label, name in enumerate(names)}
    for name in listed.keys() - set(plain) - set(names):
        labels[listed[name]] = void_label
    void: tuple[int, int, int] = tuple(voc_colormap()[VOC_VOID].tolist())
    labels.setdefault(void, void_label)
    return LabelColors(
        names,
        np.array(list(labels), np.uint8),
        np.array(list(labels.values()), np.int64),
        f"the colours of {path}",
    )


def _row(line: str, where: str) -> tuple[str, tuple[int, int, int]]:
    name, _, rest = line.partition(":")
    words = [word.strip() for word in rest.partition(":")[0].split(",")]
    plain = all(word.isascii() and word.isdecimal() and len(word) < 4 for word in words)
    color = tuple(int(word) for word in words) if plain else ()
    if not name.strip() or len(color) != 3 or max(color) > 255:
        raise FileFormatError("not a colour", where=where, got=repr(line[:60]), remedy=_FORM)
    return name.strip(), color


def _codes(colors: NDArray[np.uint8]) -> NDArray[np.int64]:
    """One number for each colour."""
    parts = colors.astype(np.int64)
    return (parts[..., 0] << 16) | (parts[..., 1] << 8) | parts[..., 2]
