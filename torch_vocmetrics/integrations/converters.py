"""Detections of other libraries as the dicts that ``DetectionAP.update`` takes.

The libraries are not imported: what counts are the attributes of their objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from torch_vocmetrics import InputError

ROW_KEYS = ("iscrowd", "difficult", "ignore", "area")
"""Of a target's rows; taken from ``data`` (supervision) or attributes (FiftyOne)."""


def from_supervision(detections: Any) -> dict[str, Any]:
    """A ``supervision.Detections`` as predictions, or as a target where it has no confidence.

    Args:
        detections: with ``xyxy`` [N, 4] pixels and ``class_id`` [N]; ``confidence`` [N] makes it
            predictions; ``mask`` [N, H, W] bool, and ``iscrowd``, ``difficult``, ``ignore`` and
            ``area`` in ``data`` are taken if they are there.

    Raises:
        InputError: if there are boxes without class ids.

    Example:
        >>> import types
        >>> box = np.array([[10.0, 10.0, 50.0, 50.0]])
        >>> there = types.SimpleNamespace(xyxy=box, class_id=np.array([1]), confidence=None,
        ...                               mask=None, data={})
        >>> from_supervision(there)["labels"].tolist()
        [1]
    """
    boxes = np.asarray(detections.xyxy).reshape(-1, 4)
    labels = detections.class_id
    if labels is None and len(boxes):
        raise InputError(
            "has no class_id", where="supervision.Detections", got=f"{len(boxes)} boxes"
        )
    rows: dict[str, Any] = {
        "boxes": boxes,
        "labels": np.zeros(0, dtype=np.int64) if labels is None else np.asarray(labels),
    }
    if detections.confidence is not None:
        rows["scores"] = np.asarray(detections.confidence)
    if detections.mask is not None:
        rows["masks"] = np.asarray(detections.mask)
    if "scores" not in rows:
        rows |= {key: detections.data[key] for key in ROW_KEYS if key in detections.data}
    return rows


def from_fiftyone(
    detections: Any,
    class_names: Sequence[str] | Mapping[int, str],
    image_size: tuple[int, int],
    *,
    predictions: bool,
) -> dict[str, Any]:
    """FiftyOne's ``Detections``, or a list of what it holds, in pixels.

    Args:
        detections: an object with a list ``detections``, or that list, of objects with ``label``,
            ``bounding_box`` [left, top, width, height] as fractions of the image, and
            ``confidence`` or, for a target, maybe ``iscrowd`` and the like. None is an image
            without any.
        class_names: in class order, or {id: name}.
        image_size: height and width in pixels.
        predictions: whether they have scores.

    Raises:
        InputError: if a label is none of the names, or a prediction has no confidence.

    Example:
        >>> import types
        >>> cat = types.SimpleNamespace(label="cat", bounding_box=[0.1, 0.5, 0.2, 0.25],
        ...                             confidence=0.75)
        >>> from_fiftyone([cat], ["dog", "cat"], (40, 100), predictions=True)
        {'boxes': array([[10., 20., 30., 30.]]), 'labels': array([1]), 'scores': array([0.75])}
    """
    listed = list(getattr(detections, "detections", detections) or [])
    names = class_names if isinstance(class_names, Mapping) else dict(enumerate(class_names))
    ids = {name: label for label, name in names.items()}
    labels = []
    for index, one in enumerate(listed):
        if one.label not in ids:
            raise InputError("is no class", where=f"detections[{index}].label", got=one.label)
        labels.append(ids[one.label])
    height, width = image_size
    scale = np.array([width, height, width, height], dtype=np.float64)
    boxes = np.array([one.bounding_box for one in listed], dtype=np.float64).reshape(-1, 4) * scale
    boxes[:, 2:] += boxes[:, :2]
    rows: dict[str, Any] = {"boxes": boxes, "labels": np.array(labels, dtype=np.int64)}
    if predictions:
        scores = [one.confidence for one in listed]
        if None in scores:
            where = f"detections[{scores.index(None)}].confidence"
            raise InputError("must be a number", where=where, got=None)
        rows["scores"] = np.array(scores, dtype=np.float64)
        return rows
    for key in ROW_KEYS[:-1]:
        values = [bool(getattr(one, key, None) or False) for one in listed]
        if any(values):
            rows[key] = np.array(values)
    return rows
