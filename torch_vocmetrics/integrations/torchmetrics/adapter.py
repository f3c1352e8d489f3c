"""A metric of this package where a torchmetrics one is wanted: Lightning, ``MetricCollection``."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor

try:
    import torchmetrics
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError(
        "torchmetrics is missing: pip install 'torch_vocmetrics[trainers]'"
    ) from error

from torch_vocmetrics import InputError, Metric, StateError, VocMetricsWarning

STATE_KEY = "state"  # of the saved state, after the module's prefix


class TorchMetricsAdapter(torchmetrics.Metric):
    """A ``torchmetrics.Metric`` around a metric of this package.

    No state is registered with torchmetrics, so that it gathers, casts and shares none: ``compute``
    synchronises by this package's own two collectives, half precision of the module around it
    leaves scores as they came, and compute groups of a ``MetricCollection`` stay apart.

    Args:
        metric: any metric of this package; it is not copied, and stays at :attr:`metric`.
        value: what ``compute`` gives: ``"headline"`` or a key of ``result.to_dict()`` as a scalar,
            None for all of them as a flat dict. Keys of several protocols are
            ``<protocol>/<key>``, and their headlines ``<protocol>``.
        settings: keyword arguments of ``torchmetrics.Metric``, such as ``process_group``.
            ``dist_sync_fn`` is not used.

    Raises:
        InputError: if the metric's result has no such value.

    Attributes:
        result: what the metric's own ``compute`` gave last, with its curves; None before.

    Example:
        >>> from torch_vocmetrics import DetectionAP
        >>> metric = TorchMetricsAdapter(DetectionAP("voc2007", num_classes=3))
        >>> box = {"boxes": [[1, 1, 9, 9]], "labels": [2]}
        >>> metric.update([box | {"scores": [0.5]}], [box])
        >>> round(float(metric.compute()), 6)
        1.0
    """

    full_state_update = False
    is_differentiable = False

    _update_count: int
    _is_synced: bool
    _computed: Any
    _forward_cache: Any
    _cache: Any

    def __init__(
        self, metric: Metric[Any], value: str | None = "headline", **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.metric = metric
        self._empty = copy.deepcopy(metric).reset()
        self.value = value
        self.result: Any = None
        self._group = self.process_group
        self._batches = 0
        self._saved = False
        with warnings.catch_warnings():  # that nothing was seen is known
            warnings.simplefilter("ignore", VocMetricsWarning)
            self._value_of(self._blank().compute(sync=False))

    def update(self, predictions: Any, targets: Any, image_ids: Any = None) -> None:
        """Add a batch, in the form that the metric takes."""
        self._batches = self._update_count  # which the base class has raised
        self._add_to(self.metric, predictions, targets, image_ids)

    def compute(self) -> Any:
        """Float64 on the host: a collective, unless torchmetrics is told not to sync.

        Raises:
            StateError: if torchmetrics counted updates that were never made here: the metric stands
                in a compute group that was given by hand.
        """
        if self._update_count != self._batches:
            raise StateError(
                "updates went to another metric of the same compute group",
                where="compute",
                got=f"{self._batches} of {self._update_count} batches",
                remedy="leave compute_groups at its default, True",
            )
        try:
            self.result = self._result_of(self.metric, sync=self._is_synced)
        except Exception:
            self._is_synced, self._cache = False, None  # torchmetrics would leave it synced
            raise
        return self._value_of(self.result)

    @torch.jit.unused
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch and give the value of that batch alone, which is matched once more.

        Call ``update`` where the value of a batch is not wanted. Ranks are synchronised here only
        under ``dist_sync_on_step``.
        """
        self.update(*args, **kwargs)
        alone = self._blank()
        self._add_to(alone, *args, **kwargs)
        distributed = self.dist_sync_on_step and self.distributed_available_fn()
        value = self._value_of(self._result_of(alone, sync=distributed))
        self._forward_cache = value
        return value

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self.metric.reset()
        self.result = None
        self._batches = 0

    def merge_state(self, incoming_state: dict[str, Any] | torchmetrics.Metric) -> None:
        """Add what another adapter has seen, or a saved state of the metric."""
        if isinstance(incoming_state, dict):
            theirs = self._blank().load_state_dict(incoming_state)
            batches = int(incoming_state["updated"])
        elif isinstance(incoming_state, TorchMetricsAdapter):
            theirs, batches = incoming_state.metric, incoming_state._batches
        else:
            raise StateError("must be an adapter or a state", got=type(incoming_state).__name__)
        self.metric.merge(theirs)
        self._count(self._batches + batches)

    def persistent(self, mode: bool = False) -> None:
        """Whether ``state_dict`` of the modules around this one holds what was seen so far."""
        self._saved = mode

    def state_dict(
        self, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """As of any module: nothing, or after ``persistent(True)`` the metric's state."""
        saved: dict[str, Any] = super().state_dict(destination, prefix, keep_vars)
        if self._saved:
            saved[prefix + STATE_KEY] = self.metric.state_dict()
        return saved

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        state = state_dict.pop(prefix + STATE_KEY, None)
        if state is not None:
            self.metric.load_state_dict(state)
            self._count(int(state["updated"]))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _sync_dist(self, dist_sync_fn: Any = None, process_group: Any = None) -> None:
        """Gather nothing: ``compute`` synchronises, over this group."""
        del dist_sync_fn
        self._group = process_group or self.process_group

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> Self:
        """Follow the module to another device, and never change a type."""
        values, device = (self._computed, self._forward_cache), self.device
        super()._apply(fn, *args, **kwargs)
        self._computed, self._forward_cache = values
        if self.device != device and self._batches:
            self.metric.to(self.device)
        return self

    def _value_of(self, result: Any) -> Any:
        """What ``compute`` gives of a result."""
        return _chosen(result, self.value)

    def _result_of(self, metric: Any, *, sync: bool) -> Any:
        group = {"group": self._group} if sync and self._group is not None else {}
        return metric.compute(sync=sync, **group)

    def _blank(self) -> Any:
        """A copy of the metric before its first update."""
        return copy.deepcopy(self._empty)

    def _add_to(self, metric: Any, predictions: Any, targets: Any, image_ids: Any = None) -> None:
        ids = {} if image_ids is None else {"image_ids": image_ids}
        metric.update(predictions, targets, **ids)

    def _count(self, batches: int) -> None:
        """Take up a state that did not come by ``update``."""
        self._computed = None
        self._batches = self._update_count = batches


def _chosen(result: Any, value: str | None) -> Tensor | dict[str, Tensor]:
    """The numbers asked for, of one result or of a dict of results."""
    several = result if isinstance(result, Mapping) else {"": result}
    numbers: dict[str, float] = {}
    for name, one in several.items():
        prefix = f"{name}/" if name else ""
        numbers |= {prefix + key: number for key, number in one.to_dict().items()}
        if value in (name or "headline", prefix + "headline"):
            return torch.tensor(one.headline, dtype=torch.float64)
    if value is None:
        return {key: torch.tensor(n, dtype=torch.float64) for key, n in numbers.items()}
    if value not in numbers:
        raise InputError("no such number", where="value", got=value, remedy=f"one of {[*numbers]}")
    return torch.tensor(numbers[value], dtype=torch.float64)
