"""Arrays of a result that are made when they are read, since most results are asked for numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from torch import Tensor

Source = Tensor | Callable[[], Tensor]
"""A tensor, or a function that makes it. It is pickled with its result."""


class MadeWhenRead:
    """A field of a dataclass that takes a :data:`Source` and gives a tensor."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, owner: None, kind: type) -> MadeWhenRead: ...

    @overload
    def __get__(self, owner: object, kind: type) -> Tensor: ...

    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            raise AttributeError(self._name)  # so that a dataclass sees no default
        source = owner.__dict__[self._name]
        if not isinstance(source, Tensor):
            source = owner.__dict__[self._name] = source()
        return source

    def __set__(self, owner: Any, source: Source) -> None:
        owner.__dict__[self._name] = source
