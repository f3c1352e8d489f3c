"""What ``compute`` returns: frozen, named, on the CPU, in float64. NaN means undefined.

Axes are T (IoU thresholds), R (recall levels), K (classes), A (area ranges), M (limits of
detections), each in the protocol's order.
"""

from .detection import (
    CocoDetectionResult,
    DetectionResult,
    PrecisionRecallCurve,
    VocDetectionResult,
)
from .numbers import as_tensor, mean_of_defined

__all__ = [
    "CocoDetectionResult",
    "DetectionResult",
    "PrecisionRecallCurve",
    "VocDetectionResult",
    "as_tensor",
    "mean_of_defined",
]
