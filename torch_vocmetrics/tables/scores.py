"""A table of scores and targets, an image a row, a class a column: what classification keeps."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from ..errors import InputError, StateError
from ..inputs.numbers import FLOATING, tensor_of
from ..inputs.per_image import entries_of, ids_on_host, read_ids
from ..ops.ordering import descending_key
from ..transfer import on_one_device, to_device, work_device
from .columns import FLOATS, check_column, check_image_ids
from .repeats import repeats, unequal_truth, warn_of_repeats

Pair = tuple[int | str, int]
ClassIds = tuple[int | str | Pair, ...]
"""Image ids, or (image, object) pairs; all of one kind."""


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores and targets of N images and K classes, 5 bytes an entry with float32 scores.

    Attributes:
        image_ids: N ids, or None where none were given.
        scores: [N, K] float32 or float64; -inf for none, NaN allowed.
        targets: [N, K] int8: 1, -1, or 0 for neither.
        ambiguous: whether targets may have been multi-hot, with 0 for absent.
    """

    image_ids: ClassIds | None
    scores: Tensor
    targets: Tensor
    ambiguous: bool = False

    @property
    def num_images(self) -> int:
        """N."""
        return self.scores.shape[0]

    @property
    def device(self) -> torch.device:
        """Where the table lies."""
        return self.scores.device

    @classmethod
    def empty(cls, num_classes: int) -> Self:
        """No images at all."""
        scores = torch.zeros(0, num_classes, device="cpu")
        return cls(None, scores, torch.zeros_like(scores, dtype=torch.int8))

    def check(self, num_classes: int) -> None:
        """Raise ValueError unless the table is such as ``update`` makes."""
        scores = check_column("scores", self.scores, FLOATS, (None, num_classes))
        shape, int8 = (scores.shape[0], num_classes), (torch.int8,)
        targets = check_column("targets", self.targets, int8, shape, low=-1, high=1)
        check_image_ids(self.image_ids, self.num_images, pairs=True)
        if not isinstance(self.ambiguous, bool):
            raise ValueError("ambiguous must be true or false")
        if scores.device != targets.device:
            raise ValueError("scores and targets are on different devices")

    @classmethod
    def cat(cls, parts: Sequence[Self]) -> Self:
        """One after the other.

        Raises:
            StateError: if some parts have image ids and others none, or ids of another kind.
        """
        kinds = {kind_of_class_ids(part.image_ids) for part in parts if part.num_images}
        if len(kinds) > 1:
            raise StateError(
                f"image ids are of different kinds: {', '.join(sorted(kinds))}",
                remedy="use one kind in all batches",
            )
        ids = tuple(one for part in parts for one in part.image_ids or ())
        return cls(
            ids or None,
            torch.cat([part.scores for part in parts]),
            torch.cat([part.targets for part in parts]),
            any(part.ambiguous for part in parts),
        )

    def to(self, device: torch.device) -> Self:
        """The same table on another device."""
        return replace(self, scores=self.scores.to(device), targets=self.targets.to(device))

    def in_order(self, index: Tensor) -> Self:
        """The images at ``index`` [n] int64, which lies on the CPU."""
        ids = self.image_ids
        there = index.to(self.scores.device)
        return replace(
            self,
            image_ids=None if ids is None else tuple(ids[row] for row in index.tolist()),
            scores=self.scores.index_select(0, there),
            targets=self.targets.index_select(0, there),
        )

    def without_repeats(self) -> Self:
        """Keep the copy of each image that was met first; one warning counts the others.

        Raises:
            StateError: if two copies of an image have different targets.
        """
        copies = repeats(self.image_ids)
        if not copies or self.image_ids is None:
            return self
        dropped, originals = (
            torch.tensor(rows, device="cpu") for rows in zip(*copies, strict=True)
        )
        mine, first = self.in_order(dropped), self.in_order(originals)
        wrong = (mine.targets != first.targets).any(dim=1)
        if bool(wrong.any()):
            raise unequal_truth(self.image_ids[int(dropped[wrong.cpu()][0])], "targets")
        both_nan = mine.scores.isnan() & first.scores.isnan()
        differing = ((mine.scores != first.scores) & ~both_nan).any(dim=1)
        warn_of_repeats(len(copies), int(differing.sum()), "scores")
        keep = torch.ones(self.num_images, dtype=torch.bool, device="cpu")
        keep[dropped] = False
        return self.in_order(keep.nonzero().squeeze(1))

    def by_id(self) -> Self:
        """Images by their ids, which breaks ties of score; as they came where none were given."""
        ids = self.image_ids
        if ids is None:
            return self
        rows = sorted(range(len(ids)), key=lambda row: ids[row])
        return (
            self
            if rows == list(range(len(ids)))
            else self.in_order(torch.tensor(rows, device="cpu"))
        )

    def ranked(self) -> tuple[Tensor, Tensor]:
        """Scores and targets [N, K] on the host, each class by falling score, ties as they stand.

        NaN ranks after -inf, as in MATLAB's ascending sort of the negated scores.
        """
        key = descending_key(self.scores)
        last = torch.iinfo(key.dtype).max
        key = torch.where(self.scores.isnan(), last, key)
        order = torch.argsort(key, dim=0, stable=True)
        return self.scores.gather(0, order).cpu(), self.targets.gather(0, order).cpu()


