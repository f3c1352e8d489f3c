"""Label images: indexed PNGs of VOC, label ids of Cityscapes, 16-bit maps; by Pillow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import FileFormatError, InputError
from ..limits import MAX_PIXELS
from .entry_log import EntryLog
from .images import open_image
from .label_colors import LabelColors, voc_colormap
from .names import path_inside
from .voc_folder import has_file, image_set_path, read_image_set

_INDEXED = {"P": np.uint8, "L": np.uint8, "1": np.uint8, "I": np.int32, "I;16": np.uint16}
_TRUTH = "_gtFine_labelIds"


class LabelImagePair(NamedTuple):
    """Where the true and the predicted label image of one image are."""

    image_id: str
    ground_truth: Path
    prediction: Path


def read_label_map(
    path: str | Path, *, colors: LabelColors | None = None, max_pixels: int = MAX_PIXELS
) -> Tensor:
    """[H, W] labels of an indexed, grey or 16-bit PNG as the file has them, or of a colour PNG.

    Palettes are passed over. What the file holds decides, not its name: a JPEG changes labels and
    is refused.

    Args:
        path: the file.
        colors: which label each colour of a colour image stands for; None takes VOC's colours.
        max_pixels: the largest image that is decoded.

    Raises:
        FileFormatError: if it is no PNG, has a colour that is not in the list, or is larger than
            ``max_pixels``; it is not decoded then.
        OSError: if there is no such file or it may not be read.
    """
    with open_image(path, formats=("PNG",), max_pixels=max_pixels) as (image, grey_bits):
        mode = image.mode.removesuffix("B").removesuffix("N")
        if mode not in _INDEXED:
            pixels = np.array(image.convert("RGB"))
            return torch.from_numpy((colors or LabelColors.voc()).read(pixels, path))
        labels = np.array(image).astype(_INDEXED[mode])
    if grey_bits in (2, 4):  # Pillow stretches them to 0 .. 255
        labels //= 255 // (2**grey_bits - 1)
    return torch.from_numpy(labels)


def read_image_size(path: str | Path, *, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Height and width of a JPEG or PNG image, from its header alone.

    Raises:
        FileFormatError: if it is no such image, or larger than ``max_pixels``.
        OSError: if there is no such file or it may not be read.
    """
    with open_image(path, max_pixels=max_pixels) as (image, _):
        return image.size[1], image.size[0]


def write_label_map(path: str | Path, labels: Tensor | NDArray[np.integer]) -> None:
    """Write [H, W] labels 0 .. 255 as a PNG with VOC's palette, larger ones as a 16-bit PNG.

    Raises:
        InputError: unless labels are [H, W] integers in 0 .. 65535.
        OSError: if the file cannot be written.
    """
    from PIL import Image  # noqa: PLC0415

    array = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    whole = np.issubdtype(array.dtype, np.integer)
    if array.ndim != 2 or not array.size or not whole or array.min() < 0 or array.max() > 65535:
        raise InputError("labels must be [H, W] integers in 0 .. 65535", where=str(path))
    if array.max() > 255:
        Image.fromarray(array.astype(np.uint16)).save(path, format="PNG")
        return
    image = Image.fromarray(array.astype(np.uint8), mode=None)
    image.putpalette(voc_colormap().tobytes())
    image.save(path, format="PNG")


def pair_label_images(
    ground_truth: str | Path, predictions: str | Path, image_set: str | None = None
) -> list[LabelImagePair]:
    """Find the true and the predicted label image of every image.

    Three forms of ``ground_truth`` are known: a development kit, of which ``image_set`` in
    ``ImageSets/Segmentation`` is taken (truth in ``SegmentationClass``); a folder of Cityscapes,
    with ``<id>_gtFine_labelIds.png`` at any depth, whose predictions begin with ``<id>``; or any
    other folder of PNGs, whose predictions have the same names.

    Raises:
        FileFormatError: naming the image whose prediction is missing or not the only one.
        OSError: for a folder or image set that does not exist.
    """
    truth, found = Path(ground_truth), Path(predictions)
    for folder in (truth, found):
        if not folder.is_dir():
            raise FileFormatError("not a folder", where=str(folder))
    if (truth / "ImageSets" / "Segmentation").is_dir():
        listed = image_set_path(truth / "ImageSets" / "Segmentation", image_set or "val")
        folder = truth / "SegmentationClass"
        ids = read_image_set(listed, known=lambda name: has_file(folder, f"{name}.png"))
        paths = [path_inside(folder, f"{image_id}.png") for image_id in ids]
    else:
        paths = sorted(truth.rglob(f"*{_TRUTH}.png")) or sorted(truth.glob("*.png"))
        ids = tuple(path.stem.removesuffix(_TRUTH) for path in paths)
    if not paths:
        raise FileFormatError("no label images", where=str(truth), remedy="give a folder of PNGs")
    known = sorted(found.rglob("*.png"))
    by_name = {path.stem: path for path in known}
    cityscapes = any(path.stem.endswith(_TRUTH) for path in paths)
    return [
        LabelImagePair(image_id, path, _prediction(image_id, found, known, by_name, cityscapes))
        for image_id, path in zip(ids, paths, strict=True)
    ]


def _prediction(
    image_id: str, folder: Path, known: list[Path], by_name: dict[str, Path], cityscapes: bool
) -> Path:
    named = path_inside(folder, f"{image_id}.png")
    candidates = [named] if named.exists() else []
    if not candidates and cityscapes:
        candidates = [path for path in known if path.name.startswith(image_id)]
    elif not candidates and image_id in by_name:
        candidates = [by_name[image_id]]
    if len(candidates) != 1:
        raise FileFormatError(
            f"image {image_id} has {len(candidates) or 'no'} predicted label images",
            where=str(folder),
            remedy=f"save its prediction as {image_id}.png",
        )
    return candidates[0]


def read_label_pairs(
    pairs: Sequence[LabelImagePair],
    *,
    colors: LabelColors | None = None,
    on_fault: str = "error",
    max_pixels: int = MAX_PIXELS,
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Image id, predicted and true labels [H, W] of one image after the other.

    Args:
        pairs: of :func:`pair_label_images`.
        colors: which label each colour stands for, where images hold colours.
        on_fault: ``"error"`` raises at once; ``"skip"`` leaves images at fault out with a warning.
        max_pixels: the largest image that is decoded.

    Raises:
        FileFormatError: naming the file that cannot be understood.

    Warns:
        VocMetricsWarning: of images that are left out, after the last.
    """
    log = EntryLog("label images", on_fault)
    options: dict[str, Any] = {"colors": colors, "max_pixels": max_pixels}
    for pair in pairs:
        try:
            maps = [
                read_label_map(path, **options) for path in (pair.prediction, pair.ground_truth)
            ]
        except FileFormatError as error:
            if on_fault == "error":
                raise
            log.add_faults(1, [error])
            continue
        yield pair.image_id, maps[0], maps[1]
    log.finish()
