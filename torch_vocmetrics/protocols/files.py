"""Protocol files: found, parsed, checked as a whole."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar, overload

from ..errors import ProtocolError
from ..limits import MAX_TOML_BYTES
from .classification import ActionProtocol, ClassificationProtocol
from .detection import DetectionProtocol
from .layout import LayoutProtocol
from .miss_rate import MissRateProtocol
from .rules import SCHEMA, Protocol, complaint_of, read_value, rules_of, shortened
from .segmentation import SegmentationProtocol

TASKS: dict[str, type[Protocol]] = {
    kind.task: kind
    for kind in (
        DetectionProtocol,
        MissRateProtocol,
        ClassificationProtocol,
        ActionProtocol,
        LayoutProtocol,
        SegmentationProtocol,
    )
}

P = TypeVar("P", bound=Protocol)


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
        tables = _load_toml(path)
        mistakes: list[str] = []
        task, names, title = (tables.pop(key, None) for key in ("task", "names", "title"))
        if tables.pop("schema", None) != SCHEMA:
            mistakes.append(f"schema must be {SCHEMA}")
        if not isinstance(task, str) or task not in TASKS:
            mistakes.append(f"task must be one of {', '.join(TASKS)}, got {shortened(task)}")
        if not (names and isinstance(names, list) and all(isinstance(n, str) for n in names)):
            mistakes.append(f"names must be a list of at least one string, got {shortened(names)}")
        if not isinstance(title, str):
            mistakes.append(f"title must be a string, got {shortened(title)}")
        rules, sources = _read_tables(TASKS.get(str(task), Protocol), tables, mistakes)
        if mistakes:
            count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
            raise ProtocolError(f"{count}: " + "; ".join(mistakes), where=str(path))
        own = cls(str(task), tuple(names), str(title), rules, sources)
        try:
            own.protocol(names[0])
        except ProtocolError as error:  # rules that hold each, but not together
            raise ProtocolError(str(error), where=str(path)) from None
        return own

    def protocol(self, name: str) -> Protocol:
        """The protocol under one of the file's names."""
        return TASKS[self.task](name=name, **self.rules)


def _load_toml(path: Path) -> dict[str, Any]:
    """Parse a file of at most ``MAX_TOML_BYTES``; every fault names it."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_TOML_BYTES + 1)
        if len(data) > MAX_TOML_BYTES:
            raise ValueError(f"larger than the limit of {MAX_TOML_BYTES:,} bytes")
        return tomllib.loads(data.decode("utf-8"))
    except RecursionError:
        got = "lists or tables nested too deep"
    except (OSError, ValueError) as error:  # also of UTF-8, of TOML, of a number of 5,000 digits
        got = str(error)
    raise ProtocolError(f"not a readable TOML file: {got}", where=str(path))


def _read_tables(
    kind: type[Protocol], tables: dict[str, Any], mistakes: list[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Rules and sources of the tables; what is wrong with them is appended to ``mistakes``."""
    expected: dict[str, list[dataclasses.Field[Any]]] = {}
    for rule in rules_of(kind):
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
        if not isinstance(by_key, dict):
            mistakes.append(f"[{table}.sources] must be a table, got {shortened(by_key)}")
            by_key = {}
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
            value = read_value(rule, entries[rule.name])
            complaint = complaint_of(rule, value)
            if complaint:
                mistakes.append(f"{rule.name} {complaint}, got {shortened(entries[rule.name])}")
            rules[rule.name] = value
            sources[rule.name] = str(by_key.get(rule.name, source))
    return rules, sources


def protocol_of_rules(task: str, name: str, rules: Mapping[str, Any]) -> Protocol:
    """A protocol whose rules are plain data, as a state file keeps them.

    Args:
        task: such as ``"detection"``.
        name: what the protocol is called.
        rules: every rule by its name; lists and tables as in a TOML file.

    Raises:
        ProtocolError: if there is no such task, or the rules do not hold or are other ones.
    """
    kind = TASKS.get(task)
    if kind is None:
        raise ProtocolError("no task of this package", where=f"protocol {name}", got=repr(task))
    fields = rules_of(kind)
    wanted = {rule.name for rule in fields}
    if wanted != set(rules):
        raise ProtocolError(
            "rules are missing or unknown",
            where=f"protocol {name}",
            got=", ".join(sorted(wanted ^ set(rules))),
        )
    return kind(name=name, **{rule.name: read_value(rule, rules[rule.name]) for rule in fields})