_SIGNED = "1 (present), -1 (absent) or 0 (neither: difficult objects only)"
TARGET_FORMATS = {"auto": _SIGNED, "signed": _SIGNED, "multi_hot": "1 (present) or 0 (absent)"}
"""How targets may be written, and what their values mean."""


def read_scores(
    scores: object,
    targets: object,
    num_classes: int,
    device: torch.device | None,
    target_format: str,
) -> tuple[ScoreTable, Tensor]:
    """A batch without image ids on one device, and a 0-d bool: whether a target has no meaning.

    Work happens on ``device``, or on that of the scores; the flag lies where the targets lay.

    Raises:
        InputError: for other shapes or types.
    """
    values = tensor_of(scores, lambda: "scores")
    truth = tensor_of(targets, lambda: "targets")
    for name, tensor in (("scores", values), ("targets", truth)):
        if tensor.dim() != 2 or tensor.shape[1] != num_classes:
            raise InputError(
                f"must have shape [B, {num_classes}]", where=name, got=tuple(tensor.shape)
            )
    if values.shape != truth.shape:
        raise InputError(
            "scores and targets must have one row per image each",
            got=f"{values.shape[0]} and {truth.shape[0]}",
        )
    numbers = FLOATING.convert(values)
    if numbers is None:
        raise InputError(FLOATING.expected, where="scores", got=values.dtype)
    if truth.is_complex() or (truth.is_floating_point() and target_format != "multi_hot"):
        raise InputError(
            "must be bool, or integers -1, 0 or 1",
            where="targets",
            got=truth.dtype,
            remedy='give target_format="multi_hot" if they are 0.0 and 1.0, with 0 for absent',
        )
    # Copies: a model may overwrite its outputs.
    truth = truth.detach()
    absent_is_0 = truth.dtype == torch.bool or target_format == "multi_hot"
    signs = torch.where(truth == 1, 1, -1).to(torch.int8) if absent_is_0 else None
    signs = truth.to(torch.int8, copy=True) if signs is None else signs
    columns = [numbers.detach().clone(), signs]
    numbers, signs = to_device(columns, work_device(device or numbers.device))
    ambiguous = target_format == "auto" and truth.dtype != torch.bool
    if truth.dtype == torch.bool:
        wrong = torch.zeros((), dtype=torch.bool, device=truth.device)
    else:
        wrong = ~_meaningful(truth, target_format).all()
    return ScoreTable(None, numbers, signs, ambiguous), wrong


def _meaningful(targets: Tensor, target_format: str) -> Tensor:
    """Which targets have a meaning, [B, K] bool."""
    if targets.dtype.is_signed and target_format != "multi_hot":
        return (targets >= -1) & (targets <= 1)
    return (targets == 1) | (targets == 0)


