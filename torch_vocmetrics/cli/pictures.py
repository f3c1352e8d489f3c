"""The image files of a data set: finding, opening and writing them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..io.images import open_image
from ..io.names import path_inside
from ..limits import MAX_PIXELS

if TYPE_CHECKING:
    from PIL.Image import Image

FOLDERS = ("JPEGImages", "PNGImages", "images", "Annotations", "annotations", ".")
SUFFIXES = (".jpg", ".jpeg", ".png")


def find_picture(folder: Path, image_id: int | str, file_name: str = "") -> Path:
    """The file of an image in a folder, or in one of the usual folders within.

    Args:
        folder: such as a development kit.
        image_id: its file has this name and a suffix, or, for numbers, twelve digits of it (COCO).
        file_name: the name of the file where it is known.

    Raises:
        InputError: if the folder has no such image.
    """
    stems = [str(image_id)]
    if isinstance(image_id, int):
        stems.append(f"{image_id:012d}")
    names = [file_name] if file_name else []
    names += [f"{stem}{suffix}" for stem in stems for suffix in SUFFIXES]
    for place in FOLDERS:
        for name in names:
            path = path_inside(folder / place, name)
            if path.is_file():
                return path
    raise InputError("no such image", where=str(folder), got=names[0])


def read_picture(path: Path, *, max_pixels: int = MAX_PIXELS) -> Image:
    """An image as RGB.

    Raises:
        FileFormatError: if it cannot be understood, or is larger than the limits.
    """
    with open_image(path, max_pixels=max_pixels) as (image, _):
        return image.convert("RGB")
