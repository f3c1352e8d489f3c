"""Where a folder of VOC annotations has its images: development kits and flat folders.

Most tools that write VOC's XML write no image sets. Then all annotations of the folder are the set.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ..errors import FileFormatError
from ..limits import MAX_TEXT_BYTES
from .files import read_text
from .image_names import IMAGE_SUFFIXES
from .names import path_inside

ENDINGS = (".xml", ".txt")
"""Endings of annotations: XML goes before the text form."""

DEFAULT_SET = "test"

FLAGS = ("1", "+1", "0", "-1")
"""What ``<class>_<set>.txt`` has beside an image id."""


class VocImages(NamedTuple):
    """The images of a set and the folder of their annotations.

    Attributes:
        ids: image ids in the order of the set.
        annotations: the folder.
        files: names of files that are known to be in the folder; others may be there too.
    """

    ids: tuple[str, ...]
    annotations: Path
    files: frozenset[str] = frozenset()

    def path(self, image_id: str) -> Path:
        """The annotation of an image, in whichever form there is one."""
        if f"{image_id}{ENDINGS[0]}" in self.files:
            return path_inside(self.annotations, f"{image_id}{ENDINGS[0]}")
        xml, text = (path_inside(self.annotations, f"{image_id}{end}") for end in ENDINGS)
        return text if text.is_file() and not xml.is_file() else xml


def find_voc_images(
    folder: str | Path,
    image_set: str | None = None,
    *,
    task: str = "Main",
    max_bytes: int = MAX_TEXT_BYTES,
) -> VocImages:
    """Find the images of a set of a folder.

    Args:
        folder: a development kit with ``Annotations`` and ``ImageSets/Main``, or a folder that
            holds annotations, or one with a folder of annotations for each set.
        image_set: the name of a list or of a folder; None for ``"test"`` where there are lists,
            and for all annotations where there are none.
        task: the folder of lists in ``ImageSets``.
        max_bytes: the largest list that is read.

    Raises:
        FileFormatError: if there is no such set (with the sets that there are), or the list cannot
            be understood.
        OSError: if there is no such folder or it may not be read.
    """
    folder = Path(folder)
    lists = _child(_child(folder, "ImageSets"), task)
    if lists.is_dir():
        annotations = _child(folder, "Annotations")
        listed = image_set_path(lists, image_set or DEFAULT_SET)
        files = _files_of(annotations)

        def known(name: str) -> bool:
            names = [name + end for end in ENDINGS]
            return not files.isdisjoint(names) or has_file(annotations, *names)

        return VocImages(
            read_image_set(listed, known=known, max_bytes=max_bytes), annotations, files
        )
    inner = folder if image_set is None else _child(folder, image_set)
    for annotations in (_child(inner, "Annotations"), inner):
        for end in ENDINGS:
            found = _annotations(annotations, end, deep=annotations != inner)
            if found:
                return VocImages(found, annotations)
    sets = sorted(path.name for path in folder.iterdir() if _annotations(path, ".xml", deep=True))
    if image_set is not None and _has_annotations(folder):
        remedy = "it has no ImageSets: leave the image set out to take all its annotations"
    else:
        remedy = f"sets with annotations: {', '.join(sets)}" if sets else "give a folder of XML"
    what = "no annotations" if image_set is None else f"no image set {image_set!r}"
    raise FileFormatError(what, where=str(folder), remedy=remedy)


def image_set_path(lists: Path, image_set: str) -> Path:
    """The file of an image set.

    Raises:
        FileFormatError: naming those that there are, if there is no such set.
    """
    path = path_inside(lists, f"{image_set}.txt")
    if not path.is_file():
        names = sorted(entry.stem for entry in lists.glob("*.txt"))
        plain = [name for name in names if "_" not in name] or names
        raise FileFormatError(
            f"no image set {image_set!r}",
            where=str(lists),
            remedy=f"there are {', '.join(plain)}" if plain else "the folder has no lists",
        )
    return path


def read_image_set(
    path: str | Path,
    *,
    known: Callable[[str], bool] | None = None,
    max_bytes: int = MAX_TEXT_BYTES,
) -> tuple[str, ...]:
    """Read the image ids of ``ImageSets/Main/<set>.txt``, in file order.

    An id may hold blanks. A flag beside an id, as in ``<class>_<set>.txt``, is passed over: the
    last word of a line is one if it is -1, 0 or 1 and the words before it are an id.

    Args:
        path: the list.
        known: whether there is an image of a name; None takes every name. Ids that are names or
            paths of image files become the name that is known.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming file and line, for an id given twice, a line that may be two
            images, or no id at all.
        OSError: if there is no such file or it may not be read.
    """
    lines: dict[str, int] = {}
    for number, line in enumerate(read_text(Path(path), max_bytes=max_bytes).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        image_id = _image_id(line.strip(), known, where)
        if lines.setdefault(image_id, number) != number:
            raise FileFormatError(
                f"image {image_id} is listed twice",
                where=where,
                got=f"the id of line {lines[image_id]}",
                remedy="list each image once",
            )
    if not lines:
        raise FileFormatError("the image set is empty", where=str(path), remedy="list image ids")
    return tuple(lines)


def _image_id(line: str, known: Callable[[str], bool] | None, where: str) -> str:
    whole, words = line, line.rsplit(None, 1)
    flagged = len(words) == 2 and words[1] in FLAGS
    if known is None:
        return words[0] if flagged else whole
    names = [name for name in _names_of(whole) if known(name)]
    before = [name for name in _names_of(words[0]) if known(name)] if flagged else []
    if names and before:
        raise FileFormatError(
            "the line may be two images",
            where=where,
            got=f"{names[0]!r}, and {before[0]!r} with a flag",
            remedy="rename one of them",
        )
    return (names or before or [whole])[0]


def _names_of(text: str) -> list[str]:
    """Names that a line may stand for: itself, or the id behind the path of an image file."""
    if "." not in text:
        return [text]
    path = PurePosixPath(text.replace("\\", "/"))
    if path.suffix.lower() not in IMAGE_SUFFIXES:
        return [text]
    return [text, path.with_suffix("").as_posix(), path.stem]


def has_file(folder: Path, *names: str) -> bool:
    """Whether a folder has one of the files; a name that leads elsewhere is none of them."""
    try:
        return any(path_inside(folder, name).is_file() for name in names)
    except FileFormatError:
        return False


def _files_of(folder: Path) -> frozenset[str]:
    """Names of the files in a folder, read at once; none if it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_file())
    except OSError:
        return frozenset()


def _child(folder: Path, name: str) -> Path:
    """The entry of a folder with a name, in capitals or not."""
    exact = path_inside(folder, name)
    if exact.exists() or not folder.is_dir():
        return exact
    same = (entry for entry in folder.iterdir() if entry.name.casefold() == name.casefold())
    return next(same, exact)


def _annotations(folder: Path, end: str, *, deep: bool) -> tuple[str, ...]:
    """Ids of the annotations of a folder with an ending, in order of their names."""
    if not folder.is_dir():
        return ()
    paths = folder.rglob(f"*{end}") if deep else folder.glob(f"*{end}")
    if end == ".txt":
        paths = (path for path in paths if _is_text_form(path))
    return tuple(sorted(path.relative_to(folder).with_suffix("").as_posix() for path in paths))


def _is_text_form(path: Path) -> bool:
    with path.open("rb") as stream:
        return b"PASCAL Annotation" in stream.read(200)


def _has_annotations(folder: Path) -> bool:
    places = (folder, _child(folder, "Annotations"))
    return any(_annotations(place, end, deep=False) for place in places for end in ENDINGS)
