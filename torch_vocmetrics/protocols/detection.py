"""Rules of object detection by average precision."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from .overlaps import known_overlap
from .rules import (
    Protocol,
    ascending,
    boolean,
    is_number,
    limits,
    number,
    one_of,
    plain,
    positive,
    read_levels,
    read_limits,
    rule,
    text,
)

FLAGS = ("difficult", "iscrowd", "ignore")
"""What ground truth may say of an object; a protocol says what each flag means."""


MERGED_CLASS = "all"
"""Name of the only class of a class-agnostic protocol."""


class AreaRange(NamedTuple):
    """Objects and detections whose area lies in [lower, upper], both ends included.

    Attributes:
        name: how results call the range.
        lower, upper: bounds in square pixels; infinite for no bound.
    """

    name: str
    lower: float
    upper: float


def flags(values: object) -> str | None:
    """The value is a tuple of known flags."""
    known = isinstance(values, tuple) and all(value in FLAGS for value in values)
    return None if known else f"must be a list of flags among {', '.join(FLAGS)}"


def areas(ranges: object) -> str | None:
    """The value is a tuple of area ranges."""
    expected = (
        "must be a list of [name, lower, upper] triples, distinct names, lower <= upper, "
        "None for no bound"
    )
    if not isinstance(ranges, tuple) or not ranges:
        return expected
    for entry in ranges:
        if not isinstance(entry, AreaRange) or not isinstance(entry.name, str):
            return expected
        if not (is_number(entry.lower) and is_number(entry.upper) and entry.lower <= entry.upper):
            return expected
    return None if len({entry.name for entry in ranges}) == len(ranges) else expected


def read_areas(value: object) -> object:
    """Triples or tables as area ranges; anything else as it is, for the check to refuse."""
    if not isinstance(value, tuple):
        return value
    keys = AreaRange._fields
    rows = [tuple(map(e.get, keys)) if isinstance(e, Mapping) else e for e in value]
    if not all(isinstance(entry, tuple) and len(entry) == len(keys) for entry in rows):
        return value
    return tuple(_read_area(*entry) for entry in rows)


def _read_area(name: object, lower: object, upper: object) -> AreaRange:
    """An area range; a bound of None is no bound."""
    bounds = (-math.inf if lower is None else lower, math.inf if upper is None else upper)
    return AreaRange(name, *map(plain, bounds))  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class DetectionProtocol(Protocol):
    """The rules of one detection benchmark; every field but the name is a key of its TOML file.

    A variant is ``dataclasses.replace(load_protocol("detection/coco2017"), max_detections=(9,))``:
    the rules are checked again and the fingerprint changes with them.

    ``headline_area`` is the area range that means over classes, curves and counts of a result are
    about. With ``class_agnostic`` an image's detections and ground truths are all of one class, as
    in pycocotools with ``useCats = 0``, which limits of detections then count together; of equal
    scores and overlaps the order of the rows decides, where pycocotools first sorts by category.

    Raises:
        ProtocolError: naming every field that does not hold.
    """

    task: ClassVar[str] = "detection"

    coordinates: str = rule("boxes", one_of("inclusive_pixels", "continuous"))
    inverted_boxes: str = rule("boxes", one_of("accept", "error"))
    ignored_flags: tuple[str, ...] = rule("objects", flags)
    reusable_flags: tuple[str, ...] = rule("objects", flags)
    overlap_of_detection_area_flags: tuple[str, ...] = rule("objects", flags)
    area_ranges: tuple[AreaRange, ...] = rule("objects", areas, read_areas)
    headline_area: str = rule("objects", text)
    detection_area: str = rule("objects", one_of("box", "mask"))
    iou_thresholds: tuple[float, ...] = rule(
        "matching", ascending(5e-324, 1.0, least=1), read_levels
    )
    iou_threshold_ceiling: float = rule("matching", positive)
    overlap_of: str = rule("matching", known_overlap)
    comparison: str = rule("matching", one_of(">=", ">"))
    candidates: str = rule("matching", one_of("best", "all"))
    equal_overlaps: str = rule("matching", one_of("first", "last"))
    class_agnostic: bool = rule("matching", boolean)
    max_detections: tuple[int, ...] = rule("matching", limits, read_limits)
    interpolation: str = rule("average", one_of("eleven_point", "all_points", "recall_grid"))
    recall_levels: tuple[float, ...] = rule("average", ascending(0.0, 1.1, least=0), read_levels)
    precision_epsilon: float = rule("average", number)
    mean_over: str = rule("average", one_of("classes_with_positives", "defined_values"))

    def _mistakes(self) -> Iterator[str]:
        yield from super()._mistakes()
        if self.headline_area not in (names := [entry.name for entry in self.area_ranges]):
            yield (
                f"headline_area must be the name of an area range, {' or '.join(names)}, "
                f"got {self.headline_area!r}"
            )
        if self.interpolation != "all_points" and not self.recall_levels:
            yield f"recall_levels must not be empty for {self.interpolation}"
        if (self.interpolation == "recall_grid") != (self.precision_epsilon > 0):
            yield "precision_epsilon must be above 0 for recall_grid, and 0 for the others"
        if self.overlap_of == "masks" and self.coordinates == "inclusive_pixels":
            yield "coordinates must be continuous where overlap_of is masks"
        if self.overlap_of != "masks" and self.detection_area == "mask":
            yield f"detection_area must be box where overlap_of is {self.overlap_of}"

    @property
    def lane_shape(self) -> tuple[int, int]:
        """Area ranges, and thresholds in each."""
        return len(self.area_ranges), len(self.iou_thresholds)

    @property
    def headline(self) -> str:
        """What the headline number of a result is, in words."""
        first, *others = self.iou_thresholds
        ious = f"{first:g}" if not others else f"{first:g} to {others[-1]:g} ({len(others) + 1})"
        whole = "average precision" if self.class_agnostic else "mean average precision"
        return f"{whole} at IoU {ious}, area range {self.headline_area}"

    @property
    def headline_index(self) -> int:
        """Index of the area range that the headline is about."""
        return [entry.name for entry in self.area_ranges].index(self.headline_area)

    def evaluated_classes(self, class_names: tuple[str, ...]) -> tuple[str, ...]:
        """The classes that are evaluated one by one, of a metric with these classes."""
        return (MERGED_CLASS,) if self.class_agnostic else class_names

    @property
    def uses_masks(self) -> bool:
        """Whether detections and objects need masks."""
        return self.overlap_of == "masks"

    @property
    def uses_boxes(self) -> bool:
        """Whether detections need boxes."""
        return self.overlap_of != "masks" or self.detection_area == "box"

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The thresholds as compared: pycocotools lowers a threshold of 1 to 1 - 1e-10."""
        return tuple(min(value, self.iou_threshold_ceiling) for value in self.iou_thresholds)
