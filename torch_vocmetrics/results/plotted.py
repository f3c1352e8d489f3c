"""The method ``plot`` of curves and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Plotted:
    """Base of what can be drawn; :data:`torch_vocmetrics.plots.PLOTTERS` says by which function."""

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw on axes of matplotlib.

        Args:
            ax: axes to draw on; None makes a new figure of 6 x 4 inches.
            options: of the function that draws this kind of object; ``help(plots.plot)`` lists
                them.

        Returns:
            The axes, for titles, limits and saving.

        Raises:
            InputError: if matplotlib is not installed, or there is no drawing of such an object.
        """
        from ..plots import plot  # noqa: PLC0415 - matplotlib is optional

        return plot(self, ax, **options)
