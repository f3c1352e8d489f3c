"""Rules of person layout: head, hands and feet of a person, each with its box."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from .rules import Protocol, ascending, is_number, one_of, read_levels, rule


def part_names(values: object) -> str | None:
    """The value is a tuple of distinct names."""
    expected = "must be a list of distinct names, at least one"
    if not isinstance(values, tuple) or not all(isinstance(v, str) and v for v in values):
        return expected
    return None if values and len(set(values)) == len(values) else expected


def threshold(value: Any) -> str | None:
    """The value is an overlap that a pair may reach."""
    return None if is_number(value) and 0 < value <= 1 else "must be a number in (0, 1]"


@dataclass(frozen=True, kw_only=True)
class LayoutProtocol(Protocol):
    """The rules of one person layout task; every field but the name is a key of its TOML file.

    Raises:
        ProtocolError: naming every field that does not hold.
    """

    task: ClassVar[str] = "layout"

    coordinates: str = rule("boxes", one_of("inclusive_pixels", "continuous"))
    inverted_boxes: str = rule("boxes", one_of("accept", "error"))
    persons: str = rule("persons", one_of("detected", "given"))
    counted_persons: str = rule("persons", one_of("with_parts_and_not_difficult", "all"))
    person_iou_threshold: float = rule("persons", threshold)
    walk: str = rule("layouts", one_of("by_confidence", "file_order"))
    attempts: str = rule("layouts", one_of("first_uses_up", "until_correct", "first_only"))
    unit: str = rule("parts", one_of("layout", "part"))
    parts: tuple[str, ...] = rule("parts", part_names)
    part_iou_threshold: float = rule("parts", threshold)
    single_part: str = rule("parts", one_of("never_correct", "as_any"))
    both_without_parts: str = rule("parts", one_of("error", "incorrect"))
    interpolation: str = rule("average", one_of("eleven_point", "all_points"))
    recall_levels: tuple[float, ...] = rule("average", ascending(0.0, 1.1, least=0), read_levels)
    mean_over: str = rule("average", one_of("classes_with_positives"))

    def _mistakes(self) -> Iterator[str]:
        yield from super()._mistakes()
        if self.interpolation == "eleven_point" and not self.recall_levels:
            yield "recall_levels must not be empty for eleven_point"
        if self.unit == "part" and self.attempts != "first_only":
            yield "attempts must be first_only where the unit is a part"
        if self.persons == "detected" and self.attempts != "first_uses_up":
            yield "attempts must be first_uses_up where persons are detected"

    @property
    def lane_shape(self) -> tuple[int, int]:
        """One area range, one threshold."""
        return 1, 1

    @property
    def headline(self) -> str:
        """What the headline number of a result is, in words."""
        return (
            "average precision of whole layouts"
            if self.unit == "layout"
            else ("mean average precision over parts")
        )

    @property
    def class_names(self) -> tuple[str, ...]:
        """What is ranked on its own: each part, or the layout as a whole."""
        return self.parts if self.unit == "part" else ("layout",)
