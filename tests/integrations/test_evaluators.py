"""Evaluators for frameworks: each beside pycocotools or the metric, with the real library."""

from __future__ import annotations

import contextlib
import copy
import doctest
import importlib
import io
import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.coco_pairs import as_coco, load_results
from helpers.coco_scenes import CATEGORIES, SIZE, scene
from pycocotools import mask as api
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torch import multiprocessing

from torch_vocmetrics import DetectionAP, InputError
from torch_vocmetrics import io as readers
from torch_vocmetrics.integrations import converters, evaluate
from torch_vocmetrics.integrations.coco_truth import as_xywh
from torch_vocmetrics.integrations.torchvision import CocoEvaluator


def official(truth: COCO, outputs: Any, kind: str, params: Any = None) -> COCOeval:
    """pycocotools over results as torchvision's evaluator writes them."""
    results = []
    for image_id, one in outputs.items():
        sizes = one["boxes"][:, 2:] - one["boxes"][:, :2]  # in float32
        boxes = torch.cat([one["boxes"][:, :2], sizes], 1).tolist()
        for place, box in enumerate(boxes):
            row = {"image_id": image_id, "category_id": int(one["labels"][place]),
                   "score": one["scores"][place].item()}  # fmt: skip
            mask = (one["masks"][place, 0] > 0.5).numpy().astype(np.uint8)
            rle = {"segmentation": api.encode(np.asfortranarray(mask))}
            results.append(row | ({"bbox": box} if kind == "bbox" else rle))
    judge = COCOeval(copy.deepcopy(truth), load_results(truth, results), kind)
    judge.params.imgIds = sorted(outputs)
    vars(judge.params).update(params or {})
    with contextlib.redirect_stdout(io.StringIO()):
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return judge


def equal(found: Any, wanted: Any) -> None:
    for name in ("precision", "recall", "scores", "counts"):
        assert np.array_equal(found.eval[name], wanted.eval[name]), name
    assert np.array_equal(found.stats, wanted.stats)


@pytest.mark.parametrize("name", ["converters", "evaluate"])
def test_examples_run(name: str) -> None:
    module = importlib.import_module(f"torch_vocmetrics.integrations.{name}")
    outcome = doctest.testmod(module)
    assert outcome.attempted > 2
    assert outcome.failed == 0


# torchvision's references ---------------------------------------------------------------------


def test_coco_evaluator(capsys: pytest.CaptureFixture[str]) -> None:
    truth, outputs = scene()
    evaluator = CocoEvaluator(truth, ["bbox", "segm"])
    ids = list(outputs)
    for part in (ids[:4], ids[4:5], [], ids[5:]):
        evaluator.update({one: outputs[one] for one in part})
    evaluator.synchronize_between_processes()
    evaluator.accumulate()
    capsys.readouterr()
    evaluator.summarize()
    printed = capsys.readouterr().out
    assert printed.count("IoU metric: ") == 2
    for kind in ("bbox", "segm"):
        wanted = official(truth, outputs, kind)
        equal(evaluator.coco_eval[kind], wanted)
        wanted.summarize()
        assert capsys.readouterr().out in printed
    assert 0 < evaluator.coco_eval["segm"].stats[0] < 1
    assert evaluator.img_ids == ids


def test_coco_evaluator_with_other_parameters_and_some_images() -> None:
    truth, outputs = scene(1)
    evaluator = CocoEvaluator(truth, ["bbox"])
    change = {"maxDets": [300, 1, 10], "iouThrs": np.array([0.4, 0.5])}
    vars(evaluator.coco_eval["bbox"].params).update(change)
    some = dict(list(outputs.items())[:5])
    evaluator.update(some)
    evaluator.accumulate()  # of this process alone
    with contextlib.redirect_stdout(io.StringIO()):
        evaluator.summarize()
    equal(evaluator.coco_eval["bbox"], official(truth, some, "bbox", change))
    evaluator.update({one: outputs[one] for one in outputs if one not in some})
    evaluator.accumulate()
    with contextlib.redirect_stdout(io.StringIO()):
        evaluator.summarize()
    equal(evaluator.coco_eval["bbox"], official(truth, outputs, "bbox", change))
    assert sorted(evaluator.img_ids) == sorted(outputs)
    assert evaluator.coco_eval["bbox"].eval["precision"].shape[0] == 2


