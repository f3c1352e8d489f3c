"""The official numbers of detection benchmarks, computed on the tensors where they are."""

from ._version import __version__ as __version__
from .errors import (
    FileFormatError,
    InputError,
    ProtocolError,
    StateError,
    VocMetricsError,
    VocMetricsWarning,
)
from .metrics.base import Metric
from .metrics.classification import ClassificationAP
from .metrics.detection import DetectionAP
from .metrics.layout import LayoutAP
from .metrics.pedestrian import LogAverageMissRate
from .metrics.segmentation import MeanIoU
from .protocols import DetectionProtocol, load_dataset, load_protocol, protocol_names
from .results import CocoDetectionResult, DetectionResult, VocDetectionResult

__all__ = [
    "ClassificationAP",
    "CocoDetectionResult",
    "DetectionAP",
    "DetectionProtocol",
    "DetectionResult",
    "FileFormatError",
    "InputError",
    "LayoutAP",
    "LogAverageMissRate",
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
