"""Which classes are evaluated, and what is said of those that are not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from .. import io
from ..errors import FileFormatError, InputError, warn
from ..io.class_names import near_names
from ..protocols import Protocol, dataset_of, load_dataset

MOST_SHOWN = 10
"""A warning names so many classes at most."""


def usual_classes(protocol: Protocol) -> tuple[str, ...]:
    """The classes of the data set that the protocol was made for, VOC's twenty without any.

    They are asked for where files are VOC's, so that rules of COCO go with VOC's classes.
    """
    of_coco = protocol.rules.get("interpolation") == "recall_grid"
    dataset = None if of_coco else dataset_of(protocol)
    return dataset.class_names if dataset else load_dataset("voc2007").class_names


def choose_classes(
    asked: Sequence[str] | None, num_objects: Mapping[str, int], usual: Sequence[str]
) -> tuple[str, ...]:
    """The classes of an evaluation: those asked for, the usual ones, or those of the data.

    The usual classes are taken where the data have no others, or all of them and others besides.

    Args:
        asked: of ``--classes``; None if it is not given.
        num_objects: of each class of the data.
        usual: classes of the protocol's data set.

    Warns:
        VocMetricsWarning: if the classes of the data are taken.
    """
    if asked is not None:
        return tuple(asked)
    if num_objects.keys() <= set(usual) or set(usual) <= num_objects.keys():
        return tuple(usual)
    names = tuple(sorted(num_objects))
    warn(
        f"the classes are those of the annotations, {_listed(names)}, since they are not "
        f"the {len(usual)} classes of VOC; --classes A,B chooses others"
    )
    return names


def find_result_files(
    pattern: str, names: Sequence[str], num_objects: Mapping[str, int], usual: Sequence[str]
) -> dict[str, Path]:
    """The results file of each class that has one.

    Raises:
        InputError: for a class that has neither a results file nor objects and is none of the
            usual ones, with the near names.
        FileFormatError: if no class has a results file.

    Warns:
        VocMetricsWarning: if a class has objects and no results file.
    """
    known = {*num_objects, *usual}
    for name in names:
        if name not in known and not Path(pattern.replace("{class}", name)).exists():
            raise InputError(
                f"class {name!r} has neither objects nor a results file",
                where="--classes",
                remedy=near_names(name, [*num_objects, *(usual if not num_objects else ())]),
            )
    files = io.find_results(pattern, names)
    missing = [name for name in names if name not in files and num_objects.get(name)]
    if missing:
        warn(f"no results file for {_listed(missing)}: evaluated as classes without detections")
    return files


def find_listed_results(
    pattern: str, names: Sequence[str], lists: Path, image_set: str, usual: Sequence[str]
) -> dict[str, Path]:
    """The results file of each class that has one, of classes with lists ``<class>_<set>.txt``.

    Raises:
        InputError: for a class that has no list and is none of the usual ones.
        FileFormatError: if there is no such image set, or no class has a results file.

    Warns:
        VocMetricsWarning: if a class has no results file: it is not in the mean.
    """
    end = f"_{image_set}.txt"
    known = [path.name.removesuffix(end) for path in sorted(lists.glob(f"*{end}"))]
    if not known:
        sets = sorted({path.stem.rpartition("_")[2] for path in lists.glob("*_*.txt")})
        raise FileFormatError(
            f"no image set {image_set!r} with a list <class>{end} for each class",
            where=str(lists),
            remedy=f"there are {', '.join(sets)}" if sets else "the folder has no such lists",
        )
    for name in names:
        if name not in known and name not in usual:
            what = f"class {name!r} has no list {name}{end}"
            raise InputError(what, where="--classes", remedy=near_names(name, known))
    files = io.find_results(pattern, names)
    missing = [name for name in names if name not in files and name in known]
    if missing:
        warn(f"no results file for {_listed(missing)}: not evaluated")
    return files


def warn_of_other_classes(names: Collection[str], num_objects: Mapping[str, int]) -> None:
    """Point out objects of classes that are not evaluated, and names that differ in capitals.

    Args:
        names: the classes that are evaluated.
        num_objects: of each class of the data.

    Warns:
        VocMetricsWarning: once for each of the two.
    """
    others = {name: count for name, count in num_objects.items() if name not in names}
    if others:
        shown = _listed([f"{name} ({count:,})" for name, count in others.items()])
        warn(f"{sum(others.values()):,} objects of classes not evaluated: {shown}")
    spellings: dict[str, list[str]] = {}
    for name in dict.fromkeys([*names, *num_objects]):
        spellings.setdefault(name.casefold(), []).append(name)
    for same in spellings.values():
        if len(same) > 1 and any(num_objects.get(name) for name in same):
            words = " and ".join(repr(name) for name in same)
            warn(f"{words} are different classes: names are compared with their capitals")


def _listed(names: Iterable[str]) -> str:
    all_names = list(names)
    more = len(all_names) - MOST_SHOWN
    return ", ".join(all_names[:MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
