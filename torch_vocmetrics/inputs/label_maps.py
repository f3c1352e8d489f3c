"""From label maps or logits to counts: shapes and types at once, values by the counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from ..ops.confusion import LabelTable
from ..ops.label_tallies import tally
from ..transfer import to_device, work_device
from .numbers import tensor_of

FAULTS = ("the predicted label is unknown", "the true label is unknown", "a logit is NaN")
WIDEST = 2**20
"""Labels may lie so far apart: tables of labels are this long."""


class LabelRules(NamedTuple):
    """What a metric expects of its label maps.

    Attributes:
        num_classes: K; index K is void, K + 1 unknown.
        truth, prediction: indices of true and of predicted labels.
    """

    num_classes: int
    truth: LabelTable
    prediction: LabelTable

    @classmethod
    def of(
        cls, label_ids: Sequence[int], void_labels: Sequence[int], *, void_predictions: bool
    ) -> LabelRules:
        """Tables for K classes.

        Raises:
            InputError: if labels are repeated, void as well, or too far apart.
        """
        everything = [*label_ids, *void_labels]
        if len(set(label_ids)) < len(label_ids) or set(label_ids) & set(void_labels):
            raise InputError(
                "must be distinct and none of the protocol's void labels",
                where="label_ids",
                got=list(label_ids),
                remedy=f"void are {list(void_labels)}; dataclasses.replace(protocol, "
                "void_labels=...) makes others void",
            )
        if max(everything) - min(everything) >= WIDEST:
            raise InputError(
                f"labels must lie within {WIDEST:,} of each other",
                where="label_ids",
                got=f"{min(everything)} to {max(everything)}",
            )
        K = len(label_ids)
        classes = {label: k for k, label in enumerate(label_ids)}
        void = dict.fromkeys(void_labels, K)
        return cls(
            K,
            LabelTable.of(classes | void, K + 1),
            LabelTable.of(classes | void if void_predictions else classes, K + 1),
        )

    def to(self, device: torch.device) -> LabelRules:
        """The same tables on another device, in one copy that does not wait."""
        tables = self[1:]
        moved = to_device([table.indices for table in tables], device)
        return LabelRules(
            self.num_classes,
            *(
                table._replace(indices=indices)
                for table, indices in zip(tables, moved, strict=True)
            ),
        )


@dataclass(frozen=True, eq=False)
class MapBatch:
    """Label maps of B images in stacks of one size, on one device.

    Attributes:
        stacks: pairs of predictions ([n, H, W] integers, or [n, K, H, W] logits) and true labels
            [n, H, W].
    """

    stacks: list[tuple[Tensor, Tensor]]

    @property
    def num_images(self) -> int:
        """B."""
        return sum(truth.shape[0] for _, truth in self.stacks)


def read_maps(
    predictions: Any,
    targets: Any,
    num_classes: int,
    device: torch.device | None,
    binary_threshold: float | None = None,
) -> MapBatch:
    """Check shapes and types of a batch and bring it to one device without waiting.

    Args:
        predictions: [B, H, W] labels of any integer type, [B, K, H, W] logits or probabilities, or
            a list of one [H, W] or [K, H, W] an image.
        targets: [B, H, W] labels, or a list of [H, W].
        num_classes: K.
        device: where to count; None for the device of the predictions.
        binary_threshold: of two classes, real numbers [B, H, W] or [B, 1, H, W] above it are the
            second; None if they may not come so.

    Raises:
        InputError: naming side, image and remedy.
    """
    stacked = not (_is_list(predictions) or _is_list(targets))
    found = _maps(predictions, "predictions", stacked=stacked)
    if num_classes == 2:
        found = [_of_two_classes(one, binary_threshold) for one in found]
    true = _maps(targets, "targets", stacked=stacked)
    if len(found) != len(true):
        raise InputError(
            "predictions and targets must have one entry per image each",
            got=f"{len(found)} and {len(true)}",
        )
    for image, (prediction, truth) in enumerate(zip(found, true, strict=True)):
        _check(prediction, truth, num_classes, "" if stacked else f"[{image}]")
    work = work_device(device or (found[0].device if found else torch.device("cpu")))
    placed = to_device([*found, *true], work)
    return MapBatch(list(zip(placed[: len(found)], placed[len(found) :], strict=True)))


def count(batch: MapBatch, rules: LabelRules) -> Tensor:
    """[B, cells and faults] int64 of every image, see :func:`tally`; waits for no device."""
    counts = [
        tally(prediction, truth, rules.prediction, rules.truth)
        for prediction, truth in batch.stacks
    ]
    return counts[0] if len(counts) == 1 else torch.cat(counts)


def explain(
    flags: Tensor,
    batch: MapBatch | None,
    rules: LabelRules,
    image_ids: Sequence[object] | Tensor | None,
    images_before: int = 0,
) -> InputError | None:
    """The error that the first fault of a batch deserves, or None.

    Args:
        flags: [B, 3] bool on the host, which kinds of fault each image has.
        batch: the maps, to name pixel and label; None if they are gone.
        rules: of the labels.
        image_ids: of the batch, if there are any.
        images_before: added to the number of the image.
    """
    if not bool(flags.any()):
        return None
    image, kind = flags.nonzero()[0].tolist()
    side = "target" if kind == 1 else "prediction"
    name = "" if image_ids is None else f" (image_id {image_ids[image]!r})"
    where, got = f"{side} {images_before + image}{name}", None
    if batch is not None and kind < 2:
        prediction, truth = _image(batch, image)
        labels, table = (truth, rules.truth) if kind == 1 else (prediction, rules.prediction)
        bad = (table.look_up(labels) == rules.num_classes + 1).nonzero()[0].tolist()
        where, got = f"{where}, pixel (row {bad[0]}, column {bad[1]})", int(labels[tuple(bad)])
    remedy = (
        "check the model's output"
        if kind == 2
        else "labels must be 0 .. num_classes - 1, or among label_ids where those are given"
        + (", or void" if kind == 1 or rules.prediction.size == rules.truth.size else "")
    )
    return InputError(FAULTS[kind], where=where, got=got, remedy=remedy)


def _image(batch: MapBatch, image: int) -> tuple[Tensor, Tensor]:
    for prediction, truth in batch.stacks:
        if image < truth.shape[0]:
            return prediction[image], truth[image]
        image -= truth.shape[0]
    raise IndexError(image)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _maps(value: Any, name: str, *, stacked: bool) -> list[Tensor]:
    """One stack of all images, or one stack of a single image for each."""
    if stacked:
        return [_without_channel(_tensor(value, name))]
    if not _is_list(value):
        value = list(_tensor(value, name))
    tensors = [_tensor(one, f"{name}[{i}]") for i, one in enumerate(value)]
    return [_without_channel(one.unsqueeze(0)) for one in tensors]


def _of_two_classes(values: Tensor, threshold: float | None) -> Tensor:
    """[n, 2, H, W] out of real numbers [n, H, W] or [n, 1, H, W]; others as they are.

    The first channel is the threshold, so that what does not exceed it is of the first class, and
    NaN is found as it is in logits.
    """
    has_channel = values.dim() == 4 and values.shape[1] == 1
    if not values.is_floating_point() or not (has_channel or values.dim() == 3):
        return values
    if threshold is None:
        raise InputError(
            "one channel for two classes needs a threshold",
            where="predictions",
            got=f"{values.dtype} of shape {tuple(values.shape)}",
            remedy="give binary_threshold=0.0 for logits, or 0.5 for probabilities",
        )
    values = values.reshape(values.shape[0], *values.shape[-2:])
    return torch.stack([torch.full_like(values, threshold), values], dim=1)


def _without_channel(labels: Tensor) -> Tensor:
    """[n, H, W] of labels [n, 1, H, W], as loaders of images give them; others as they are."""
    is_one = labels.dim() == 4 and labels.shape[1] == 1 and not labels.is_floating_point()
    return labels.squeeze(1) if is_one else labels


def _tensor(value: Any, where: str) -> Tensor:
    return tensor_of(value, lambda: where).detach()


def _check(prediction: Tensor, truth: Tensor, num_classes: int, place: str) -> None:
    """Raise unless both are [n, H, W] integers of one size, or the first [n, K, H, W] logits."""
    shape, other = tuple(prediction.shape), tuple(truth.shape)
    here, there = f"predictions{place}", f"targets{place}"
    if truth.is_floating_point() or truth.is_complex() or truth.dim() != 3:
        raise InputError(
            "must be integer labels, [B, H, W] or a list of [H, W]",
            where=there,
            got=f"{truth.dtype} of shape {other[bool(place) :]}",
        )
    logits = prediction.is_floating_point()
    if prediction.is_complex() or prediction.dim() != 3 + logits:
        raise InputError(
            "must be integer labels, [B, H, W] or a list of [H, W], or logits with classes before "
            "height and width",
            where=here,
            got=f"{prediction.dtype} of shape {shape[bool(place) :]}",
        )
    if logits and shape[1] != num_classes:
        raise InputError(
            f"must have a channel for each of the {num_classes} classes", where=here, got=shape[1]
        )
    if shape[:1] + shape[1 + logits :] != other:
        raise InputError(
            "predictions and targets differ in size",
            where=here,
            got=f"{shape[:1] + shape[1 + logits :]} beside {other}"
            if not place
            else f"{shape[1 + logits :]} beside {other[1:]}",
            remedy="resize the prediction to the size of the ground truth",
        )
