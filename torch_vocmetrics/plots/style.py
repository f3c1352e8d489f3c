"""What all drawings share: axes, colours, and curves in classes of a few and of many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
SKY, VERMILION, YELLOW, BLACK = "#56B4E9", "#D55E00", "#F0E442", "#000000"
GREY = "#999999"
COLORS = (BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, BLACK)
"""Of categories, in this order (Okabe and Ito, "Color Universal Design", 2008)."""
DASHES = ("-", "--", "-.", ":")
SIZE = (6.0, 4.0)
"""Width and height of a new figure in inches."""


def require_matplotlib() -> None:
    """Say which extra is missing.

    Raises:
        InputError: if matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401, PLC0415 - optional
    except ImportError:
        raise InputError(
            "matplotlib is not installed", remedy="pip install 'torch_vocmetrics[plots]'"
        ) from None


def axes_of(ax: Axes | None) -> Axes:
    """The axes, or those of a new figure.

    Raises:
        InputError: if matplotlib is not installed.
    """
    require_matplotlib()
    if ax is not None:
        return ax
    from matplotlib import pyplot  # noqa: PLC0415 - optional, and not needed for axes that are given

    _, new = pyplot.subplots(figsize=SIZE, layout="constrained")
    return new


def figure_of(draw: Callable[[Axes], object]) -> Figure:
    """A figure that no window shows, with one drawing.

    Args:
        draw: draws on axes, such as the method ``plot`` of a result.

    Raises:
        InputError: if matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415 - optional

    figure = Figure(figsize=SIZE, layout="constrained")
    draw(figure.add_subplot())
    return figure


def line_style(number: int) -> dict[str, Any]:
    """Colour and dashes of the n-th line: no two of the first 28 are alike."""
    dashes = DASHES[number // len(COLORS) % len(DASHES)]
    return {"color": COLORS[number % len(COLORS)], "linestyle": dashes}


def array(values: Any) -> Floats:
    """A tensor or sequence of numbers as float64 on the host."""
    numbers = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    return np.asarray(numbers, dtype=np.float64)


def unit_square(ax: Axes, x: str, y: str) -> None:
    """Axes of two fractions, with a little room beside 0 and 1, and a faint grid."""
    ax.set(xlabel=x, ylabel=y, xlim=(-0.02, 1.02), ylim=(-0.02, 1.04))
    grid(ax)


def grid(ax: Axes) -> None:
    """A faint grid behind the data; no frame above and to the right."""
    ax.grid(visible=True, linewidth=0.5, color="#DDDDDD")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def shorten(name: str, most: int = 24) -> str:
    """A name that fits beside an axis; letters of formulas are shown as they are."""
    short = name if len(name) <= most else f"{name[: most - 1]}…"
    return short.replace("$", r"\$")


def percent(value: float) -> str:
    """A fraction for a legend, NaN as a word."""
    return "undefined" if np.isnan(value) else f"{100 * value:.1f}%"
