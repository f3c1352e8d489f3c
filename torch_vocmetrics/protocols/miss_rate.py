"""Rules of pedestrian detection by miss rate against false positives per image (FPPI)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

from .rules import (
    Protocol,
    ascending,
    is_number,
    limits,
    none_as,
    number,
    one_of,
    plain,
    read_levels,
    read_limits,
    rule,
)

STANDARDISED = ("detections", "objects", "ignored_objects")
"""What may be given the standard width: detections, objects that count, objects that do not."""


class FppiReferences(NamedTuple):
    """Named references, at which miss rates are read before their logarithms are averaged."""

    name: str
    fppi: tuple[float, ...]


class Subset(NamedTuple):
    """One experiment: which objects count, which detections exist, what a match is.

    Attributes:
        name: how results call it.
        height: lower and upper bound in pixels; whether the upper one is included says the
            protocol's ``height_interval``.
        visibility: closed range of the visible fraction; a protocol gives objects without
            occlusion a number of its own, which may be infinite.
        occlusion: levels of occlusion that count; () for all.
        aspect_ratio: a > 0: objects with ``|w / h - standard| < a`` count; a < 0: those with
            ``> -a``; 0: all.
        iou_threshold: overlap that a match needs.
        filter_expansion: r of the heights [lower / r, upper * r) in which detections are kept,
            where ``detection_filter`` is "before_matching"; ``least_height`` says how the lower
            bound is computed.
        images: half-open ranges of image positions that the subset is made of; () for all.
        references: name of the references that it is averaged over.
    """

    name: str
    height: tuple[float, float]
    visibility: tuple[float, float]
    occlusion: tuple[int, ...]
    aspect_ratio: float
    iou_threshold: float
    filter_expansion: float
    images: tuple[tuple[int, int], ...]
    references: str


def _is_range(value: object) -> bool:
    numbers = isinstance(value, tuple) and len(value) == 2 and all(map(is_number, value))
    return numbers and value[0] <= value[1]  # type: ignore[index]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _subset_mistake(entry: object) -> str | None:
    if not isinstance(entry, Subset):
        return f"must be tables of the keys {', '.join(Subset._fields)}"
    spans = isinstance(entry.images, tuple) and all(map(_is_range, entry.images))
    holds = {
        "name must be a string": isinstance(entry.name, str) and bool(entry.name),
        "height must be [lower, upper]": _is_range(entry.height),
        "visibility must be [lower, upper]": _is_range(entry.visibility),
        "occlusion must be a list of levels": isinstance(entry.occlusion, tuple)
        and all(map(_is_whole, entry.occlusion)),
        "aspect_ratio must be a number": is_number(entry.aspect_ratio),
        "iou_threshold must be in [0, 1]": is_number(entry.iou_threshold)
        and 0 <= entry.iou_threshold <= 1,
        "filter_expansion must be at least 1": is_number(entry.filter_expansion)
        and 1 <= entry.filter_expansion < float("inf"),
        "images must be [first, end) pairs": spans
        and all(_is_whole(index) for span in entry.images for index in span),
        "references must be a name": isinstance(entry.references, str),
    }
    wrong = [f"{what} in subset {entry.name!r}" for what, right in holds.items() if not right]
    return wrong[0] if wrong else None


def subsets(entries: object) -> str | None:
    """The value is a tuple of subsets of distinct names."""
    if not isinstance(entries, tuple) or not entries:
        return f"must be at least one table of the keys {', '.join(Subset._fields)}"
    for entry in entries:
        if complaint := _subset_mistake(entry):
            return complaint
    distinct = len({entry.name for entry in entries}) == len(entries)
    return None if distinct else "must have distinct names"


def read_subsets(value: object) -> object:
    """Tables of all the keys as subsets; anything else as it is, for the check to refuse."""
    return tuple(map(_read_subset, value)) if isinstance(value, tuple) else value


def _read_subset(entry: object) -> object:
    fields = entry._asdict() if isinstance(entry, Subset) else entry
    if not isinstance(fields, Mapping) or set(fields) != set(Subset._fields):
        return entry
    values = {key: plain(value) for key, value in fields.items()}
    values |= {key: () for key in ("occlusion", "images") if values[key] is None}
    return Subset(**values)  # type: ignore[arg-type]


def references(entries: object) -> str | None:
    """The value is a tuple of named references, all of one length."""
    expected = "must be tables of a distinct name and as many rising fppi above 0 in each"
    if not isinstance(entries, tuple) or not entries:
        return expected
    for entry in entries:
        if not isinstance(entry, FppiReferences) or not isinstance(entry.name, str):
            return expected
        if ascending(5e-324, float("inf"), least=1)(entry.fppi):
            return expected
    names, sizes = {entry.name for entry in entries}, {len(entry.fppi) for entry in entries}
    return None if len(names) == len(entries) and len(sizes) == 1 else expected


def read_references(value: object) -> object:
    """Tables as references; anything else as it is, for the check to refuse."""
    if not isinstance(value, tuple):
        return value
    tables = [one._asdict() if isinstance(one, FppiReferences) else one for one in value]
    if not all(isinstance(one, Mapping) and set(one) == {"name", "fppi"} for one in tables):
        return value
    return tuple(FppiReferences(one["name"], read_levels(plain(one["fppi"]))) for one in tables)  # type: ignore[arg-type]


def bounds(value: object) -> str | None:
    """The value is a tuple x1, y1, x2, y2 or empty."""
    expected = "must be [x1, y1, x2, y2], or [] for none"
    if not isinstance(value, tuple) or not all(map(is_number, value)):
        return expected
    fine = not value or (len(value) == 4 and value[0] <= value[2] and value[1] <= value[3])
    return None if fine else expected


def positive_or_none(value: object) -> str | None:
    """The value is a finite number of at least 0; 0 switches the rule off."""
    fine = is_number(value) and 0 <= value < float("inf")  # type: ignore[operator]
    return None if fine else "must be a finite number, 0 for none"


def standardised(values: object) -> str | None:
    """The value is a tuple of what may be standardised."""
    known = isinstance(values, tuple) and all(value in STANDARDISED for value in values)
    return None if known else f"must be a list of some of {', '.join(STANDARDISED)}"


def score_limits(values: object) -> str | None:
    """The value is a tuple of rising scores."""
    return ascending(-float("inf"), float("inf"), least=0)(values)


def whole(value: object) -> str | None:
    """The value is an integer of at least 0."""
    return None if _is_whole(value) else "must be a whole number, 0 for any"


@dataclass(frozen=True, kw_only=True)
class MissRateProtocol(Protocol):
    """The rules of one pedestrian benchmark; every field but the name is a key of its TOML file.

    A variant is ``dataclasses.replace(load_protocol("miss_rate/caltech_acftest"), ...)``: the
    rules are checked again and the fingerprint changes with them. Boxes are continuous (width
    ``x2 - x1``); an object that does not count is an ignore region: it takes any number of
    detections, by intersection over the detection's area.

    ``least_height`` is "quotient" (``lower / r``) or "product" (``lower * (1 / r)``), which differ
    in the last bit. ``ranked_boxes`` is "own", or "permuted_twice": the detection of rank n, listed
    at index p of its image, is compared with the box of the detection of rank p.

    Raises:
        ProtocolError: naming every field that does not hold.
    """

    task: ClassVar[str] = "miss_rate"
    overlap_of: ClassVar[str] = "boxes"

    inverted_boxes: str = rule("boxes", one_of("accept", "error"))
    clipping: str = rule("boxes", one_of("none", "image"))
    standard_aspect_ratio: float = rule("boxes", positive_or_none, none_as(0.0))
    standardised: tuple[str, ...] = rule("boxes", standardised)
    overlap_epsilon: float = rule("boxes", positive_or_none, none_as(0.0))
    height_interval: str = rule("objects", one_of("half_open", "closed"))
    unoccluded_visibility: float = rule("objects", number)
    zero_visible_box: str = rule("objects", one_of("unoccluded", "area_ratio"))
    bounds: tuple[float, ...] = rule("objects", bounds, none_as(()))
    undetected_images: str = rule("objects", one_of("count", "drop_objects"))
    subsets: tuple[Subset, ...] = rule("subsets", subsets, read_subsets)
    num_images: int = rule("subsets", whole, none_as(0))
    detection_filter: str = rule("detections", one_of("before_matching", "after_matching", "none"))
    least_height: str = rule("detections", one_of("quotient", "product"))
    ranked_boxes: str = rule("detections", one_of("own", "permuted_twice"))
    max_detections: tuple[int, ...] = rule("detections", limits, read_limits)
    comparison: str = rule("matching", one_of(">=", ">"))
    equal_overlaps: str = rule("matching", one_of("first", "last"))
    used_objects: str = rule("matching", one_of("next_best", "ignore_detection"))
    references: tuple[FppiReferences, ...] = rule("average", references, read_references)
    curve_reading: str = rule(
        "average",
        one_of("last_from_zero", "last_or_final", "last_or_undefined", "first_or_final"),
    )
    miss_rate_floor: float = rule("average", positive_or_none, none_as(0.0))
    positives_floor: float = rule("average", positive_or_none, none_as(0.0))
    without_positives: str = rule("average", one_of("as_computed", "undefined"))
    sums: str = rule("average", one_of("in_sequence", "numpy"))
    recall_levels: tuple[float, ...] = rule("average", ascending(0.0, 1.0, least=0), read_levels)
    average_precision: str = rule("average", one_of("none", "trapezoid"))
    jaccard_scores: tuple[float, ...] = rule("average", score_limits, read_levels)
    jaccard_epsilon: float = rule("average", positive_or_none, none_as(0.0))

    def _mistakes(self) -> Iterator[str]:
        yield from super()._mistakes()
        if len(self.max_detections) > 1:
            yield f"max_detections must be one limit or none, got {self.max_detections!r}"
        if self.standardised and not self.standard_aspect_ratio:
            yield "standard_aspect_ratio must be above 0 if anything is standardised"
        if self.clipping == "image" and self.standardised:
            yield "boxes must not be both clipped and standardised"
        known = [entry.name for entry in self.references if isinstance(entry, FppiReferences)]
        for entry in self.subsets:
            if isinstance(entry, Subset) and entry.references not in known:
                yield f"subset {entry.name!r} has unknown references {entry.references!r}"
        if any(b[0] < a[1] for s in self.subsets for a, b in pairwise(sorted(_spans(s)))):
            yield "ranges of images must not overlap within a subset"

    @property
    def lane_shape(self) -> tuple[int, int]:
        """Subsets, and thresholds in each: one."""
        return len(self.subsets), 1

    @property
    def headline(self) -> str:
        """What the headline number of a result is, in words."""
        return f"log-average miss rate of the first subset, {self.subset_names[0]}"

    @property
    def subset_names(self) -> tuple[str, ...]:
        """The names in order."""
        return tuple(entry.name for entry in self.subsets)

    def fppi_of(self, subset: Subset) -> tuple[float, ...]:
        """The references of a subset."""
        return dict(self.references)[subset.references]


def _spans(subset: object) -> tuple[tuple[int, int], ...]:
    fine = isinstance(subset, Subset) and _subset_mistake(subset) is None
    return subset.images if fine else ()  # type: ignore[attr-defined]
