"""Numbers and drawings of results in TensorBoard and in Weights & Biases, in one line.

``log_to_tensorboard(writer, metric.compute(), epoch)`` after every epoch is all there is to it.
Any result of a metric or of :mod:`torch_vocmetrics.analysis` can be logged.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import InputError
from ..plots import has_drawing


def log_to_tensorboard(
    writer: Any, result: Any, step: int | None = None, *, prefix: str = "", figure: bool = True
) -> None:
    """Write the numbers of a result as scalars and its drawing as an image.

    Args:
        writer: a ``torch.utils.tensorboard.SummaryWriter``.
        result: of a metric, or a dict of results by protocol, or of an analysis.
        step: such as the epoch.
        prefix: before the names, such as ``"val/"``.
        figure: whether to write the drawing, if the result has one; it needs matplotlib.

    Numbers that are undefined (NaN) are left out.

    Raises:
        InputError: if the result has neither numbers nor a drawing, or matplotlib is not installed.

    Example:
        >>> from torch_vocmetrics import DetectionAP
        >>> class Writer:
        ...     def add_scalar(self, name, value, step):
        ...         print(name, round(value, 3), step)
        >>> box = [[10.0, 10.0, 50.0, 50.0]]
        >>> metric = DetectionAP("voc2012", class_names=["cat"])
        >>> rows = {"boxes": box, "labels": [0]}
        >>> result = metric.update([rows | {"scores": [0.9]}], [rows]).compute()
        >>> log_to_tensorboard(Writer(), result, 3, prefix="val/", figure=False)
        val/mAP 1.0 3
        val/AP/cat 1.0 3
    """
    for name, one in _results(result, prefix, figure=figure):
        for key, value in _numbers(one).items():
            writer.add_scalar(f"{name}{key}", value, step)
        if figure and has_drawing(one):
            writer.add_figure(f"{name}{type(one).__name__}", _drawing(one), step)


def log_to_wandb(
    run: Any, result: Any, step: int | None = None, *, prefix: str = "", figure: bool = True
) -> None:
    """Log the numbers of a result and its drawing to a run of Weights & Biases, in one call.

    Args:
        run: what ``wandb.init()`` returned.
        result, step, prefix, figure: as for :func:`log_to_tensorboard`.

    Raises:
        InputError: as for :func:`log_to_tensorboard`, and if wandb is not installed.
    """
    content: dict[str, Any] = {}
    for name, one in _results(result, prefix, figure=figure):
        content |= {f"{name}{key}": value for key, value in _numbers(one).items()}
        if figure and has_drawing(one):
            content[f"{name}{type(one).__name__}"] = _wandb_image(_drawing(one))
    run.log(content, step=step)


def _results(result: Any, prefix: str, *, figure: bool) -> Iterator[tuple[str, Any]]:
    """Each result and what stands before its names: several protocols have theirs."""
    is_several = isinstance(result, Mapping) and not hasattr(result, "protocol")
    results = result.items() if is_several else [("", result)]
    for name, one in results:
        if not _numbers(one) and not (figure and has_drawing(one)):
            raise InputError(
                "has neither numbers nor a drawing", where="result", got=type(one).__name__
            )
        yield f"{prefix}{name}/" if name else prefix, one


def _numbers(result: Any) -> dict[str, float]:
    """The defined numbers of a result by name; columns of tables are none."""
    values = result.to_dict() if hasattr(result, "to_dict") else {}
    return {
        key: float(value)
        for key, value in values.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _drawing(result: Any) -> Any:
    """A figure of the result that no window shows."""
    from ..plots.style import figure_of  # noqa: PLC0415 - needs matplotlib

    return figure_of(result.plot)


def _wandb_image(figure: Any) -> Any:
    try:
        import wandb  # noqa: PLC0415 - optional
    except ImportError:
        raise InputError("wandb is not installed", remedy="pip install wandb") from None
    from PIL import Image  # noqa: PLC0415 - not needed for numbers

    # As pixels: wandb understands figures only where pyplot has been imported.
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=100)
    return wandb.Image(Image.open(target))
