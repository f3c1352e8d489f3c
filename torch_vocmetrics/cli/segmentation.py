"""Paint label images from the boxes of a detector; and ``vocmetrics evaluate segmentation/...``.

``paint`` reads results files and image sizes (of JPEGImages or SegmentationClass) and writes
SegmentationClass and SegmentationObject, as VOC's baseline does.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import torch
from torch import Tensor

from torch_vocmetrics import MeanIoU

from .. import io
from ..errors import InputError, printable
from ..io.names import path_inside
from ..io.voc_folder import image_set_path
from ..protocols import PAINTINGS, SegmentationProtocol, load_dataset
from .evaluation import Evaluation
from .options import size_limit
from .outputs import check_output_folder, refuse_to_overwrite
from .progress import Progress
from .streams import show


def evaluate_segmentation(
    args: argparse.Namespace, protocol: SegmentationProtocol, device: torch.device
) -> Evaluation:
    """Evaluate a folder of label images against another, one image after the other."""
    pairs = io.pair_label_images(args.ground_truth, args.detections, args.image_set or "test")
    if args.void is not None:
        protocol = dataclasses.replace(protocol, void_labels=args.void)
    names, colors = args.classes, None
    if args.label_colors is not None:
        void = {"void_label": protocol.void_labels[0]} if protocol.void_labels else {}
        colors = io.read_label_colors(args.label_colors, names, **void)
        names = colors.class_names
    metric = MeanIoU(protocol, class_names=names, label_ids=args.label_ids)
    read = io.read_label_pairs(
        pairs, colors=colors, on_fault=args.on_fault, max_pixels=args.max_pixels
    )
    with Progress(quiet=args.quiet) as progress:
        for number, (image_id, predicted, truth) in enumerate(read, 1):
            true = _reduced(truth, protocol) if args.reduce_zero_label else truth
            metric.update([predicted.to(device)], [true.to(device)], [image_id])
            progress("images compared", number, len(pairs))
    return Evaluation(metric=metric, result=metric.compute())


def _reduced(true: Tensor, protocol: SegmentationProtocol) -> Tensor:
    """True labels without label 0, which becomes void; the others move down by one.

    Raises:
        InputError: if the protocol has no void label.
    """
    if not protocol.void_labels:
        raise InputError("needs a void label", where="--reduce-zero-label", remedy="give --void")
    void, labels = protocol.void_labels[0], true.long()
    is_void = torch.isin(labels, torch.tensor([0, *protocol.void_labels]))
    return torch.where(is_void, void, labels - 1)


# vocmetrics paint ---------------------------------------------------------------------------------


def paint(args: argparse.Namespace) -> None:
    """Write the label images of a detector."""
    check_output_folder(args.output, "--output")
    names = args.classes or load_dataset("voc2007").class_names
    sizes, limit = _sizes(args.images, args.max_pixels), size_limit(args)
    lists, image_ids = args.images / "ImageSets" / "Segmentation", None
    if lists.is_dir():
        listed = image_set_path(lists, args.image_set)
        image_ids = io.read_image_set(listed, known=sizes.__contains__, **limit)
    if image_ids is not None and args.painting == PAINTINGS[1]:
        missing = next((name for name in image_ids if name not in sizes), None)
        if missing is not None:
            raise InputError("an image is missing", where=str(args.images), got=missing)
    folders = [args.output / name for name in ("SegmentationClass", "SegmentationObject")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    outputs = (
        path_inside(folder, f"{name}.png", to_write=True) for name in sizes for folder in folders
    )
    refuse_to_overwrite(outputs, force=args.force)
    count = 0
    for one in io.create_segmentations_from_detections(
        io.find_results(args.detections, names),
        sizes,
        class_names=names,
        painting=args.painting,
        image_ids=image_ids,
        confidence=args.confidence,
        max_pixels=args.max_pixels,
        **limit,
    ):
        for folder, labels in zip(folders, (one.classes, one.instances), strict=True):
            path = path_inside(folder, f"{one.image_id}.png", to_write=True)
            io.write_label_map(path, labels)
        count += 1
    if not args.quiet:
        show(printable(f"{count} images painted into {args.output}"))


def _sizes(folder: Path, max_pixels: int) -> dict[str, tuple[int, int]]:
    """Height and width of every image of a development kit."""
    for name in ("JPEGImages", "SegmentationClass"):
        paths = sorted((folder / name).glob("*.*")) if (folder / name).is_dir() else []
        if paths:
            return {path.stem: io.read_image_size(path, max_pixels=max_pixels) for path in paths}
    raise InputError(
        "no images to take sizes from", where=str(folder), remedy="give the folder of the kit"
    )
