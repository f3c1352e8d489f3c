"""``vocmetrics view``: annotations or detections drawn on the images, as PNG files."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from torch_vocmetrics import DetectionAP

from .. import io
from ..errors import InputError
from ..io.images import open_image
from ..io.names import path_inside
from ..limits import MAX_PIXELS
from ..protocols import DetectionProtocol, load_dataset, load_protocol
from ..results import VocDetectionResult
from .classes import choose_classes, find_result_files, warn_of_other_classes
from .options import size_limit
from .outputs import check_output_folder, refuse_to_overwrite
from .streams import say

FOLDERS = ("JPEGImages", "PNGImages", "images", "Annotations", "annotations", ".")
SUFFIXES = (".jpg", ".jpeg", ".png")
GROUND_TRUTH, DIFFICULT, DETECTION = "green", "yellow", "red"


def run(args: argparse.Namespace) -> None:
    """Draw and write."""
    check_output_folder(args.output, "--output")
    if args.true_positives and not args.detections:
        raise InputError("needs --detections", where="--true-positives")
    limit = size_limit(args)
    read = io.read_voc_set(args.folder, args.image_set, **limit)
    counts, usual = read.num_objects, load_dataset("voc2007").class_names
    names = choose_classes(args.classes, counts, usual)
    warn_of_other_classes(names, counts)
    files = find_result_files(args.detections, names, counts, usual) if args.detections else {}
    truth = read.ground_truths(names)
    found = io.read_voc_detections(files, truth, **limit).predictions if files else None
    known = {str(image_id) for image_id in truth.image_ids}
    chosen = set(args.images.split(",")) if args.images else known
    unknown = chosen - known
    if unknown:
        raise InputError("not in the image set", where="--images", got=sorted(unknown)[0])
    protocol = load_protocol(args.protocol, DetectionProtocol)
    paths = {one: path_inside(args.output, f"{one}.png", to_write=True) for one in sorted(chosen)}
    refuse_to_overwrite(paths.values(), force=args.force)
    for place, image_id in enumerate(truth.image_ids):
        if image_id not in chosen:
            continue
        target = truth.targets[place]
        labels = target["labels"].tolist()
        colors = [DIFFICULT if hard else GROUND_TRUTH for hard in target["difficult"].tolist()]
        boxes, words = target["boxes"], [names[label] for label in labels]
        if found is not None:
            rows = found[place]
            keep = rows["scores"] >= args.min_score
            if args.true_positives:
                keep = keep & true_positives(protocol, rows, target, names)
            boxes = rows["boxes"][keep]
            scored = zip(rows["labels"][keep].tolist(), rows["scores"][keep].tolist(), strict=True)
            words = [f"{names[label]} {score:.3g}" for label, score in scored]
            colors = [DETECTION] * len(words)
        image = read_image(args.folder, str(image_id), max_pixels=args.max_pixels)
        path = paths[str(image_id)]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_png(path, draw(image, boxes, words, colors))
    say(f"{len(chosen)} images written to {args.output}")


def true_positives(
    protocol: DetectionProtocol,
    rows: Mapping[str, Tensor],
    target: Mapping[str, Any],
    class_names: tuple[str, ...],
) -> Tensor:
    """[N] bool: detections of one image that are true positives at the first threshold.

    They are where recall rises along the image's own curve; matching is local to an image.

    Raises:
        InputError: for a protocol whose result has no curve of single detections.
    """
    result = DetectionAP(protocol, class_names=class_names).update([rows], [target]).compute()
    if not isinstance(result, VocDetectionResult):
        raise InputError("needs a VOC protocol", where="--protocol", got=protocol.name)
    right = torch.zeros_like(rows["labels"], dtype=torch.bool)
    for label, curve in enumerate(result.curves[0]):
        mine = (rows["labels"] == label).nonzero().squeeze(1)
        order = torch.argsort(rows["order"][mine], stable=True)
        ranked = torch.argsort(rows["scores"][mine][order], descending=True, stable=True)
        before = torch.nn.functional.pad(curve.recall, (1, 0))[:-1]
        right[mine[order][ranked]] = curve.recall > before
    return right


def read_image(folder: Path, image_id: str, *, max_pixels: int = MAX_PIXELS) -> Tensor:
    """[3, H, W] uint8.

    Raises:
        InputError: if the folder has no such image.
        FileFormatError: if it cannot be understood, or is larger than the limits.
    """
    for place in FOLDERS:
        for suffix in SUFFIXES:
            path = path_inside(folder / place, f"{image_id}{suffix}")
            if path.is_file():
                with open_image(path, max_pixels=max_pixels) as (image, _):
                    pixels = np.asarray(image.convert("RGB"))
                return torch.from_numpy(pixels.copy()).permute(2, 0, 1)
    raise InputError(
        "no such image", where=str(folder / FOLDERS[0]), got=f"{image_id}{SUFFIXES[0]}"
    )


def draw(image: Tensor, boxes: Tensor, words: list[str], colors: list[str]) -> Tensor:
    """Draw VOC boxes, pixels from 1, on an image; what lies outside is cut off.

    Args:
        image: [3, H, W] uint8.
        boxes: [N, 4] xmin, ymin, xmax, ymax; inverted ones are left out.
        words, colors: N each.
    """
    from torchvision.utils import draw_bounding_boxes  # noqa: PLC0415

    height, width = image.shape[1:]
    limits = torch.tensor([width - 1, height - 1, width - 1, height - 1])
    inside = torch.minimum((boxes - 1).round().clamp(min=0), limits).long()
    upright = ((boxes[:, 2:] >= boxes[:, :2]).all(dim=1)).nonzero().squeeze(1).tolist()
    if not upright:
        return image
    drawn: Tensor = draw_bounding_boxes(
        image,
        inside[upright],
        labels=[words[row] for row in upright],
        colors=[colors[row] for row in upright],
        width=2,
    )
    return drawn


def write_png(path: Path, image: Tensor) -> None:
    """Write [3, H, W] uint8."""
    Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).save(path)
