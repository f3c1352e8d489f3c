"""The torchmetrics adapter: each thing that torchmetrics' own handling of state gets wrong."""

from __future__ import annotations

import copy
import doctest
import pickle
from typing import Any

import pytest
import torch
from torch import multiprocessing, nn

torchmetrics = pytest.importorskip("torchmetrics", reason="the extra trainers is not installed")

from torch_vocmetrics import (  # noqa: E402
    ClassificationAP,
    DetectionAP,
    InputError,
    LayoutAP,
    LogAverageMissRate,
    MeanIoU,
    StateError,
)
from torch_vocmetrics.integrations.torchmetrics import TorchMetricsAdapter  # noqa: E402
from torch_vocmetrics.integrations.torchmetrics import adapter as adapter_module  # noqa: E402

# Two scores that half precision cannot tell apart: 1 + 2^-12 and 1.
SCORES = torch.tensor([0.75, 0.75 * (1 + 2**-12)])


def box(x: float, size: float = 20.0) -> list[float]:
    return [x, 0.0, x + size, size]


def batch(image_id: int, shift: float, scores: Any = (0.5,)) -> tuple[list[Any], list[Any]]:
    """One image with an object at 0 and, for each score, a detection; the last is displaced."""
    count = len(scores)
    boxes = [box(200.0)] * (count - 1) + [box(shift)]
    one = {"boxes": torch.tensor(boxes), "scores": torch.as_tensor(scores)}
    detections = [one | {"labels": torch.zeros(count, dtype=torch.int64)}]
    target = {"boxes": torch.tensor([box(0.0)]), "labels": torch.zeros(1, dtype=torch.int64)}
    return detections, [target | {"image_id": image_id}]


def adapter(value: str | None = "headline", protocol: Any = "voc2012") -> TorchMetricsAdapter:
    return TorchMetricsAdapter(DetectionAP(protocol, num_classes=1), value)


def test_example_runs() -> None:
    outcome = doctest.testmod(adapter_module)
    assert outcome.attempted > 3
    assert outcome.failed == 0


def test_same_bits_as_the_metric() -> None:
    metric, plain = adapter(), DetectionAP("voc2012", num_classes=1)
    for image_id in range(5):
        detections, targets = batch(image_id, 3.0 * image_id, (0.1 * image_id, 0.3))
        metric.update(detections, targets)
        plain.update(detections, targets)
    value = metric.compute()
    assert value.dtype == torch.float64
    assert value.shape == ()
    assert float(value) == plain.compute().headline
    assert metric.result.num_images == 5
    metric.reset()
    assert metric.result is None
    metric.update(*batch(0, 0.0))
    assert float(metric.compute()) == 1.0


def test_values() -> None:
    detections, targets = batch(0, 0.0)
    several = adapter(None, ["voc2007", "coco2017"])
    several.update(detections, targets)
    numbers = several.compute()
    assert {"voc2007/mAP", "coco2017/AP", "coco2017/AP50"} <= set(numbers)
    for value in ("voc2007", "coco2017/headline", "coco2017/AP75"):
        one = adapter(value, ["voc2007", "coco2017"])
        one.update(detections, targets)
        assert float(one.compute()) == pytest.approx(1.0)
    for wrong, protocols in (("map", "voc2007"), ("headline", ["voc2007", "coco2017"])):
        with pytest.raises(InputError, match="no such number"):
            adapter(wrong, protocols)


def test_metrics_of_other_tasks() -> None:
    classes = TorchMetricsAdapter(ClassificationAP("voc2012", num_classes=2))
    classes.update([[0.9, 0.2], [0.1, 0.6]], [[1, -1], [-1, 1]], [7, 3])
    assert float(classes.compute()) == 1.0
    pixels = TorchMetricsAdapter(MeanIoU("voc2012", num_classes=2))
    label_map = torch.tensor([[[0, 1], [1, 1]]])
    pixels.update(label_map, label_map)
    assert float(pixels.compute()) == 1.0
    misses = TorchMetricsAdapter(LogAverageMissRate("caltech2012"), None)
    assert misses.metric.class_names
    TorchMetricsAdapter(LayoutAP("voc2012"), "AP/hand")


def test_nothing_is_registered_with_torchmetrics() -> None:
    metric = adapter()
    metric.update(*batch(0, 0.0))
    assert metric.metric_state == {}
    assert metric.state_dict() == {}


