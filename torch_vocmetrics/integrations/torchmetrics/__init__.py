"""Metrics of this package where torchmetrics' are wanted: Lightning, ``MetricCollection``."""

from .adapter import STATE_KEY, TorchMetricsAdapter
from .mean_average_precision import MeanAveragePrecision

__all__ = ["STATE_KEY", "MeanAveragePrecision", "TorchMetricsAdapter"]
