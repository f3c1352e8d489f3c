"""What ``compute`` returns: frozen, named, on the CPU, in float64. NaN means undefined.

Axes are T (IoU thresholds), R (recall levels), K (classes), A (area ranges), M (limits of
detections), each in the protocol's order.
"""

from .base import Result
from .classification import ClassificationResult, RocCurve
from .detection import (
    CocoDetectionResult,
    DetectionResult,
    PrecisionRecallCurve,
    VocDetectionResult,
)
from .layout import LayoutResult
from .miss_rate import (
    CrowdMissRateResult,
    MissRateCurve,
    MissRateResult,
    reading_index,
    unread_miss_rate,
)
from .numbers import as_tensor, mean_of_defined
from .per_class import ClassNumbers
from .result_table import Column, ResultTable
from .segmentation import SegmentationResult
from .table import Table, data_frame

__all__ = [
    "ClassNumbers",
    "ClassificationResult",
    "CocoDetectionResult",
    "Column",
    "CrowdMissRateResult",
    "DetectionResult",
    "LayoutResult",
    "MissRateCurve",
    "MissRateResult",
    "PrecisionRecallCurve",
    "Result",
    "ResultTable",
    "RocCurve",
    "SegmentationResult",
    "Table",
    "VocDetectionResult",
    "as_tensor",
    "data_frame",
    "mean_of_defined",
    "reading_index",
    "unread_miss_rate",
]