def test_sizes_of_boxes_are_subtracted_in_float32_as_torchvision_does() -> None:
    """10.2 - 0.2 is 10 there, and the IoU 1/2; in float64 it is a little less."""
    left = torch.tensor(0.2).item()
    box = {"id": 1, "image_id": 1, "category_id": 3, "bbox": [left, 0.0, 20.0, 10.0], "area": 200.0}
    truth = as_coco([{"id": 1, "height": 48, "width": 64}], CATEGORIES, [box | {"iscrowd": 0}])
    output = {
        "boxes": torch.tensor([[0.2, 0.0, 10.2, 10.0]]),
        "scores": torch.tensor([0.5]),
        "labels": torch.tensor([3]),
        "masks": torch.zeros(1, 1, *SIZE),
    }
    evaluator = CocoEvaluator(truth, ["bbox"])
    evaluator.update({1: output})
    evaluator.accumulate()
    with contextlib.redirect_stdout(io.StringIO()):
        evaluator.summarize()
    equal(evaluator.coco_eval["bbox"], official(truth, {1: output}, "bbox"))
    assert evaluator.coco_eval["bbox"].stats[1] == pytest.approx(1.0)
    assert as_xywh(output["boxes"].double())[0, 2] < 10
    assert as_xywh(torch.zeros(0)).shape == (0, 4)


def test_coco_evaluator_refuses() -> None:
    truth, outputs = scene()
    for wrong in ("bbox", ["keypoints"], []):
        with pytest.raises(InputError, match="iou_types"):
            CocoEvaluator(truth, wrong)
    evaluator = CocoEvaluator(truth, ["bbox"])
    evaluator.update(outputs)
    with pytest.raises(InputError, match="no such image"):
        evaluator.update({10_000: next(iter(outputs.values()))})
    evaluator.accumulate()
    assert evaluator.coco_eval["bbox"].eval["recall"].max() > 0


def test_coco_evaluator_without_images() -> None:
    evaluator = CocoEvaluator(scene()[0], ["bbox"])
    with pytest.warns(UserWarning, match="before"):
        evaluator.synchronize_between_processes()
    evaluator.accumulate()
    assert (evaluator.coco_eval["bbox"].eval["recall"] == -1).all()


def _rank(rank: int, folder: str) -> None:
    """Each has its share of the images, and both have the first."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
    )
    truth, outputs = scene()
    evaluator = CocoEvaluator(truth, ["bbox", "segm"])
    ids = list(outputs)
    for one in {ids[0], *ids[rank::2]}:
        evaluator.update({one: outputs[one]})
    evaluator.synchronize_between_processes()
    evaluator.accumulate()
    with contextlib.redirect_stdout(io.StringIO()):
        evaluator.summarize()
    stats = {kind: judge.stats for kind, judge in evaluator.coco_eval.items()}
    np.savez(f"{folder}/{rank}.npz", **stats)
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_coco_evaluator_on_two_ranks(tmp_path: Path) -> None:
    multiprocessing.spawn(_rank, (str(tmp_path),), nprocs=2)
    truth, outputs = scene()
    for rank in range(2):
        found = np.load(tmp_path / f"{rank}.npz")
        for kind in ("bbox", "segm"):
            assert np.array_equal(found[kind], official(truth, outputs, kind).stats)


# Detectron2, by a double of its documented interface --------------------------------------------


class Boxes:
    """``detectron2.structures.Boxes``: corners in ``tensor``."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


class Instances:
    """``detectron2.structures.Instances``: fields of one length as attributes."""

    def __init__(self, image_size: tuple[int, int], **fields: Any) -> None:
        self.image_size = image_size
        vars(self).update(fields)


class DatasetEvaluator:
    """``detectron2.evaluation.DatasetEvaluator``."""

    def reset(self) -> None: ...

    def process(self, inputs: Any, outputs: Any) -> None: ...

    def evaluate(self) -> Any: ...


