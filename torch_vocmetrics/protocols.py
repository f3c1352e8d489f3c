"""Protocols are data: one complete TOML file per distinct set of rules.

A file has no defaults and no inheritance, so a diff of two files shows every difference. Each table
names its ``source``. Loading checks everything and reports all mistakes at once.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from .errors import ProtocolError

SCHEMA = 1
FLAGS = ("difficult", "iscrowd", "ignore")
"""What ground truth may say of an object; a protocol says what each flag means."""


class AreaRange(NamedTuple):
    """Objects and detections whose area lies in [lower, upper], both ends included."""

    name: str
    lower: float
    upper: float


Check = Callable[[Any], str | None]


def _rule(table: str, check: Check, read: Callable[[Any], Any] = lambda value: value) -> Any:
    """A dataclass field that is the key of a TOML table: how to read it, what must hold of it."""
    return field(metadata={"table": table, "check": check, "read": read})


def _one_of(*allowed: str) -> Check:
    return lambda value: None if value in allowed else f"must be one of {', '.join(allowed)}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> str | None:
    return None if _is_number(value) and not np.isnan(value) else "must be a number"


def _ascending(lower: float, upper: float, *, least: int) -> Check:
    def check(values: object) -> str | None:
        expected = f"must be ascending numbers in [{lower}, {upper}], at least {least}"
        if not isinstance(values, tuple) or not all(_is_number(value) for value in values):
            return expected
        inside = all(lower <= value <= upper for value in values)
        rising = all(a < b for a, b in pairwise(values))
        return None if inside and rising and len(values) >= least else expected

    return check


def _limits(values: object) -> str | None:
    expected = "must be distinct positive integers (none: no limit)"
    if not isinstance(values, tuple) or len(set(values)) < len(values):
        return expected
    whole = (isinstance(value, int) and not isinstance(value, bool) for value in values)
    return None if all(whole) and all(value > 0 for value in values) else expected


def _flags(values: object) -> str | None:
    known = isinstance(values, tuple) and all(value in FLAGS for value in values)
    return None if known else f"must hold flags among {', '.join(FLAGS)}"


def _areas(ranges: object) -> str | None:
    expected = "must be [name, lower, upper] triples with distinct names and lower <= upper"
    if not isinstance(ranges, tuple) or not ranges:
        return expected
    for entry in ranges:
        if not isinstance(entry, AreaRange) or not isinstance(entry.name, str):
            return expected
        if not (_is_number(entry.lower) and _is_number(entry.upper) and entry.lower <= entry.upper):
            return expected
    return None if len({entry.name for entry in ranges}) == len(ranges) else expected


def _read_levels(value: object) -> object:
    """Numbers as written, or ``{linspace = [first, last, count]}``: float64 ``numpy.linspace``."""
    if isinstance(value, Mapping) and set(value) == {"linspace"}:
        first, last, count = value["linspace"]
        return tuple(np.linspace(first, last, count).tolist())
    return tuple(value) if isinstance(value, list) else value


def _read_areas(value: object) -> object:
    if not isinstance(value, list) or not all(
        isinstance(entry, list) and len(entry) == 3 for entry in value
    ):
        return value
    return tuple(AreaRange(*entry) for entry in value)


def _read_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, kw_only=True)
class DetectionProtocol:
    """The rules of one detection benchmark; every field is a key of its TOML file.

    A variant is ``dataclasses.replace(load_protocol("detection/coco2017"), max_detections=(9,))``:
    the rules are checked again and the fingerprint changes with them.

    Raises:
        ProtocolError: naming every field that does not hold.
    """

    task: ClassVar[str] = "detection"

    name: str
    coordinates: str = _rule("boxes", _one_of("inclusive_pixels", "continuous"))
    inverted_boxes: str = _rule("boxes", _one_of("accept", "error"))
    ignored_flags: tuple[str, ...] = _rule("objects", _flags, _read_tuple)
    reusable_flags: tuple[str, ...] = _rule("objects", _flags, _read_tuple)
    overlap_of_detection_area_flags: tuple[str, ...] = _rule("objects", _flags, _read_tuple)
    area_ranges: tuple[AreaRange, ...] = _rule("objects", _areas, _read_areas)
    iou_thresholds: tuple[float, ...] = _rule(
        "matching", _ascending(5e-324, 1.0, least=1), _read_levels
    )
    iou_threshold_ceiling: float = _rule("matching", _number)
    comparison: str = _rule("matching", _one_of(">=", ">"))
    candidates: str = _rule("matching", _one_of("best", "all"))
    equal_overlaps: str = _rule("matching", _one_of("first", "last"))
    max_detections: tuple[int, ...] = _rule("matching", _limits, _read_tuple)
    interpolation: str = _rule("average", _one_of("eleven_point", "all_points", "recall_grid"))
    recall_levels: tuple[float, ...] = _rule("average", _ascending(0.0, 1.1, least=0), _read_levels)
    precision_epsilon: float = _rule("average", _number)
    mean_over: str = _rule("average", _one_of("classes_with_positives", "defined_values"))

    def __post_init__(self) -> None:
        # pycocotools sorts the limits too: the largest one is the limit of matching.
        if _limits(self.max_detections) is None:
            object.__setattr__(self, "max_detections", tuple(sorted(self.max_detections)))
        mistakes = list(self._mistakes())
        if mistakes:
            raise ProtocolError(
                "the rules do not hold: " + "; ".join(mistakes), where=f"protocol {self.name}"
            )

    def _mistakes(self) -> Iterator[str]:
        for rule in _rules(type(self)):
            complaint = rule.metadata["check"](getattr(self, rule.name))
            if complaint:
                yield f"{rule.name} {complaint}, got {getattr(self, rule.name)!r}"
        if self.interpolation != "all_points" and not self.recall_levels:
            yield f"recall_levels must not be empty for {self.interpolation}"

    @property
    def rules(self) -> dict[str, Any]:
        """Every rule as plain JSON data, without the name."""
        return {rule.name: getattr(self, rule.name) for rule in _rules(type(self))}

    @property
    def fingerprint(self) -> str:
        """SHA-256 over task and rules: equal for protocols that give equal states."""
        text = json.dumps([SCHEMA, self.task, self.rules], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The thresholds as compared: pycocotools lowers a threshold of 1 to 1 - 1e-10."""
        return tuple(min(value, self.iou_threshold_ceiling) for value in self.iou_thresholds)

    @property
    def title(self) -> str:
        """``task/name``, with a word when the rules are not those shipped under that name."""
        shipped = self.name in protocol_names(self.task) and (
            load_protocol(f"{self.task}/{self.name}").fingerprint == self.fingerprint
        )
        return f"{self.task}/{self.name}" + ("" if shipped else " (own rules)")