def wrong_target(targets: object, target_format: str) -> InputError:
    """The error for targets of which one has no meaning."""
    truth = tensor_of(targets, lambda: "targets")
    row, column = (~_meaningful(truth, target_format)).nonzero()[0].tolist()
    got = truth[row, column].item()
    return InputError(
        f"targets must be {TARGET_FORMATS[target_format]}",
        where=f"targets[{row}, {column}]",
        got=got,
        remedy='give target_format="signed" if -1 means absent' if got == -1 else "",
    )


def refuse_multi_hot(table: ScoreTable, class_names: Sequence[str]) -> None:
    """Raise unless it is plain that 0 was not meant for absent.

    Raises:
        InputError: if a class has images that count as positive or as neither, and no negative.
    """
    if not table.ambiguous:
        return
    present, neither, absent = ((table.targets == sign).any(dim=0) for sign in (1, 0, -1))
    suspects = (present & neither & ~absent).nonzero().flatten().tolist()
    if suspects:
        raise InputError(
            "targets are 1 and 0 without a single -1, but 0 means that an image is neither "
            "positive nor negative",
            where=f"class {class_names[suspects[0]]!r}",
            remedy='give target_format="multi_hot" or bool targets if 0 means absent, '
            'target_format="signed" if it does not',
        )


def read_class_ids(image_ids: object, count: int) -> ClassIds | Tensor | None:
    """Ids of a batch: int, str or (image, object) pairs.

    Those on a device, which are not read yet, are integers [B], or [B, 2] of pairs.

    Raises:
        InputError: for another number of ids, or ids of another or of several kinds.
    """
    if image_ids is None:
        return None
    entries = entries_of(image_ids, count, "image_ids")
    if isinstance(entries, Tensor) or any(isinstance(one, Tensor) for one in entries):
        read = read_ids(entries, "image_ids[{}]")
        return read if isinstance(read, Tensor) else tuple(read) or None
    if any(isinstance(part, Tensor) and not part.is_cpu for one in entries for part in _parts(one)):
        return _pairs_on_device([_parts(one) for one in entries])
    ids = tuple(_id(one, row) for row, one in enumerate(entries))
    kinds = {kind_of_class_ids((one,)) for one in ids}
    if len(kinds) > 1:
        raise InputError("must be of one kind", where="image_ids", got=", ".join(sorted(kinds)))
    return ids or None


def _parts(entry: object) -> Sequence[object]:
    """Image and object of a pair."""
    return entry if isinstance(entry, tuple | list) and len(entry) == 2 else ()


def _pairs_on_device(pairs: Sequence[Sequence[object]]) -> Tensor:
    """[B, 2] integers: image and object of each pair, of which some are on a device.

    Raises:
        InputError: if some entries are no pairs, or not of integers.
    """
    whole = [
        read_ids([pair[column] for pair in pairs if pair], "image_ids[{}]") for column in (0, 1)
    ]
    if not all(pairs) or any(isinstance(ids, list) and str in map(type, ids) for ids in whole):
        raise InputError(
            "must be (image, object) pairs of integers throughout, where some are on a device",
            where="image_ids",
        )
    columns = [
        ids if isinstance(ids, Tensor) else torch.tensor(ids, dtype=torch.int64, device="cpu")
        for ids in whole
    ]
    return torch.stack([column.long() for column in on_one_device(columns)], dim=1)


def _id(value: object, row: int) -> int | str | Pair:
    if isinstance(value, tuple | list) and len(value) == 2:
        image, position = _id(value[0], row), _id(value[1], row)
        if not isinstance(image, tuple) and isinstance(position, int):
            return image, position
    one = [value]
    try:
        ((read,),) = ids_on_host([read_ids(one, "image_ids[{}]")])
    except InputError:
        raise InputError(
            "must be an int, a str, or an (image, object) pair",
            where=f"image_ids[{row}]",
            got=reprlib.repr(value),
        ) from None
    return read


def kind_of_class_ids(ids: Sequence[object] | Tensor | None) -> str:
    """``"none"``, ``"int"``, ``"str"``, or ``"pairs of ..."``, by the first id."""
    if ids is None or not len(ids):
        return "none"
    if isinstance(ids, Tensor):
        return "int" if ids.dim() == 1 else "pairs of int"
    if isinstance(ids[0], tuple):
        return f"pairs of {type(ids[0][0]).__name__}"
    return type(ids[0]).__name__
