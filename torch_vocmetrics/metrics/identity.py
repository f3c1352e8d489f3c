"""What a state says of its metric, its rules and its images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from ..distributed import SHOWN
from ..errors import StateError

K = TypeVar("K")


def refuse_other_rules(mine: Mapping[str, Any], other: object, where: str) -> None:
    """Compare what two states say of their rules: schema, metric, protocols and classes.

    Raises:
        StateError: naming the first difference and ``where`` it was met.
    """
    if not isinstance(other, dict):
        raise StateError("must be a state_dict", where=where, got=type(other).__name__)
    if other.get("schema") != mine["schema"]:
        raise StateError(
            f"the state has another schema than {mine['schema']}",
            where=where,
            got=repr(other.get("schema")),
            remedy="use the torch_vocmetrics that made it, or evaluate again",
        )
    for key in ("metric", "fingerprints", "class_names", "label_ids"):
        if other.get(key) != mine[key]:
            shown = "protocols" if key == "fingerprints" else key
            raise StateError(
                f"the states are of different {shown}: {_short(mine[shown])} here",
                where=where,
                got=_short(other.get(shown)),
                remedy="give both metrics the same protocol, classes and label ids",
            )


def tables_of(state: Mapping[str, Any], read: Callable[[Any, Any], Sequence[Any]]) -> Sequence[Any]:
    """The tables that a metric's ``read`` makes of image ids and state.

    Raises:
        StateError: if the state is damaged, whatever it is that ``read`` raises.
    """
    try:
        ids = state["image_ids"]
        if not (ids is None or isinstance(ids, list)):
            raise ValueError("image_ids must be a list or None")
        tables = read(ids or None, state)
        _check_counts(state, tables[0].num_images)
    except StateError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        reason = error if isinstance(error, ValueError) else repr(error)
        raise StateError(f"the state is damaged: {reason}", where="load_state_dict") from None
    return tables


def _check_counts(state: Mapping[str, Any], num_images: int) -> None:
    """Raise ValueError if a state says something else than that it has so many images."""
    images, updated = state["num_images"], state["updated"]
    if type(images) is not int or images != num_images:
        raise ValueError(f"num_images is {images!r} beside {num_images} images")
    if not isinstance(updated, bool) or (num_images and not updated):
        raise ValueError(f"updated is {updated!r} beside {num_images} images")


def _short(value: object) -> str:
    """A value as it is shown in a sentence: long ones are cut short."""
    text = str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."


METRIC_MODULES = (
    "classification",
    "detection",
    "layout",
    "mask_quality",
    "pedestrian",
    "segmentation",
)


def all_metrics(kinds: Mapping[str, K]) -> Mapping[str, K]:
    """The known metrics by name, after those that nobody has used yet are imported too."""
    for module in (
        "classification",
        "detection",
        "layout",
        "mask_quality",
        "pedestrian",
        "segmentation",
    ):
        import_module(f".{module}", __package__)
    return kinds


@contextmanager
def named_fault(path: str | Path) -> Iterator[None]:
    """Put the name of a file before what is wrong with its state."""
    try:
        yield
    except StateError as error:
        named = StateError(error.what, where=str(path), got=error.got, remedy=error.remedy)
        raise named from None


def sizes(num_classes: int, num_images: int) -> str:
    """How many classes and images there are, for people."""
    counts = ((num_classes, "class", "es"), (num_images, "image", "s"))
    return ", ".join(f"{count} {word}{'' if count == 1 else more}" for count, word, more in counts)