_TASKS: dict[str, type[DetectionProtocol]] = {"detection": DetectionProtocol}


class ProtocolFile(NamedTuple):
    """A parsed protocol file: what it is called, its rules, and where each comes from."""

    task: str
    names: tuple[str, ...]
    title: str
    rules: dict[str, Any]
    sources: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Parse and check a file.

        Raises:
            ProtocolError: one sentence with every mistake of the file.
        """
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ProtocolError(f"not a readable TOML file: {error}", where=str(path)) from None
        mistakes: list[str] = []
        task, names, title = (tables.pop(key, None) for key in ("task", "names", "title"))
        if tables.pop("schema", None) != SCHEMA:
            mistakes.append(f"schema must be {SCHEMA}")
        if task not in _TASKS:
            mistakes.append(f"task must be one of {', '.join(_TASKS)}, got {task!r}")
        if not (names and isinstance(names, list) and all(isinstance(n, str) for n in names)):
            mistakes.append(f"names must be a list of at least one string, got {names!r}")
        if not isinstance(title, str):
            mistakes.append(f"title must be a string, got {title!r}")
        rules, sources = _read_tables(_TASKS.get(str(task), DetectionProtocol), tables, mistakes)
        if mistakes:
            raise ProtocolError(
                f"{len(mistakes)} mistakes: " + "; ".join(mistakes), where=str(path)
            )
        return cls(str(task), tuple(names), str(title), rules, sources)

    def protocol(self, name: str) -> DetectionProtocol:
        """The protocol under one of the file's names."""
        return _TASKS[self.task](name=name, **self.rules)


def _rules(kind: type[DetectionProtocol]) -> list[dataclasses.Field[Any]]:
    return [entry for entry in dataclasses.fields(kind) if "table" in entry.metadata]


