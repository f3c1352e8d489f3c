"""The lists of COCO's files: images, categories, annotations and results.

:func:`use_either` reads a file in typed columns, and element by element where these do not serve.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ..errors import FileFormatError
from ..limits import MAX_JSON_BYTES
from .class_names import near_names
from .files import read_bytes
from .image_names import ImageIndex
from .json_rows import IDENTIFIER, INTEGER, STRING, Rows, parse_json, read_list
from .plain_rows import NotPlain, PlainRows, parse_plain, read_members, read_plain_list
from .tables import known_size

INSTANCES_FORM = "an instances file has the lists images, annotations and categories"
_RESULTS_FORM = "results are a list of {image_id, category_id, bbox, score}"


class Instances(NamedTuple):
    """The lists of an instances file, and what it says under ``info``."""

    images: Rows
    annotations: Rows
    categories: Rows
    info: dict[str, Any]


class PlainInstances(NamedTuple):
    """The same with typed annotations."""

    images: Rows
    annotations: PlainRows
    categories: Rows
    info: dict[str, Any]


A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")


def use_either(
    path: Path,
    plain: Callable[[Path, bytes], A],
    careful: Callable[[Path, bytes], B],
    use: Callable[[A | B], T],
    *,
    max_bytes: int = MAX_JSON_BYTES,
) -> T:
    """Use what a file holds: as ``plain`` decodes it, or else as ``careful`` does.

    The file is read once, since it may be a pipe.

    Raises:
        FileFormatError: as ``careful`` and ``use`` raise it, or if the file is too large.
        OSError: if there is no such file or it may not be read.
    """
    data = read_bytes(path, max_bytes=max_bytes)
    with suppress(NotPlain):
        return use(plain(path, data))
    return use(careful(path, data))


def plain_instances(
    keys: Sequence[str], optional: Sequence[str]
) -> Callable[[Path, bytes], PlainInstances]:
    """A reader of instances files by the keys of annotations.

    It raises NotPlain if the annotations need :func:`parse_instances`.
    """

    def read(path: Path, data: bytes) -> PlainInstances:
        members = read_members(data, ("images", "annotations", "categories", "info"))
        if not members.keys() >= {"images", "annotations", "categories"}:
            raise NotPlain
        annotations = read_plain_list(
            path, "annotations", members.pop("annotations"), keys, optional
        )
        content = {key: parse_plain(text) for key, text in members.items()}
        images, categories = (
            read_list(path, content, name, INSTANCES_FORM) for name in ("images", "categories")
        )
        return PlainInstances(images, annotations, categories, _info_of(content))

    return read


def plain_results(
    keys: Sequence[str], optional: Sequence[str] = ()
) -> Callable[[Path, bytes], PlainRows]:
    """A reader of lists of results with the keys given.

    It raises NotPlain if the file needs :func:`parse_results`.
    """

    def read(path: Path, data: bytes) -> PlainRows:
        # Results mostly have no ids; to look for them in every element takes time.
        own = ["id"] if b'"id"' in data[: 2**16] else []
        return read_plain_list(path, "", data, keys, [*own, *optional])

    return read


def read_instances(path: Path, *, max_bytes: int = MAX_JSON_BYTES) -> Instances:
    """Read an instances file.

    Raises:
        FileFormatError: if it is none.
        OSError: if there is no such file or it may not be read.
    """
    return parse_instances(path, read_bytes(path, max_bytes=max_bytes))


def parse_instances(path: Path, data: bytes) -> Instances:
    """What an instances file holds.

    Raises:
        FileFormatError: if it is none.
    """
    content = parse_json(path, data)
    if not isinstance(content, dict):
        raise _wrong_type(path, "an instances file", content, INSTANCES_FORM)
    images, annotations, categories = (
        read_list(path, content, name, INSTANCES_FORM)
        for name in ("images", "annotations", "categories")
    )
    return Instances(images, annotations, categories, _info_of(content))


def _info_of(content: dict[str, Any]) -> dict[str, Any]:
    info = content.get("info")
    return info if isinstance(info, dict) else {}


class ImageList(NamedTuple):
    """The images of an instances file by rising id.

    Attributes:
        ids: I ids.
        sizes: height and width of each, None where the file does not say them.
        file_names: the name of the file of each, empty where the file does not say it.
    """

    ids: tuple[int, ...] | tuple[str, ...]
    sizes: list[tuple[int, int] | None]
    file_names: tuple[str, ...]

    @classmethod
    def of(cls, images: Rows) -> ImageList:
        """Read the list ``images``.

        Raises:
            FileFormatError: if there is no image, or an id is missing or not the only one.
        """
        ids = images.ids("id", IDENTIFIER)
        if not ids:
            raise FileFormatError("the list is empty", where=images.where(), remedy="list images")
        order = sorted(range(len(ids)), key=ids.__getitem__)
        rows = [images.rows[row] for row in order]
        return cls(
            tuple(ids[row] for row in order),
            [known_size(row.get("height"), row.get("width")) for row in rows],
            tuple(map(file_name_of, rows)),
        )

    def find(self, values: Sequence[Any]) -> list[int | None]:
        """The index of the image that each value names by id or file; None for no image."""
        return ImageIndex(self.ids, self.file_names).find(values)


def file_name_of(row: dict[str, Any]) -> str:
    """The name of the file of an image, empty if the list does not say it."""
    name = row.get("file_name")
    return name if isinstance(name, str) else ""


def category_names(categories: Rows) -> dict[int, str]:
    """Name by category id, by rising id; equal names are told apart as ``name#id``.

    Raises:
        FileFormatError: if a name or an id is missing, or an id is not the only one.
    """
    ids, names = categories.ids("id", INTEGER), categories.column("name", STRING)
    categories.require_sound()
    copies = Counter(names)
    return {
        label: f"{name}#{label}" if copies[name] > 1 else name
        for label, name in sorted(zip(ids, names, strict=True))
    }


def choose_categories(
    categories: Rows, class_names: Sequence[str] | None
) -> tuple[dict[int, str], dict[int, str]]:
    """Name by category id of the classes asked for and of all others.

    Raises:
        FileFormatError: for a class that no category has, with the near names.
    """
    unique = category_names(categories)
    if class_names is None:
        return unique, {}
    labels = {name: label for label, name in unique.items()}
    for name in class_names:
        if name not in labels:
            raise FileFormatError(
                f"no category {name!r}",
                where=categories.where(),
                remedy=near_names(name, list(labels)),
            )
    kept = {labels[name]: name for name in class_names}
    return kept, {label: name for label, name in unique.items() if label not in kept}


def parse_results(path: Path, data: bytes) -> Rows:
    """What a results file holds.

    Raises:
        FileFormatError: for a file of another form.
    """
    return results_rows(path, parse_json(path, data))


def results_rows(path: Path, content: object) -> Rows:
    """The rows of a results file, or of an instances file whose annotations have a score.

    Raises:
        FileFormatError: for a file of another form.
    """
    if isinstance(content, dict) and isinstance(content.get("annotations"), list):
        return Rows(path, "annotations", content["annotations"], _RESULTS_FORM)
    if not isinstance(content, list):
        raise _wrong_type(path, "a results file", content, _RESULTS_FORM)
    return Rows(path, "", content, _RESULTS_FORM)


def _wrong_type(path: Path, what: str, content: object, remedy: str) -> FileFormatError:
    got = f"a JSON {type(content).__name__}"
    return FileFormatError(f"not {what}", where=str(path), got=got, remedy=remedy)
