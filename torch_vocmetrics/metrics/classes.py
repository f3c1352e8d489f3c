"""The classes of a metric, from whichever argument says what they are."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from ..errors import InputError, warn
from ..limits import MAX_CLASSES
from ..protocols import Protocol, dataset_of

ClassNames = Sequence[str] | Mapping[int, str]
"""Names in class order, or {id: name}, which are sorted by id."""


class Classes(NamedTuple):
    """K classes.

    Attributes:
        names: K distinct names.
        label_ids: the value that stands for each class in the user's data; None where no argument
            says it, which means 0 .. K-1.
    """

    names: tuple[str, ...]
    label_ids: tuple[int, ...] | None

    @property
    def labels(self) -> tuple[int, ...]:
        """The label ids, also where no argument says them."""
        return self.label_ids or tuple(range(len(self.names)))


def read_classes(
    num_classes: int | None,
    class_names: ClassNames | None,
    label_ids: Iterable[int] | None,
    protocols: Sequence[Protocol] = (),
) -> Classes:
    """Names and label ids of the classes.

    Args:
        num_classes: how many classes there are; they are then called "0", "1", ...
        class_names: K names, or {id: name}, whose ids are the label ids.
        label_ids: K distinct integers.
        protocols: of the metric; if the classes are not given, those of their data set are taken.

    Raises:
        InputError: if no argument says how many classes there are, two arguments disagree, a name
            or a label id occurs twice, or a value is of another type.
    """
    if num_classes is None and class_names is None and label_ids is None:
        datasets = {dataset_of(protocol) for protocol in protocols}
        if len(datasets) == 1 and (dataset := datasets.pop()) is not None:
            class_names, label_ids = dataset.class_names, dataset.label_ids
    names, ids = _names_and_ids(class_names)
    given_ids = None if label_ids is None else _label_ids(label_ids)
    if ids is not None and given_ids is not None and set(ids) != set(given_ids):
        raise InputError("must be the keys of class_names", where="label_ids", got=list(given_ids))
    if ids is not None and given_ids is not None and names is not None:
        by_id = dict(zip(ids, names, strict=True))
        names = tuple(by_id[value] for value in given_ids)
    ids = given_ids or ids
    K = _common_size(
        {
            "num_classes": None if num_classes is None else _integer(num_classes, "num_classes"),
            "class_names": None if names is None else len(names),
            "label_ids": None if ids is None else len(ids),
        }
    )
    return Classes(tuple(map(str, range(K))) if names is None else names, ids)


def _common_size(sizes: Mapping[str, int | None]) -> int:
    """The number of classes, on which all given arguments must agree."""
    given = {name: size for name, size in sizes.items() if size is not None}
    if not given:
        raise InputError(
            "the classes are missing",
            remedy="give num_classes=, class_names= or label_ids=, "
            'such as class_names=load_dataset("coco2017").class_names',
        )
    if len(set(given.values())) != 1:
        raise InputError(
            f"{', '.join(given)} must agree on the number of classes",
            got=", ".join(map(str, given.values())),
        )
    name, K = next(iter(given.items()))
    if not 1 <= K <= MAX_CLASSES:
        what = "at least one class" if K < 1 else f"at most {MAX_CLASSES:,} classes"
        raise InputError(f"must be {what}", where=name, got=K)
    return K


def _integer(value: object, where: str) -> int:
    """An integer of any kind: Python's, NumPy's, or a tensor's."""
    try:
        if isinstance(value, bool):
            raise TypeError
        integer = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InputError("must be integers", where=where, got=repr(value)) from None
    if not -(2**63) <= integer < 2**63:
        raise InputError("must be integers of 64 bits", where=where, got=integer)
    return integer


def _names_and_ids(
    given: ClassNames | None,
) -> tuple[tuple[str, ...] | None, tuple[int, ...] | None]:
    """The names, and the ids where a dict says them."""
    if given is None:
        return None, None
    if isinstance(given, str | bytes | AbstractSet) or not isinstance(given, Iterable):
        raise InputError(
            "must be a list of names, or a dict {id: name}", where="class_names", got=repr(given)
        )
    ids = None
    if isinstance(given, Mapping):
        by_id = {_integer(key, "the ids of class_names"): name for key, name in given.items()}
        ids = tuple(sorted(by_id))
        given = [by_id[key] for key in ids]
    names = tuple(given)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise InputError("names must be strings", where="class_names", got=repr(wrong[0]))
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError("names must be distinct", where="class_names", got=f"{twice[0]!r} twice")
    return names, ids


def _label_ids(given: Iterable[int]) -> tuple[int, ...]:
    if isinstance(given, str | bytes | Mapping | AbstractSet) or not isinstance(given, Iterable):
        raise InputError("must be a list of integers", where="label_ids", got=repr(given))
    ids = tuple(_integer(value, "label_ids") for value in given)
    if len(set(ids)) != len(ids):
        raise InputError("must be distinct", where="label_ids", got=list(ids))
    return ids


def warn_of_labels_from_1(num_rows: Sequence[int]) -> None:
    """Warn if the first class alone never occurred, in detections and ground truths together.

    Args:
        num_rows: K numbers, how often each label occurred.
    """
    first, *others = num_rows
    # Of two classes one may well be absent.
    if not first and len(others) > 1 and all(others):
        warn(
            f"label 0 never occurred, but all of 1 .. {len(others)} did: if labels begin at 1, "
            "every class has the name of the class before it; give label_ids=, or leave out a "
            "background class"
        )
