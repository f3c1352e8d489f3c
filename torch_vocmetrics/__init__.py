"""The official numbers of vision benchmarks, computed on the device that holds your tensors."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__
from .errors import (
    FileFormatError,
    InputError,
    ProtocolError,
    StateError,
    VocMetricsError,
    VocMetricsWarning,
)
from .protocols import AreaRange, DetectionProtocol, load_dataset, load_protocol, protocol_names

if TYPE_CHECKING:
    from .metrics.base import Metric
    from .metrics.classification import ClassificationAP
    from .metrics.detection import DetectionAP
    from .metrics.layout import LayoutAP
    from .metrics.mask_quality import MaskQuality
    from .metrics.pedestrian import LogAverageMissRate
    from .metrics.segmentation import MeanIoU
    from .results import CocoDetectionResult, DetectionResult, VocDetectionResult

__all__ = [
    "AreaRange",
    "ClassificationAP",
    "CocoDetectionResult",
    "DetectionAP",
    "DetectionProtocol",
    "DetectionResult",
    "FileFormatError",
    "InputError",
    "LayoutAP",
    "LogAverageMissRate",
    "MaskQuality",
    "MeanIoU",
    "Metric",
    "ProtocolError",
    "StateError",
    "VocDetectionResult",
    "VocMetricsError",
    "VocMetricsWarning",
    "load_dataset",
    "load_protocol",
    "protocol_names",
]

# What needs torch is imported when it is first used, so that the command can answer without it.
_MODULES = {
    "ClassificationAP": "metrics.classification",
    "CocoDetectionResult": "results",
    "DetectionAP": "metrics.detection",
    "DetectionResult": "results",
    "LayoutAP": "metrics.layout",
    "LogAverageMissRate": "metrics.pedestrian",
    "MaskQuality": "metrics.mask_quality",
    "MeanIoU": "metrics.segmentation",
    "Metric": "metrics.base",
    "VocDetectionResult": "results",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
