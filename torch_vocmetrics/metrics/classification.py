"""Classification of images by average precision, and of actions: PASCAL VOC of every year.

Images are ranked by their score for a class. Scores need no scale: -inf stands for no score and
NaN ranks after it, as in the kit. Differences to the official tools, each with its effect:

* the mean over classes is ours (the development kit has none): over classes with positives;
* plain average precision and the ROC curve are given whatever the protocol publishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch

from ..errors import InputError
from ..host_work import host_work
from ..protocols import ClassificationProtocol, load_protocol
from ..results import ClassificationResult
from ..summaries.challenges import classification_result
from ..tables.scores import ScoreTable, kind_of_class_ids, read_class_ids, read_scores, wrong_target
from .base import Metric
from .classes import ClassNames, read_classes


class ClassificationAP(Metric[ClassificationResult]):
    """Average precision of image or action classification, over any number of batches.

    Args:
        protocol: ``"voc2007"``, ``"voc2006"`` (area of the ROC curve), ``"action/voc2012"``, the
            path of a protocol file, or a :class:`ClassificationProtocol`.
        num_classes, class_names: how many classes there are, or their names: a list in class order,
            or a dict {id: name}, which is sorted by id.

    Raises:
        ProtocolError: if the protocol is unknown (with the near names) or faulty.
        InputError: if the classes are missing, disagree, or occur twice.

    Source: the protocol's file names the official code behind each rule.

    Example:
        >>> metric = ClassificationAP("voc2012", class_names=["cat", "dog"])
        >>> scores = [[0.9, 0.2], [0.8, 0.7], [0.1, 0.6]]
        >>> result = metric.update(scores, [[1, -1], [-1, 1], [1, 0]]).compute()
        >>> [round(value, 4) for value in result.average_precision.tolist()]
        [0.8333, 1.0]
    """

    def __init__(
        self,
        protocol: str | Path | ClassificationProtocol,
        *,
        num_classes: int | None = None,
        class_names: ClassNames | None = None,
    ) -> None:
        protocol = load_protocol(protocol, ClassificationProtocol)
        self.protocol = protocol
        classes = read_classes(num_classes, class_names, None)
        self.class_names, self.label_ids = classes.names, classes.labels
        self._clear()

    def _clear(self) -> None:
        self._device: torch.device | None = None
        self._parts: list[ScoreTable] = []
        self._flags: list[torch.Tensor] = []
        self._updated = False

    @host_work()
    def update(self, scores: Any, targets: Any, image_ids: Any = None) -> Self:
        """Add a batch of images, or of (image, object) pairs.

        Args:
            scores: [B, K] of any real type; -inf for none, NaN ranks last, +inf first.
            targets: [B, K] integers: 1 where the class is there, -1 where not, 0 where only
                difficult objects of it are: such images are neither.
            image_ids: B ids (int, str, or (image, object) pairs), or none in all batches. Their
                order breaks ties of score, so give the place in the image set to follow the kit;
                without ids the order of arrival does. Of several copies the first counts.

        Work happens on the device of the first scores. Targets are checked at once on the CPU; on
        other devices by ``compute``, so that ``update`` need not wait.

        Raises:
            InputError: naming row, class and remedy; the state is then as it was.
        """
        values, truth, wrong = read_scores(scores, targets, len(self.class_names), self._device)
        ids = read_class_ids(image_ids, values.shape[0])
        kinds = {kind_of_class_ids(part.image_ids) for part in self._parts if part.num_images}
        if values.shape[0] and kinds and kinds != {kind_of_class_ids(ids)}:
            raise InputError(
                "image ids must be of one kind in all batches",
                where="image_ids",
                got=f"{kind_of_class_ids(ids)} after {kinds.pop()}",
            )
        if wrong.device.type != "cpu":
            self._flags.append(wrong)
        elif bool(wrong):
            raise wrong_target(targets)
        self._updated = True
        if values.shape[0]:
            self._device = values.device
            self._parts.append(ScoreTable(ids, values, truth))
        return self

    def _distinct(self) -> ScoreTable:
        return self._table().without_repeats()

    def _result(self, distinct: ScoreTable) -> ClassificationResult:
        scores, targets = distinct.in_order().ranked()
        return classification_result(self.protocol, scores, targets, self.class_names)

    def _state(self) -> list[ScoreTable]:
        return [self._table()]

    def _columns(self, tables: Sequence[ScoreTable]) -> dict[str, Any]:
        return {"scores": tables[0].scores, "targets": tables[0].targets}

    def _read(self, ids: list[Any] | None, state: dict[str, Any]) -> list[ScoreTable]:
        scores, targets = state["scores"], state["targets"]
        table = ScoreTable(read_class_ids(ids, scores.shape[0]), scores, targets)
        table.check(len(self.class_names))
        return [table]

    def _hold(self, tables: Sequence[ScoreTable]) -> None:
        self._parts = list(tables)

    def _table(self) -> ScoreTable:
        """All images so far in one table.

        Raises:
            InputError: if targets flagged on a device broke the rules; until ``reset``.
        """
        if self._flags:
            if bool(torch.stack(self._flags).any()):
                raise InputError("targets must be 1, -1 or 0", where="targets of an earlier update")
            self._flags = []
        empty = ScoreTable.empty(len(self.class_names))
        self._parts = [ScoreTable.cat(self._parts) if self._parts else empty]
        return self._parts[0]

    def _arrange(self, order: torch.Tensor) -> None:
        self._parts = [self._table().rows(order)]

    @classmethod
    def _of(
        cls,
        protocols: Sequence[Any],
        class_names: Sequence[str],
        label_ids: Sequence[int],  # noqa: ARG003
    ) -> Self:
        return cls(protocols[0], class_names=class_names)

    def _all_protocols(self) -> list[ClassificationProtocol]:
        return [self.protocol]
