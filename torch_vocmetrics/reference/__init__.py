"""Executable specifications: the official steps as plain loops, for reading and for testing.

Nothing here is fast and nothing here is shared with the metrics, which never call it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from ..protocols import DetectionProtocol, MissRateProtocol, load_protocol
from ..results import MissRateResult
from . import detection, miss_rate
from .classification import evaluate_classification
from .layout import evaluate_layout
from .segmentation import evaluate_segmentation

__all__ = [
    "evaluate",
    "evaluate_classification",
    "evaluate_layout",
    "evaluate_segmentation",
]

Images = Sequence[Mapping[str, Any]]


@overload
def evaluate(
    protocol: MissRateProtocol, detections: Images, ground_truths: Images, **kwargs: Any
) -> MissRateResult: ...


@overload
def evaluate(
    protocol: DetectionProtocol, detections: Images, ground_truths: Images, **kwargs: Any
) -> detection.Result: ...


@overload
def evaluate(
    protocol: str | Path, detections: Images, ground_truths: Images, **kwargs: Any
) -> Any: ...


def evaluate(
    protocol: str | Path | DetectionProtocol | MissRateProtocol,
    detections: Images,
    ground_truths: Images,
    **kwargs: Any,
) -> Any:
    """Evaluate a whole data set of boxes at once, by the loops that the protocol's task asks for.

    Args:
        protocol: ``"detection/voc2007"``, ``"miss_rate/caltech2012"``, the path of a TOML file, or
            a protocol; a name without a task is one of detection.
        detections, ground_truths: per image a dict, as the task's metric takes it.
        kwargs: those of :func:`detection.evaluate` or :func:`miss_rate.evaluate`.

    Raises:
        InputError: for inputs that do not fit together.
    """
    if isinstance(protocol, str) and "/" not in protocol and not protocol.endswith(".toml"):
        protocol = f"detection/{protocol}"
    if isinstance(protocol, str | Path):
        protocol = load_protocol(protocol)
    if isinstance(protocol, MissRateProtocol):
        return miss_rate.evaluate(protocol, detections, ground_truths, **kwargs)
    return detection.evaluate(protocol, detections, ground_truths, **kwargs)
