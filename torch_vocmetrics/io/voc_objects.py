"""What the PASCAL VOC kits know of an image and its objects."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import FileFormatError

CORNERS = ("xmin", "ymin", "xmax", "ymax")

Box = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class VocPart:
    """A part of an object, such as a person's head: its type and its box."""

    name: str
    box: Box


@dataclass(frozen=True, kw_only=True)
class VocObject:
    """One annotated object.

    Attributes:
        name: its class.
        box: xmin, ymin, xmax, ymax in pixels from 1, ends included.
        difficult, truncated, occluded: the flags; what the file does not say is false.
        view: ``"Frontal"``, ``"Rear"`` and the like, empty if unspecified.
        parts: of persons in the layout sets.
        actions: which actions a person performs, None if the file does not say (2010 on).
        point: a point on a person, x and y, for boxless action classification (2012).
    """

    name: str
    box: Box
    difficult: bool = False
    truncated: bool = False
    occluded: bool = False
    view: str = ""
    parts: tuple[VocPart, ...] = ()
    actions: dict[str, bool] | None = None
    point: tuple[float, float] | None = None

    def label(self, year: int) -> str:
        """The label that the development kit of a year gives, such as ``PAScarRearTruncDiff``."""
        difficult = "Difficult" if year <= 2007 else "Diff"
        marks = (
            (self.truncated, "Trunc"),
            (self.occluded and year >= 2008, "Occ"),
            (self.difficult, difficult),
        )
        return f"PAS{self.name}{self.view}" + "".join(mark for is_set, mark in marks if is_set)


@dataclass(frozen=True, kw_only=True)
class VocAnnotation:
    """One annotated image.

    Attributes:
        image_size: height and width in pixels, None if the file does not say.
        objects: in the order of the file, which decides between equal overlaps.
        depth: channels of the image, None if the file does not say.
        segmented: whether the image has a segmentation.
        folder, filename, database, annotation, image: where it comes from, empty if not said.
    """

    image_size: tuple[int, int] | None
    objects: tuple[VocObject, ...]
    depth: int | None = None
    segmented: bool = False
    folder: str = ""
    filename: str = ""
    database: str = ""
    annotation: str = ""
    image: str = ""


def parse_number(text: str, where: str, *, infinite: bool = False) -> float:
    """Read a finite real number in ASCII digits, and ``Inf`` or ``-Inf`` if ``infinite``.

    Raises:
        FileFormatError: naming ``where``, for anything else.
    """
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if math.isnan(value) or (math.isinf(value) and not infinite):
        raise FileFormatError(
            "not a number" if infinite else "not a finite number",
            where=where,
            got=repr(text[:40]),
            remedy="give a number",
        )
    return value
