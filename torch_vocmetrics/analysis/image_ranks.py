"""Which images are easy, hard and confusing for many methods at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from ..metrics.classification import ClassificationAP
from ..results import Table
from .source import distinct_of, records_of


class RankedImage(NamedTuple):
    """An image and its median rank over the methods; 1 is the highest score."""

    image_id: int | str | tuple[int | str, int]
    median_rank: float


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageDifficulty(Table):
    """Median ranks of I images for K classes over several methods.

    Attributes:
        method: M names.
        class_name: K names.
        image_id: I ids; numbers from 0 where none were given.
        median_rank: [I, K] float64 over the methods, 1 is the highest score of a class; images of
            equal score share their mean rank.
        target: [I, K] int8: 1 where the class is present, -1 where not, 0 for neither.
    """

    method: tuple[str, ...]
    class_name: tuple[str, ...]
    image_id: tuple[Any, ...]
    median_rank: Tensor
    target: Tensor

    def easy(self, class_name: str, count: int = 10) -> list[RankedImage]:
        """The images with the class that the methods rank highest."""
        return self._chosen(class_name, 1, count, falling=False)

    def hard(self, class_name: str, count: int = 10) -> list[RankedImage]:
        """The images with the class that the methods rank lowest."""
        return self._chosen(class_name, 1, count, falling=True)

    def confusing(self, class_name: str, count: int = 10) -> list[RankedImage]:
        """The images without the class that the methods rank highest."""
        return self._chosen(class_name, -1, count, falling=False)

    def columns(self) -> dict[str, Sequence[Any] | Tensor]:
        """A row for each image; two columns for each class."""
        columns: dict[str, Sequence[Any] | Tensor] = {"image_id": self.image_id}
        for k, name in enumerate(self.class_name):
            columns[f"{name} median rank"] = self.median_rank[:, k]
            columns[f"{name} target"] = self.target[:, k]
        return columns

    def _chosen(
        self, class_name: str, target: int, count: int, *, falling: bool
    ) -> list[RankedImage]:
        if class_name not in self.class_name:
            known = ", ".join(self.class_name)
            raise InputError(f"must be one of {known}", where="class_name", got=repr(class_name))
        k = self.class_name.index(class_name)
        rows = (self.target[:, k] == target).nonzero().squeeze(1)
        ranks = self.median_rank[rows, k]
        order = torch.argsort(ranks, stable=True, descending=falling)[:count]
        return [
            RankedImage(self.image_id[row], rank)
            for row, rank in zip(rows[order].tolist(), ranks[order].tolist(), strict=True)
        ]


def image_difficulty(methods: Mapping[str, Any]) -> ImageDifficulty:
    """Rank images by the median of their ranks under several methods.

    Args:
        methods: by name, :class:`~torch_vocmetrics.ClassificationAP` metrics of the same images; or
            detection metrics (or their records), whose images are ranked for a class by their
            highest detection, and have it if one of its objects counts.

    Raises:
        InputError: if there are no methods, or images or classes differ.

    Source: Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge", IJCV 2010,
        section 6.1.4.
    """
    if not methods:
        raise InputError("at least one method is needed", where="methods")
    views = {name: _view(source) for name, source in methods.items()}
    first = next(iter(views.values()))
    for name, view in views.items():
        same = view.image_id == first.image_id and view.class_name == first.class_name
        if not same or not torch.equal(view.target, first.target):
            raise InputError(
                f"has other images, classes or targets than {next(iter(views))}", where=name
            )
    ranks = torch.stack([_ranks_down(view.score) for view in views.values()])
    return ImageDifficulty(
        method=tuple(views),
        class_name=first.class_name,
        image_id=first.image_id,
        median_rank=ranks.quantile(0.5, dim=0),
        target=first.target,
    )


class _View(NamedTuple):
    """The scores of images for classes, on the CPU."""

    class_name: tuple[str, ...]
    image_id: tuple[Any, ...]
    score: Tensor
    target: Tensor


def _view(source: Any) -> _View:
    if isinstance(source, ClassificationAP):
        table = distinct_of(source).by_id()
        ids = table.image_ids or tuple(range(table.num_images))
        score, none = table.scores.cpu().double(), -torch.inf
        score = torch.where(score.isnan(), none, score)  # NaN ranks last, as in the kit
        return _View(source.class_names, ids, score, table.targets.cpu())
    records = records_of(source)
    images, K = records.num_images, records.num_classes
    score = torch.full((images * K,), -torch.inf, dtype=torch.float64, device="cpu")
    detections, objects = records.detections, records.ground_truths
    cell = detections.image.cpu().long() * K + detections.label.cpu()
    score.scatter_reduce_(0, cell, detections.score.cpu().double(), "amax")
    target = torch.full((images * K,), -1, dtype=torch.int8, device="cpu")
    counted = records.counted(records.lane_index()).cpu()
    cell = objects.image.cpu().long() * K + objects.label.cpu().long()
    target[cell[~counted]] = 0  # only objects that do not count: neither
    target[cell[counted]] = 1
    ids = records.image_ids or tuple(range(images))
    order = torch.tensor(sorted(range(images), key=lambda row: ids[row]), dtype=torch.int64)
    return _View(
        records.class_names,
        tuple(ids[row] for row in order.tolist()),
        score.reshape(images, K)[order],
        target.reshape(images, K)[order],
    )


def _ranks_down(score: Tensor) -> Tensor:
    """[I, K] float64: ranks by falling score from 1; equal scores share their mean rank."""
    ranks = torch.empty_like(score)
    for k, column in enumerate(score.unbind(1)):
        _, group, counts = torch.unique(-column, return_inverse=True, return_counts=True)
        before = counts.cumsum(0) - counts
        ranks[:, k] = (before + (counts + 1).double() / 2)[group]
    return ranks
