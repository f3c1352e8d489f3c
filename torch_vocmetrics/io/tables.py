"""What every reader gives: images, classes, and one dict per image ready for ``update``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..limits import MAX_COORDINATE

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class RowOrigins(NamedTuple):
    """The elements of a list in a JSON file from which the rows of the images were read.

    Sentences about rows that a metric refuses name them.

    Attributes:
        path: the file.
        list_name: the key of the list in the file, empty if the list is the whole file.
        elements: [N] index of each element in the list.
        image_index: [N] image of each element; rows of an image keep the order of the file.
        ids: the id of every element of the list, None for an element without an id.
    """

    path: Path
    list_name: str
    elements: Integers
    image_index: Integers
    ids: Sequence[object]

    @classmethod
    def of(cls, rows: Any, image_index: Integers, keep: NDArray[np.bool_]) -> RowOrigins:
        """The origins of those ``Rows`` that are kept."""
        kept_index = image_index if keep.all() else image_index[keep]
        return cls(rows.path, rows.name, np.flatnonzero(keep), kept_index, rows.given_ids())

    def where(self, image: int, row: int) -> str:
        """The words for a row of an image: its element and, if it has one, its annotation id."""
        element = int(self.elements[self.image_index == image][row])
        name = self.ids[element]
        said = "" if name is None else f", annotation id {json.dumps(name)[:40]}"
        return f"{self.path}, {self.list_name}[{element}]{said}"


@dataclass(frozen=True, eq=False, kw_only=True)
class GroundTruthFile:
    """Ground truth of a set of images.

    Attributes:
        image_ids: I ids, in the order of ``targets``.
        class_names: K names.
        label_ids: the value that each class has in ``labels``.
        other_label_ids: values of classes of the file that were left out on request.
        box_format: ``"xyxy"`` (VOC) or ``"xywh"`` (COCO), as the file has the boxes.
        targets: I dicts, the second argument of ``DetectionAP.update``.
        other_objects: how many objects of each class were left out because of their class.
        file_names: the name of the file of each image, empty where it is not known; () knows none.
        box_reading: how the boxes of a COCO file became VOC's corners, empty if they did not.
        origins: where the rows of ``targets`` stand in a COCO file; None for other files.
    """

    image_ids: tuple[int, ...] | tuple[str, ...]
    class_names: tuple[str, ...]
    label_ids: tuple[int, ...]
    other_label_ids: tuple[int, ...] = ()
    box_format: str
    targets: list[dict[str, Any]]
    other_objects: Mapping[str, int] = field(default_factory=dict)
    file_names: tuple[str, ...] = ()
    box_reading: str = ""
    origins: RowOrigins | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class DetectionFile:
    """Detections of the images of a :class:`GroundTruthFile`.

    Attributes:
        predictions: I dicts, the first argument of ``DetectionAP.update``.
        num_detections: how many detections each of the K classes has.
        origins: where the rows of ``predictions`` stand in a COCO file; None for other files.
    """

    predictions: list[dict[str, Any]]
    num_detections: tuple[int, ...]
    origins: RowOrigins | None = None


def split_by_image(
    image_index: Integers, num_images: int, columns: Mapping[str, NDArray[Any]]
) -> list[dict[str, Tensor]]:
    """Split rows into one dict of tensors per image, in which rows keep their order.

    Args:
        image_index: [N] index of each row's image, in 0..I-1.
        num_images: I.
        columns: arrays of N rows.
    """
    counts = np.bincount(image_index, minlength=num_images).tolist()
    if (image_index[1:] < image_index[:-1]).any():
        order = np.argsort(image_index, kind="stable")
        columns = {key: column[order] for key, column in columns.items()}
    parts = {key: torch.split(torch.from_numpy(column), counts) for key, column in columns.items()}
    return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]


def add_lists(
    key: str,
    images: Sequence[dict[str, Any]],
    image_index: Integers,
    values: Sequence[Any],
    keep: NDArray[np.bool_],
) -> None:
    """Give each image the list of its values, in the order of the rows that are kept."""
    for one in images:
        one[key] = []
    chosen = np.flatnonzero(keep).tolist()
    for index, row in zip(image_index.tolist(), chosen, strict=True):
        images[index][key].append(values[row])


def known_size(height: object, width: object) -> tuple[int, int] | None:
    """Height and width in whole pixels; None unless both are numbers in [1, 2**31)."""
    for side in (height, width):
        if isinstance(side, bool) or not isinstance(side, int | float):
            return None
        if not 1 <= side < MAX_COORDINATE:
            return None
    return int(height), int(width)  # type: ignore[call-overload]


def with_images(
    targets: Sequence[Mapping[str, Tensor]],
    image_ids: Sequence[int | str],
    sizes: Sequence[tuple[int, int] | None],
) -> list[dict[str, Any]]:
    """Add ``image_id`` and, where it is known, ``image_size`` (height, width) to each target."""
    return [
        {**target, "image_id": image_id, **({} if size is None else {"image_size": size})}
        for target, image_id, size in zip(targets, image_ids, sizes, strict=True)
    ]


def count_labels(labels: Integers, label_ids: Sequence[int]) -> tuple[int, ...]:
    """How often each label id occurs in ``labels``."""
    values, counts = np.unique(labels, return_counts=True)
    found = dict(zip(values.tolist(), counts.tolist(), strict=True))
    return tuple(found.get(label, 0) for label in label_ids)
