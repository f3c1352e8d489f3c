"""Host work on one intra-op thread, whatever the number of cores and the user's setting.

Why: a metric runs many small torch operations. Each operation that torch divides among threads
starts an OpenMP team, whose threads spin until the last of them has finished. On an idle machine a
second thread gains 10 %. Beside busy data loaders, or with many cores, the spinning costs several
times the whole work.

How: the number of threads of a team is a variable that OpenMP keeps per thread of the caller.
``omp_set_num_threads`` of the OpenMP library that torch itself is linked with sets this variable
for the calling thread only. ``torch.set_num_threads`` sets it too, but also the default of all
threads that have not used torch yet; a thread that started during the call would keep it. A build
of torch without a reachable OpenMP library keeps its own thread pool, whose threads do not spin;
nothing is changed there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import cache
from typing import Self

import torch


class host_work(ContextDecorator):  # noqa: N801 - used as torch.no_grad is
    """Run torch operations without gradients and on one thread; also a decorator.

    The settings of the calling thread are the same afterwards, also after an error. Other threads
    keep theirs.
    """

    # A class, since the generator of ``contextlib.contextmanager`` takes three times as long.

    def __enter__(self) -> None:
        # The first call in a thread also makes torch set the variable.
        self._threads = torch.get_num_threads()
        self._set_threads = None if self._threads == 1 else _openmp_setter()
        self._gradients = torch.is_grad_enabled()
        try:
            if self._gradients:
                torch.set_grad_enabled(False)
            if self._set_threads is not None:
                self._set_threads(1)
        except BaseException:  # Ctrl-C
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        if self._set_threads is not None:
            self._set_threads(self._threads)
        if self._gradients:
            torch.set_grad_enabled(True)

    def _recreate_cm(self) -> Self:
        """An object for each call: the settings of one call are not those of another."""
        return type(self)()


@cache
def _openmp_setter() -> Callable[[int], None] | None:
    """``omp_set_num_threads`` of torch's own OpenMP library; None if there is none to reach."""
    try:
        # A symbol is looked up in the libraries that this one is linked with, and in no other.
        library = ctypes.PyDLL(torch._C.__file__)  # keeps the interpreter lock: the call is short
        setter = library.omp_set_num_threads
    except (OSError, AttributeError):
        return None
    setter.argtypes, setter.restype = [ctypes.c_int], None

    def set_threads(number: int) -> None:
        setter(number)

    return set_threads
