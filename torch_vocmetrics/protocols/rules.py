"""The pieces that protocols are made of: fields that are keys of a TOML table, and their checks."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

from ..errors import ProtocolError
from ..limits import MAX_LEVELS

SCHEMA = 1

Check = Callable[[Any], str | None]


def rule(table: str, check: Check, read: Callable[[Any], Any] = lambda value: value) -> Any:
    """A dataclass field that is the key of a TOML table: how to read it, what must hold of it.

    ``read`` is given what :func:`plain` makes of a value.
    """
    return field(metadata={"table": table, "check": check, "read": read})


def rules_of(kind: type[Protocol]) -> list[dataclasses.Field[Any]]:
    """The fields of a kind of protocol that are rules."""
    return [entry for entry in dataclasses.fields(kind) if "table" in entry.metadata]


def complaint_of(entry: dataclasses.Field[Any], value: object) -> str | None:
    """What is wrong with the value of a rule; None if it holds.

    A file may give any value: where a check cannot even look at it, such as a list among words or
    an integer of 400 digits, it does not hold.
    """
    try:
        complaint: str | None = entry.metadata["check"](value)
    except (TypeError, ValueError, OverflowError):
        return "has a value of another kind"
    return complaint


def read_value(entry: dataclasses.Field[Any], value: object) -> object:
    """The value of a rule as the rule has it; as written where it cannot be read."""
    try:
        return entry.metadata["read"](plain(value))
    except (TypeError, ValueError, KeyError, OverflowError):
        return value  # the rule's check says what it must be


def plain(value: object) -> object:
    """Lists, ranges, arrays and tensors as tuples, NumPy's scalars as Python's, and so within.

    What has the precision of float32 or less stays as it is, for the check to refuse: 0.6 is
    another number there.
    """
    if type(value) in (list, tuple, range):
        return tuple(map(plain, value))  # type: ignore[call-overload]
    kind = str(getattr(value, "dtype", ""))
    if hasattr(value, "tolist") and any(word in kind for word in ("float64", "int", "bool")):
        return plain(value.tolist())
    return value


def shortened(value: object) -> str:
    """The value as Python writes it, cut where it is very long."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The rules of one benchmark; every field but the name is a key of its TOML file.

    ``dataclasses.replace`` gives a variant: the rules are checked again and the fingerprint changes
    with them.

    Raises:
        ProtocolError: naming every field that does not hold.
    """

    task: ClassVar[str]

    name: str

    def __post_init__(self) -> None:
        # Lists, arrays and None are taken from users as they are from files.
        for entry in rules_of(type(self)):
            object.__setattr__(self, entry.name, read_value(entry, getattr(self, entry.name)))
        # How rules go together is asked only if each holds by itself.
        mistakes = list(Protocol._mistakes(self)) or list(self._mistakes())
        if mistakes:
            raise ProtocolError(
                "the rules do not hold: " + "; ".join(mistakes), where=f"protocol {self.name}"
            )

    def _mistakes(self) -> Iterator[str]:
        for entry in rules_of(type(self)):
            complaint = complaint_of(entry, getattr(self, entry.name))
            if complaint:
                yield f"{entry.name} {complaint}, got {shortened(getattr(self, entry.name))}"

    def evaluated_classes(self, class_names: tuple[str, ...]) -> tuple[str, ...]:
        """The classes that are evaluated one by one, of a metric with these classes."""
        return class_names

    @property
    def headline(self) -> str:
        """What the headline number of a result is, in words."""
        raise NotImplementedError

    @property
    def rules(self) -> dict[str, Any]:
        """Every rule as plain JSON data, without the name."""
        return {entry.name: getattr(self, entry.name) for entry in rules_of(type(self))}

    @property
    def fingerprint(self) -> str:
        """SHA-256 over task and rules: equal for protocols that give equal states."""
        text = json.dumps([SCHEMA, self.task, self.rules], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


P = TypeVar("P", bound=Protocol)


def with_rules(protocol: P, **rules: Any) -> P:
    """The protocol with other rules; None leaves a rule as it is.

    Raises:
        ProtocolError: if the rules do not hold, see :class:`Protocol`.
    """
    given = {name: value for name, value in rules.items() if value is not None}
    return dataclasses.replace(protocol, **given) if given else protocol


def one_of(*allowed: str) -> Check:
    """The value is one of these words."""
    return lambda value: None if value in allowed else f"must be one of {', '.join(allowed)}"


def boolean(value: object) -> str | None:
    """The value is true or false."""
    return None if isinstance(value, bool) else "must be true or false"


def text(value: object) -> str | None:
    """The value is a name."""
    return None if isinstance(value, str) and value else "must be a name"


def is_number(value: object) -> bool:
    """Whether a value is an int that float64 can hold or a float, and no bool."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 2**1023
    return isinstance(value, float)


def number(value: Any) -> str | None:
    """The value is a number, infinities included."""
    return None if is_number(value) and not math.isnan(value) else "must be a number"


def positive(value: Any) -> str | None:
    """The value is a number above 0, maybe infinite."""
    return None if is_number(value) and value > 0 else "must be a number above 0"


def ascending(lower: float, upper: float, *, least: int) -> Check:
    """The value is a tuple of at least ``least`` rising numbers in [lower, upper]."""

    def check(values: object) -> str | None:
        expected = f"must be a list of {least} or more rising numbers in [{lower}, {upper}]"
        if not isinstance(values, tuple) or not all(is_number(value) for value in values):
            return expected
        inside = all(lower <= value <= upper for value in values)
        rising = all(a < b for a, b in pairwise(values))
        return None if inside and rising and len(values) >= least else expected

    return check


def limits(values: object) -> str | None:
    """The value is a tuple of limits of a count."""
    expected = "must be distinct positive integers below 2**31 in a list, None for no limit"
    if not isinstance(values, tuple) or any(type(value) is not int for value in values):
        return expected
    inside = all(0 < value < 2**31 for value in values)
    return None if inside and len(set(values)) == len(values) else expected


def read_levels(value: object) -> object:
    """Numbers as written, or ``{linspace = [first, last, count]}``: float64 ``numpy.linspace``.

    More than ``MAX_LEVELS`` of them stay as written, for the check to refuse.
    """
    if isinstance(value, Mapping) and set(value) == {"linspace"}:
        first, last, count = value["linspace"]
        if type(count) is not int or not 0 <= count <= MAX_LEVELS:
            return value
        import numpy as np  # noqa: PLC0415 - the command lists protocols without it

        return tuple(np.linspace(first, last, count).tolist())
    return value


def read_limits(value: object) -> object:
    """Limits from the least to the largest, as pycocotools sorts them; None is no limit."""
    if value is None:
        return ()
    return tuple(sorted(value)) if limits(value) is None else value  # type: ignore[call-overload]


def none_as(default: object) -> Callable[[object], object]:
    """None as the value that switches a rule off."""
    return lambda value: default if value is None else value