def _near(name: str, known: Mapping[str, Any] | list[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f" (did you mean {', '.join(near)}?)" if near else ""


def config_root() -> Path:
    """The folder ``configs``: inside the installed package, else beside it in a source tree."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


@functools.cache
def _shipped_tables() -> dict[Path, dict[str, Any]]:
    """The content of every shipped file, unchecked."""
    paths = sorted((config_root() / "protocols").glob("*/*.toml"))
    return {path: tomllib.loads(path.read_text(encoding="utf-8")) for path in paths}


@functools.cache
def _shipped() -> dict[str, Path]:
    """``task/name`` of every shipped protocol and the file that holds it."""
    return {
        f"{path.parent.name}/{name}": path
        for path, tables in _shipped_tables().items()
        for name in tables.get("names", ())
    }


def protocol_titles() -> dict[str, str]:
    """The title of every shipped protocol by ``task/name``, task by task, names sorted."""
    tables = _shipped_tables()
    names = [f"{task}/{name}" for task in TASKS for name in protocol_names(task)]
    return {name: str(tables[_shipped()[name]]["title"]) for name in names}


def protocol_names(task: str | None = None) -> list[str]:
    """Names of the shipped protocols of a task, sorted; of all tasks, as ``task/name``, without it.

    Raises:
        ProtocolError: if there is no such task.

    Example:
        >>> protocol_names("action")
        ['voc2010', 'voc2011', 'voc2012']
        >>> protocol_names()[0]
        'action/voc2010'
    """
    if task is None:
        return sorted(_shipped())
    if task not in TASKS:
        raise ProtocolError(
            f"unknown task {task!r}", remedy=f"the tasks are {', '.join(sorted(TASKS))}"
        )
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


@functools.cache
def _shipped_protocol(name: str) -> Protocol:
    """``"detection/voc2007"``; read once, as trainers make a metric an epoch."""
    return protocol_file(name).protocol(name.split("/")[1])


def protocol_title(protocol: Protocol) -> str:
    """``task/name``, with a word when the rules are not those shipped under that name."""
    name = f"{protocol.task}/{protocol.name}"
    known = name in _shipped() and _shipped_protocol(name) == protocol
    return name if known else f"{name} (own rules)"


def _full_name(name: str, kind: type[Protocol] | None) -> str:
    """``task/name``; without a task that of ``kind``, else detection, else the only one."""
    if "/" in name:
        return name
    if kind is not None:
        return f"{kind.task}/{name}"
    tasks = [task for task in TASKS if f"{task}/{name}" in _shipped()]
    if len(tasks) > 1 and DetectionProtocol.task not in tasks:
        raise ProtocolError(
            f"several tasks have a protocol {name!r}",
            remedy=f"write {' or '.join(f'{task}/{name}' for task in tasks)}",
        )
    return f"{[*tasks, DetectionProtocol.task][0]}/{name}"


@overload
def load_protocol(name: str | Path | Protocol) -> Any: ...


@overload
def load_protocol(name: str | Path | Protocol, kind: type[P]) -> P: ...


def load_protocol(name: str | Path | Protocol, kind: type[Protocol] | None = None) -> Any:
    """Load ``"detection/voc2007"``, or the protocol in a TOML file of your own.

    Args:
        name: task and name of a shipped protocol, or a path that ends in ``.toml``; of a file with
            several names the first is taken. Without a task, that of ``kind`` is meant, else
            detection where it has such a protocol, else the only task that has. A protocol is
            returned as it is.
        kind: the kind of protocol that is wanted.

    Raises:
        ProtocolError: for an unknown name (with the near ones), a faulty file (all mistakes), or a
            protocol of another task.

    Example:
        >>> load_protocol("voc2010").interpolation
        'all_points'
        >>> load_protocol("segmentation/voc2010").mean_over
        'all_classes'
    """
    if isinstance(name, Protocol):
        protocol = name
    elif not isinstance(name, str | Path):
        raise ProtocolError(
            "must be the name of a protocol, the path of a .toml file, or a protocol",
            where="protocol",
            got=repr(name),
            remedy=f"the names are {', '.join(protocol_names(kind and kind.task))}",
        )
    elif isinstance(name, Path) or name.endswith(".toml"):
        own = ProtocolFile.read(Path(name))
        protocol = own.protocol(own.names[0])
    else:
        protocol = _shipped_protocol(_full_name(name, kind))
    if kind is not None and not isinstance(protocol, kind):
        raise ProtocolError(
            f"a protocol of the task {kind.task} is needed", got=f"{protocol.task}/{protocol.name}"
        )
    return protocol
