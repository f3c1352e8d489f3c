"""What a metric expects of its input, from the arguments that say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from ..errors import InputError
from ..protocols import DetectionProtocol
from .box_formats import BoxFormat, read_box_formats
from .keys import DETECTION, PREDICTION, TARGET
from .row_tensors import ColumnNames, read_column_names

UNKNOWN_LABELS = ("error", "drop")
"""What becomes of rows whose label is no class."""


class InputRules(NamedTuple):
    """What a metric expects of its input.

    Attributes:
        num_classes: K.
        label_ids: K values that stand for the classes in ``labels``; None for 0 .. K-1.
        box_formats: of predictions and of targets, see :mod:`box_formats`.
        inverted_boxes: whether boxes of negative width or height are taken.
        task: of the protocols, which says the keys that are read.
        boxes, masks: whether a protocol needs them.
        columns: of predictions and of targets that come as one tensor, see :mod:`row_tensors`.
        drop_unknown: whether rows of unknown labels are left out, and not an error.
    """

    num_classes: int
    label_ids: tuple[int, ...] | None
    box_formats: tuple[str, str]
    inverted_boxes: bool
    task: str = DETECTION
    boxes: bool = True
    masks: bool = False
    columns: tuple[ColumnNames | None, ColumnNames | None] = (None, None)
    drop_unknown: bool = False

    @property
    def num_labels(self) -> int:
        """K where labels are 0 .. K-1; 0 where the user says which they are."""
        return 0 if self.label_ids else self.num_classes

    @classmethod
    def of(
        cls,
        protocols: Sequence[Any],
        label_ids: tuple[int, ...],
        *,
        box_format: BoxFormat = "xyxy",
        prediction_columns: Sequence[str] | None = None,
        target_columns: Sequence[str] | None = None,
        unknown_labels: str = "error",
    ) -> Self:
        """The rules of a metric with these protocols, all of one task, and arguments.

        Raises:
            InputError: if an argument is none of those that there are.
        """
        if unknown_labels not in UNKNOWN_LABELS:
            raise InputError(
                f"must be one of {', '.join(UNKNOWN_LABELS)}",
                where="unknown_labels",
                got=repr(unknown_labels),
            )
        of_detection = [p for p in protocols if isinstance(p, DetectionProtocol)]
        task = protocols[0].task if protocols else DETECTION
        return cls(
            len(label_ids),
            None if label_ids == tuple(range(len(label_ids))) else label_ids,
            read_box_formats(box_format),
            all(protocol.inverted_boxes == "accept" for protocol in protocols),
            task,
            any(p.uses_boxes for p in of_detection) or len(of_detection) < len(protocols),
            any(p.uses_masks for p in of_detection),
            (
                read_column_names(prediction_columns, task, PREDICTION),
                read_column_names(target_columns, task, TARGET),
            ),
            unknown_labels == "drop",
        )
