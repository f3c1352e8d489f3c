"""What an audit says: a number that was read, what was tried, and what explains it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from torch import Tensor

from ..errors import InputError
from ..results import Table

_NEAR = 0.01  # the distance in which numbers are counted to say how likely a coincidence is


class Reported(NamedTuple):
    """A number as it was read.

    Attributes:
        value: a fraction.
        digits: decimals of the fraction that were given.
    """

    value: float
    digits: int

    @classmethod
    def parse(cls, number: str | float) -> Reported:
        """Read a number as printed; above 1 or with % it is percent.

        Raises:
            InputError: if it is no number from 0 to 100.

        Example:
            >>> Reported.parse("72.19"), Reported.parse("0.50")
            (Reported(value=0.7219, digits=4), Reported(value=0.5, digits=2))
        """
        text = str(number).strip()
        bare = text.removesuffix("%").strip()
        try:
            value = float(bare)
        except ValueError:
            value = math.nan
        if not 0 <= value <= 100:
            remedy = "give a fraction such as 0.7219, or percent such as 72.19"
            raise InputError(
                "is no number from 0 to 100", where="reported", got=text, remedy=remedy
            )
        digits = min(len(bare.partition(".")[2]), 12) if "e" not in bare.lower() else 12
        if value > 1 or bare != text:
            return cls(round(value / 100, digits + 2), digits + 2)
        return cls(value, digits)

    def digits_of(self, value: float) -> int:
        """To how many decimals a value rounds to the same number; -1 if to none."""
        difference = abs(value - self.value)
        agreed = [d for d in range(self.digits + 1) if difference <= 0.5 * 10**-d * (1 + 1e-9)]
        return max(agreed, default=-1)


@dataclass(frozen=True, kw_only=True)
class Candidate(Table):
    """One evaluation and its number.

    Attributes:
        protocol: its name.
        deviations: phrases, up to two; none for the protocol as it is.
        number: the name of the number, such as ``"mAP"``.
        value: a fraction.
        digits: to how many decimals it equals the reported number; -1 for none.
    """

    protocol: str
    deviations: tuple[str, ...]
    number: str
    value: float
    digits: int

    def __str__(self) -> str:
        with_what = " with ".join((self.protocol, " and ".join(self.deviations)))
        return f"{self.number} of {with_what if self.deviations else self.protocol}"


@dataclass(frozen=True, kw_only=True)
class Audit(Table):
    """What an audit found.

    Attributes:
        reported: the number as a fraction, and its decimals.
        explanations: the candidates with the fewest deviations that give it to all digits.
        candidates: everything that was tried, best first.
        expected_by_chance: how many of the other candidates with as many deviations as the
            explanations (two without any) would have the number if those near it lay at random.
            From about 0.1 on, one more number or one more digit is needed.
    """

    reported: Reported
    explanations: tuple[Candidate, ...]
    candidates: tuple[Candidate, ...]
    expected_by_chance: float

    @classmethod
    def of(cls, wanted: Reported, found: Sequence[Candidate]) -> Self:
        """The audit of a number, from everything that was tried."""
        explained = explanations(wanted, found)
        ranked = sorted(
            found,
            key=lambda one: (-one.digits, len(one.deviations), abs(one.value - wanted.value)),
        )
        most = len(explained[0].deviations) if explained else 2
        near = {
            one.value
            for one in found
            if len(one.deviations) == most
            and one not in explained
            and abs(one.value - wanted.value) <= _NEAR
        }
        return cls(
            reported=wanted,
            explanations=explained,
            candidates=tuple(ranked),
            expected_by_chance=len(near) * 10.0**-wanted.digits / (2 * _NEAR),
        )

    def __str__(self) -> str:
        value = f"{self.reported.value:.{self.reported.digits}f}"
        if self.explanations:
            lines = [f"{one} = {one.value:.6f}" for one in self.explanations]
            text = "\n".join([f"{value} is, to {self.reported.digits} decimals:", *lines])
            if self.expected_by_chance >= 0.1:
                text += (
                    f"\n{self.expected_by_chance:.1f} of {len(self.candidates)} evaluations are "
                    "expected to have this number by chance: give more of its digits"
                )
            return text
        best = self.candidates[0]
        return f"none of these gives {value}\nnearest: {best} = {best.value:.6f}"

    def columns(self) -> dict[str, Sequence[Any] | Tensor]:
        """A row for each candidate."""
        return {
            "protocol": [one.protocol for one in self.candidates],
            "deviations": [", ".join(one.deviations) for one in self.candidates],
            "number": [one.number for one in self.candidates],
            "value": [one.value for one in self.candidates],
            "digits": [one.digits for one in self.candidates],
        }


def explanations(wanted: Reported, found: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates with the fewest deviations that give a number to all its digits."""
    full = [one for one in found if one.digits == wanted.digits]
    least = min((len(one.deviations) for one in full), default=0)
    fewest = [one for one in full if len(one.deviations) == least]
    return tuple(sorted(fewest, key=lambda one: abs(one.value - wanted.value)))
