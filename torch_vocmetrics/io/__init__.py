"""Readers for the files of PASCAL VOC and COCO; what they give goes straight into ``update``.

Every reader checks what it reads and names file and line or element of the first fault.
"""

from .coco import read_coco_detections, read_coco_ground_truths
from .tables import DetectionFile, GroundTruthFile
from .voc import (
    VocAnnotation,
    VocObject,
    find_results,
    read_annotation,
    read_image_set,
    read_voc_detections,
    read_voc_ground_truths,
)

__all__ = [
    "DetectionFile",
    "GroundTruthFile",
    "VocAnnotation",
    "VocObject",
    "find_results",
    "read_annotation",
    "read_coco_detections",
    "read_coco_ground_truths",
    "read_image_set",
    "read_voc_detections",
    "read_voc_ground_truths",
]
