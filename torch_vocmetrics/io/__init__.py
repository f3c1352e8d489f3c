"""Readers and writers for the files of PASCAL VOC and COCO.

What readers give goes straight into ``update``.

Every reader checks what it reads and names file and line or element of the first fault.
"""

from .bb_apply import scale_height
from .bb_gt import Conditions, read_bb_gt_ground_truths, read_bb_gt_objects, read_indexed_detections
from .caltech import read_caltech_detections, read_caltech_ground_truths, read_vbb
from .coco import read_coco_detections, read_coco_ground_truths
from .crowdhuman import (
    read_crowdhuman_detections,
    read_crowdhuman_ground_truths,
    read_crowdhuman_sizes,
)
from .label_colors import LabelColors, read_label_colors, voc_colormap
from .label_images import (
    LabelImagePair,
    pair_label_images,
    read_image_size,
    read_label_map,
    read_label_pairs,
    write_label_map,
)
from .painting import PaintedImage, create_segmentations_from_detections
from .pedestrian_json import read_citypersons_mat, read_pedestrian_detections, read_pedestrian_json
from .tables import DetectionFile, GroundTruthFile
from .voc import VocSet, read_voc_detections, read_voc_ground_truths, read_voc_set
from .voc_annotations import read_annotation
from .voc_coco import coco_from_voc, voc_from_coco
from .voc_folder import VocImages, find_voc_images, read_image_set
from .voc_layouts import LayoutFile, VocLayout, read_layouts, read_voc_layouts, write_layouts
from .voc_objects import VocAnnotation, VocObject, VocPart
from .voc_results import find_results
from .voc_sets import (
    ClassificationFile,
    read_class_set,
    read_object_set,
    read_scores,
    read_voc_classification,
    write_class_set,
    write_image_set,
    write_scores,
)
from .voc_writers import write_annotation, write_detections

__all__ = [
    "ClassificationFile",
    "Conditions",
    "DetectionFile",
    "GroundTruthFile",
    "LabelColors",
    "LabelImagePair",
    "LayoutFile",
    "PaintedImage",
    "VocAnnotation",
    "VocImages",
    "VocLayout",
    "VocObject",
    "VocPart",
    "VocSet",
    "coco_from_voc",
    "create_segmentations_from_detections",
    "find_results",
    "find_voc_images",
    "pair_label_images",
    "read_annotation",
    "read_bb_gt_ground_truths",
    "read_bb_gt_objects",
    "read_caltech_detections",
    "read_caltech_ground_truths",
    "read_citypersons_mat",
    "read_class_set",
    "read_coco_detections",
    "read_coco_ground_truths",
    "read_crowdhuman_detections",
    "read_crowdhuman_ground_truths",
    "read_crowdhuman_sizes",
    "read_image_set",
    "read_image_size",
    "read_indexed_detections",
    "read_label_colors",
    "read_label_map",
    "read_label_pairs",
    "read_layouts",
    "read_object_set",
    "read_pedestrian_detections",
    "read_pedestrian_json",
    "read_scores",
    "read_vbb",
    "read_voc_classification",
    "read_voc_detections",
    "read_voc_ground_truths",
    "read_voc_layouts",
    "read_voc_set",
    "scale_height",
    "voc_colormap",
    "voc_from_coco",
    "write_annotation",
    "write_class_set",
    "write_detections",
    "write_image_set",
    "write_label_map",
    "write_layouts",
    "write_scores",
]
