"""Rules of semantic segmentation by pixel counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from .rules import Protocol, none_as, one_of, rule


def labels(values: object) -> str | None:
    """The value is a tuple of distinct labels that are no bools."""
    expected = "must be a list of distinct integers"
    if not isinstance(values, tuple) or len(set(values)) < len(values):
        return expected
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    return None if whole else expected


def a_dataset(value: object) -> str | None:
    """The value is the name of a shipped data set."""
    from .datasets import dataset_names  # noqa: PLC0415 - which needs the folder of protocol files

    names = dataset_names()
    return None if value in names else f"must be one of {', '.join(names)}"


@dataclass(frozen=True, kw_only=True)
class SegmentationProtocol(Protocol):
    """The rules of one segmentation benchmark; every field but the name is a key of its TOML file.

    ``dataset`` gives the classes where a metric names none. Pixels whose true label is among
    ``void_labels`` count nowhere; a prediction of such a label is an error, or a miss of the true
    class that no class is charged with. ``class_measure`` is what the headline averages.

    Raises:
        ProtocolError: naming every field that does not hold.

    Example:
        >>> from torch_vocmetrics import load_protocol
        >>> load_protocol("segmentation/voc2012").void_labels
        (255,)
    """

    task: ClassVar[str] = "segmentation"

    dataset: str = rule("labels", a_dataset)
    void_labels: tuple[int, ...] = rule("labels", labels, none_as(()))
    void_predictions: str = rule("labels", one_of("error", "miss"))
    class_measure: str = rule("measure", one_of("intersection_over_union", "pixel_recall"))
    undefined_class: str = rule("measure", one_of("nan", "zero"))
    mean_over: str = rule("measure", one_of("all_classes", "defined_values"))

    @property
    def headline(self) -> str:
        """What the headline number of a result is, in words."""
        of_class = self.class_measure.replace("_", " ")
        classes = "all classes" if self.mean_over == "all_classes" else "classes that occur"
        return f"mean {of_class} over {classes}"

    def _mistakes(self) -> Iterator[str]:
        yield from super()._mistakes()
        if self.undefined_class == "zero" and self.mean_over == "defined_values":
            yield "mean_over must be all_classes where an undefined class is zero"
