"""The look-alike of torchmetrics' ``MeanAveragePrecision`` beside torchmetrics' own."""

from __future__ import annotations

import copy
import doctest
import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.mean_ap_batches import LEVELS, THRESHOLDS, Batch, random_batches, random_settings
from helpers.support import shared_data
from torch import multiprocessing, nn

torchmetrics = pytest.importorskip("torchmetrics", reason="the extra trainers is not installed")
from torchmetrics.detection import MeanAveragePrecision as Theirs  # noqa: E402

from torch_vocmetrics import InputError, ProtocolError, StateError, VocMetricsWarning  # noqa: E402
from torch_vocmetrics.integrations.torchmetrics import MeanAveragePrecision  # noqa: E402
from torch_vocmetrics.integrations.torchmetrics import (  # noqa: E402
    mean_average_precision as module,
)
from torch_vocmetrics.integrations.torchmetrics.seen_classes import _in_turn  # noqa: E402

FLOAT32_THRESHOLDS = torch.linspace(0.5, 0.95, 10).tolist()
FLOAT32_LEVELS = torch.linspace(0, 1, 101).tolist()


def rows(boxes: Any, labels: Any, scores: Any = None, **more: Any) -> dict[str, Any]:
    found = {"boxes": torch.tensor(boxes).reshape(-1, 4), "labels": torch.tensor(labels).long()}
    return found | ({} if scores is None else {"scores": torch.tensor(scores)}) | more


def batch(shift: float = 0.0, label: int = 0, **target: Any) -> Batch:
    """One image with one object, and a detection of it that is displaced."""
    box = [[10.0, 10.0, 30.0, 30.0]]
    seen = [[10.0 + shift, 10.0, 30.0 + shift, 30.0]]
    return [rows(seen, [label], [0.5])], [rows(box, [label], **target)]


def value(metric: Any, *batches: Batch) -> dict[str, Any]:
    metric.warn_on_many_detections = False
    for one in batches:
        metric.update(*one)
    computed: dict[str, Any] = metric.compute()
    return computed


