"""Boxes and labels drawn on images with Pillow: by class, or by what became of them."""

from __future__ import annotations

import colorsys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .errors import printable

if TYPE_CHECKING:
    from PIL.Image import Image

Color = tuple[int, int, int]
Corners = tuple[float, float, float, float]


class Style(NamedTuple):
    """How a box is drawn: outlines differ in more than colour, for colour-blind people.

    Attributes:
        color: of the outline and behind the text.
        dash: length of dashes and gaps in widths of the line; 0 is a whole line.
        meaning: for the legend.
    """

    color: Color
    dash: int
    meaning: str


OUTCOME_STYLES: Mapping[str, Style] = {
    "truth": Style((0, 114, 178), 5, "object that was found"),
    "missed": Style((255, 255, 0), 3, "missed object"),
    "true": Style((0, 128, 0), 0, "true positive"),
    "false": Style((255, 0, 0), 0, "false positive"),
    "ignored": Style((128, 128, 128), 2, "ignored: counts neither way"),
}
"""Styles of detections and objects by their outcome."""


class Box(NamedTuple):
    """A box to draw.

    Attributes:
        corners: left, top, right, bottom in pixels from 0; parts outside the image are cut off.
        text: beside it; may be empty.
        color: of the outline and behind the text.
        dash: as in :class:`Style`.
    """

    corners: Corners
    text: str
    color: Color
    dash: int = 0


def class_colors(count: int) -> list[Color]:
    """Colours of classes: hues at steps of the golden section, so that neighbours differ much."""
    colors = []
    for k in range(count):
        value = 0.95 if k % 2 else 0.75
        red, green, blue = colorsys.hsv_to_rgb(k * 0.618034 % 1, 0.85, value)
        colors.append((round(255 * red), round(255 * green), round(255 * blue)))
    return colors


def draw_boxes(image: Image, boxes: Iterable[Box]) -> Image:
    """A copy of an image with boxes and their texts, the latter above all boxes.

    Args:
        image: of any mode; the copy is RGB.
        boxes: what to draw, the first at the bottom; inverted boxes are left out.
    """
    from PIL import ImageDraw, ImageFont  # noqa: PLC0415 - only what draws needs Pillow

    drawn = image.convert("RGB")
    canvas = ImageDraw.Draw(drawn)
    width, height = drawn.size
    line = max(2, round(max(width, height) / 400))
    font = ImageFont.load_default(size=max(10, round(max(width, height) / 60)))
    upright = [box for box in boxes if box.corners[2] >= box.corners[0]]
    upright = [box for box in upright if box.corners[3] >= box.corners[1]]
    inside = [box._replace(corners=_inside(box.corners, width, height)) for box in upright]
    for box in inside:
        _outline(canvas, box, line)
    for box in inside:
        if box.text:
            left, top, _, _ = box.corners
            text = printable(box.text)
            _, _, wide, tall = canvas.textbbox((0, 0), text, font=font)
            x = min(left, max(width - wide - 2, 0))
            y = top - tall - 3 if top >= tall + 3 else top
            canvas.rectangle((x, y, x + wide + 2, y + tall + 2), fill=box.color)
            canvas.text((x + 1, y), text, fill=_text_color(box.color), font=font)
    return drawn


def enlarged(image: Image, boxes: Sequence[Box], least: int) -> tuple[Image, list[Box]]:
    """A small image and its boxes, a whole number of times as large, so that texts have room.

    Args:
        image: of any size.
        boxes: on the image.
        least: pixels that the longer side has at least.
    """
    from PIL import Image as Pillow  # noqa: PLC0415 - only what draws needs Pillow

    times = -(-least // max(image.size))
    if times <= 1:
        return image, list(boxes)
    width, height = image.size
    large = image.resize((width * times, height * times), Pillow.Resampling.NEAREST)
    moved = []
    for box in boxes:
        left, top, right, bottom = box.corners
        ends = ((right + 1) * times - 1, (bottom + 1) * times - 1)
        moved.append(box._replace(corners=(left * times, top * times, *ends)))
    return large, moved


def _inside(corners: Corners, width: int, height: int) -> Corners:
    """The pixels of a box that lie in the image."""
    left, top, right, bottom = (round(value) for value in corners)
    return (
        min(max(left, 0), width - 1),
        min(max(top, 0), height - 1),
        min(max(right, 0), width - 1),
        min(max(bottom, 0), height - 1),
    )


def _outline(canvas: object, box: Box, line: int) -> None:
    """Four lines of the width ``line`` inside the box, dashed where the box is."""
    left, top, right, bottom = map(int, box.corners)
    rectangle = canvas.rectangle  # type: ignore[attr-defined]
    for start, end, fixed, horizontal in (
        (left, right, top, True),
        (left, right, max(bottom - line + 1, top), True),
        (top, bottom, left, False),
        (top, bottom, max(right - line + 1, left), False),
    ):
        step = 2 * box.dash * line if box.dash else end - start + 1
        length = box.dash * line if box.dash else end - start + 1
        for first in range(start, end + 1, max(step, 1)):
            last, beside = min(first + length - 1, end), fixed + line - 1
            shape = (first, fixed, last, beside) if horizontal else (fixed, first, beside, last)
            rectangle(shape, fill=box.color)


def _text_color(color: Color) -> Color:
    """Black or white, whichever is easier to read on a colour."""
    red, green, blue = color
    return (0, 0, 0) if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else (255, 255, 255)


def corners_of(boxes: Sequence[Sequence[float]], box_format: str, offset: float) -> list[Corners]:
    """Boxes of a format as corners in pixels from 0.

    Args:
        boxes: rows of four numbers.
        box_format: ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``.
        offset: the number of the first pixel, 1 for VOC.
    """
    found = []
    for a, b, c, d in boxes:
        if box_format == "xywh":
            corners = (a, b, a + c, b + d)
        elif box_format == "cxcywh":
            corners = (a - c / 2, b - d / 2, a + c / 2, b + d / 2)
        else:
            corners = (a, b, c, d)
        found.append(tuple(value - offset for value in corners))
    return found  # type: ignore[return-value]