@pytest.fixture
def detectron2(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Our module, and the metadata that ``MetadataCatalog.get`` finds by name."""
    if importlib.util.find_spec("detectron2") is None:
        data, evaluation = types.ModuleType("detectron2.data"), types.ModuleType("d")
        known: dict[str, Any] = {}
        data.MetadataCatalog = types.SimpleNamespace(get=known.__getitem__)
        evaluation.DatasetEvaluator = DatasetEvaluator
        names = {"detectron2": types.ModuleType("detectron2"), "detectron2.data": data}
        for name, double in (names | {"detectron2.evaluation": evaluation}).items():
            monkeypatch.setitem(sys.modules, name, double)
    name = "torch_vocmetrics.integrations.detectron2"
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module(name), known
    sys.modules.pop(name, None)


def as_instances(output: dict[str, torch.Tensor], numbers: dict[int, int]) -> Instances:
    known = torch.tensor([int(one) in numbers for one in output["labels"]])
    labels = [numbers[int(one)] for one in output["labels"][known]]
    return Instances(
        SIZE,
        pred_boxes=Boxes(output["boxes"][known]),
        scores=output["scores"][known],
        pred_classes=torch.tensor(labels, dtype=torch.int64),
        pred_masks=output["masks"][known, 0] > 0.5,
    )


def test_detectron2_coco(detectron2: Any, tmp_path: Path) -> None:
    module, known = detectron2
    truth, outputs = scene(2)
    file = tmp_path / "instances.json"
    written = copy.deepcopy(truth.dataset)
    for one in written["annotations"]:
        one["segmentation"]["counts"] = one["segmentation"]["counts"].decode()
    file.write_text(json.dumps(written))
    numbers = {8: 0, 3: 1, 7: 2}  # the model counts its classes in an order of its own
    known["scenes"] = types.SimpleNamespace(
        json_file=str(file),
        thing_dataset_id_to_contiguous_id=numbers,
        thing_classes=["cow", "cat", "dog"],
    )
    evaluator = module.COCOEvaluator("scenes", tasks=("bbox", "segm"))
    assert isinstance(evaluator, sys.modules["detectron2.evaluation"].DatasetEvaluator)
    last = next(one for one, rows in truth.imgToAnns.items() if len(rows) > 2)
    most = [one for one in outputs if one != last]
    for _ in range(2):
        evaluator.reset()
        for image_id in most:  # the last image never comes, and its objects are missed
            inputs = [{"image_id": image_id, "height": SIZE[0], "width": SIZE[1]}]
            evaluator.process(inputs, [{"instances": as_instances(outputs[image_id], numbers)}])
        found = evaluator.evaluate()
    np.testing.assert_equal(found, evaluator.evaluate())
    for kind in ("bbox", "segm"):
        judge = official(truth, {one: outputs[one] for one in most}, kind, {"imgIds": [*outputs]})
        wanted = [100 * number if number > -1 else np.nan for number in judge.stats[:6]]
        assert np.array_equal(
            [found[kind][name] for name in module.SUMMARY], wanted, equal_nan=True
        )
        precision = judge.eval["precision"][:, :, :, 0, -1]
        for place, name in enumerate(["cat", "dog"]):
            assert found[kind][f"AP-{name}"] == pytest.approx(100 * precision[:, :, place].mean())
        assert np.isnan(found[kind]["AP-cow"])


def test_detectron2_coco_refuses(detectron2: Any) -> None:
    module, known = detectron2
    known["own"] = types.SimpleNamespace()
    with pytest.raises(InputError, match="convert_to_coco_json"):
        module.COCOEvaluator("own")
    with pytest.raises(InputError, match="tasks"):
        module.COCOEvaluator("own", tasks=["keypoints"])


def write_kit(folder: Path) -> Path:
    """Six images with cats and dogs, some of which are difficult."""
    rng = np.random.default_rng(4)
    for name in ("Annotations", "ImageSets/Main"):
        (folder / name).mkdir(parents=True)
    ids = [f"2007_{number:06}" for number in range(6)]
    (folder / "ImageSets/Main/test.txt").write_text("\n".join(ids) + "\n")
    for image_id in ids:
        text = "<size><width>64</width><height>48</height><depth>3</depth></size>"
        for _ in range(int(rng.integers(1, 5))):
            left, top = rng.integers(1, 30, 2)
            name, difficult = rng.choice(["cat", "dog"]), int(rng.random() < 0.2)
            text += (
                f"<object><name>{name}</name><difficult>{difficult}</difficult><bndbox>"
                f"<xmin>{left}</xmin><ymin>{top}</ymin><xmax>{left + 20}</xmax>"
                f"<ymax>{top + 15}</ymax></bndbox></object>"
            )
        path = folder / "Annotations" / f"{image_id}.xml"
        path.write_text(f"<annotation><filename>{image_id}.jpg</filename>{text}</annotation>")
    return folder


def test_detectron2_voc(detectron2: Any, tmp_path: Path) -> None:
    module, known = detectron2
    folder = write_kit(tmp_path)
    truth = readers.read_voc_ground_truths(folder, "test")
    names = list(truth.class_names)
    rng = np.random.default_rng(5)
    seen = {}
    for image_id, target in zip(truth.image_ids, truth.targets, strict=True):
        boxes = target["boxes"] + torch.from_numpy(rng.integers(-2, 3, (len(target["boxes"]), 4)))
        seen[image_id] = {
            "boxes": boxes,
            "scores": torch.from_numpy(rng.random(len(boxes))),
            "labels": target["labels"],
        }
    for year, protocol in ((2007, "voc2007"), (2012, "voc2012")):
        known["voc"] = types.SimpleNamespace(
            dirname=str(folder), split="test", year=year, thing_classes=names
        )
        evaluator = module.PascalVOCDetectionEvaluator("voc")
        for image_id, one in seen.items():
            boxes = Boxes(one["boxes"] - torch.tensor([1, 1, 0, 0]))
            instances = Instances(
                SIZE, pred_boxes=boxes, scores=one["scores"], pred_classes=one["labels"]
            )
            evaluator.process([{"image_id": image_id}], [{"instances": instances}])
        found = evaluator.evaluate()["bbox"]
        aps = []
        for threshold in np.arange(50, 100, 5) / 100:
            metric = DetectionAP(protocol, class_names=names, iou_thresholds=[threshold])
            aps.append(metric.update(list(seen.values()), truth.targets).compute().headline)
        assert found["AP50"] == pytest.approx(100 * aps[0])
        assert found["AP75"] == pytest.approx(100 * aps[5])
        assert found["AP"] == pytest.approx(100 * np.mean(aps))
    with pytest.raises(InputError, match="no such image"):
        evaluator.process([{"image_id": "x"}], [{"instances": instances}])


# mmengine -------------------------------------------------------------------------------------


def samples(truth: COCO, outputs: Any) -> list[dict[str, Any]]:
    """What ``DetDataSample.to_dict`` gives; boxes and masks are objects of its own classes."""
    ids = {3: 0, 7: 1, 8: 2}
    found = []
    for image_id, one in outputs.items():
        known = torch.tensor([int(label) in ids for label in one["labels"]])
        rows = truth.imgToAnns[image_id]
        sides = []
        for crowd in (0, 1):
            part = [row for row in rows if row["iscrowd"] == crowd]
            boxes = torch.tensor([row["bbox"] for row in part]).reshape(-1, 4)
            boxes[:, 2:] += boxes[:, :2]
            masks = np.array([api.decode(row["segmentation"]) for row in part]).reshape(-1, *SIZE)
            to_tensor = lambda dtype, device, masks=masks: torch.tensor(masks).to(device, dtype)  # noqa: E731
            sides.append(
                {
                    "bboxes": Boxes(boxes),
                    "labels": torch.tensor([ids[row["category_id"]] for row in part]).long(),
                    "masks": types.SimpleNamespace(to_tensor=to_tensor),
                }
            )
        found.append(
            {
                "img_id": image_id,
                "ori_shape": SIZE,
                "gt_instances": sides[0],
                "ignored_instances": sides[1],
                "pred_instances": {
                    "bboxes": one["boxes"][known],
                    "scores": one["scores"][known],
                    "labels": torch.tensor([ids[int(n)] for n in one["labels"][known]]).long(),
                    "masks": one["masks"][known, 0] > 0.5,
                },
            }
        )
    return found


# pycocotools' own decoding, under NumPy 2.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize(("protocol", "kind"), [("coco2017", "bbox"), ("coco2017_segm", "segm")])
def test_mmengine(protocol: str, kind: str) -> None:
    pytest.importorskip("mmengine", reason="the extra trainers is not installed")
    from mmengine.evaluator import Evaluator  # noqa: PLC0415

    truth, outputs = scene(3)
    for one in truth.dataset["annotations"]:  # mmdetection hands no areas on
        box, mask = one["bbox"], api.area(one["segmentation"])
        one["area"] = box[2] * box[3] if kind == "bbox" else float(mask)
    importlib.import_module("torch_vocmetrics.integrations.mmengine")
    evaluator = Evaluator([{"type": "TorchVocmetricsDetection", "protocol": protocol}])
    with pytest.raises(InputError, match="dataset_meta"):
        evaluator.metrics[0].compute_metrics([])
    evaluator.dataset_meta = {"classes": ("cat", "dog", "cow")}
    every = samples(truth, outputs)
    for part in (every[:4], every[4:]):
        evaluator.process(data_samples=part)
    evaluator.process(data_samples=every[:1])  # the last batch was filled up
    numbers = evaluator.evaluate(len(every))
    wanted = official(truth, outputs, kind).stats
    keys = ("AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100")
    found = [numbers[f"detection/{key}"] for key in keys]
    # xyxy here and xywh in the file: the last bits of an overlap may differ.
    assert np.allclose(found, np.where(wanted[:9] == -1, np.nan, wanted[:9]), equal_nan=True)
    assert 0 < numbers["detection/AP"] < 1
    assert "detection/AP/cat" in numbers


def test_mmengine_ignored_objects_are_difficult_under_voc() -> None:
    pytest.importorskip("mmengine", reason="the extra trainers is not installed")
    module = importlib.import_module("torch_vocmetrics.integrations.mmengine")
    metric = module.DetectionMetric("voc2012", rules={"iou_thresholds": [0.3]})
    metric.dataset_meta = {"classes": ["cat"]}
    box, other = torch.tensor([[0.0, 0, 9, 9]]), torch.tensor([[20.0, 20, 39, 39]])
    label = torch.zeros(1, dtype=torch.int64)
    seen = {"bboxes": torch.cat([other, box]), "scores": torch.tensor([0.9, 0.5])}
    sample = {
        "gt_instances": {"bboxes": box, "labels": label},
        "ignored_instances": {"bboxes": other, "labels": label},
        "pred_instances": seen | {"labels": torch.zeros(2, dtype=torch.int64)},
    }
    metric.process(None, [sample])
    assert metric.evaluate(1)["detection/mAP"] == 1.0
    metric.process(None, [sample | {"ignored_instances": {}}])
    assert metric.evaluate(1)["detection/mAP"] == 0.5


# Hugging Face evaluate ------------------------------------------------------------------------

CAT = {"boxes": [[10.0, 10.0, 50.0, 50.0]], "labels": [0]}
SEEN = {"boxes": [[10.0, 10.0, 50.0, 42.0]], "labels": [0], "scores": [0.5]}


def test_evaluation_module() -> None:
    module = evaluate.DetectionEvaluation(class_names=["cat", "dog"])
    plain = DetectionAP("coco2017", class_names=["cat", "dog"])
    wanted = plain.update([SEEN, SEEN], [CAT, CAT]).compute().to_dict()
    first = module.compute(predictions=[SEEN, SEEN], references=[CAT, CAT])
    module.add(prediction=SEEN, reference=CAT)
    module.add_batch(predictions=[SEEN], references=[CAT])
    for found in (first, module.compute()):
        assert list(found) == list(wanted)
        assert np.array_equal([*found.values()], [*wanted.values()], equal_nan=True)
    assert module.result.num_images == 2
    two = evaluate.DetectionEvaluation(["voc2007", "coco2017"], num_classes=1)
    assert {"voc2007/mAP", "coco2017/AP75"} <= set(
        two.compute(predictions=[SEEN], references=[CAT])
    )
    with pytest.raises(InputError, match="given together"):
        module.compute(predictions=[SEEN])
    with pytest.raises(InputError, match=r"no such option, got \['average'\]"):
        module.compute(average="macro")


def test_evaluation_modules_are_combined_by_evaluate() -> None:
    library = pytest.importorskip("evaluate", reason="the extra trainers is not installed")
    modules = {
        name: evaluate.DetectionEvaluation(name, num_classes=1) for name in ("voc2007", "voc2012")
    }
    together = library.combine(modules)
    together.add_batch(predictions=[SEEN], references=[CAT])
    found = together.compute(predictions=[SEEN], references=[CAT])
    assert found["voc2012_mAP"] == 1.0
    assert set(found) == {"voc2007_mAP", "voc2007_AP/0", "voc2012_mAP", "voc2012_AP/0"}
    assert modules["voc2007"].result.num_images == 2


# Converters -----------------------------------------------------------------------------------


def test_supervision() -> None:
    sv = pytest.importorskip("supervision", reason="the extra trainers is not installed")
    boxes = np.array([[10, 10, 50, 50], [0, 0, 20, 20]], dtype=np.float32)
    labels = np.array([0, 1])
    masks = np.zeros((2, 60, 60), dtype=bool)
    masks[0, 10:50, 10:50] = masks[1, :20, :20] = True
    there = sv.Detections(
        xyxy=boxes, class_id=labels, mask=masks, data={"iscrowd": np.array([False, True])}
    )
    seen = sv.Detections(
        xyxy=boxes[:1], class_id=labels[:1], mask=masks[:1], confidence=np.array([0.9])
    )
    metric = DetectionAP(["coco2017", "coco2017_segm"], num_classes=2)
    metric.update([converters.from_supervision(seen)], [converters.from_supervision(there)])
    metric.update([converters.from_supervision(sv.Detections.empty())],
                  [converters.from_supervision(sv.Detections.empty())])  # fmt: skip
    for result in metric.compute().values():
        assert result.headline == pytest.approx(1.0)
        assert result.num_positives.tolist() == [1, 0]
        assert result.num_images == 2
    without = sv.Detections(xyxy=boxes)
    with pytest.raises(InputError, match="has no class_id"):
        converters.from_supervision(without)


def fiftyone(label: str, box: list[float], **more: Any) -> Any:
    """A ``fiftyone.Detection``: attributes that were not given are None."""
    return types.SimpleNamespace(label=label, bounding_box=box, **{"confidence": None} | more)


def test_fiftyone() -> None:
    there = types.SimpleNamespace(
        detections=[fiftyone("cat", [0.1, 0.1, 0.4, 0.8]),
                    fiftyone("dog", [0, 0, 0.2, 0.2], iscrowd=1)]
    )  # fmt: skip
    seen = [fiftyone("cat", [0.1, 0.1, 0.4, 0.4], confidence=0.75)]
    names = {5: "dog", 9: "cat"}
    target = converters.from_fiftyone(there, names, (50, 100), predictions=False)
    prediction = converters.from_fiftyone(seen, names, (50, 100), predictions=True)
    assert target["boxes"].tolist() == [[10, 5, 50, 45], [0, 0, 20, 10]]
    assert target["labels"].tolist() == [9, 5]
    assert target["iscrowd"].tolist() == [False, True]
    assert prediction["scores"].tolist() == [0.75]
    result = DetectionAP("coco2017", class_names=names).update([prediction], [target]).compute()
    assert result["AP50"] == pytest.approx(1.0)
    empty = converters.from_fiftyone(None, names, (50, 100), predictions=False)
    assert empty["boxes"].shape == (0, 4)
    with pytest.raises(InputError, match=r"detections\[0\].label: is no class, got cow"):
        converters.from_fiftyone([fiftyone("cow", [0, 0, 1, 1])], names, (9, 9), predictions=False)
    with pytest.raises(InputError, match=r"detections\[1\].confidence"):
        converters.from_fiftyone(
            [*seen, fiftyone("cat", [0, 0, 1, 1])], names, (9, 9), predictions=True
        )
