"""Masks as plain arrays of bool, and what they have in common, pixel by pixel."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

Mask = NDArray[np.bool_]


def read_masks(one: Mapping[str, Any], count: int, where: str) -> list[Mask]:
    """Decode the masks of one image: arrays, probabilities above 0.5, run lengths or polygons."""
    given = one.get("masks")
    given = [] if given is None else given
    if isinstance(given, list | tuple):
        masks = [decode(segmentation, one.get("image_size")) for segmentation in given]
    else:
        array = np.asarray(given.tolist() if hasattr(given, "tolist") else given)
        array = array[:, 0] > 0.5 if array.ndim == 4 else array != 0
        masks = list(array)
    if len(masks) != count or len({mask.shape for mask in masks}) > 1:
        raise InputError("must be one mask a row, of one size", where=where, got=len(masks))
    return masks


def decode(segmentation: Any, image_size: Any) -> Mask:
    """Decode run lengths or polygons by pycocotools, the only judge of its format.

    Source: coco.py COCO.annToRLE.
    """
    from pycocotools import mask as api  # noqa: PLC0415

    if isinstance(segmentation, list):
        height, width = (int(side) for side in image_size)
        if not segmentation:
            return np.zeros((height, width), dtype=bool)
        segmentation = api.merge(api.frPyObjects(segmentation, height, width))
    elif isinstance(segmentation["counts"], list):
        segmentation = api.frPyObjects(segmentation, *segmentation["size"])
    with warnings.catch_warnings():  # of NumPy 2, about the arrays that pycocotools makes
        warnings.simplefilter("ignore", DeprecationWarning)
        decoded: Mask = api.decode(segmentation) != 0
    return decoded


def mask_overlap(first: Mask, second: Mask, *, over_first: bool) -> float:
    """Pixels of both over pixels of either, or over those of the first; 0 if none are common.

    Source: maskApi.c rleIou: i, u, and u of a crowd.
    """
    common = int((first & second).sum())
    if common == 0:
        return 0.0
    return common / int(first.sum() if over_first else (first | second).sum())
