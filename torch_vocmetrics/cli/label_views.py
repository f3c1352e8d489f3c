"""Label images as ``vocmetrics view`` draws them: truth and prediction over the image."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import io
from ..drawing import OUTCOME_STYLES
from ..errors import InputError
from ..protocols import SegmentationProtocol
from .pictures import find_picture, read_picture

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[np.uint8]


def label_pictures(
    args: argparse.Namespace, protocol: SegmentationProtocol, wanted: Sequence[str] | None
) -> Iterator[tuple[str, Callable[[], Image]]]:
    """Ids of images and what draws them: truth, then the prediction or its outcome beside.

    Args:
        args: of the command.
        protocol: says which labels are void.
        wanted: ids; None takes all.

    Raises:
        InputError: for an image that is not in the data set.
        FileFormatError: for folders at fault.
    """
    predictions = Path(args.detections) if args.detections else None
    truth_alone = args.ground_truth / "SegmentationClass"
    if predictions is None and not truth_alone.is_dir():
        truth_alone = args.ground_truth
    pairs = io.pair_label_images(
        args.ground_truth, predictions or truth_alone, args.image_set or "val"
    )
    known = {pair.image_id for pair in pairs}
    unknown = sorted(set(wanted or ()) - known)
    if unknown:
        raise InputError("not in the image set", where="--images", got=unknown[0])
    for pair in pairs:
        if wanted is None or pair.image_id in wanted:
            yield pair.image_id, partial(_picture, args, protocol, pair, predictions is not None)


def _picture(
    args: argparse.Namespace, protocol: SegmentationProtocol, pair: Any, has_prediction: bool
) -> Image:
    from PIL import Image as Pillow  # noqa: PLC0415 - loads slowly

    limit = {"max_pixels": args.max_pixels}
    truth = io.read_label_map(pair.ground_truth, **limit).numpy().astype(np.int64)
    panels = [_colored(truth)]
    if has_prediction:
        found = io.read_label_map(pair.prediction, **limit).numpy().astype(np.int64)
        if found.shape != truth.shape:
            raise InputError(
                "prediction and truth differ in size",
                where=pair.image_id,
                got=f"{found.shape} and {truth.shape}",
            )
        void = np.isin(truth, protocol.void_labels)
        panels.append(_outcome(found, truth, void) if args.outcomes else _colored(found))
    folder = args.image_folder or args.ground_truth
    try:
        path = find_picture(folder, pair.image_id)
    except InputError:
        path = None  # label images can be looked at without the image
    if path is not None:
        image = np.asarray(read_picture(path, **limit))
        if image.shape[:2] == truth.shape:
            panels = [image, *((panel * 0.6 + image * 0.4).astype(np.uint8) for panel in panels)]
    return Pillow.fromarray(np.concatenate(panels, axis=1))


def _colored(labels: NDArray[np.int64]) -> Pixels:
    """[H, W, 3]: VOC's colour of each label; others repeat after 256."""
    colors: Pixels = io.voc_colormap()[labels % 256]
    return colors


def _outcome(found: NDArray[np.int64], truth: NDArray[np.int64], void: NDArray[np.bool_]) -> Pixels:
    """[H, W, 3]: right, wrong and void pixels."""
    colors = np.array(
        [OUTCOME_STYLES[name].color for name in ("false", "true", "ignored")], np.uint8
    )
    return colors[np.where(void, 2, found == truth)]
