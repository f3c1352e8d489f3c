"""Masks of a batch: shapes and types at once, packed to bits where they lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..image_masks import BitMasks, ImageMasks, RleMasks, masks_on
from ..ops import mask_stacks, rle
from ..ops.masks import above_half, pack_masks
from ..ops.rle_batch import read_many
from ..ops.run_lengths import run_ends
from ..transfer import to_device
from .faults import BAD_MASK, Subject, Suspect, suspect
from .keys import KEYS
from .numbers import EXACT_UP_TO, INTEGER_TYPES, on_host, tensor_of
from .packing import Rows
from .per_image import ImageIds, ImageSizes

Masks = tuple[ImageMasks, ...]
Size = tuple[int, int]

SHARED_ROWS = 128
"""Empty boxes that are made at once."""

PROBABILITY_TYPES = frozenset((torch.float32, torch.float64, *EXACT_UP_TO))


def with_boxes(images: Any) -> Any:
    """Images in which those without ``boxes`` have empty ones at the origin, one a label."""
    if not isinstance(images, Sequence):
        return images
    zeros: dict[torch.device, Tensor] = {}
    return [_with_boxes(rows, zeros) for rows in images]


def _with_boxes(rows: Any, zeros: dict[torch.device, Tensor]) -> Any:
    """``zeros`` are those of each device, which all images share."""
    names = ("boxes", *KEYS["boxes"].near)
    hidden = isinstance(rows, Mapping) and any(name in rows for name in names)
    if hidden or not isinstance(rows, Mapping) or "labels" not in rows:
        return rows
    labels = tensor_of(rows["labels"], lambda: "key 'labels'")
    count, device = labels.numel(), labels.device
    if device not in zeros or len(zeros[device]) < count:
        zeros[device] = torch.zeros((max(count, SHARED_ROWS), 4), device=device)
    return {**rows, "boxes": zeros[device][:count]}


def read_masks(
    predictions: Sequence[Rows] | Rows,
    targets: Sequence[Rows] | Rows,
    counts: tuple[Sequence[int], Sequence[int]],
    sizes: ImageSizes | None,
    device: torch.device,
) -> tuple[Masks, Masks]:
    """Masks of both sides of each image.

    Args:
        predictions, targets: per image a dict with ``masks``: [N, H, W] bool or integers, [N, 1, H,
            W] probabilities (above 0.5 is the mask), or a list of N run lengths or polygons; left
            out where N is 0.
        counts: N of each image of either side.
        sizes: of the images, as targets state them; those on a device are not compared.
        device: where rows are matched. Where one side is tensors, run lengths of the other become
            bits on the same device; where both are run lengths, they stay.

    Raises:
        InputError: naming image and remedy.
    """
    if isinstance(predictions, Mapping) or isinstance(targets, Mapping):
        raise InputError(
            "masks need a list with one dict per image",
            where="predictions and targets",
            remedy="split packed tensors by image",
        )
    stated = None if isinstance(sizes, Tensor) else sizes
    known = _read_lists(predictions, targets, stated)
    pairs: list[tuple[_Given, _Given]] = []
    for image, (found, true) in enumerate(zip(predictions, targets, strict=True)):
        size = None if stated is None else stated[image]
        first = _read(found, counts[0][image], size, f"prediction {image}", known)
        if size is None and first is not None and isinstance(true.get("masks"), list | tuple):
            size = first.size  # polygons do not say it themselves
        second = _read(true, counts[1][image], size, f"target {image}", known)
        if first is not None and second is not None and first.size != second.size:
            raise InputError(
                "masks of prediction and target differ in size",
                where=f"image {image}",
                got=f"{first.size} and {second.size}",
                remedy="resize the predicted masks to the size of the ground truth",
            )
        nothing = RleMasks((0, 0), [])
        pairs.append((first or nothing, second or nothing))
    packed = _packed([one for pair in pairs for one in pair])
    alike = _alike(packed[::2], packed[1::2], device)
    return masks_on(alike[0], device), masks_on(alike[1], device)


def _read_lists(
    predictions: Sequence[Rows], targets: Sequence[Rows], sizes: Sequence[Size | None] | None
) -> dict[int, RleMasks]:
    """Masks of the images that are lists of run lengths or polygons, by the identity of the list.

    All at once, in a tenth of the time that they take one by one. Empty where any is in an unusual
    form or at fault.
    """
    lists: list[tuple[list[Any], Size]] = []
    known = [None] * len(targets) if sizes is None else sizes
    for found, true, size in zip(predictions, targets, known, strict=True):
        given = [
            one for one in (found.get("masks"), true.get("masks")) if type(one) is list and one
        ]
        stated = size or next(filter(None, (_plain_size(masks[0]) for masks in given)), None)
        if given and stated is None:
            return {}
        lists += [(masks, stated) for masks in given if stated is not None]
    read = read_many(
        [one for masks, _ in lists for one in masks],
        [size for masks, size in lists for _ in masks],
    )
    if read is None:
        return {}
    texts, areas = read[0], torch.from_numpy(read[1])
    result, start = {}, 0
    for masks, size in lists:
        part = slice(start, start + len(masks))
        result[id(masks)] = RleMasks(size, texts[part], areas[part])
        start = part.stop
    return result


def _plain_size(mask: Any) -> Size | None:
    """The size that run lengths state, if it is a list of two integers."""
    size: Any = mask.get("size") if type(mask) is dict else None
    plain = type(size) in (list, tuple) and [*map(type, size)] == [int, int]
    return (size[0], size[1]) if plain else None


def _read(
    rows: Rows,
    count: int,
    size: tuple[int, int] | None,
    where: str,
    known: Mapping[int, RleMasks],
) -> _Given | None:
    """The masks of one side of an image, not packed yet; None if there are none."""
    place = f"{where}, key 'masks'"
    value = rows.get("masks")
    if value is None:
        if count:
            near = next((name for name in KEYS["masks"].near if name in rows), None)
            raise InputError(
                "key 'masks' is missing" if near is None else f"key {near!r} is not known",
                where=where,
                remedy="this protocol compares masks: give them under 'masks'",
            )
        return None
    if isinstance(value, RleMasks) and not len(value) and not count:
        return None  # no mask states a size
    ready = value if isinstance(value, RleMasks) else known.get(id(value))
    if ready is not None and len(ready) == count and size in (None, ready.size):
        return ready
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _of_segmentations(value, count, size, place)
    return _of_tensor(tensor_of(value, lambda: place), count, size, place)


def _of_tensor(
    masks: Tensor, count: int, size: tuple[int, int] | None, place: str
) -> _Stack | None:
    masks = masks.as_subclass(Tensor) if type(masks) is not Tensor else masks
    if count == 0 and masks.numel() == 0:
        return None
    probabilities = masks.dtype in PROBABILITY_TYPES
    allowed = probabilities or masks.dtype == torch.bool or masks.dtype in INTEGER_TYPES
    if not allowed or masks.dim() != 3 + probabilities or (probabilities and masks.shape[1] != 1):
        raise InputError(
            "must be [N, H, W] bool or integers, or [N, 1, H, W] probabilities",
            where=place,
            got=f"{masks.dtype} of shape {tuple(masks.shape)}",
            remedy="threshold other scores first: masks > 0.5",
        )
    if masks.shape[0] != count:
        raise InputError(
            "must have one mask per row", where=place, got=f"{masks.shape[0]} masks of {count} rows"
        )
    found = (int(masks.shape[-2]), int(masks.shape[-1]))
    if size is not None and found != size:
        raise InputError(
            "masks are not of the size of the image", where=place, got=f"{found} and {size}"
        )
    masks = masks.detach()
    return _Stack(found, masks[:, 0] if probabilities else masks)


class _Stack:
    """N masks as they came, ``values`` [N, H, W]: probabilities if they are floating point."""

    def __init__(self, size: tuple[int, int], values: Tensor) -> None:
        self.size, self.values = size, values

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def on_host(self) -> BitMasks:
        """The same masks as bits, packed on the CPU."""
        if self.values.is_floating_point():
            return BitMasks(self.size, above_half(self.values), _has_nan(self.values))
        return BitMasks(self.size, pack_masks(self.values))


_Given = ImageMasks | _Stack


def _packed(given: Sequence[_Given]) -> list[ImageMasks]:
    """Stacks as bits where they lie; on a device those of one number type at once."""
    stacks = [one for one in given if isinstance(one, _Stack)]
    bits: dict[int, ImageMasks] = {id(one): one.on_host() for one in stacks if one.values.is_cpu}
    groups: dict[object, list[_Stack]] = {}
    for one in stacks:
        if not one.values.is_cpu:
            groups.setdefault((one.values.device, one.values.dtype), []).append(one)
    for group in groups.values():
        probable = group[0].values.is_floating_point()
        words, areas, nans = mask_stacks.pack([one.values for one in group], probabilities=probable)
        counts = [len(one) for one in group]
        flags: Sequence[Tensor | None] = [None] * len(group)
        flags = torch.split(nans > 0, counts) if probable else flags
        for one, bits_of, area, flag in zip(
            group, words, torch.split(areas, counts), flags, strict=True
        ):
            bits[id(one)] = BitMasks(one.size, bits_of, flag, area)
    return [bits[id(one)] if isinstance(one, _Stack) else one for one in given]


def _has_nan(probabilities: Tensor) -> Tensor | None:
    """[N] bool of [N, H, W]; None where it is plain that there is no NaN, the largest of all."""
    if not probabilities.numel():
        return None
    if on_host(probabilities) and not math.isnan(probabilities.amax().item()):
        return None
    return probabilities.amax(dim=(1, 2)).isnan()


def suspects_of_masks(
    masks: Masks, side: str, ids: ImageIds | None, device: torch.device
) -> list[Suspect]:
    """Probabilities that are NaN, to be read on the host or on the device of the matching."""
    given = [one.has_nan for one in masks if isinstance(one, BitMasks) and one.has_nan is not None]
    if not given:
        return []
    home = torch.device("cpu") if all(part.is_cpu for part in given) else device
    has_nan = torch.cat(to_device([_nan_of(one) for one in masks], home))
    subject = Subject(side, tuple(map(len, masks)), ids)
    return [suspect([(BAD_MASK, has_nan)], {}, subject)]


def _nan_of(masks: ImageMasks) -> Tensor:
    """[N] bool, False where there is nothing to be checked."""
    has_nan = masks.has_nan if isinstance(masks, BitMasks) else None
    return torch.zeros(len(masks), dtype=torch.bool, device="cpu") if has_nan is None else has_nan


def _of_segmentations(
    value: Sequence[Any], count: int, size: tuple[int, int] | None, place: str
) -> RleMasks | None:
    if len(value) != count:
        raise InputError(
            "must have one mask per row", where=place, got=f"{len(value)} masks of {count} rows"
        )
    if not value:
        return None
    if not all(isinstance(one, Mapping | list | tuple) for one in value):
        raise InputError(
            "a list of masks must hold run lengths or polygons",
            where=place,
            got=type(value[0]).__name__,
            remedy="stack masks to [N, H, W]",
        )
    if size is None:
        size = _stated_size(value, place)
    masks = []
    for row, one in enumerate(value):
        try:
            masks.append(rle.rle_of(one, *size)["counts"])
        except ValueError as error:
            raise InputError(f"{error}", where=f"{place}, row {row}") from None
    return RleMasks(size, masks)


def _stated_size(value: Sequence[Any], place: str) -> tuple[int, int]:
    """The size that the first run lengths state."""
    first = next((one for one in value if isinstance(one, Mapping)), None)
    if first is None:
        raise InputError(
            "polygons need the size of the image",
            where=place,
            remedy="give image_size (height, width) in the target",
        )
    try:
        return rle.size_of(first)
    except ValueError as error:
        raise InputError(f"{error}", where=place) from None


def _alike(
    first: Sequence[ImageMasks], second: Sequence[ImageMasks], device: torch.device
) -> tuple[list[ImageMasks], list[ImageMasks]]:
    """Run lengths as bits where the other side of the image is bits, and wherever CUDA compares."""
    wanted = [
        one
        for mine, other in zip(first, second, strict=True)
        for one in (mine, other)
        if isinstance(one, RleMasks)
        and len(one)
        and (device.type == "cuda" or isinstance(mine, BitMasks) or isinstance(other, BitMasks))
    ]
    bits = _decoded(wanted, device)
    sides = ([bits.get(id(one), one) for one in side] for side in (first, second))
    return next(sides), next(sides)


def _decoded(masks: Sequence[RleMasks], device: torch.device) -> dict[int, ImageMasks]:
    """Run lengths as bits, by the identity of the masks; on CUDA all at once, on the device."""
    if device.type != "cuda" or not masks:
        return {id(one): one.decoded() for one in masks}
    ends, runs = run_ends([text for image in masks for text in image.texts])
    counts, sizes = [len(one) for one in masks], [one.size for one in masks]
    (there,) = to_device([torch.from_numpy(ends)], device)
    words, areas = mask_stacks.decode(there, runs, counts, sizes)
    return {
        id(one): BitMasks(one.size, bits, None, area)
        for one, bits, area in zip(masks, words, torch.split(areas, counts), strict=True)
    }
