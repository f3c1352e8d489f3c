"""Rules of image classification, and of action classification on (image, object) pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from .rules import Protocol, ascending, one_of, read_levels, rule


@dataclass(frozen=True, kw_only=True)
class ClassificationProtocol(Protocol):
    """The rules of classifying images; every field but the name is a key of its TOML file.

    Raises:
        ProtocolError: naming every field that does not hold.
    """

    task: ClassVar[str] = "classification"

    undecided_targets: str = rule("ranking", one_of("keep_as_neither"))
    interpolation: str = rule("average", one_of("eleven_point", "all_points", "roc_lower_envelope"))
    recall_levels: tuple[float, ...] = rule("average", ascending(0.0, 1.1, least=0), read_levels)
    mean_over: str = rule("average", one_of("classes_with_positives"))

    @property
    def headline(self) -> str:
        """What the headline number of a result is, in words."""
        roc = self.interpolation == "roc_lower_envelope"
        return "mean area under the ROC curve" if roc else "mean average precision"

    def _mistakes(self) -> Iterator[str]:
        yield from super()._mistakes()
        if self.interpolation == "eleven_point" and not self.recall_levels:
            yield "recall_levels must not be empty for eleven_point"


@dataclass(frozen=True, kw_only=True)
class ActionProtocol(ClassificationProtocol):
    """The rules of classifying what given persons do: what is ranked is (image, object) pairs."""

    task: ClassVar[str] = "action"
