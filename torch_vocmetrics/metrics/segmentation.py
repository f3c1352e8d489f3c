"""Mean intersection over union of semantic segmentation: PASCAL VOC of every year, Cityscapes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from ..errors import InputError
from ..host_work import host_work
from ..inputs.label_maps import LabelRules, count, explain, read_maps
from ..protocols import SegmentationProtocol, load_dataset, load_protocol
from ..results import SegmentationResult
from ..summaries.pixels import segmentation_result
from ..tables.pixels import PixelCounts
from ..tables.records import Ids
from .base import Metric
from .classes import ClassNames, read_classes

CHUNK_CELLS = 2**22
"""Dense counts become sparse when so many cells are open: 32 MiB."""


class MeanIoU(Metric[SegmentationResult]):
    """Pixel counts of label maps over any number of batches, and the measures made of them.

    Counts are summed over the data set before anything is divided: a mean over images is another
    number. Without classes, those of the protocol's data set are taken: 21 with background for VOC.

    Args:
        protocol: ``"voc2012"``, ``"voc2012_present_classes"``, ``"cityscapes"``, the path of a
            protocol file, or a :class:`SegmentationProtocol`.
        num_classes, class_names: how many classes there are, background included, or their names: a
            list in class order, or a dict {label id: name}.
        label_ids: the label of each class in label maps; default 0 .. K-1. Channels of logits are
            in class order.

    Raises:
        ProtocolError: if the protocol is unknown (with the near names) or faulty.
        InputError: if the classes are missing, disagree, or occur twice.

    Source: the protocol's file names the official code behind each rule.

    Example:
        >>> import torch
        >>> metric = MeanIoU("voc2012", class_names=["background", "cat"])
        >>> truth = torch.tensor([[[0, 0, 1, 255]]])
        >>> result = metric.update(torch.tensor([[[0, 1, 1, 0]]]), truth).compute()
        >>> result.iou.tolist(), result.headline, result.confusion_matrix.tolist()
        ([0.5, 0.5], 0.5, [[1, 1], [0, 1]])
    """

    def __init__(
        self,
        protocol: str | Path | SegmentationProtocol,
        *,
        num_classes: int | None = None,
        class_names: ClassNames | None = None,
        label_ids: Sequence[int] | None = None,
    ) -> None:
        protocol = load_protocol(protocol, SegmentationProtocol)
        self.protocol = protocol
        self.class_names, self.label_ids, self._categories = _classes(
            protocol, num_classes, class_names, label_ids
        )
        self._rules = LabelRules.of(
            self.label_ids,
            protocol.void_labels,
            void_predictions=protocol.void_predictions == "miss",
        )
        self._clear()

    def _clear(self) -> None:
        self._device: torch.device | None = None
        self._tables = self._rules
        self._dense: list[Tensor] = []
        self._ids: list[int | str | Tensor] = []
        self._flags: list[tuple[Tensor, int]] = []
        self._images = 0
        self._parts: list[PixelCounts] = []
        self._fault: InputError | None = None
        self._updated = False

    @property
    def _cells(self) -> int:
        return len(self.class_names) * (len(self.class_names) + 1)

    @host_work()
    def update(
        self, predictions: Any, targets: Any, image_ids: Sequence[int | str] | Tensor | None = None
    ) -> Self:
        """Add a batch of images.

        Args:
            predictions: [B, H, W] labels of any integer type; or [B, K, H, W] logits or
                probabilities, of which the largest counts (the first among equals); or a list of
                one [H, W] or [K, H, W] an image, for images of different sizes.
            targets: [B, H, W] labels, or a list of [H, W]; void labels count nowhere.
            image_ids: B ids, int or str, or none in all batches. Of several copies of an image the
                first counts.

        Work happens on the device of the first predictions; targets may be on the CPU. Labels are
        checked at once on the CPU; on other devices by ``compute``, so that ``update`` need not
        wait.

        Raises:
            InputError: naming image, pixel and remedy; the state is then as it was.
        """
        batch = read_maps(predictions, targets, len(self.class_names), self._device)
        ids = _image_ids(image_ids, batch.num_images)
        self._check_ids(ids, batch.num_images)
        if not batch.num_images:
            self._updated = True
            return self
        device = batch.stacks[0][1].device
        tables = self._tables if device == self._device else self._rules.to(device)
        dense, fault = count(batch, tables)
        if device.type == "cpu" and (error := explain(fault, batch, tables, ids)) is not None:
            raise error
        self._device, self._tables, self._updated = device, tables, True
        if device.type != "cpu":
            self._flags.append((fault, self._images))
        self._dense.append(dense)
        self._ids += ids or []
        self._images += batch.num_images
        if sum(part.numel() for part in self._dense) >= CHUNK_CELLS:
            self._flush()
        return self

    def _distinct(self) -> PixelCounts:
        return self._counts().without_repeats(len(self.class_names) + 1)

    def _result(self, distinct: PixelCounts) -> SegmentationResult:
        K = len(self.class_names)
        matrix = distinct.total(self._cells).reshape(K, K + 1).cpu().numpy()
        return segmentation_result(
            self.protocol, matrix, self.class_names, self._categories, distinct.num_images
        )

    def _state(self) -> list[PixelCounts]:
        return [self._counts()]

    def _columns(self, tables: Sequence[PixelCounts]) -> dict[str, Any]:
        return {"counts": {name: getattr(tables[0], name) for name in ("image", "cell", "count")}}

    def _read(self, ids: list[Any] | None, state: dict[str, Any]) -> list[PixelCounts]:
        images = int(state["num_images"])
        counts = PixelCounts(None if ids is None else tuple(ids), images, **state["counts"])
        counts.check(self._cells)
        return [counts]

    def _hold(self, tables: Sequence[PixelCounts]) -> None:
        self._parts, self._images = list(tables), tables[0].num_images
        if self._device is not None:
            self._tables = self._rules.to(self._device)

    @torch.no_grad()
    def _counts(self) -> PixelCounts:
        """All counts so far.

        Raises:
            InputError: if labels flagged on a device broke the rules; until ``reset``.
        """
        self._flush()
        if self._fault is not None:
            raise self._fault
        self._parts = [PixelCounts.cat(self._parts)] if self._parts else [PixelCounts.empty()]
        return self._parts[0]

    def _flush(self) -> None:
        """Make the open chunk sparse; may wait for the device."""
        if not self._dense:
            return
        dense, ids, flags = self._dense, self._ids, self._flags
        self._dense, self._ids, self._flags = [], [], []
        read = tuple(int(one) if isinstance(one, Tensor) else one for one in ids)
        first = self._images - sum(part.shape[0] for part in dense)
        for flag, images_before in flags:
            part = read[images_before - first :] if read else None
            error = explain(flag, None, self._rules, part, images_before)
            self._fault = self._fault or error
        self._parts.append(PixelCounts.of(torch.cat(dense), read or None))

    def _check_ids(self, ids: list[int | str | Tensor] | None, num_images: int) -> None:
        """Ids must be given always or never, and be of one kind."""
        if not self._images or not num_images:
            return
        last = self._parts[-1].image_ids if self._parts and not self._dense else self._ids[-1:]
        if _kind(ids) != _kind(last):
            raise InputError(
                "image ids must be of one kind in all batches",
                where="image_ids",
                got=f"{_kind(ids)} after {_kind(last)}",
            )

    def _arrange(self, order: Tensor) -> None:
        self._parts = [self._counts().in_order(order)]

    @classmethod
    def _of(
        cls, protocols: Sequence[Any], class_names: Sequence[str], label_ids: Sequence[int]
    ) -> Self:
        return cls(protocols[0], class_names=class_names, label_ids=label_ids)

    def _all_protocols(self) -> list[SegmentationProtocol]:
        return [self.protocol]


def _kind(ids: Sequence[object] | Ids | None) -> str:
    return "none" if not ids else "str" if isinstance(ids[0], str) else "int"


def _image_ids(
    given: Sequence[int | str] | Tensor | None, num_images: int
) -> list[int | str | Tensor] | None:
    """One id an image; those on a device are read later."""
    if given is None:
        return None
    listed: list[Any] = list(given)
    if isinstance(given, Tensor):
        listed = given.tolist() if given.device.type == "cpu" else list(given.unbind())
    ids: list[int | str | Tensor] = []
    for one in listed:
        whole = hasattr(one, "__index__") and not isinstance(one, bool | Tensor)
        if not (isinstance(one, str | Tensor) or whole):
            raise InputError("must be int or str", where="image_ids", got=repr(one))
        ids.append(int(one) if whole else one)
    if len(ids) != num_images or len({isinstance(one, str) for one in ids}) > 1:
        raise InputError(
            "must be one id an image, all int or all str",
            where="image_ids",
            got=f"{len(ids)} for {num_images} images",
        )
    return ids


def _classes(
    protocol: SegmentationProtocol,
    num_classes: int | None,
    class_names: ClassNames | None,
    label_ids: Sequence[int] | None,
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    """Names, labels and categories: those of the protocol's data set unless something is given."""
    dataset = load_dataset(protocol.dataset)
    if num_classes is None and class_names is None and label_ids is None:
        return dataset.class_names, dataset.label_ids, dataset.category_names
    names, labels = read_classes(num_classes, class_names, label_ids)
    if class_names is None and len(names) == len(dataset.class_names):
        names = dataset.class_names
    if names == dataset.class_names:
        return names, labels or dataset.label_ids, dataset.category_names
    return names, labels or tuple(range(len(names))), ()
