"""COCO's average precision where the classes are the labels that were seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import torch

from torch_vocmetrics import CocoDetectionResult, DetectionAP, DetectionProtocol

from .overlaps import Overlaps

FIRST = 0
"""A class that is always there, since a metric without classes is none."""

Rows = Mapping[str, Any]


class Evaluation(NamedTuple):
    """What :class:`SeenClasses` computes.

    Attributes:
        labels: of all detections and objects, rising.
        results: by the name of the protocol; the classes are the labels, and maybe label 0.
        overlaps: by name of the protocol, those of each image, by label.
    """

    labels: tuple[int, ...]
    results: dict[str, CocoDetectionResult]
    overlaps: dict[str, list[Overlaps]]


class SeenClasses:
    """A :class:`DetectionAP` whose classes are the labels that were seen so far.

    Args:
        protocols: rules of distinct names.
        box_format: of all boxes.
    """

    def __init__(self, protocols: Sequence[DetectionProtocol], box_format: str) -> None:
        self._protocols, self._box_format = list(protocols), box_format
        self.labels: tuple[int, ...] = ()
        self.metric = self._metric_of([FIRST])
        self.overlaps: dict[str, list[Overlaps]] = {}

    def update(
        self,
        predictions: Sequence[Rows],
        targets: Sequence[Rows],
        overlaps: Mapping[str, list[Overlaps]],
    ) -> Self:
        """Add a batch; labels on a device are waited for."""
        seen = _union(self.labels, _labels_of(predictions), _labels_of(targets))
        self.metric = self._among(seen).update(predictions, targets)
        self.labels = seen
        self._add(overlaps)
        return self

    def compute(self, *, sync: bool = True, group: Any = None) -> Evaluation:
        """Over the images of all ranks if ``sync``; three collectives."""
        labels, metric, overlaps = self.labels, self.metric, self.overlaps
        ranks = torch.distributed.get_world_size(group) if sync and _distributed() else 1
        if ranks > 1:
            every: list[Any] = [None] * ranks
            mine = (labels, self.metric.label_ids, overlaps)
            torch.distributed.all_gather_object(every, mine, group=group)
            labels = _union(*(one[0] for one in every))
            metric = self._among(_union(*(one[1] for one in every)))
            overlaps = {
                name: _in_turn([one[2].get(name, []) for one in every])
                for name in {name for one in every for name in one[2]}
            }
        results = metric.compute(sync=sync, group=group)
        return Evaluation(labels, results, overlaps)

    def merge(self, other: SeenClasses) -> Self:
        """Add what another has seen."""
        label_ids = _union(self.metric.label_ids, other.metric.label_ids)
        self.metric = self._among(label_ids).merge(other._among(label_ids))
        self.labels = _union(self.labels, other.labels)
        self._add(other.overlaps)
        return self

    def reset(self) -> Self:
        """Forget everything; the metric keeps its classes, which cost nothing."""
        self.metric.reset()
        self.labels, self.overlaps = (), {}
        return self

    def state_dict(self) -> dict[str, Any]:
        """Everything that was seen."""
        return {
            "updated": self.metric.state_dict()["updated"],
            "labels": list(self.labels),
            "label_ids": list(self.metric.label_ids),
            "metric": self.metric.state_dict(),
            "overlaps": dict(self.overlaps),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> Self:
        """Take up what :meth:`state_dict` gave."""
        self.metric = self._metric_of(state["label_ids"]).load_state_dict(state["metric"])
        self.labels, self.overlaps = tuple(state["labels"]), dict(state["overlaps"])
        return self

    def to(self, device: torch.device | str) -> Self:
        """Move the state and all later work."""
        self.metric.to(device)
        return self

    def _metric_of(self, label_ids: Sequence[int]) -> DetectionAP[Any]:
        names = _names_of(label_ids)
        return DetectionAP(self._protocols, class_names=names, box_format=self._box_format)

    def _among(self, labels: Sequence[int]) -> DetectionAP[Any]:
        """The metric with these classes besides its own; itself if it has them."""
        wanted = _union(self.metric.label_ids, labels)
        known = wanted == self.metric.label_ids
        return self.metric if known else self.metric.with_classes(class_names=_names_of(wanted))

    def _add(self, overlaps: Mapping[str, list[Overlaps]]) -> None:
        self.overlaps = {
            name: [*self.overlaps.get(name, []), *more] for name, more in overlaps.items()
        }


def _names_of(label_ids: Iterable[int]) -> dict[int, str]:
    return {label: str(label) for label in label_ids}


def _union(*labels: Iterable[int]) -> tuple[int, ...]:
    """Distinct labels, rising."""
    return tuple(sorted(set[int]().union(*labels)))


def _labels_of(images: Sequence[Rows]) -> list[int]:
    """The labels of one side, which lie on one device: read in one copy."""
    labels = [rows["labels"].flatten() for rows in images]
    found: list[int] = torch.cat(labels).tolist() if labels else []
    return found


def _in_turn(ranks: Sequence[list[Overlaps]]) -> list[Overlaps]:
    """The first image of every rank, then the second: the order of a distributed sampler."""
    longest = max(map(len, ranks), default=0)
    return [images[index] for index in range(longest) for images in ranks if index < len(images)]


def _distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