def unequal(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """The keys under which there is another type, shape, or bit."""
    assert list(found) == list(wanted)
    different = []
    for key, one in wanted.items():
        if key.endswith("ious"):
            same = {tuple(map(int, place)) for place in one} == set(found[key]) and all(
                torch.equal(torch.as_tensor(found[key][tuple(map(int, place))]), torch.as_tensor(x))
                for place, x in one.items()
            )
        else:
            same = found[key].dtype == one.dtype and torch.equal(found[key], one)
        different += [] if same else [key]
    return different


# Equality -------------------------------------------------------------------------------------


def expected(settings: dict[str, Any], batches: list[Batch]) -> dict[str, Any]:
    """What torchmetrics computes, but for two of its answers, which the table names."""
    wanted = value(Theirs(**settings), *batches)
    both = len(settings["iou_type"]) == 2
    if settings["average"] == "micro" and settings["class_metrics"] and both:
        # The numbers of each class leave it with labels for the masks that come after the boxes.
        of_one_class = value(Theirs(**settings | {"class_metrics": False}), *batches)
        wanted |= {key: x for key, x in of_one_class.items() if "per_class" not in key}
    if 100 not in (settings["max_detection_thresholds"] or [100]):
        wanted |= at_the_largest_limit(settings, batches)
    return wanted


def at_the_largest_limit(settings: dict[str, Any], batches: list[Batch]) -> dict[str, Any]:
    """``map`` and ``map_per_class``, where theirs are -1, as means of their own arrays."""
    shown = settings | {"class_metrics": False, "extended_summary": True}
    overall = value(Theirs(**shown), *batches)
    by_class = value(Theirs(**shown | {"average": "macro"}), *batches)
    found = {}
    for kind in ("", "bbox_", "segm_"):
        if f"{kind}precision" in overall:
            found[f"{kind}map"] = mean_at_the_largest_limit(overall[f"{kind}precision"])
        if f"{kind}precision" in overall and settings["class_metrics"]:
            of_each = by_class[f"{kind}precision"].split(1, dim=2)
            means = torch.stack([mean_at_the_largest_limit(one) for one in of_each])
            found[f"{kind}map_per_class"] = means.squeeze() if len(means) == 1 else means
    return found


def mean_at_the_largest_limit(precision: torch.Tensor) -> torch.Tensor:
    values = precision[..., 0, -1].numpy()
    defined = values[values > -1]
    return torch.tensor(defined.mean() if defined.size else -1.0, dtype=torch.float32)


def compare(seed: int) -> list[str]:
    """The keys whose values differ from what is expected."""
    settings = random_settings(seed)
    batches = random_batches(seed, settings)
    wanted = expected(settings, batches)
    found = value(MeanAveragePrecision(**settings), *batches)
    return unequal(found, wanted)


def test_random_batches() -> None:
    for seed in range(60):
        assert compare(seed) == [], f"seed {seed}: {random_settings(seed)}"


@pytest.mark.slow
def test_many_random_batches() -> None:
    for seed in range(60, 560):
        assert compare(seed) == [], f"seed {seed}: {random_settings(seed)}"


@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
def test_its_own_thresholds_explain_every_difference_of_the_defaults(iou_type: str) -> None:
    """Theirs by default is ours with its float32 thresholds and levels, to the last bit."""
    rounded = {"iou_thresholds": FLOAT32_THRESHOLDS, "rec_thresholds": FLOAT32_LEVELS}
    changed = 0
    for seed in range(40):
        settings = {"box_format": "xyxy", "iou_type": iou_type}
        batches = random_batches(seed, settings)
        theirs = value(Theirs(**settings), *batches)
        assert unequal(value(MeanAveragePrecision(**settings | rounded), *batches), theirs) == []
        changed += bool(unequal(value(MeanAveragePrecision(**settings), *batches), theirs))
    assert changed > 2


def test_examples_of_its_documentation() -> None:
    """With the one line changed that imports the class.

    The masks of the second example have an IoU of exactly 3/5, which reaches COCO's threshold of
    0.6 and not its float32 neighbor: three of ten thresholds instead of two.
    """
    examples = doctest.DocTestParser().get_examples(Theirs.__doc__ or "")
    text = ""
    for example in examples:
        source = example.source.replace(
            "from torchmetrics.detection import",
            "from torch_vocmetrics.integrations.torchmetrics import",
        )
        first, *others = source.splitlines()
        text += "\n".join([f">>> {first}", *(f"... {line}" for line in others)]) + "\n"
        text += example.want.replace("0.2000", "0.3000")
    test = doctest.DocTestParser().get_doctest(text, {"torch": torch}, "torchmetrics", None, None)
    outcome = doctest.DocTestRunner().run(test)
    assert outcome.attempted > 10
    assert outcome.failed == 0


def test_examples_run() -> None:
    outcome = doctest.testmod(module)
    assert outcome.attempted > 4
    assert outcome.failed == 0


def test_more_than_100_detections_with_ties() -> None:
    """``map`` is that of 100 detections, ``map_50`` that of the largest limit; ties keep order."""
    boxes = torch.arange(130.0)[:, None] * 5 + torch.tensor([0.0, 0.0, 4.0, 4.0])
    labels = torch.zeros(130, dtype=torch.int64)
    scores = torch.cat([torch.full((60,), 0.5), torch.full((70,), 0.25)])
    both = (
        [{"boxes": boxes, "labels": labels, "scores": scores}],
        [rows(boxes[90:].tolist(), [0] * 40)],
    )
    settings = {
        "max_detection_thresholds": [1, 100, 120], "class_metrics": True, "extended_summary": True,
        "iou_thresholds": THRESHOLDS, "rec_thresholds": LEVELS,
    }  # fmt: skip
    theirs, ours = (value(kind(**settings), both) for kind in (Theirs, MeanAveragePrecision))
    assert unequal(ours, theirs) == []
    assert 0 < ours["map"] < ours["map_50"]


def test_images_of_ranks_take_turns() -> None:
    first, second, third = ({1: torch.zeros(n)} for n in range(3))
    assert _in_turn([[first, second], [], [third]]) == [first, third, second]


def test_labels_that_come_late_change_no_bit() -> None:
    settings = {"iou_type": "bbox", "box_format": "xyxy"}
    batches = [one for seed in range(8) for one in random_batches(seed, settings)]
    extended = {"class_metrics": True, "extended_summary": True}
    one_by_one = value(MeanAveragePrecision(**extended), *batches)
    together = tuple([image for side in sides for image in side] for sides in zip(*batches))  # noqa: B905
    assert unequal(value(MeanAveragePrecision(**extended), together), one_by_one) == []
    assert len(one_by_one["classes"]) > 3


def test_other_integers_as_labels_and_mixed_input() -> None:
    for labels in ([-3, 2**40], [7, 0]):
        sides = [rows([[0.0, 0, 9, 9], [20.0, 20, 40, 40]], labels)]
        seen = [sides[0] | {"scores": torch.tensor([0.5, 0.25], dtype=torch.float16)}]
        metric = MeanAveragePrecision(class_metrics=True)
        metric.update(seen, sides)
        numbers = metric.compute()
        assert torch.equal(numbers["map_per_class"], torch.ones(2))
        assert numbers["classes"].tolist() == sorted(labels)


@pytest.mark.slow
def test_published_fake_results() -> None:
    """pycocotools has 0.50458; float32 tensors make 0.50457 of it, float32 thresholds 0.50350."""
    folder = shared_data("coco_val2014_fake100")
    files = [
        str(folder / name)
        for name in ("instances_val2014_fakebbox100_results.json", "instances_val2014_100.json")
    ]
    reader = Theirs()
    both = reader.coco_to_tm(*files)
    theirs = value(Theirs(box_format="xywh"), both)
    assert round(float(theirs["map"]), 5) == 0.5035
    ours = value(MeanAveragePrecision(box_format="xywh"), both)
    assert round(float(ours["map"]), 5) == 0.50457
    rounded = {"iou_thresholds": FLOAT32_THRESHOLDS, "rec_thresholds": FLOAT32_LEVELS}
    again = value(MeanAveragePrecision(box_format="xywh", **rounded), both)
    assert unequal(again, theirs) == []
    own = MeanAveragePrecision().coco_to_tm(*files)
    assert all(torch.equal(a["boxes"], b["boxes"]) for a, b in zip(both[1], own[1], strict=True))


# The table of differences ---------------------------------------------------------------------


def test_map_is_defined_for_every_limit() -> None:
    limits = {"max_detection_thresholds": [1, 10, 300], "class_metrics": True}
    theirs, ours = (value(kind(**limits), batch()) for kind in (Theirs, MeanAveragePrecision))
    assert unequal(ours, theirs) == ["map", "map_per_class"]
    assert theirs["map"] == theirs["map_per_class"] == -1
    assert ours["map"] == ours["map_per_class"] == 1


def test_images_without_objects_count_where_only_masks_are_compared() -> None:
    mask = torch.ones(1, 4, 4, dtype=torch.bool)
    seen = {"masks": mask, "labels": torch.tensor([0])}
    preds = [seen | {"scores": torch.tensor([0.5])}, seen | {"scores": torch.tensor([0.9])}]
    target = [seen, {"masks": torch.zeros(0, 4, 4).bool(), "labels": torch.zeros(0).long()}]
    both = (preds, target)
    assert value(Theirs(iou_type="segm"), both)["map_50"] == 1
    assert value(MeanAveragePrecision(iou_type="segm"), both)["map_50"] == 0.5
    nothing = {"masks": torch.zeros(0, 4, 4).bool(), "labels": torch.zeros(0).long()}
    nothing["scores"] = torch.zeros(0)
    assert value(Theirs(iou_type="segm"), ([nothing], [seen]))["map"] == -1
    assert value(MeanAveragePrecision(iou_type="segm"), ([nothing], [seen]))["map"] == 0


@pytest.mark.filterwarnings(
    "ignore:The ``compute`` method:UserWarning", "ignore:compute:UserWarning"
)
def test_keys_are_the_same_without_images() -> None:
    empty, filled = MeanAveragePrecision().compute(), value(MeanAveragePrecision(), batch())
    assert list(empty) == list(filled)
    assert all(number == -1 for key, number in empty.items() if key != "classes")
    assert empty["classes"].dtype == torch.int32
    assert empty["classes"].shape == (0,)
    assert set(Theirs().compute()) == set(filled) - {"map_per_class", "mar_100_per_class"}


def test_images_that_are_repeated_count_once() -> None:
    metric = MeanAveragePrecision()
    for image_id, shift in ((1, 0.0), (2, 15.0), (2, 15.0)):
        metric.update(*batch(shift, image_id=torch.tensor([image_id]), others="x"))
    with pytest.warns(VocMetricsWarning, match="1 repeated images were dropped"):
        assert metric.compute()["mar_1"] == 0.5
    theirs = [batch(shift) for shift in (0.0, 15.0, 15.0)]
    assert value(Theirs(), *theirs)["mar_1"] == pytest.approx(1 / 3)


def test_what_is_refused() -> None:
    with pytest.raises(ProtocolError, match="iou_thresholds"):
        MeanAveragePrecision(iou_thresholds=[0.75, 0.5])
    metric = MeanAveragePrecision()
    preds, target = batch()
    for key, wrong in (
        ("scores", torch.tensor([math.nan])),
        ("boxes", torch.tensor([[9.0, 9, 1, 1]])),
    ):
        with pytest.raises(InputError, match=key):
            metric.update([preds[0] | {key: wrong}], target)
    metric.update(preds, target)
    assert metric.compute()["map"] == 1
    with pytest.raises(StateError, match="tm_to_coco"):
        metric.tm_to_coco()


# Arguments and input --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"iou_type": "obb"}, {"iou_type": ()}, {"iou_type": ("bbox", "keypoints")},
        {"box_format": "yxyx"}, {"iou_thresholds": 0.5}, {"rec_thresholds": (0.5,)},
        {"max_detection_thresholds": [1, 10]}, {"max_detection_thresholds": 100},
        {"class_metrics": 1}, {"extended_summary": "yes"}, {"average": "weighted"},
        {"backend": "numpy"},
    ],
)  # fmt: skip
def test_wrong_arguments_are_value_errors_as_theirs_are(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        MeanAveragePrecision(**wrong)


def test_arguments_are_attributes() -> None:
    arguments = {
        "box_format": "xywh", "iou_type": ("bbox", "segm"), "iou_thresholds": THRESHOLDS,
        "rec_thresholds": LEVELS, "max_detection_thresholds": [100, 1, 10], "class_metrics": True,
        "extended_summary": True, "average": "micro",
    }  # fmt: skip
    ours, theirs = MeanAveragePrecision(**arguments), Theirs(**arguments)
    for name in arguments:
        assert getattr(ours, name) == getattr(theirs, name), name
    defaults = MeanAveragePrecision()
    assert defaults.iou_type == ("bbox",)
    assert (defaults.iou_thresholds, defaults.rec_thresholds) == (THRESHOLDS, LEVELS)
    for name in ("higher_is_better", "is_differentiable", "plot_lower_bound", "plot_upper_bound"):
        assert getattr(defaults, name) == getattr(Theirs(), name)


def test_another_backend_is_accepted_with_a_word() -> None:
    with pytest.warns(VocMetricsWarning, match="'faster_coco_eval' is not used"):
        MeanAveragePrecision(backend="faster_coco_eval")


def test_wrong_input_is_named_and_leaves_no_trace() -> None:
    metric = MeanAveragePrecision()
    metric.update(*batch(label=1))
    preds, target = batch(label=5)
    without = {key: one for key, one in preds[0].items() if key != "scores"}
    listed = preds[0] | {"labels": [5]}
    floats = preds[0] | {"labels": torch.tensor([5.0])}
    for wrong, sentence in (
        (preds[0], "preds: must be a list"),
        ([without], r"preds\[0\]: has no key 'scores'"),
        ([listed], r"preds\[0\]\['labels'\]: must be a tensor"),
        ([floats], r"preds\[0\]\['labels'\]: must be integers"),
        ([preds[0]] * 2, "preds and target: must have the same length"),
        ([preds[0] | {"scores": torch.zeros(2)}], "scores"),
    ):
        with pytest.raises(ValueError, match=sentence):
            metric.update(wrong, target)
    with pytest.raises(ValueError, match=r"target\[0\]: has no key 'labels'"):
        metric.update(preds, [{"boxes": target[0]["boxes"]}])
    assert metric.compute()["classes"] == 1
    masks = MeanAveragePrecision(iou_type="segm")
    with pytest.raises(ValueError, match="has no key 'masks'"):
        masks.update(preds, target)


def test_many_detections_are_warned_of() -> None:
    preds, target = batch()
    many = [{key: one.expand(101, *one.shape[1:]) for key, one in preds[0].items()}]
    with pytest.warns(UserWarning, match="more than 100 detections"):
        MeanAveragePrecision().update(many, target)
    metric = MeanAveragePrecision()
    metric.warn_on_many_detections = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.update(many, target)
        MeanAveragePrecision(max_detection_thresholds=[1, 10, 101]).update(many, target)


# What torchmetrics does with a metric ---------------------------------------------------------


def test_forward_gives_the_batch() -> None:
    ours, theirs = MeanAveragePrecision(), Theirs()
    for shift in (0.0, 15.0):
        assert unequal(ours(*batch(shift)), theirs(*batch(shift))) == []
    assert unequal(ours.compute(), theirs.compute()) == []
    assert ours(preds=batch()[0], target=batch()[1])["map"] == 1


def test_collection() -> None:
    together = torchmetrics.MetricCollection(
        {
            "strict": MeanAveragePrecision(iou_thresholds=[0.75]),
            "loose": MeanAveragePrecision(iou_thresholds=[0.25]),
        },
        prefix="val/",
    )
    theirs = torchmetrics.MetricCollection(
        {"strict": Theirs(iou_thresholds=[0.75]), "loose": Theirs(iou_thresholds=[0.25])},
        prefix="val/",
        compute_groups=False,
    )
    for shift in (0.0, 8.0):
        for collection in (together, theirs):
            collection.update(*batch(shift))
    found, wanted = together.compute(), theirs.compute()
    assert set(found) == set(wanted)
    assert all(torch.equal(found[key], number) for key, number in wanted.items())


def test_copies_casts_and_saved_states(tmp_path: Path) -> None:
    module = nn.Module()
    module.map = MeanAveragePrecision(extended_summary=True)
    module.map.update(*batch(8.0, label=4))
    copies = [pickle.loads(pickle.dumps(module)), copy.deepcopy(module), module.half()]
    module.map.persistent(True)
    torch.save(module.state_dict(), tmp_path / "module.pt")
    loaded = nn.Module()
    loaded.map = MeanAveragePrecision(extended_summary=True)
    loaded.map.update(*batch(label=9))
    loaded.load_state_dict(torch.load(tmp_path / "module.pt", weights_only=True))
    wanted = value(Theirs(extended_summary=True, iou_thresholds=THRESHOLDS, rec_thresholds=LEVELS),
                   batch(8.0, label=4), batch(0.0, label=2))  # fmt: skip
    for one in (*copies, loaded, copies[0].map.clone()):
        metric = getattr(one, "map", one)
        if metric._update_count != 2:  # the clone has it already
            metric.update(*batch(0.0, label=2))
        assert unequal(metric.compute(), wanted) == []


def test_merge_state_and_reset() -> None:
    first, second = (MeanAveragePrecision(extended_summary=True) for _ in range(2))
    first.update(*batch(15.0, label=3))
    second.update(*batch(label=8))
    first.merge_state(second)
    exact = {"iou_thresholds": THRESHOLDS, "rec_thresholds": LEVELS, "extended_summary": True}
    wanted = value(Theirs(**exact), batch(15.0, label=3), batch(label=8))
    assert unequal(first.compute(), wanted) == []
    assert first.compute()["classes"].tolist() == [3, 8]
    first.reset()
    assert unequal(value(first, batch(label=5)), value(Theirs(**exact), batch(label=5))) == []


def test_plot() -> None:
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    figure, axes = MeanAveragePrecision().plot({"map": torch.tensor(0.5)})
    assert figure is not None
    assert axes is not None


def _rank(rank: int, folder: str) -> None:
    """Labels and numbers of images differ; the third rank has seen nothing."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=3
    )
    metric = MeanAveragePrecision(class_metrics=True, extended_summary=True)
    for shift, label in ([(0.0, 7), (15.0, 3)], [(8.0, 1)], [])[rank]:
        metric.update(*batch(shift, label=label))
    torch.save(metric.compute(), f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric:UserWarning")
def test_three_ranks(tmp_path: Path) -> None:
    multiprocessing.spawn(_rank, (str(tmp_path),), nprocs=3)
    settings = {"class_metrics": True, "extended_summary": True}
    exact = {"iou_thresholds": THRESHOLDS, "rec_thresholds": LEVELS}
    # The first images of all ranks, then the second, as a distributed sampler deals them.
    dealt = [batch(0.0, label=7), batch(8.0, label=1), batch(15.0, label=3)]
    wanted = value(Theirs(**settings, **exact), *dealt)
    for rank in range(3):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=False)
        assert unequal(found, wanted) == []


# Lightning's own reading of torch's tree specs.
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning")
def test_lightning_loop_with_one_line_changed(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning", reason="the extra trainers is not installed")
    scenes = [batch(shift) for shift in np.linspace(0, 9, 6).tolist()]

    class Detector(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self, kind: Any) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 1)
            self.val_map = kind(iou_thresholds=THRESHOLDS, rec_thresholds=LEVELS)

        def validation_step(self, one: Any, _: int) -> None:
            self.val_map.update(*one)

        def on_validation_epoch_end(self) -> None:
            numbers = self.val_map.compute()
            self.log_dict(
                {key: x for key, x in numbers.items() if x.numel() == 1 and key != "classes"}
            )
            self.val_map.reset()

    logged = []
    for kind in (MeanAveragePrecision, Theirs):
        trainer = lightning.Trainer(
            accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False,
            enable_model_summary=False, default_root_dir=tmp_path,
        )  # fmt: skip
        loader = torch.utils.data.DataLoader(scenes, batch_size=None)
        logged.append(trainer.validate(Detector(kind), loader, verbose=False))
    assert logged[0] == logged[1]
    assert 0 < logged[0][0]["map"] < 1
