"""Classification of images by average precision, and of actions: PASCAL VOC of every year.

Images are ranked by their score for a class. Scores need no scale: -inf stands for no score and
NaN ranks after it, as in the kit. Differences to the official tools, each with its effect:

* the mean over classes is ours (the development kit has none): over classes with positives;
* plain average precision and the ROC curve are given whatever the protocol publishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch

from ..curves.challenge_results import classification_result
from ..errors import InputError
from ..host_work import host_work
from ..inputs.numbers import on_host
from ..protocols import ClassificationProtocol, load_protocol
from ..results import ClassificationResult
from ..tables.scores import (
    TARGET_FORMATS,
    ClassIds,
    ScoreTable,
    kind_of_class_ids,
    read_class_ids,
    read_scores,
    refuse_multi_hot,
    wrong_target,
)
from ..transfer import to_host
from .accumulated import MOST_PENDING, Accumulated, appended
from .base import Metric
from .classes import ClassNames, read_classes


class PendingScores(NamedTuple):
    """One batch.

    Attributes:
        table: its scores and targets; without ids where these are on a device.
        wrong: 0-d bool, whether a target is wrong.
        ids_on_device: [B] integers, or [B, 2] of pairs, to be read later; None if there are none.
    """

    table: ScoreTable
    wrong: torch.Tensor
    ids_on_device: torch.Tensor | None

    @property
    def num_images(self) -> int:
        """B."""
        return self.table.num_images

    @property
    def kind_of_ids(self) -> str:
        """Such as ``"int"``."""
        given = self.table.image_ids if self.ids_on_device is None else self.ids_on_device
        return kind_of_class_ids(given)


@dataclass(frozen=True, eq=False)
class AccumulatedScores(Accumulated):
    """What a metric of scores has seen; pending are :class:`PendingScores`.

    Attributes:
        wrong: 0-d bools, whether targets in ``tables`` are wrong; to be read later.
    """

    wrong: tuple[torch.Tensor, ...] = ()


class ClassificationAP(Metric[ClassificationResult]):
    """Average precision of image or action classification, over any number of batches.

    Args:
        protocol: ``"voc2007"``, ``"voc2006"`` (area of the ROC curve), ``"action/voc2012"``, the
            path of a protocol file, or a :class:`ClassificationProtocol`.
        num_classes, class_names: how many classes there are, or their names: a list in class order,
            or a dict {id: name}, which is sorted by id.
        target_format: what integer targets mean: ``"signed"`` is 1 for present, -1 for absent, 0
            for neither; ``"multi_hot"`` is 1 for present and 0 for absent, of any type. ``"auto"``
            is ``"signed"``, but ``compute`` refuses a class of 1 and 0 without a single -1. Bool
            targets are present or absent whatever is given here.

    Raises:
        ProtocolError: if the protocol is unknown (with the near names) or faulty.
        InputError: if the classes are missing, disagree, or occur twice, or the target format is
            unknown.

    Source: the protocol's file names the official code behind each rule.

    Example:
        >>> metric = ClassificationAP("voc2012", class_names=["cat", "dog"])
        >>> scores = [[0.9, 0.2], [0.8, 0.7], [0.1, 0.6]]
        >>> result = metric.update(scores, [[1, -1], [-1, 1], [1, 0]]).compute()
        >>> [round(value, 4) for value in result.average_precision.tolist()]
        [0.8333, 1.0]
        >>> metric = ClassificationAP("voc2012", num_classes=2, target_format="multi_hot")
        >>> round(metric.update(scores, [[1, 0], [0, 1], [1, 0]]).compute().headline, 4)
        0.9167
    """

    def __init__(
        self,
        protocol: str | Path | ClassificationProtocol,
        *,
        num_classes: int | None = None,
        class_names: ClassNames | None = None,
        target_format: str = "auto",
    ) -> None:
        protocol = load_protocol(protocol, ClassificationProtocol)
        self.protocol = protocol
        classes = read_classes(num_classes, class_names, None, [protocol])
        self.class_names, self.label_ids = classes.names, classes.labels
        if target_format not in TARGET_FORMATS:
            raise InputError(
                f"must be one of {', '.join(TARGET_FORMATS)}",
                where="target_format",
                got=repr(target_format),
            )
        self.target_format = target_format
        self._accumulated: AccumulatedScores = self._nothing()

    def _nothing(self) -> AccumulatedScores:
        return AccumulatedScores(((ScoreTable.empty(len(self.class_names)),),))

    @host_work()
    def update(self, scores: Any, targets: Any, image_ids: Any = None) -> Self:
        """Add a batch of images, or of (image, object) pairs.

        Args:
            scores: [B, K] of any real type; -inf for none, NaN ranks last, +inf first.
            targets: [B, K] bool: whether the class is present; or integers as ``target_format``
                says: 1 where the class is present, -1 where not, 0 where only difficult objects of
                it are: such images are neither.
            image_ids: B ids (int, str, or (image, object) pairs), or none in all batches. Their
                order breaks ties of score, so give the index in the image set to follow the kit;
                without ids the order of arrival does. Of several copies the first counts.

        Work happens on the device of the first scores. Targets are checked at once on the CPU; on
        other devices by ``compute``, so that ``update`` need not wait.

        Raises:
            InputError: naming row, class and remedy; the state is then as it was.
        """
        with self._lock:
            state = self._accumulated
            batch, wrong = read_scores(
                scores, targets, len(self.class_names), state.device, self.target_format
            )
            ids = read_class_ids(image_ids, batch.num_images)
            if on_host(wrong):
                if bool(wrong):
                    raise wrong_target(targets, self.target_format)
                wrong = torch.zeros((), dtype=torch.bool, device=batch.device)
            on_device = ids if isinstance(ids, torch.Tensor) else None
            table = replace(batch, image_ids=None if isinstance(ids, torch.Tensor) else ids)
            added = PendingScores(table, wrong, on_device)
            _check_kind_of_ids(added, state)
            self._accumulated = self._with_batch(state, added)
        return self

    def _with_batch(self, state: AccumulatedScores, batch: PendingScores) -> AccumulatedScores:
        if not batch.table.num_images:
            return replace(state, updated=True)
        pending = (*state.pending, batch)
        state = replace(state, updated=True, device=batch.table.device, pending=pending)
        return self._flushed(state) if len(pending) >= MOST_PENDING else state

    def _flushed(self, state: AccumulatedScores) -> AccumulatedScores:
        """The same with pending batches in one part of the table; waits for ids on a device."""
        if not state.pending:
            return state
        wrong = [batch.wrong for batch in state.pending]
        parts = appended(state.tables[0], [ScoreTable.cat(_with_ids(state.pending))])
        return replace(
            state, tables=(parts,), pending=(), wrong=(*state.wrong, torch.stack(wrong).any())
        )

    def _settled(self, state: AccumulatedScores) -> AccumulatedScores:
        state = self._flushed(state)
        if state.wrong and bool(torch.stack(state.wrong).any()):
            meaning = TARGET_FORMATS[self.target_format]
            raise InputError(f"must be {meaning}", where="targets of an earlier update")
        return replace(state, wrong=())

    def _distinct(self) -> ScoreTable:
        table: ScoreTable = self._joined().whole[0]
        refuse_multi_hot(table, self.class_names)
        return table.without_repeats()

    def _result(self, distinct: ScoreTable) -> ClassificationResult:
        scores, targets = distinct.by_id().ranked()
        return classification_result(self.protocol, scores, targets, self.class_names)

    def _columns(self, tables: Sequence[ScoreTable]) -> dict[str, Any]:
        names = ("scores", "targets", "ambiguous")
        return {name: getattr(tables[0], name) for name in names}

    def _read(self, ids: list[Any] | None, state: dict[str, Any]) -> list[ScoreTable]:
        columns = (state["scores"], state["targets"], state["ambiguous"])
        table = ScoreTable(None if ids is None else tuple(ids), *columns)
        table.check(len(self.class_names))
        return [table]

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


def _with_ids(batches: Sequence[PendingScores]) -> list[ScoreTable]:
    """The tables with all their ids; those on a device are read in one copy."""
    given = [batch.ids_on_device for batch in batches if batch.ids_on_device is not None]
    read = iter(to_host(given))
    return [
        batch.table
        if batch.ids_on_device is None
        else replace(batch.table, image_ids=_as_ids(next(read)))
        for batch in batches
    ]


def _as_ids(ids: torch.Tensor) -> ClassIds:
    """Integers [B], or [B, 2] of pairs, as a table keeps them."""
    return tuple(map(tuple, ids.tolist()) if ids.dim() == 2 else ids.tolist())


def _check_kind_of_ids(batch: PendingScores, state: AccumulatedScores) -> None:
    """Ids must be given always or never, and be of one kind."""
    tables = [table for table in state.tables[0][:1] if table.num_images]
    kinds = {kind_of_class_ids(table.image_ids) for table in tables}
    kinds |= {earlier.kind_of_ids for earlier in state.pending[:1]}
    mine = batch.kind_of_ids
    if batch.table.num_images and kinds - {mine}:
        raise InputError(
            "image ids must be of one kind in all batches",
            where="image_ids",
            got=f"{mine} after {kinds.pop()}",
        )