def _read_tables(
    kind: type[DetectionProtocol], tables: dict[str, Any], mistakes: list[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Rules and sources of the tables; what is wrong with them is appended to ``mistakes``."""
    expected: dict[str, list[dataclasses.Field[Any]]] = {}
    for rule in _rules(kind):
        expected.setdefault(rule.metadata["table"], []).append(rule)
    rules: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for unknown in tables.keys() - expected.keys():
        mistakes.append(f"unknown table or key {unknown!r}{_near(unknown, expected)}")
    for table, fields in expected.items():
        entries = tables.get(table)
        if not isinstance(entries, dict):
            mistakes.append(f"table [{table}] is missing")
            continue
        source, by_key = entries.pop("source", None), entries.pop("sources", {})
        if not (isinstance(source, str) and source.strip()):
            mistakes.append(f"[{table}] names no source")
        names = [rule.name for rule in fields]
        for unknown in entries.keys() - set(names):
            mistakes.append(f"[{table}] has an unknown key {unknown!r}{_near(unknown, names)}")
        for unknown in by_key.keys() - set(names):
            mistakes.append(f"[{table}.sources] has an unknown key {unknown!r}")
        for rule in fields:
            if rule.name not in entries:
                mistakes.append(f"[{table}] lacks {rule.name}")
                continue
            value = _read_value(rule, entries[rule.name])
            complaint = rule.metadata["check"](value)
            if complaint:
                mistakes.append(f"{rule.name} {complaint}, got {entries[rule.name]!r}")
            rules[rule.name] = value
            sources[rule.name] = str(by_key.get(rule.name, source))
    return rules, sources


def _read_value(rule: dataclasses.Field[Any], value: object) -> object:
    try:
        return rule.metadata["read"](value)
    except (TypeError, ValueError, KeyError):
        return value  # left as written: the rule's check says what it must be


def _near(name: str, known: Mapping[str, Any] | list[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f" (did you mean {', '.join(near)}?)" if near else ""


def config_root() -> Path:
    """The folder ``configs``: inside the installed package, else beside it in a source tree."""
    package = Path(__file__).resolve().parent
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


@functools.cache
def _shipped() -> dict[str, Path]:
    """``task/name`` of every shipped protocol and the file that holds it."""
    found: dict[str, Path] = {}
    for path in sorted((config_root() / "protocols").glob("*/*.toml")):
        for name in tomllib.loads(path.read_text(encoding="utf-8")).get("names", ()):
            found[f"{path.parent.name}/{name}"] = path
    return found


def protocol_names(task: str) -> list[str]:
    """Names of the shipped protocols of a task, sorted."""
    return sorted(key.split("/")[1] for key in _shipped() if key.startswith(f"{task}/"))


def protocol_file(name: str) -> ProtocolFile:
    """The file behind ``"detection/voc2007"``, with title and sources.

    Raises:
        ProtocolError: if no such protocol is shipped; the sentence names the near ones.
    """
    path = _shipped().get(name)
    if path is None:
        near = difflib.get_close_matches(name, list(_shipped()), n=3, cutoff=0.3)
        raise ProtocolError(
            f"unknown protocol {name!r}",
            remedy=f"near names: {', '.join(near) or ', '.join(_shipped())}",
        )
    return ProtocolFile.read(path)


def load_protocol(name: str | Path) -> DetectionProtocol:
    """Load ``"detection/voc2007"``, or the protocol in a TOML file of your own.

    Args:
        name: task and name of a shipped protocol, or a path that ends in ``.toml``; of a file with
            several names the first is taken.

    Raises:
        ProtocolError: for an unknown name (with the near ones) or a faulty file (all mistakes).

    Example:
        >>> load_protocol("detection/voc2010").interpolation
        'all_points'
    """
    if isinstance(name, Path) or str(name).endswith(".toml"):
        own = ProtocolFile.read(Path(name))
        return own.protocol(own.names[0])
    return protocol_file(name).protocol(name.split("/")[1])


class Dataset(NamedTuple):
    """Class names of a data set and the value that its files or models give each class."""

    class_names: tuple[str, ...]
    label_ids: tuple[int, ...]


def load_dataset(name: str) -> Dataset:
    """Class names and label ids of ``"voc2006"``, ``"voc2007"`` or ``"coco2017"``.

    Raises:
        ProtocolError: if the data set is unknown.

    Example:
        >>> load_dataset("coco2017").class_names[0], load_dataset("coco2017").label_ids[-1]
        ('person', 90)
    """
    path = config_root() / "datasets" / f"{name}.toml"
    if not path.is_file():
        known = sorted(entry.stem for entry in path.parent.glob("*.toml"))
        raise ProtocolError(f"unknown data set {name!r}", remedy=f"known: {', '.join(known)}")
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return Dataset(tuple(content["class_names"]), tuple(content["label_ids"]))
