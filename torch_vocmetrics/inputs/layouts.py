"""Person layouts as packed rows: layouts or persons of many images, and the parts of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Self

import torch
from torch import Tensor

from ..errors import InputError
from ..protocols import LayoutProtocol
from ..ragged import Detections, GroundTruths, image_of_row
from ..transfer import from_host, to_device, to_host, work_device
from .faults import BAD_FLAG, Subject, suspect, suspects_of_rows, unknown_label
from .forms import as_images
from .images import image_ids_of
from .keys import LAYOUT, PREDICTION, TARGET, check_images, check_keys, keys_of
from .numbers import WRONG_FLAG
from .packing import ImageList, PackedRows, Rows, Side, columns_of
from .per_image import ImageIds, compare_ids


@dataclass(frozen=True, eq=False)
class LayoutRows:
    """Layouts or persons of B images, N rows with P parts.

    Attributes:
        counts: rows of each image, known on the host.
        counts_of_parts: parts of each image, or of all images in one entry.
        box_format, part_format: of the boxes.
        boxes: [N, 4] floating point; zeros where persons are given and not detected.
        object_index: [N] int64; zeros where persons are detected.
        scores: [N] floating point; zeros for persons.
        difficult: [N] uint8; zeros for layouts.
        part_counts: [N] int64.
        part_boxes: [P, 4] floating point.
        part_labels: [P] int64, places in the protocol's ``parts``.
        order: [N] int64 that breaks ties of score in place of the row, or None.
    """

    counts: tuple[int, ...]
    counts_of_parts: tuple[int, ...]
    box_format: str
    part_format: str
    boxes: Tensor
    object_index: Tensor
    scores: Tensor
    difficult: Tensor
    part_counts: Tensor
    part_boxes: Tensor
    part_labels: Tensor
    order: Tensor | None

    def to(self, device: torch.device) -> Self:
        """The same rows on a device; from the host to CUDA in one copy that does not wait."""
        return self.with_columns(to_device(self.columns, device))

    @property
    def columns(self) -> list[Tensor]:
        """The tensors that there are."""
        given = [getattr(self, name) for name in (*TENSORS, "order")]
        return [column for column in given if column is not None]

    def with_columns(self, columns: Sequence[Tensor]) -> Self:
        """The same rows in other tensors, in the order of :attr:`columns`."""
        names = TENSORS if self.order is None else (*TENSORS, "order")
        placed: dict[str, Any] = dict(zip(names, columns, strict=True))
        return replace(self, **placed)

    @classmethod
    def cat(cls, parts: Sequence[Self]) -> Self:
        """One after the other; all parts with rows must have ``order`` or none."""
        orders = [part.order for part in parts if part.order is not None]
        return cls(
            counts=tuple(count for part in parts for count in part.counts),
            counts_of_parts=tuple(count for part in parts for count in part.counts_of_parts),
            box_format=parts[0].box_format,
            part_format=parts[0].part_format,
            order=torch.cat(orders) if orders else None,
            **{name: torch.cat([getattr(part, name) for part in parts]) for name in TENSORS},
        )


TENSORS = (
    "boxes", "object_index", "scores", "difficult", "part_counts", "part_boxes", "part_labels",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class LayoutBatch:
    """Packed images as they came, on one device; ``image_ids`` as in :class:`inputs.Batch`."""

    layouts: LayoutRows
    persons: LayoutRows
    image_ids: ImageIds | None
    other_ids: Tensor | None
    unread_keys: frozenset[str]
    image_sizes: None = None

    @property
    def num_images(self) -> int:
        """B."""
        return len(self.layouts.counts)

    @classmethod
    def on_host(cls, batches: Sequence[Self]) -> list[Self]:
        """The same batches on the CPU, after one wait for all."""
        sides = [side for batch in batches for side in (batch.layouts, batch.persons)]
        read = iter(to_host([column for side in sides for column in side.columns]))
        moved = iter([side.with_columns(list(islice(read, len(side.columns)))) for side in sides])
        return [replace(batch, layouts=next(moved), persons=next(moved)) for batch in batches]

    @property
    def detections(self) -> LayoutRows:
        """The layouts, under the name that they share with detections."""
        return self.layouts

    @property
    def formats(self) -> tuple[str, ...]:
        """Box formats of all sides; batches of the same ones can be matched together."""
        sides = (self.layouts, self.persons)
        return tuple(name for side in sides for name in (side.box_format, side.part_format))


def pack_layouts(
    layouts: Sequence[Rows] | Rows,
    persons: Sequence[Rows] | Rows,
    protocol: LayoutProtocol,
    device: torch.device | None,
) -> LayoutBatch:
    """Check keys, shapes and types of a batch and pack it; waits for no device.

    Args:
        layouts, persons: see ``LayoutAP.update``.
        protocol: says whether rows have boxes or object indices, and how many parts there are.
        device: where the rows go; None for the device of the first layouts.

    Raises:
        InputError: naming image, key and remedy.
    """
    place = "boxes" if protocol.persons == "detected" else "object_index"
    found, _ = _read(layouts, "layout", PREDICTION, place)
    true, unread = _read(persons, "person", TARGET, place)
    if len(found[0].counts) != len(true[0].counts):
        raise InputError(
            "layouts and persons must have one entry per image each",
            got=f"{len(found[0].counts)} and {len(true[0].counts)}",
        )
    estimates = _rows(*found, place, len(protocol.parts), "scores")
    people = _rows(*true, place, len(protocol.parts), None)
    home = people if estimates.boxes.is_cpu and not sum(estimates.counts) else estimates
    work = work_device(device or home.boxes.device)
    ids = image_ids_of(true[0])
    other_ids = compare_ids(image_ids_of(found[0], PREDICTION), ids)
    return LayoutBatch(estimates.to(work), people.to(work), ids, other_ids, unread)


def _read(
    images: Any, name: str, side: str, place: str
) -> tuple[tuple[Side, Side], frozenset[str]]:
    """Rows and parts of one side in whichever form they came, and keys that no metric reads.

    ``place`` names an object.
    """
    keys = keys_of(LAYOUT, side, without="object_index" if place == "boxes" else "boxes")
    images = as_images(images, keys, name)
    if isinstance(images, Mapping):
        unread = check_keys(images, keys, f"{name}s")
        whole = {"boxes": images["part_boxes"], "labels": images["part_labels"]}
        whole["counts"] = [len(whole["labels"])]
        rows = PackedRows(_with_boxes(images), name, "xyxy")
        return (rows, PackedRows(whole, name, "xyxy", "part_")), unread
    unread = check_images(images, columns_of(images)[1], keys, name)
    parts = [{"boxes": one["part_boxes"], "labels": one["part_labels"]} for one in images]
    sides = (
        ImageList([_with_boxes(one) for one in images], name, "xyxy"),
        ImageList(parts, name, "xyxy", "part_"),
    )
    return sides, unread


def _with_boxes(rows: Rows) -> Rows:
    """Rows that have boxes; where persons are given, zeros say how many rows there are."""
    if "boxes" in rows:
        return rows
    index = rows["object_index"]
    device = index.device if isinstance(index, Tensor) else "cpu"
    return {**rows, "boxes": torch.zeros((len(index), 4), device=device)}


def _rows(side: Side, parts: Side, place: str, num_parts: int, scores: str | None) -> LayoutRows:
    none = torch.zeros(len(side.boxes), dtype=torch.int64, device=side.boxes.device)
    order = None
    if sum(side.counts) and "order" in side:
        if not side.complete("order"):
            raise InputError(
                "key 'order' is given for some images only", remedy="give it in all or in none"
            )
        order = side.column("order")
    labels = parts.column("labels")
    known = (labels >= 0) & (labels < num_parts)
    difficult = "difficult" in side and scores is None
    return LayoutRows(
        counts=side.counts,
        counts_of_parts=parts.counts,
        box_format=side.box_format,
        part_format=parts.box_format,
        boxes=side.boxes,
        object_index=none if place == "boxes" else side.column(place),
        scores=torch.zeros_like(none, dtype=torch.float32)
        if scores is None
        else side.column(scores),
        difficult=side.column("difficult").to(torch.uint8) if difficult else none.to(torch.uint8),
        part_counts=side.column("part_counts"),
        part_boxes=parts.boxes,
        part_labels=torch.where(known, labels, unknown_label(labels)),
        order=order,
    )


def layout_fault(
    batch: LayoutBatch, protocol: LayoutProtocol, images_before: int = 0
) -> InputError | None:
    """The error that the values of a batch deserve, or None; reads the device."""
    inverted = protocol.inverted_boxes == "accept"
    given, num_parts = protocol.persons == "given", len(protocol.parts)
    for name, rows in (("layout", batch.layouts), ("person", batch.persons)):
        where = (batch.image_ids, images_before)
        error = _count_fault(rows, name, images_before) or (
            _repeat_fault(rows, images_before) if given and name == "person" else None
        )
        labels = torch.zeros_like(rows.part_counts)
        whole = Detections(rows.counts, rows.boxes, rows.scores, labels, None, rows.box_format)
        parts = GroundTruths(
            rows.counts_of_parts,
            rows.part_boxes,
            rows.part_labels,
            torch.zeros_like(rows.part_labels, dtype=torch.uint8),
            torch.full_like(rows.part_labels, torch.nan, dtype=torch.float64),
            rows.part_format,
        )
        if rows.difficult.shape[0]:
            found = [(BAD_FLAG, rows.difficult >= WRONG_FLAG)]
            flagged = suspect(found, {"flag": rows.difficult}, Subject(name, rows.counts, where[0]))
            error = error or flagged._replace(images_before=images_before).read()
        for kind, side in ((name, whole), (f"parts of {name}", parts)):
            ids = where[0] if len(side.counts) == len(batch.layouts.counts) else None
            for one in suspects_of_rows(side, kind, ids, num_parts, inverted_boxes=inverted):
                error = error or one._replace(images_before=images_before).read()
        if error is not None:
            return error
    return None


def _count_fault(rows: LayoutRows, name: str, images_before: int) -> InputError | None:
    """Counts of parts are not negative and add up to the parts of each image."""
    counts, device = rows.part_counts, rows.part_counts.device
    per_image = len(rows.counts_of_parts) == len(rows.counts)
    groups = rows.counts if per_image else (counts.shape[0],)
    image = image_of_row(groups, device)
    expected = from_host(rows.counts_of_parts, torch.int64, device)
    wrong = torch.zeros_like(expected).index_add(0, image, counts) != expected
    wrong = wrong | (torch.zeros_like(expected).index_add(0, image, (counts < 0).long()) > 0)
    if not bool(wrong.any()):
        return None
    first = int(wrong.long().argmax())
    return InputError(
        "part_counts must be whole numbers from 0 that add up to the parts",
        where=f"{name} {images_before + first}" if per_image else f"{name}s",
        got=f"{counts[image == first].tolist()[:20]} beside {int(expected[first])} parts",
    )


def _repeat_fault(rows: LayoutRows, images_before: int) -> InputError | None:
    """Given persons of an image have distinct object indices."""
    index = rows.object_index
    image = image_of_row(rows.counts, index.device)
    by_index = torch.argsort(index, stable=True)
    by_index = by_index[torch.argsort(image[by_index], stable=True)]
    image, index = image[by_index], index[by_index]
    twice = (image[1:] == image[:-1]) & (index[1:] == index[:-1])
    if not bool(twice.any()):
        return None
    first = int(twice.long().argmax())
    return InputError(
        "a person comes twice",
        where=f"person {images_before + int(image[first])}, key 'object_index'",
        got=int(index[first]),
    )