@pytest.mark.parametrize(
    "cast",
    [
        lambda module: module.half(),
        lambda module: module.to(torch.float16),
        lambda module: module.bfloat16(),
        lambda module: module.double().half(),
    ],
    ids=["half", "to", "bfloat16", "double-half"],
)
def test_half_precision_around_it_leaves_scores_alone(cast: Any) -> None:
    """Rounded to half the two scores tie, and the false positive comes first."""
    module = nn.Module()
    module.layer, module.metric = nn.Linear(2, 2), adapter()
    module.metric.update(*batch(0, 0.0, SCORES))
    before = module.metric.compute()
    saved = module.metric.metric.state_dict()["records"][0]["score"]
    cast(module)
    after = module.metric.metric.state_dict()["records"][0]["score"]
    assert module.layer.weight.dtype in (torch.float16, torch.bfloat16)
    assert after.dtype == torch.float32
    assert torch.equal(saved, after)
    assert module.metric.compute().dtype == torch.float64  # the value at hand neither
    module.metric.update(*batch(1, 0.0, SCORES))
    assert float(module.metric.compute()) == float(before) == 1.0


def test_state_follows_the_module_to_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[Any] = []
    monkeypatch.setattr(DetectionAP, "to", lambda self, device: moves.append(device))
    module = nn.Module()
    module.metric = adapter()
    copy.deepcopy(module).to("meta")  # without a state the first batch decides
    assert moves == []
    module.metric.update(*batch(0, 0.0))
    module.to("cpu")
    assert moves == []
    module.to("meta")
    assert module.metric.device.type == "meta"
    assert moves == [torch.device("meta")]


@pytest.mark.parametrize("groups", [True, False])
def test_metrics_that_agree_once_stay_apart(groups: bool) -> None:
    """After the first batch both have the same records; the second tells them apart."""
    rules = {"loose": "voc2012", "strict": "coco2017"}
    members = {
        name: TorchMetricsAdapter(DetectionAP(protocol, num_classes=1))
        for name, protocol in rules.items()
    }
    same = {f"{name}_again": copy.deepcopy(one) for name, one in members.items()}
    together = torchmetrics.MetricCollection(members | same, compute_groups=groups)
    alone = {name: DetectionAP(protocol, num_classes=1) for name, protocol in rules.items()}
    for image_id, shift in enumerate((0.0, 6.0, 0.0)):
        detections, targets = batch(image_id, shift)
        together.update(detections, targets)
        for metric in alone.values():
            metric.update(detections, targets)
    numbers = together.compute()
    assert len(numbers) == 4
    for name, metric in alone.items():
        assert float(numbers[name]) == float(numbers[f"{name}_again"]) == metric.compute().headline
    assert numbers["loose"] != numbers["strict"]
    together.reset()
    together.update(*batch(0, 0.0))
    assert float(together.compute()["strict"]) == pytest.approx(1.0)


def test_collection_of_whole_results_names_each_number() -> None:
    members = {"a": adapter(None), "b": adapter(None, "coco2017")}
    together = torchmetrics.MetricCollection(members, prefix="val/")
    together.update(*batch(0, 0.0))
    numbers = together.compute()
    assert "val/mAP" in numbers or "val/a_mAP" in numbers
    assert all(value.shape == () for value in numbers.values())


def test_compute_groups_by_hand_are_refused() -> None:
    members = {"a": adapter(), "b": adapter()}
    together = torchmetrics.MetricCollection(members, compute_groups=[["a", "b"]])
    together.update(*batch(0, 0.0))
    with pytest.raises(StateError, match="compute_groups"):
        together.compute()


def test_forward_gives_the_batch_and_keeps_everything() -> None:
    metric, plain = adapter(), DetectionAP("voc2012", num_classes=1)
    for image_id, shift in enumerate((0.0, 15.0)):
        detections, targets = batch(image_id, shift)
        plain.update(detections, targets)
        assert float(metric(detections, targets)) == (1.0 if shift == 0 else 0.0)
    assert float(metric.compute()) == plain.compute().headline
    assert metric.update_count == 2
    together = torchmetrics.MetricCollection({"a": adapter(), "b": adapter("mAP")})
    assert together(*batch(0, 0.0)) == {"a": 1.0, "b": 1.0}


def test_forward_updates_the_metric_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = DetectionAP.update
    monkeypatch.setattr(
        DetectionAP, "update", lambda self, *args: (calls.append(self), original(self, *args))[1]
    )
    metric = adapter()
    metric(*batch(0, 0.0))
    assert [one is metric.metric for one in calls].count(True) == 1


def test_pickle_deepcopy_and_clone() -> None:
    metric = adapter()
    metric.update(*batch(0, 0.0))
    copies = [pickle.loads(pickle.dumps(metric)), copy.deepcopy(metric), metric.clone()]
    for one in copies:
        one.update(*batch(1, 15.0))
        assert float(one.compute()) < 1.0
    assert float(metric.compute()) == 1.0


