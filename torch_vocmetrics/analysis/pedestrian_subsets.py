"""Miss rates against height, visibility, occlusion or aspect ratio: many subsets from one state."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from torch import Tensor

from ..errors import InputError
from ..protocols import MissRateProtocol, load_protocol
from ..results import MissRateResult, Table

RANGES = ("height", "visibility")
PROPERTIES = (*RANGES, "occlusion", "aspect_ratio", "iou_threshold")


@dataclass(frozen=True, eq=False)
class SubsetTable(Table):
    """One row for each subset of a pedestrian protocol.

    Attributes:
        name: S names of subsets.
        log_average_miss_rate: [S] float64, NaN where undefined.
        num_positives, true_positives, false_positives: [S] int64.
        height, visibility: the ranges of each subset, (lower, upper).
        occlusion: the levels of each subset; () for all.
        aspect_ratio, iou_threshold: of each subset, as the protocol has them.
    """

    name: tuple[str, ...]
    log_average_miss_rate: Tensor
    num_positives: Tensor
    true_positives: Tensor
    false_positives: Tensor
    height: tuple[tuple[float, float], ...]
    visibility: tuple[tuple[float, float], ...]
    occlusion: tuple[tuple[int, ...], ...]
    aspect_ratio: tuple[float, ...]
    iou_threshold: tuple[float, ...]


def subsets_by(
    protocol: str | MissRateProtocol,
    property: str,  # noqa: A002 - the word of the result
    values: Sequence[Any],
    *,
    subset: str | None = None,
) -> MissRateProtocol:
    """A protocol whose subsets differ from one of the protocol's in one property only.

    Make the metric of it before the first update::

        metric = LogAverageMissRate(subsets_by("caltech2012", "height", [20, 30, 50, 80, 200]))

    Args:
        protocol: its name, or a protocol.
        property: "height" or "visibility", whose values are the rising bounds of S ranges;
            "occlusion", "aspect_ratio" or "iou_threshold", whose values are one of each subset, as
            :class:`~torch_vocmetrics.protocols.Subset` has them (occlusion: a level or a list).
        values: bounds, or S values.
        subset: the one that is varied; None is the first.

    Raises:
        InputError: if there is no such property or subset, or bounds do not rise.
        ProtocolError: if a value is none that the property may have.

    Source: Dollar, Wojek, Schiele and Perona, "Pedestrian Detection: An Evaluation of the State of
        the Art", PAMI 2012, results by scale, occlusion and aspect ratio.
    """
    rules = load_protocol(protocol, MissRateProtocol)
    if property not in PROPERTIES:
        raise InputError(f"must be one of {', '.join(PROPERTIES)}", where="property", got=property)
    if subset is not None and subset not in rules.subset_names:
        raise InputError(
            f"must be one of {', '.join(rules.subset_names)}", where="subset", got=subset
        )
    base = rules.subsets[0 if subset is None else rules.subset_names.index(subset)]
    if property in RANGES:
        chosen: list[Any] = [(float(lower), float(upper)) for lower, upper in pairwise(values)]
        if not chosen or any(upper <= lower for lower, upper in chosen):
            raise InputError("must be at least two rising bounds", where="values", got=list(values))
        names = [f"{property} {lower:g}-{upper:g}" for lower, upper in chosen]
    else:
        listed = property == "occlusion"
        chosen = [
            tuple([value] if isinstance(value, int) else value) if listed else float(value)
            for value in values
        ]
        names = [f"{property} {value}" for value in values]
    subsets = tuple(
        base._replace(**{"name": name, property: value})
        for name, value in zip(names, chosen, strict=True)
    )
    return dataclasses.replace(rules, name=f"{rules.name}_by_{property}", subsets=subsets)


def subset_table(source: Any) -> SubsetTable:
    """The miss rate of every subset beside what the subset is made of.

    Args:
        source: a LogAverageMissRate, or its result.

    Raises:
        InputError: if it is neither.
    """
    result = source.compute() if callable(getattr(source, "compute", None)) else source
    if not isinstance(result, MissRateResult):
        raise InputError(
            "must be a LogAverageMissRate or its result",
            where="source",
            got=type(source).__name__,
        )
    subsets = result.protocol.subsets
    return SubsetTable(
        name=result.subset_names,
        log_average_miss_rate=result.log_average_miss_rate,
        num_positives=result.num_positives,
        true_positives=result.true_positives,
        false_positives=result.false_positives,
        height=tuple(entry.height for entry in subsets),
        visibility=tuple(entry.visibility for entry in subsets),
        occlusion=tuple(entry.occlusion for entry in subsets),
        aspect_ratio=tuple(entry.aspect_ratio for entry in subsets),
        iou_threshold=tuple(entry.iou_threshold for entry in subsets),
    )