def test_tracker_takes_it() -> None:
    tracker = torchmetrics.MetricTracker(adapter(), maximize=True)
    for shift in (15.0, 0.0):
        tracker.increment()
        tracker.update(*batch(0, shift))
    best, step = tracker.best_metric(return_step=True)
    assert (best, step) == (1.0, 1)


def test_merge_state() -> None:
    first, second, plain = adapter(), adapter(), DetectionAP("voc2012", num_classes=1)
    for metric, image_id, shift in ((first, 0, 15.0), (second, 1, 0.0)):
        metric.update(*batch(image_id, shift))
        plain.update(*batch(image_id, shift))
    third = copy.deepcopy(first)
    assert float(first.compute()) == 0.0  # cached, and not to be seen again
    first.merge_state(second)
    assert float(first.compute()) == plain.compute().headline
    third.merge_state(second.metric.state_dict())
    assert float(third.compute()) == plain.compute().headline
    fresh = adapter()
    fresh.merge_state(second)
    assert fresh.update_called
    assert float(fresh.compute()) == 1.0
    with pytest.raises(StateError, match="adapter"):
        fresh.merge_state(torchmetrics.MeanMetric())


def test_saved_state_is_asked_for(tmp_path: Any) -> None:
    module, other = nn.Module(), nn.Module()
    module.metric, other.metric = adapter(), adapter()
    module.metric.update(*batch(0, 15.0))
    assert module.state_dict() == {}
    module.metric.persistent(True)
    torch.save(module.state_dict(), tmp_path / "module.pt")
    other.load_state_dict(torch.load(tmp_path / "module.pt", weights_only=True))
    for one in (module, other):
        one.metric.update(*batch(1, 0.0))
    assert float(other.metric.compute()) == float(module.metric.compute())
    assert other.metric.result.num_images == 2


def test_failed_update_leaves_it_usable() -> None:
    metric = adapter()
    metric.update(*batch(0, 0.0))
    detections, targets = batch(1, 0.0)
    with pytest.raises(InputError):
        metric.update([detections[0] | {"scores": torch.tensor([float("nan")])}], targets)
    assert float(metric.compute()) == 1.0


def test_compute_before_update_warns() -> None:
    with pytest.warns(UserWarning, match="before"):
        assert torch.isnan(adapter().compute())


def _rank(rank: int, folder: str) -> None:
    """One empty rank: torchmetrics would send it a gather of another type and dimension."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
    )
    rules = {"loose": "voc2012", "strict": "coco2017"}
    members = {
        name: TorchMetricsAdapter(DetectionAP(protocol, num_classes=1))
        for name, protocol in rules.items()
    }
    together = torchmetrics.MetricCollection(members)
    for image_id in range(0 if rank else 3):
        together.update(*batch(image_id, 3.0 * image_id))
    numbers = []
    for more in (False, True):
        if more and rank:  # local states are as they were before the first compute
            together.update(*batch(9, 0.0))
        elif more:
            together.update(*batch(5, 9.0))
        numbers.append({name: float(value) for name, value in together.compute().items()})
    clash = TorchMetricsAdapter(DetectionAP(f"voc20{7 + 5 * rank:02d}", num_classes=1))
    clash.update(*batch(rank, 0.0))
    for _ in range(2):  # an error leaves it able to say so again
        try:
            clash.compute()
        except StateError as error:
            numbers.append(str(error))
    only_mine = TorchMetricsAdapter(DetectionAP("voc2012", num_classes=1), sync_on_compute=False)
    only_mine.update(*batch(rank, 15.0 * rank))
    numbers.append(float(only_mine.compute()))
    torch.save(numbers, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric:UserWarning")
def test_two_ranks_one_of_them_empty(tmp_path: Any) -> None:
    multiprocessing.spawn(_rank, (str(tmp_path),), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert first[:-1] == second[:-1]
    assert (first[-1], second[-1]) == (1.0, 0.0)
    alone = {name: DetectionAP(name, num_classes=1) for name in ("voc2012", "coco2017")}
    for number, later in enumerate(([], [(5, 9.0), (9, 0.0)])):
        for image_id, shift in later or [(i, 3.0 * i) for i in range(3)]:
            for metric in alone.values():
                metric.update(*batch(image_id, shift))
        wanted = [metric.compute().headline for metric in alone.values()]
        assert list(first[number].values()) == wanted
    assert first[2] == first[3]
    assert isinstance(first[2], str)
